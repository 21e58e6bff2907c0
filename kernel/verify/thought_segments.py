"""Verifies segments of thoughts: each file is there, is the named one, holds what its row says.

What the records in them say, and that the session's chain and tree are theirs, the walk along the
session checks, which reads them as rows like any other; that the segments are those of the record,
the fold of the receipts.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kernel.ledger import schema
from kernel.ledger.archive import Archive, ArchiveUnavailable
from kernel.ledger.store.tables import Row, TableQuery
from kernel.values.errors import LedgerUnavailable
from kernel.verify.reading import Reader, Rule, printable

_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "archive_segment_missing": "segment_missing",
        "archive_segment_damaged": "segment_damaged",
    }
)
"""What is found where reading a segment ends with a code."""

_SEGMENTS = schema.thought_segments


def check_thought_segments(reader: Reader, archive: Archive) -> frozenset[object]:
    """Read every segment of thoughts; return the sessions of which one cannot be read.

    Raises:
        LedgerUnavailable: the archive does not answer, which says nothing about a segment.
    """
    unreadable: set[object] = set()
    if not reader.count(_SEGMENTS):
        return frozenset()
    for session in reader.pages(schema.audit_sessions, order_by="session_id"):
        where = {"session_id": session["session_id"]}
        behind = 0
        for row in reader.scan(TableQuery(_SEGMENTS, where, order_by="first_sequence")):
            with reader.findings.guard(_SEGMENTS, row["content_hash"]):
                if not _is_whole(reader, archive, row, session["thought_count"], behind):
                    unreadable.add(session["session_id"])
            behind = row["last_sequence"]
    return frozenset(unreadable)


def unreadable_rule(error: ArchiveUnavailable, rules: Mapping[str, Rule] = _RULES) -> Rule:
    """Return what is found where a file of the archive cannot be read, by default a segment.

    Raises:
        LedgerUnavailable: the archive does not answer, which says nothing about the file.
    """
    rule = rules.get(error.code)
    if rule is None:
        raise LedgerUnavailable(str(error), code=error.code) from error
    return rule


def thoughts_of_all(reader: Reader) -> Iterator[Row]:
    """Yield the records of all sessions, those in the archive too."""
    for session in reader.pages(schema.audit_sessions, order_by="session_id"):
        yield from reader.pages(schema.thought_records, {"session_id": session["session_id"]})


def covering_segment(reader: Reader, row: Row, place: str) -> bool:
    """Tell whether a row of a session lies in a segment, so that the database must not have it."""
    unit = "sequence" if place == "thought_sequence" else "node"
    return any(
        segment[f"first_{unit}"] <= row[place] <= segment[f"last_{unit}"]
        for segment in reader.scan(TableQuery(_SEGMENTS, {"session_id": row["session_id"]}))
    )


def _is_whole(reader: Reader, archive: Archive, row: Row, count: int, behind: int) -> bool:
    key, first, last = row["content_hash"], row["first_sequence"], row["last_sequence"]
    place = f"thoughts {first} to {last} of {printable(row['session_id'])}"
    if first != behind + 1:
        reader.findings.add(_SEGMENTS, key, "gap", f"{place}: thought {behind + 1} comes next")
        return False
    try:
        held = archive.read_thoughts(str(key))
    except ArchiveUnavailable as error:
        reader.findings.add(_SEGMENTS, key, unreadable_rule(error), f"{place}: {error}")
        return False
    actual = {
        "session_id": held.session_id,
        "first_sequence": held.first_sequence,
        "last_sequence": held.first_sequence + len(held.thoughts) - 1,
        "first_node": _nodes(first - 1, count),
        "last_node": _nodes(last, count) - 1,
        "stored_bytes": held.stored_bytes,
    }
    for name, value in actual.items():
        if row[name] != value:
            message = f"{name} is {printable(row[name])}, the file gives {printable(value)}"
            reader.findings.add(_SEGMENTS, key, "column_differs", message)
            return False
    return True


def _nodes(sequence: int, count: int) -> int:
    """Return how many nodes the first thoughts of a session have, counted level by level."""
    # Of the whole tree a level has half of the one below, rounded up, as far as the root; of a
    # part of it the nodes over complete pairs alone.
    odd, least = (1, 1) if sequence == count else (0, 0)
    nodes = width = sequence
    while width > least:
        width = (width + odd) // 2
        nodes += width
    return nodes
