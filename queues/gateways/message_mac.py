"""What gateways of one ledger send each other, sealed: Redis carries it and cannot make it.

A seal is an HMAC-SHA-256 under a key that the ledger holds, over whom it is for and the content. It
says who wrote something and for which place, not when: what was sealed once may be put there again,
which is the same asking under the same keys.
"""

import hmac
import secrets
from typing import Final

KEY_BYTES: Final = 32
_SEAL_BYTES: Final = 32


class Seal:
    """Seals content and opens what was sealed under the same key."""

    def __init__(self, key: bytes | None = None) -> None:
        """Without a key, seal under one that nobody else has, until `use` is told another."""
        self._key = secrets.token_bytes(KEY_BYTES) if key is None else key

    def use(self, key: bytes) -> None:
        """Seal and open under this key from now on."""
        self._key = key

    def close(self, place: str, content: bytes) -> bytes:
        """Return content sealed for a place."""
        return self._seal_of(place, content) + content

    def open(self, place: str, sealed: bytes) -> bytes | None:
        """Return the content that was sealed for this place; None for anything else."""
        seal, content = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
        return content if hmac.compare_digest(seal, self._seal_of(place, content)) else None

    def _seal_of(self, place: str, content: bytes) -> bytes:
        return hmac.digest(self._key, place.encode() + b"\0" + content, "sha256")
