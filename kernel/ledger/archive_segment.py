"""Packs a segment of the archive: the rows of one tile of the log, with their envelopes.

The file is gzip over lines of JSON, a head and one line for each row, in sequence:

    {"first_sequence": "257", "format": "rotulus-segment/1"}
    {"row": {...}, "salt": "…", "envelope": {...}}
    {"row": {...}, "salt": null, "envelope": null}

Row and envelope stand there byte for byte as they were hashed; the last line is of a row whose
envelope was erased. The bytes are cut out and not written again: inside a JSON string every quote
is escaped, so a member's name in quotes can only be a name, and rows have no member `salt`. Of the
same rows the same file is made, so a file is known by its hash.
"""

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from kernel.proof.tiles import TILE_WIDTH
from kernel.values.errors import LedgerCorrupt

SEGMENT_ROWS = TILE_WIDTH
FORMAT = "rotulus-segment/1"

RAW_BYTES_MAX = 1 << 30
"""The most that a file is unpacked to; 256 envelopes of a mebibyte and their rows are less."""

_LEVEL = 6
_GZIP = 31
"""The `wbits` of zlib for a gzip file."""

_ROW, _SALT, _ENVELOPE = b'{"row":', b',"salt":', b',"envelope":'
_NULL = b"null"
_SALT_CHARS = 66


class SegmentRow(NamedTuple):
    """A row of the log with what its envelope's commitment was made of."""

    row_bytes: bytes
    salt: bytes | None
    """None where the envelope was erased, and then there is no content."""

    content: bytes | None


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of a segment, in sequence."""

    first_sequence: int
    rows: tuple[SegmentRow, ...]
    stored_bytes: int
    raw_bytes: int


def first_sequence_of(segment_index: int) -> int:
    """Return the sequence of a segment's first row."""
    return segment_index * SEGMENT_ROWS + 1


def segment_of(sequence: int) -> tuple[int, int]:
    """Return the segment in which a row would lie, and its place there."""
    return divmod(sequence - 1, SEGMENT_ROWS)


def pack_segment(segment_index: int, rows: Sequence[SegmentRow]) -> bytes:
    """Return the file of a segment.

    Raises:
        LedgerCorrupt: a row or an envelope would not be read back as it is.
    """
    first = first_sequence_of(segment_index)
    head = f'{{"first_sequence":"{first}","format":"{FORMAT}"}}'.encode()
    raw = b"\n".join([head, *(_line(row) for row in rows), b""])
    # Said aloud, because a file that holds the time of its making is another one each time.
    content = gzip.compress(raw, _LEVEL, mtime=0)
    if unpack_segment(content).rows != tuple(rows):
        raise LedgerCorrupt(f"rows {first} to {first + len(rows) - 1} are no JSON in one line")
    return content


def unzip(content: bytes, bytes_max: int) -> bytes:
    """Return what a file of gzip was made of; the bytes may be a stranger's.

    Raises:
        LedgerCorrupt: they are no such file, or one of more than so many bytes.
    """
    unpacker = zlib.decompressobj(_GZIP)
    try:
        raw = unpacker.decompress(content, bytes_max)
    except zlib.error as error:
        raise LedgerCorrupt(f"the file is no gzip: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise LedgerCorrupt("the file is cut, goes on behind its end, or is too large")
    return raw


def unpack_segment(content: bytes) -> Segment:
    """Return what the file of a segment holds; the bytes may be a stranger's.

    Raises:
        LedgerCorrupt: they are no segment.
    """
    raw = unzip(content, RAW_BYTES_MAX)
    # No more than a segment has: a gigabyte of newlines would be a list of ten.
    head, *lines = raw.split(b"\n", SEGMENT_ROWS + 1)
    begin, end = b'{"first_sequence":"', f'","format":"{FORMAT}"}}'.encode()
    number = head[len(begin) : -len(end)]
    if (
        head != begin + number + end
        or not number.isdigit()
        or len(number) > 19
        or lines[-1:] != [b""]
    ):
        raise LedgerCorrupt(f"the file is none of the format {FORMAT}")
    return Segment(int(number), tuple(map(_row_of, lines[:-1])), len(content), len(raw))


def content_hash_of(content: bytes) -> str:
    """Return the hash by which a segment's file is known."""
    return sha256(content).hexdigest()


def _line(row: SegmentRow) -> bytes:
    salt = _NULL if row.salt is None else b'"%b"' % row.salt.hex().encode()
    envelope = _NULL if row.content is None else row.content
    return b"".join((_ROW, row.row_bytes, _SALT, salt, _ENVELOPE, envelope, b"}"))


def _row_of(line: bytes) -> SegmentRow:
    row_bytes, _, rest = line[len(_ROW) : -1].partition(_SALT)
    salt, named, content = rest.partition(_ENVELOPE)
    if not line.startswith(_ROW) or not line.endswith(b"}") or not named:
        raise LedgerCorrupt("a line is no row with its envelope")
    if salt == content == _NULL:
        return SegmentRow(row_bytes, None, None)
    try:
        opened = bytes.fromhex(salt[1:-1].decode("ascii"))
    except ValueError:
        opened = b""
    if len(salt) != _SALT_CHARS or b'"%b"' % opened.hex().encode() != salt:
        raise LedgerCorrupt("a line has no salt")
    return SegmentRow(row_bytes, opened, content)
