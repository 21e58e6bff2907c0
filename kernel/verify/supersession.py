"""Verifies rows in the place of lite ones: each names one that is there, and the only one (K24).

A row says what it supersedes in its bytes; the column beside them repeats it. The lite row it names
is an earlier one of the same operation, and nobody else names it. What it wrote, nobody had written
whose place in the order is a later one.
"""

from typing import Any

from kernel.ledger import schema
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.lite import LITE_INTENT
from kernel.model.receipt import MIGRATION_KIND
from kernel.verify.reading import Document, Reader, load_object, printable

_LOG = schema.kernel_event_log

KEPT_FIELDS = (
    "operation_id",
    "operation_kind",
    "idempotency_key",
    "causal_parent_operation_ids",
    "recorded_at",
)
"""Fields in which the two rows of an operation say the same."""


def check_supersession(reader: Reader, row: Row, document: Document) -> None:
    """Check that a row is its operation's only one, or takes the place of the only other."""
    sequence, supersedes = row["ec_sequence_number"], document.get("supersedes")
    stated = _sequence_in(supersedes)
    if row["supersedes_sequence"] != stated:
        message = f"supersedes_sequence is {printable(row['supersedes_sequence'])}, the bytes say "
        reader.findings.add(_LOG, sequence, "column_differs", f"{message}{printable(stated)}")
    # No limit: with one, a planner may search in the order of the log.
    rows = reader.scan(TableQuery(_LOG, {"operation_id": row["operation_id"]}))
    has_two = supersedes is not None or document.get("semantic_intent") == LITE_INTENT
    if len(rows) > (2 if has_two else 1):
        message = f"operation {printable(row['operation_id'])} is on the log twice"
        reader.findings.add(_LOG, sequence, "double_write", message)
    elif supersedes is not None:
        _check_target(reader, sequence, document, stated)


def _check_target(reader: Reader, sequence: int, document: Document, stated: int) -> None:
    target = reader.get(_LOG, stated)
    lite = None if target is None else load_object(target["row_bytes"])
    if lite is None or lite.get("semantic_intent") != LITE_INTENT or not 0 < stated < sequence:
        message = f"supersedes row {stated}, where no lite envelope stands before it"
        reader.findings.add(_LOG, sequence, "link_broken", message)
        return
    for name in KEPT_FIELDS:
        if document.get(name) != lite.get(name):
            message = f"{name} is {printable(document.get(name))}, row {stated} has another"
            reader.findings.add(_LOG, sequence, "field_differs", message)
            return
    _check_writers(reader, sequence, stated)


def _check_writers(reader: Reader, sequence: int, position: int) -> None:
    for effect in reader.scan(TableQuery(schema.applied_effects, {"ec_sequence_number": sequence})):
        place = {"store": effect["store"], "record_key": effect["record_key"]}
        later = _writer_after(reader, place, sequence, position)
        if later is not None:
            message = f"{printable(effect['record_key'])} was written by {printable(later)}"
            message += f", which stands after {position}"
            reader.findings.add(_LOG, sequence, "order_broken", message)
            return


def _writer_after(reader: Reader, place: Document, before: int, position: int) -> str | None:
    options: dict[str, Any] = {"order_by": "ec_sequence_number", "descending": True, "limit": 1}
    while last := reader.scan(TableQuery(schema.applied_effects, place, after=before, **options)):
        before = last[0]["ec_sequence_number"]
        writer = reader.get(_LOG, before)
        if writer is None or (writer["supersedes_sequence"] or before) <= position:
            return None
        if not _settles_before(reader, before, position):
            return str(writer["operation_id"])
    return None


def _settles_before(reader: Reader, sequence: int, position: int) -> bool:
    """Tell whether an operation settled a lite one whose place is before another's."""
    for settled in reader.scan(TableQuery(schema.adjudications, {"ec_sequence_number": sequence})):
        for row in reader.scan(TableQuery(schema.receipts, {"receipt_id": settled["receipt_id"]})):
            item = load_object(row["receipt_bytes"]) or {}
            if row["receipt_kind"] == MIGRATION_KIND and 0 < _sequence_in(item) < position:
                return True
    return False


def _sequence_in(supersedes: object) -> int:
    text = supersedes.get("ec_sequence_number") if isinstance(supersedes, dict) else None
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0
