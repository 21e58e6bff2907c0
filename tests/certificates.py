"""An authority of the tests, and files of certificates that it vouches for."""

from pathlib import Path
from typing import Final

import trustme

AUTHORITY: Final = trustme.CA()
STRANGER: Final = trustme.CA()
"""An authority that nobody trusts."""

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def authority_file(folder: Path) -> Path:
    path = folder / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(path)
    return path


def write_pair(
    folder: Path, authority: trustme.CA = AUTHORITY, names: tuple[str, ...] = LOOPBACK
) -> tuple[Path, Path]:
    """Write a new certificate of this machine's loopback, and its key, as somebody renews them."""
    made = authority.issue_cert(*names)
    cert, key = folder / "cert.pem", folder / "key.pem"
    for path, content in (
        (cert, b"".join(each.bytes() for each in made.cert_chain_pems)),
        (key, made.private_key_pem.bytes()),
    ):
        draft = path.with_suffix(".draft")
        draft.touch(0o600)
        draft.write_bytes(content)
        draft.replace(path)
    return cert, key
