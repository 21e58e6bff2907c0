"""Seals the messages between gateways of one ledger: Redis can neither read nor forge them.

A message is encrypted with AES-256-GCM under a key of its own, which HMAC-SHA-256 derives from the
key of the gateways' mail and 24 random bytes. Two messages share a key only where these bytes are
equal: after 2^64 messages that has a probability below 2^-64, so the mail's key needs no renewal.
The place, the direction, the id of the request, the expiry and the number of the mail's key are
associated data: a message opens as what it was sealed as, or not at all (decision queues/0047).

 version 1 | key number 8 | expires_at_ms 8 | length of ask id 1 | ask id | random 24 |
 ciphertext and tag
"""

import hmac
import secrets
from dataclasses import dataclass
from typing import Final, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from queues.errors import QueueError

ASK_ID_BYTES_MAX: Final = 255
SEALED_BYTES_MAX: Final = 16 * 1024 * 1024 + 1024
"""Limit of a sealed message; what is longer was put there by nobody who seals."""

Direction = Literal["ask", "answer", "url"]

_VERSION: Final = b"\x02"
_LABEL: Final = b"rotulus mail 1"
_RANDOM_BYTES: Final = 24
_TAG_BYTES: Final = 16
_NUMBER_END: Final = len(_VERSION) + 8
_TIME_END: Final = _NUMBER_END + 8
_FIXED_BYTES: Final = _TIME_END + 1
_NONCE: Final = bytes(12)
"""Every message has a key of its own, so all of them can have the same nonce."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A message that a gateway of this ledger has sealed."""

    ask_id: str
    expires_at_ms: int
    content: bytes


class MessageSeal:
    """Seals messages and opens what was sealed under the same key."""

    def __init__(self, key: bytes | None = None) -> None:
        """Without a key, seal and open nothing until `use` is called."""
        self._key = key
        self._key_number = 0 if key is None else 1

    @property
    def has_key(self) -> bool:
        """Whether messages can be sealed and opened."""
        return self._key is not None

    def use(self, key: bytes, number: int) -> None:
        """Seal and open under this key from now on; a later key has a larger number."""
        self._key, self._key_number = key, number

    def is_earlier(self, sealed: bytes) -> bool:
        """Tell whether a message names a key that was in use before this one."""
        named = int.from_bytes(sealed[len(_VERSION) : _NUMBER_END])
        return sealed[:1] == _VERSION and named < self._key_number

    def close(
        self, direction: Direction, place: str, ask_id: str, expires_at_ms: int, content: bytes
    ) -> bytes:
        """Seal content for a place and a direction; `ask_id` is empty for a URL.

        Raises:
            QueueError: `mail_key_missing`; the gateways that live have not given it yet.
            ValueError: when the id has more than 255 bytes, or the time is before 1970.
        """
        name = ask_id.encode()
        if len(name) > ASK_ID_BYTES_MAX or expires_at_ms < 0:
            raise ValueError("not an ask id and a time that can be sealed")
        times = self._key_number.to_bytes(8) + expires_at_ms.to_bytes(8)
        header = b"".join((_VERSION, times, bytes([len(name)]), name))
        header += secrets.token_bytes(_RANDOM_BYTES)
        return header + self._cipher(header).encrypt(
            _NONCE, content, _about(direction, place, header)
        )

    def open(self, direction: Direction, place: str, sealed: bytes) -> Opened | None:
        """Open a message that was sealed for this place and direction; None for anything else."""
        number = _VERSION + self._key_number.to_bytes(8)
        if len(sealed) < _FIXED_BYTES or sealed[:_NUMBER_END] != number or not self.has_key:
            return None
        end = _FIXED_BYTES + sealed[_FIXED_BYTES - 1] + _RANDOM_BYTES
        header, ciphertext = sealed[:end], sealed[end:]
        if len(ciphertext) < _TAG_BYTES:
            return None
        try:
            content = self._cipher(header).decrypt(
                _NONCE, ciphertext, _about(direction, place, header)
            )
        except InvalidTag:
            return None
        return Opened(
            header[_FIXED_BYTES : end - _RANDOM_BYTES].decode(),
            int.from_bytes(header[_NUMBER_END:_TIME_END]),
            content,
        )

    def _cipher(self, header: bytes) -> AESGCM:
        if self._key is None:
            raise QueueError("mail_key_missing", "no gateway has given this one the mail's key yet")
        return AESGCM(hmac.digest(self._key, _LABEL + header[-_RANDOM_BYTES:], "sha256"))


def _about(direction: Direction, place: str, header: bytes) -> bytes:
    name = place.encode()
    return b"\0".join((_LABEL, direction.encode(), len(name).to_bytes(4), name + header))
