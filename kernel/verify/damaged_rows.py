"""Names the rows of the log that a finding is about: what is quarantined because of it (§17.5).

A finding names a row of whatever table. That row belongs to one of the log, or to several where
rows are missing or a tile of the tree is another one. A fault that belongs to no row of the log
(the schema, the head, a record of the state, a receipt of no operation) is named and not
quarantined; a segment of the archive refuses its readers by itself (decision kernel/0382).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType

from kernel.ledger import schema
from kernel.ledger.archive import ArchiveUnavailable
from kernel.ledger.ledger import LedgerView
from kernel.ledger.quarantine import (
    RecordKey,
    SequenceRange,
    accepted_ranges,
    accepted_records,
    merge_ranges,
    without,
)
from kernel.ledger.store.tables import TableQuery
from kernel.proof.merkle_tree import leaf_hash
from kernel.proof.tiles import hashes_of
from kernel.values.errors import LedgerCorrupt
from kernel.verify.reading import Finding, Findings
from kernel.verify.tree import WIDTH

_OF_NO_ROW = frozenset({"head_not_found", "rules_unknown"})
"""Rules by which a row is named that nobody has, or that a newer program has written."""

_MISSING = frozenset({"gap", "missing"})

_UNREADABLE = (LedgerCorrupt, ArchiveUnavailable, KeyError, TypeError, ValueError)
"""Exceptions that looking around a damaged row raises."""


def damaged_rows(view: LedgerView, finding: Finding) -> tuple[SequenceRange, ...]:
    """Return the rows of the log that a finding is about; nothing where there are none."""
    if finding.rule in _OF_NO_ROW:
        return ()
    look = _LOOKS.get(finding.table)
    with suppress(*_UNREADABLE):
        rows = merge_ranges(look(view, finding)) if look is not None else ()
        if rows:
            return rows
    of_row = finding.sequence
    return () if of_row is None or of_row < 1 else (SequenceRange(of_row, of_row),)


def fresh_rows(
    view: LedgerView, findings: Iterable[Finding]
) -> tuple[tuple[SequenceRange, ...], tuple[Finding, ...]]:
    """Return rows that findings are about and nobody knows of, and the findings about no row."""
    placed = [(finding, damaged_rows(view, finding)) for finding in findings]
    ranges = merge_ranges(each for _, rows in placed for each in rows)
    of_no_row = tuple(finding for finding, rows in placed if not rows)
    return (without(ranges, acknowledged_rows(view)) if ranges else ()), of_no_row


def acknowledged_rows(view: LedgerView) -> tuple[SequenceRange, ...]:
    """Return the rows that are quarantined, or were and stand as whoever lifted that has seen."""
    return merge_ranges((*view.quarantines().ranges, *accepted_ranges(view.tables)))


def acknowledged_records(view: LedgerView) -> frozenset[RecordKey]:
    """Return the records of no row that stand as damaged, or were accepted as they stand."""
    return view.quarantines().records | accepted_records(view.tables)


class NewFindings(Findings):
    """Findings but for those about rows and records of which somebody knows."""

    def __init__(self, limit: int, view: LedgerView) -> None:
        super().__init__(limit)
        self._view = view
        self._known: tuple[SequenceRange, ...] | None = None
        self._known_records: frozenset[RecordKey] | None = None

    def note(self, finding: Finding) -> None:
        """Note a finding, if somebody has to hear of it.

        Raises:
            EnoughFindings: when the limit is reached.
        """
        rows = damaged_rows(self._view, finding)
        if rows:
            if self._known is None:
                self._known = acknowledged_rows(self._view)
            if not without(rows, self._known):
                return
        elif self._is_known(finding):
            return
        super().note(finding)

    def _is_known(self, finding: Finding) -> bool:
        if self._known_records is None:
            self._known_records = acknowledged_records(self._view)
        return RecordKey(finding.table, finding.key) in self._known_records


def _of_log(view: LedgerView, finding: Finding) -> Iterator[SequenceRange]:
    first = int(finding.key)
    if first < 1:
        return
    last = first
    if finding.rule in _MISSING:
        there = view.tables.scan(TableQuery(schema.kernel_event_log, after=first - 1, limit=1))
        end = there[0]["ec_sequence_number"] if there else view.head().ec_sequence_number + 1
        last = max(first, end - 1)
    yield SequenceRange(first, last)


def _of_effects(_: LedgerView, finding: Finding) -> Iterator[SequenceRange]:
    sequence = int(finding.key.partition("/")[0])
    yield SequenceRange(sequence, sequence)


def _of_receipt(view: LedgerView, finding: Finding) -> Iterator[SequenceRange]:
    receipt = view.tables.get(schema.receipts, int(finding.key))
    operation_id = None if receipt is None else receipt["operation_id"]
    row = None if operation_id is None else view.log_row_of(operation_id)
    if row is not None:
        yield SequenceRange(row["ec_sequence_number"], row["ec_sequence_number"])


def _of_tile(view: LedgerView, finding: Finding) -> Iterator[SequenceRange]:
    """Yield the rows that a tile of the lowest level has another hash of."""
    level, index = map(int, finding.key.split("/"))
    tile = view.tables.get(schema.tree_tiles, level, index) if level == 0 else None
    if tile is None:
        return
    rows = view.log_rows(after=index * WIDTH, limit=WIDTH)
    for row, leaf in zip(rows, hashes_of(tile["hashes"]), strict=False):
        if leaf_hash(row["row_bytes"]) != leaf:
            yield SequenceRange(row["ec_sequence_number"], row["ec_sequence_number"])


_LOOKS: Mapping[str, Callable[[LedgerView, Finding], Iterator[SequenceRange]]] = MappingProxyType(
    {
        "kernel_event_log": _of_log,
        "applied_effects": _of_effects,
        "receipts": _of_receipt,
        "tree_tiles": _of_tile,
    }
)
"""By the table that a finding names."""
