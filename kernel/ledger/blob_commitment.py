"""Computes the salted commitment under which content is kept; it survives the content."""

from hashlib import sha256

_BLOB_DOMAIN = b"rotulus/payload/v1\x00"
SALT_BYTES = 32


def blob_commitment(salt: bytes, content: bytes) -> str:
    """Return the salted commitment under which content is kept; it survives erasure."""
    framed = _BLOB_DOMAIN + salt + len(content).to_bytes(8, "big") + content
    return sha256(framed).hexdigest()
