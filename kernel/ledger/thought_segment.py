"""Packs a segment of thoughts: records in a row that left the database, in one file.

The file is gzip over lines of JSON, a head and one line for each thought, in sequence:

    {"first_sequence":"1","format":"rotulus-thoughts/1","session_id":"…"}
    {"ec_sequence_number":"17","record":{...}}

A record stands there byte for byte as it was hashed. Nodes of the session's tree are not in it:
the records give them (decision kernel/0491). Of the same thoughts the same file is made.
"""

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from kernel.ledger.archive_segment import unzip
from kernel.values.canonical import canonicalize
from kernel.values.errors import LedgerCorrupt

FORMAT = "rotulus-thoughts/1"

PAGE_THOUGHTS = 256
"""The most thoughts of a file."""

RAW_BYTES_MAX = 1 << 24
"""The most that a file is unpacked to; 256 records of at most a few kibibytes are less."""

_LEVEL = 6

_LINE = re.compile(rb'\{"ec_sequence_number":"([1-9][0-9]{0,18})","record":(\{.*\})\}')


class SegmentThought(NamedTuple):
    """The record of a thought, and the operation of the log that recorded it."""

    ec_sequence_number: int
    record_bytes: bytes


@dataclass(frozen=True, slots=True)
class ThoughtSegment:
    """Thoughts of a session in a row."""

    session_id: str
    first_sequence: int
    thoughts: tuple[SegmentThought, ...]
    stored_bytes: int
    raw_bytes: int


def pack_thoughts(
    session_id: str, first_sequence: int, thoughts: Sequence[SegmentThought]
) -> bytes:
    """Return the file of thoughts.

    Raises:
        LedgerCorrupt: a record would not be read back as it is.
    """
    head = canonicalize(
        {"first_sequence": str(first_sequence), "format": FORMAT, "session_id": session_id}
    )
    lines = (
        b'{"ec_sequence_number":"%d","record":%b}' % (sequence, record)
        for sequence, record in thoughts
    )
    content = gzip.compress(b"\n".join([head, *lines, b""]), _LEVEL, mtime=0)
    if unpack_thoughts(content).thoughts != tuple(thoughts):
        raise LedgerCorrupt(f"thoughts of {session_id} are no JSON in one line")
    return content


def unpack_thoughts(content: bytes) -> ThoughtSegment:
    """Return what a file of thoughts holds; the bytes may be a stranger's.

    Raises:
        LedgerCorrupt: they are no such file.
    """
    raw = unzip(content, RAW_BYTES_MAX)
    try:
        # No more than a file has: one of newlines alone would be a list of many times its size.
        head, *lines, last = raw.split(b"\n", PAGE_THOUGHTS + 1)
        stated = orjson.loads(head)
        session_id, number = stated["session_id"], int(stated["first_sequence"])
    except (ArithmeticError, ValueError, TypeError, KeyError) as error:
        raise LedgerCorrupt(f"the file holds no thoughts: {error}") from None
    if last or stated.get("format") != FORMAT:
        raise LedgerCorrupt(f"the file is none of the format {FORMAT}")
    if not lines or not isinstance(session_id, str):
        raise LedgerCorrupt("the file holds no thought of a session")
    thoughts = tuple(map(_thought_of, lines))
    return ThoughtSegment(session_id, number, thoughts, len(content), len(raw))


def _thought_of(line: bytes) -> SegmentThought:
    match = _LINE.fullmatch(line)
    if match is None:
        raise LedgerCorrupt("a line is no record of a thought")
    return SegmentThought(int(match[1]), match[2])
