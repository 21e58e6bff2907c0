"""Reads a SQLite file and its log as bytes, for damage that SQLite reports late or never.

SQLite takes a file of zeros for an empty one, and passes over a write-ahead log from the first
frame that does not fit, however many COMMITs lie behind it. This module looks at both, and gives
each kind of damage a rule of its own. Verification reports them as findings; for everybody else
they are `ledger_file_damaged`, which is not tried again. After a loss of power in the middle of a
COMMIT that nobody was answered, verification may count that COMMIT; it is gone with the next
checkpoint. A store that goes away meanwhile is `ledger_unavailable`, which says nothing about the
record. Numbers are big-endian; the layouts are those of https://sqlite.org/fileformat2.html.
"""

import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kernel.ledger.store.catalog import StorageFault, StorageRule

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_WAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_WAL_MAGIC = 0x377F0682
"""The magic number without its last bit, which gives the byte order of checksums."""

_LOOKS_MAX = 3


def file_faults(path: Path) -> list[StorageFault]:
    """Return what is wrong with a ledger's file before anything is read through SQLite.

    Raises:
        OSError: when the file, or its write-ahead log, cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        if not header:
            return [_fault("file_empty", "the file has no bytes")]
        if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES:
            if not header.strip(b"\x00"):
                return [_fault("file_zeroed", "the file begins with zeros")]
            return [_fault("not_a_database", "the file does not begin as one of SQLite")]
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size:
        return _wal_faults(wal, page_bytes)
    pages = int.from_bytes(header[28:32], "big")
    states_pages = header[24:28] == header[92:96]
    if states_pages and size < pages * page_bytes:
        message = f"{pages} pages of {page_bytes} bytes, and the file has {size} bytes"
        return [_fault("file_truncated", message)]
    return []


def _fault(rule: StorageRule, message: str) -> StorageFault:
    return StorageFault("ledger", "file", rule, message)


# --- the write-ahead log ----------------------------------------------------------------------


class _Frame(NamedTuple):
    """One page in the log, and whether it ends a transaction."""

    commits: bool
    salts: bytes
    fits: bool


def _wal_faults(wal: Path, page_bytes: int) -> list[StorageFault]:
    """Read the log until two readings agree, because a writer may be active."""
    before: list[StorageFault] = []
    for look in range(_LOOKS_MAX):
        faults = _look(wal, page_bytes)
        if not faults or (look and faults == before):
            return faults
        before = faults
    return []


def _look(wal: Path, page_bytes: int) -> list[StorageFault]:
    with wal.open("rb") as file:
        header = file.read(_WAL_HEADER_BYTES)
        if len(header) < _WAL_HEADER_BYTES:
            return []
        magic = int.from_bytes(header[:4], "big")
        # SQLite writes the order of the machine that made the log.
        order = "big" if magic & 1 else "little"
        sums = _checksum(header[:24], (0, 0), order)
        stated_bytes = int.from_bytes(header[8:12], "big")
        if magic & ~1 != _WAL_MAGIC or _sums_in(header[24:32]) != sums:
            return [_fault("wal_does_not_fit", "the write-ahead log has no header that holds")]
        if stated_bytes != page_bytes:
            message = f"pages of {stated_bytes} bytes in the write-ahead log, {page_bytes} before"
            return [_fault("wal_does_not_fit", message)]
        broken_at, lost_commits = None, 0
        frames = _frames(file, page_bytes, header[16:24], sums, order)
        for number, frame in enumerate(frames, 1):
            if not frame.fits and broken_at is None:
                broken_at = number
            if broken_at is not None and frame.commits and frame.salts == header[16:24]:
                lost_commits += 1
    if broken_at is None or not lost_commits:
        return []
    message = f"frame {broken_at} is damaged, and {lost_commits} COMMITs behind it are not read"
    return [_fault("wal_damaged", message)]


def _frames(
    file: BinaryIO, page_bytes: int, salts: bytes, sums: tuple[int, int], order: str
) -> Iterator[_Frame]:
    """Yield the frames up to the first that does not fit."""
    step, fits = _FRAME_HEADER_BYTES + page_bytes, True
    while len(frame := file.read(step)) == step:
        header, page = frame[:_FRAME_HEADER_BYTES], frame[_FRAME_HEADER_BYTES:]
        if fits:
            sums = _checksum(page, _checksum(header[:8], sums, order), order)
            fits = header[8:16] == salts and _sums_in(header[16:24]) == sums
        yield _Frame(header[4:8] != b"\x00" * 4, header[8:16], fits)


def _sums_in(content: bytes) -> tuple[int, int]:
    return int.from_bytes(content[:4], "big"), int.from_bytes(content[4:8], "big")


def _checksum(content: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    numbers = array("I", content)
    if order != sys.byteorder:
        numbers.byteswap()
    for at in range(0, len(numbers), 2):
        first = (first + numbers[at] + second) & 0xFFFFFFFF
        second = (second + numbers[at + 1] + first) & 0xFFFFFFFF
    return first, second
