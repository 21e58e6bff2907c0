"""Encrypts the files of a backup under a key of 32 bytes, or leaves them as they are.

- A file is encrypted by AES-256-GCM with a random nonce, and its name is authenticated with it: a
  file that lies under the name of another one does not open.
- The name of a piece is the SHA-256 of its content, and under a key the HMAC of that, so that who
  has no key cannot tell whether a backup holds a content that is known elsewhere.
- The keys of contents and of names are derived from the one of the file by HKDF.
"""

import hmac
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from workers.environment.key_file import CheckpointKeyUnusable, read_private
from workers.environment.system_host import system_host
from workers.use_cases.backup.errors import BackupDamaged, BackupKeyInvalid

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
ID_CHARS: Final = 16
NO_KEY_ID: Final = "-"


class Cipher(Protocol):
    """Names, closes and opens the files of a backup."""

    key_id: str
    """Names the key, and tells nothing of it; `-` for none."""

    def name_of(self, content_hash: str) -> str:
        """Return the name of the piece whose content has this hash."""

    def close(self, name: str, content: bytes) -> bytes:
        """Return the bytes that are stored for a content."""

    def open(self, name: str, stored: bytes) -> bytes:
        """Return the content of what is stored.

        Raises:
            BackupDamaged: it is not what was stored under this name.
        """


class NoCipher:
    """Leaves the files as they are."""

    key_id = NO_KEY_ID

    def name_of(self, content_hash: str) -> str:
        """Return the hash."""
        return content_hash

    def close(self, name: str, content: bytes) -> bytes:
        """Return the content."""
        del name
        return content

    def open(self, name: str, stored: bytes) -> bytes:
        """Return what is stored, which whoever reads it holds to its hash."""
        del name
        return stored


class KeyCipher:
    """Encrypts under a key."""

    def __init__(self, key: bytes) -> None:
        self._contents = AESGCM(_derive(key, b"contents"))
        self._names = _derive(key, b"names")
        self.key_id = _derive(key, b"id").hex()[:ID_CHARS]

    def name_of(self, content_hash: str) -> str:
        """Return the HMAC of the hash."""
        return hmac.new(self._names, content_hash.encode(), sha256).hexdigest()

    def close(self, name: str, content: bytes) -> bytes:
        """Encrypt a content."""
        nonce = system_host().random_bytes(NONCE_BYTES)
        return nonce + self._contents.encrypt(nonce, content, name.encode())

    def open(self, name: str, stored: bytes) -> bytes:
        """Decrypt what is stored."""
        try:
            return self._contents.decrypt(stored[:NONCE_BYTES], stored[NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            raise BackupDamaged(f"{name} is not what was encrypted under this name") from None


def cipher_of(key_file: Path | None) -> Cipher:
    """Return what encrypts under the key in a file, and without a file encrypts nothing.

    Raises:
        BackupKeyInvalid: it holds no key, or others may read it.
    """
    if key_file is None:
        return NoCipher()
    try:
        key = bytes.fromhex(read_private(key_file).decode("ascii").strip())
    except CheckpointKeyUnusable as error:
        raise BackupKeyInvalid(str(error)) from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        message = f"{key_file} holds no key of {2 * KEY_BYTES} hexadecimal digits"
        raise BackupKeyInvalid(f"{message}: `openssl rand -hex {KEY_BYTES}` makes one")
    return KeyCipher(key)


def _derive(key: bytes, purpose: bytes) -> bytes:
    info = b"rotulus/backup/v1/" + purpose
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(key)
