"""Shows a gateway the key of whoever asks, as the environment names it."""

import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

import httpx

from .errors import GatewayError

KEY: Final = "ROTULUS_KEY"
KEY_FILE: Final = "ROTULUS_KEY_FILE"
_FILE_BYTES_MAX: Final = 1_024


def key_in(environment: Mapping[str, str] = os.environ) -> str:
    """Return the key of ROTULUS_KEY, or of the file that ROTULUS_KEY_FILE names; empty for none.

    Raises:
        GatewayError: `access_key_unreadable` where the file cannot be read, or is no key.
    """
    key, path = environment.get(KEY, ""), environment.get(KEY_FILE, "")
    if not key and path:
        try:
            with Path(path).expanduser().open("rb") as file:
                key = file.read(_FILE_BYTES_MAX).decode("ascii")
        except (OSError, UnicodeDecodeError):
            message = f"the file that {KEY_FILE} names cannot be read as a key"
            raise GatewayError("access_key_unreadable", message) from None
    key = key.strip()
    if any(map(str.isspace, key)):
        raise GatewayError("access_key_unreadable", "a key is one word; what is named has several")
    return key


def has_key(environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether the environment names a key."""
    return bool(environment.get(KEY) or environment.get(KEY_FILE))


class KeyAuth(httpx.Auth):
    """Adds a key to each request of a client; without one it adds nothing."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._key = key_in(environment)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request with the key."""
        if self._key:
            request.headers["Authorization"] = f"Bearer {self._key}"
        yield request
