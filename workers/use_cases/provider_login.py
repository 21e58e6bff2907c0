"""Names what a login by a provider is, for doors and for who carries it out."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

_SECRET_BYTES: Final = 32
Code = Literal["login_refused", "login_provider_unavailable"]


class LoginFailed(Exception):
    """Nobody is logged in; it may succeed later where the provider was unavailable."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class LoginBegun:
    """What a browser keeps of a login until the provider sends it back."""

    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """Who the provider says it is."""

    principal: str
    groups: tuple[str, ...]


NOT_BEGUN: Final = LoginBegun("", "", "")
"""What a browser has kept that began no login; no answer fits it."""


def new_login(random_bytes: Callable[[int], bytes]) -> LoginBegun:
    """Return a login that nobody can guess."""
    texts = (urlsafe_b64encode(random_bytes(_SECRET_BYTES)).rstrip(b"=") for _ in range(3))
    return LoginBegun(*(text.decode() for text in texts))


class ProviderLogin(Protocol):
    """Logs people in by a provider, see `openid_login.py`."""

    async def address(self, begun: LoginBegun, redirect_url: str | None = None) -> str:
        """Return where a browser is sent to log in.

        Raises:
            LoginFailed: `login_provider_unavailable`.
        """

    async def log_in(
        self, begun: LoginBegun, answer: Mapping[str, str], redirect_url: str | None = None
    ) -> LoggedIn:
        """Return who logged in, by what the provider sent the browser back with.

        Raises:
            LoginFailed: `login_refused`, `login_provider_unavailable`.
        """
