"""Verifies the chains since they were last looked at: cheap enough for every few minutes (§17.5).

A row is checked as level A checks it; the state is not folded. Some tiles of the tree are compared
with their rows in each audit, in turn, so rows before the mark are read again. The schema is
compared as a whole, which costs the same whatever the ledger holds. A mark is a hint: it is dropped
where the record does not bear it out, and the audit starts at the beginning, so that what it finds
is what the record itself says. Whoever can change a mark can hide rows from this, and not from a
whole verification.

Rows that are quarantined were found before, and rows that stand as they stood when a quarantine was
lifted were seen so: neither is a finding here, and an audit goes on past them.
"""

from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.values.canonical import GENESIS_HASH
from kernel.verify import Verification
from kernel.verify.checked_reading import unchecked_view
from kernel.verify.damaged_rows import NewFindings
from kernel.verify.hash_chains import RECEIPTS, Chain, sha256_hex
from kernel.verify.log import LogCheck
from kernel.verify.names import check_receipt
from kernel.verify.reading import LIMIT_FINDINGS, EnoughFindings, Findings, Reader, parts
from kernel.verify.storage import add_faults
from kernel.verify.tree import WIDTH, check_tile_of_rows

TILES_MAX = 16
"""The most tiles of the tree that one audit compares with their rows, 256 to a tile.

So whatever stands in the log is read again once in so many audits, long after its own.
"""

ROWS_MAX = 20_000
"""The most rows of the log, and of the receipts, in one audit."""


@dataclass(frozen=True, slots=True)
class AuditMark:
    """How far both chains were found sound; by default the beginning of the record."""

    ec_sequence_number: int = 0
    row_hash: str = GENESIS_HASH
    receipt_sequence: int = 0
    receipt_hash: str = GENESIS_HASH
    tile_index: int = 0
    """The tile of the tree's lowest level that is compared with its rows next."""


@dataclass(frozen=True, slots=True)
class RecentAudit:
    """The findings since a mark, and the mark of the next audit."""

    verification: Verification
    mark: AuditMark
    """The mark of the next audit; where this one began, if anything was found."""

    mark_fits: bool = True
    """Whether the record agreed with the mark that was handed in."""


