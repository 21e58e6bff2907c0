"""Makes and reads access keys: `rot_ID_SECRET`, of which the record has a digest of the secret.

The secret is 32 random bytes, so a digest that costs nothing to compute gives nothing away.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Final

KEY_ID_CHARS: Final = 12
SECRET_BYTES: Final = 32
_KEY: Final = re.compile(r"rot_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key as its holder has it."""

    key_id: str
    secret: str

    def __str__(self) -> str:
        return f"rot_{self.key_id}_{self.secret}"

    def __repr__(self) -> str:
        return f"AccessKey({self.key_id!r})"

    @property
    def secret_hash(self) -> str:
        """Return the digest that the record has."""
        return sha256(self.secret.encode()).hexdigest()


def new_key(random_bytes: Callable[[int], bytes]) -> AccessKey:
    """Return a key that nobody has, of bytes that nobody can guess."""
    secret = urlsafe_b64encode(random_bytes(SECRET_BYTES)).rstrip(b"=").decode()
    return AccessKey(random_bytes(KEY_ID_CHARS // 2).hex(), secret)


def read_key(text: str) -> AccessKey | None:
    """Return the key that a text is, None where it is none."""
    match = _KEY.fullmatch(text)
    return None if match is None else AccessKey(match[1], match[2])


def is_secret(key: AccessKey, secret_hash: str) -> bool:
    """Tell whether a key's secret is the one of a digest, in a time that does not depend on it."""
    return compare_digest(key.secret_hash, secret_hash)
