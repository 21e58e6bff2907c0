"""Packs one content that has left the database into a file: what its commitment was made of.

The file is gzip over a line of JSON, under its commitment as its name:

    {"commitment":"…","content":"…","format":"rotulus-content/1","salt":"…"}

A content has a file of its own, because one that is erased has to go and the others stay (decision
kernel/0460). Its reader holds it to the commitment, so a file cannot be another one.
"""

import gzip
import zlib

import orjson

from kernel.values.canonical import canonicalize
from kernel.values.errors import LedgerCorrupt

FORMAT = "rotulus-content/1"

CONTENT_BYTES_MAX = 1 << 20
"""The most bytes of a content that is archived; a thought has at most a quarter of it."""

_RAW_BYTES_MAX = 8 * CONTENT_BYTES_MAX
_GZIP = 31
"""The `wbits` of zlib for a gzip file."""


def pack_content(commitment: str, salt: bytes, content: str) -> bytes:
    """Return the file of a content; of the same content the same file is made."""
    document = {
        "commitment": commitment,
        "content": content,
        "format": FORMAT,
        "salt": salt.hex(),
    }
    return gzip.compress(canonicalize(document) + b"\n", mtime=0)


def unpack_content(file: bytes) -> tuple[bytes, bytes]:
    """Return the salt and the content in a file; the bytes may be a stranger's.

    Raises:
        LedgerCorrupt: it is no file of a content.
    """
    unpacker = zlib.decompressobj(_GZIP)
    try:
        raw = unpacker.decompress(file, _RAW_BYTES_MAX)
        document = orjson.loads(raw)
        salt, content = document["salt"], document["content"]
        opened = bytes.fromhex(salt), content.encode()
    except (zlib.error, ValueError, TypeError, KeyError, AttributeError) as error:
        raise LedgerCorrupt(f"the file is no content: {error}") from None
    if not unpacker.eof or unpacker.unused_data or document.get("format") != FORMAT:
        raise LedgerCorrupt(f"the file is none of the format {FORMAT}")
    return opened