def audit_since(view: LedgerView, mark: AuditMark, rows_max: int = ROWS_MAX) -> RecentAudit:
    """Check at most so many rows since a mark; only what is new is a finding.

    No stored bytes of the log make it raise.

    Raises:
        LedgerCorrupt: when there is damage, and a receipt of a quarantine cannot be read.
    """
    view = unchecked_view(view)
    mark_fits, next_tile = False, 0
    findings = NewFindings(LIMIT_FINDINGS, view)
    reader = Reader(view.tables, findings)
    log, receipts = LogCheck(reader), Chain(RECEIPTS, findings)
    with suppress(EnoughFindings):
        with findings.guard("ledger", "schema"):
            add_faults(findings, view.tables.schema_faults())
        whole = False
        with findings.guard(schema.kernel_event_log, "chain"):
            mark_fits = _fits(reader, mark)
            mark = mark if mark_fits else AuditMark()
            _begin(reader, log, receipts, mark)
            whole = _walk(reader, log, receipts, mark, rows_max)
        with findings.guard(schema.tree_tiles, "tiles"):
            next_tile = _check_tiles(reader, log.chain.last // WIDTH, mark.tile_index)
        head = reader.get(schema.chain_head, "main")
        if whole and head is None:
            findings.add(schema.chain_head, "main", "missing", "the ledger has no head")
        elif whole and head is not None:
            with findings.guard(schema.chain_head, "main"):
                receipts.finish(head, witness=None)
                log.chain.finish(head, witness=None)
    verification = _verification(log, receipts, findings)
    if not verification.ok:
        return RecentAudit(verification, mark, mark_fits)
    ends = log.chain.last, log.chain.tail_hash, receipts.last, receipts.tail_hash
    reached = AuditMark(*ends, next_tile)
    return RecentAudit(verification, reached, mark_fits)


def audit_rows(view: LedgerView, first: int, last: int) -> Verification:
    """Check the rows of a range as `audit_since` does, and the whole tiles that they fill."""
    view = unchecked_view(view)
    findings = NewFindings(LIMIT_FINDINGS, view)
    reader = Reader(view.tables, findings)
    log = LogCheck(reader)
    with suppress(EnoughFindings), findings.guard(schema.kernel_event_log, "chain"):
        before = reader.get(schema.kernel_event_log, first - 1) if first > 1 else None
        if before is not None:
            log.go_on_after(before)
        rows = reader.scan(
            TableQuery(schema.kernel_event_log, after=first - 1, limit=last - first + 1)
        )
        for part in parts(row for row in rows if row["ec_sequence_number"] <= last):
            log.check(part, lambda: None)
        for index in range(-(-(first - 1) // WIDTH), last // WIDTH):
            check_tile_of_rows(reader, index)
    return _verification(log, None, findings)


def mark_before_last(view: LedgerView, count: int) -> AuditMark:
    """Return the mark from which an audit checks the last rows and receipts, so many of each."""
    view = unchecked_view(view)
    head = view.head()
    rows = _hash_at(view, schema.kernel_event_log, head.ec_sequence_number - count, "row_bytes")
    receipts = _hash_at(view, schema.receipts, head.receipt_sequence - count, "receipt_bytes")
    return AuditMark(*rows, *receipts, max(0, head.ec_sequence_number // WIDTH - TILES_MAX))


def _verification(log: LogCheck, receipts: Chain | None, findings: Findings) -> Verification:
    return Verification(
        rows=log.chain.rows,
        receipts=0 if receipts is None else receipts.rows,
        blobs=log.blobs,
        belief_sessions=0,
        belief_events=0,
        requests_open=0,
        requests_closed=0,
        head_hash=log.chain.tail_hash,
        authorities_equal=0,
        authorities_pending=0,
        findings=tuple(findings.entries),
    )


def _hash_at(view: LedgerView, table: Table, sequence: int, content: str) -> tuple[int, str]:
    """Return where a chain stands after a row, and its beginning where there is no such row."""
    row = view.tables.get(table, sequence) if sequence > 0 else None
    return (0, GENESIS_HASH) if row is None else (sequence, sha256_hex(row[content]))


def _fits(reader: Reader, mark: AuditMark) -> bool:
    """Tell whether the rows that a mark names are on the record as it says."""
    places = (
        (schema.kernel_event_log, mark.ec_sequence_number, "row_bytes", mark.row_hash),
        (schema.receipts, mark.receipt_sequence, "receipt_bytes", mark.receipt_hash),
    )
    for table, sequence, content, row_hash in places:
        row = reader.get(table, sequence) if sequence else None
        stored = None if row is None else row[content]
        if sequence and not (isinstance(stored, bytes) and sha256_hex(stored) == row_hash):
            return False
    return True


def _check_tiles(reader: Reader, full: int, first: int) -> int:
    """Compare the next tiles with their rows; return which comes after them, 0 behind the last."""
    first = first if first < full else 0
    last = min(full, first + TILES_MAX)
    for index in range(first, last):
        check_tile_of_rows(reader, index)
    return last if last < full else 0


def _begin(reader: Reader, log: LogCheck, receipts: Chain, mark: AuditMark) -> None:
    """Go to a mark that fits."""
    if mark.ec_sequence_number:
        row = reader.get(schema.kernel_event_log, mark.ec_sequence_number)
        if row is not None:
            log.go_on_after(row)
    if mark.receipt_sequence:
        receipts.go_on_after(mark.receipt_sequence, mark.receipt_hash)


def _walk(reader: Reader, log: LogCheck, receipts: Chain, mark: AuditMark, rows_max: int) -> bool:
    """Check the rows behind the mark; tell whether they were all."""
    rows = reader.scan(
        TableQuery(schema.kernel_event_log, after=mark.ec_sequence_number, limit=rows_max)
    )
    for part in parts(rows):
        log.check(part, lambda: None)
    receipt_rows = reader.scan(
        TableQuery(schema.receipts, after=mark.receipt_sequence, limit=rows_max)
    )
    for row in receipt_rows:
        with reader.findings.guard(schema.receipts, row["receipt_sequence"]):
            document = receipts.step(row)
            if document is not None:
                check_receipt(reader, schema.receipts, row["receipt_sequence"], document)
    return max(len(rows), len(receipt_rows)) < rows_max
