"""How long the answers of models are kept (§6.5, §17.7).

An answer may go when nothing refers to it any more, that has been so for seven days, and its model
is retired. It never goes earlier, never because a receipt expired, and never under a legal hold.
What goes is the bytes: the record, its commitment and a durable receipt stay.

References are operations on the record that name the output. One ends when its operation is
archived past the audit's horizon: a receipt `operation_archived` puts the fact on the record and
nothing else happens. Rows that move to the archive (`kernel/log_archival.py`) are no such fact:
they are replayed as before, and need the answers, until the horizon has passed them as well. Then
the segments are read one by one, each once, and a receipt is left of every operation in them that
names an output (decision kernel/0490). The sweep reads all of those receipts.

Which models are in use changes outside the log, so eligibility is not stored: the registry is asked
here and in a replay (decision kernel/0095).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from kernel.errors import KernelError
from kernel.host import iso_time, parse_time_us
from kernel.ledger import schema
from kernel.ledger.archive_segment import SEGMENT_ROWS, first_sequence_of
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.tables import rows_in_pages
from kernel.legal_holds import hold_on
from kernel.model.receipt import Receipt
from kernel.model_registry import ModelRegistry

GRACE_US = 7 * 24 * 3600 * 1_000_000
PAGE_ROWS = 500
ARCHIVED_KIND = "operation_archived"
COLLECTED_KIND = "recorded_model_output_collected"
SEGMENT_RELEASED_KIND = "log_segment_released"


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """The facts that decide whether a model's answer may be collected."""

    reference_count: int
    unreferenced_since_us: int | None
    """When the count became 0, in microseconds since 1970; None while it is not."""

    replay_eligible: bool


@dataclass(frozen=True, slots=True)
class PastSegment:
    """A segment that the audit's horizon has passed, and what its operations refer to."""

    segment_index: int
    references: tuple[tuple[str, tuple[str, ...]], ...]
    """Each operation that names outputs, and the ids of those."""


@dataclass(frozen=True, slots=True)
class DueAnswers:
    """Answers of which at least one may be collected."""

    now_us: int
    registry: ModelRegistry


@dataclass(slots=True)
class _Released:
    """How many references to an output ended, and when the last of them did."""

    count: int = 0
    last_us: int = 0


def is_collectable(facts: OutputFacts, now_us: int) -> bool:
    """Tell whether an answer's bytes may be erased; the three conditions hold together."""
    return (
        facts.reference_count == 0
        and facts.unreferenced_since_us is not None
        and now_us - facts.unreferenced_since_us >= GRACE_US
        and not facts.replay_eligible
    )


def mark_archived(transaction: LedgerTransaction, operation_id: str) -> None:
    """Record that an operation is past the audit's horizon and no longer refers to its outputs.

    Raises:
        KernelError: `operation_not_archivable`, when it is not on the log, or is marked already.
    """
    envelope = transaction.envelope(operation_id)
    if envelope is None or is_archived(transaction, operation_id):
        raise KernelError(f"{operation_id} has nothing to release", code="operation_not_archivable")
    transaction.next_commit_time_us()
    _append_archived(transaction, operation_id, _outputs_named(envelope))


def next_past_segment(view: LedgerView, before_us: int) -> int | None:
    """Return the first archived segment whose operations still refer to answers too long ago.

    All rows of it were committed before the time that is given; None where there is no such one.
    """
    index = view.tables.count(schema.receipts, {"receipt_kind": SEGMENT_RELEASED_KIND})
    if view.tables.get(schema.archive_segments, index) is None:
        return None
    row = view.log_row_at(first_sequence_of(index) + SEGMENT_ROWS - 1)
    is_due = row is not None and parse_time_us(row["committed_at"]) < before_us
    return index if is_due else None


def read_past_segment(view: LedgerView, segment_index: int) -> PastSegment:
    """Read which operations of a segment name outputs.

    Raises:
        ArchiveUnavailable: the archive does not answer, lacks the file, or has another one.
    """
    first = first_sequence_of(segment_index)
    rows = view.log_rows(after=first - 1, limit=SEGMENT_ROWS)
    contents = (view.blob(row["envelope_payload_blob_ref"]) for row in rows)
    envelopes = [orjson.loads(content) for content in contents if content is not None]
    references = (
        (str(envelope["operation_id"]), _outputs_named(envelope)) for envelope in envelopes
    )
    return PastSegment(segment_index, tuple(entry for entry in references if entry[1]))


def release_segment(transaction: LedgerTransaction, past: PastSegment) -> int:
    """Record that the operations of a segment refer to no answer any longer; return their number.

    0 where others have done it.
    """
    receipt_id = f"receipt:log:{past.segment_index}:released"
    if transaction.has_receipt(receipt_id):
        return 0
    transaction.next_commit_time_us()
    released = 0
    for operation_id, output_ids in past.references:
        if not is_archived(transaction, operation_id):
            _append_archived(transaction, operation_id, output_ids)
            released += 1
    body = {"segment_index": str(past.segment_index), "operations": released}
    append_receipt(transaction, receipt_id, Receipt(SEGMENT_RELEASED_KIND, body), None)
    return released


def _outputs_named(envelope: Document) -> tuple[str, ...]:
    stated = envelope.get("recorded_model_outputs") or ()
    return tuple(sorted({output["recorded_output_id"] for output in stated}))


def _append_archived(
    transaction: LedgerTransaction, operation_id: str, output_ids: tuple[str, ...]
) -> None:
    body = {"released_model_output_ids": list(output_ids)}
    receipt_id = f"receipt:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, Receipt(ARCHIVED_KIND, body), operation_id)


def is_archived(view: LedgerView, operation_id: str) -> bool:
    """Tell whether an operation was marked as archived."""
    where = {"operation_id": operation_id, "receipt_kind": ARCHIVED_KIND}
    return bool(view.tables.select(schema.receipts, where, limit=1))


def due_answers(view: LedgerView, registry: ModelRegistry, now_us: int) -> DueAnswers | None:
    """Tell whether an answer may be erased now; None where none may."""
    is_due = any(_collectable(view, registry, now_us))
    return DueAnswers(now_us, registry) if is_due else None


def collect_model_outputs(
    transaction: LedgerTransaction, registry: ModelRegistry, now_us: int
) -> list[str]:
    """Erase the answers that may go, with a durable receipt each, and return their outputs' ids.

    Bytes that several outputs share go when all of them may.
    """
    collected: list[str] = []
    for blob_ref, records in _collectable(transaction, registry, now_us):
        transaction.drop_blob(blob_ref)
        transaction.next_commit_time_us()
        for record in records:
            _append_collected(transaction, record, now_us)
            collected.append(record["recorded_output_id"])
    return collected


def _collectable(
    view: LedgerView, registry: ModelRegistry, now_us: int
) -> Iterator[tuple[str, list[Document]]]:
    """Yield the payloads that may be erased, each with the outputs that have it."""
    going: dict[str, list[Document]] = {}
    for record, facts in _facts(view, registry):
        if is_collectable(facts, now_us):
            going.setdefault(record["output_payload_blob_ref"], []).append(record)
    for blob_ref, records in going.items():
        sharing = {"output_payload_blob_ref": blob_ref}
        all_of_them = view.tables.count(schema.recorded_model_outputs, sharing)
        is_collected = view.tables.get(schema.blobs, blob_ref) is None
        if not is_collected and len(records) == all_of_them and not hold_on(view, blob_ref):
            yield blob_ref, records


def _facts(view: LedgerView, registry: ModelRegistry) -> list[tuple[Document, OutputFacts]]:
    """Return the outputs to which references ended, and what is known of each."""
    released = _released(view)
    facts_of_records = []
    for output_id, ended in released.items():
        record = view.record(schema.recorded_model_outputs, output_id)
        if record is None:
            continue
        references_left = record["reference_count"] - ended.count
        current = registry.current_version(record["model_version"])
        facts = OutputFacts(
            references_left,
            ended.last_us if references_left == 0 else None,
            record["replay_eligible"] and current is not None,
        )
        facts_of_records.append((record, facts))
    return facts_of_records


def _released(view: LedgerView) -> dict[str, _Released]:
    released: dict[str, _Released] = {}
    receipts = rows_in_pages(
        view.tables,
        schema.receipts,
        {"receipt_kind": ARCHIVED_KIND},
        order_by="receipt_sequence",
        after=0,
        page_rows=PAGE_ROWS,
    )
    for row in receipts:
        document = orjson.loads(row["receipt_bytes"])
        for output_id in document["released_model_output_ids"]:
            ended = released.setdefault(output_id, _Released())
            ended.count += 1
            ended.last_us = parse_time_us(document["emitted_at"])
    return released


def _append_collected(transaction: LedgerTransaction, record: Document, now_us: int) -> None:
    names = ("recorded_output_id", "output_payload_blob_ref", "model_version")
    body = {name: record[name] for name in names} | {"collected_at": iso_time(now_us)}
    receipt_id = f"receipt:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, Receipt(COLLECTED_KIND, body), None)
