"""Keeps the answers of models for as long as something needs them (§6.5, §17.7).

An answer may go when nothing refers to it any more, that has been so for seven days, and its model
is retired. It never goes earlier, never because a receipt expired, and never under a legal hold.
The bytes go: the record, its commitment and a durable receipt stay.

References are operations on the record that name the output. One ends when its operation is
archived past the audit's horizon: a receipt `operation_archived` puts the fact on the record and
nothing else happens. Rows that move to the archive (`log_archival.py`) are no such fact: they are
replayed as before, and need the answers, until the horizon has passed them as well. Then the
segments are read one by one, each once, and a receipt is left of every operation in them that names
an output (decision kernel/0519). The search for answers to collect reads all of those receipts, on
a snapshot; the transaction that collects them reads what is said of these alone.

Which models are in use changes outside the log, so eligibility is not stored: the registry is asked
here and in a replay (decision kernel/0095).
"""

from dataclasses import dataclass
from itertools import islice

import orjson

from kernel.ledger import schema
from kernel.ledger.archive_segment import SEGMENT_ROWS, first_sequence_of
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.receipts_of_kind import receipts_of_kind
from kernel.ledger.store.tables import TableQuery
from kernel.model.receipt import Receipt
from kernel.records.legal_holds import hold_on
from kernel.values.host import iso_time, parse_time_us
from kernel.values.model_registry import ModelRegistry

GRACE_US = 7 * 24 * 3600 * 1_000_000
COLLECTED_AT_ONCE = 256
"""Answers that go in one transaction."""

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
    """Answers that may be collected, each with its outputs and how often those are referred to."""

    now_us: int
    registry: ModelRegistry
    answers: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


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


def next_past_segment(view: LedgerView, before_us: int) -> int | None:
    """Return the index of the first archived segment that is not released and is due.

    A segment is due when all of its rows were committed before `before_us`. None where the first
    is not due, and where a row of it is quarantined.
    """
    index = view.tables.count(TableQuery(schema.receipts, {"receipt_kind": SEGMENT_RELEASED_KIND}))
    if view.tables.get(schema.archive_segments, index) is None:
        return None
    first, last = first_sequence_of(index), first_sequence_of(index) + SEGMENT_ROWS - 1
    row = view.log_row_at(last)
    is_due = row is not None and parse_time_us(row["committed_at"]) < before_us
    return index if is_due and view.quarantines().over(first, last) is None else None


def read_past_segment(view: LedgerView, segment_index: int) -> PastSegment:
    """Read which operations of a segment name outputs.

    Raises:
        ArchiveUnavailable: the archive does not answer, lacks the file, or has another one.
    """
    first = first_sequence_of(segment_index)
    rows = view.log_rows(after=first - 1, limit=SEGMENT_ROWS)
    contents = (view.blob(row["envelope_payload_blob_ref"]) for row in rows)
    envelopes = [orjson.loads(content) for content in contents if content is not None]
    references = ((str(envelope["operation_id"]), _output_ids(envelope)) for envelope in envelopes)
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
            _append_archival(transaction, operation_id, output_ids)
            released += 1
    body = {"segment_index": str(past.segment_index), "operations": released}
    append_receipt(transaction, receipt_id, Receipt(SEGMENT_RELEASED_KIND, body), None)
    return released


def _output_ids(envelope: Document) -> tuple[str, ...]:
    stated = envelope.get("recorded_model_outputs") or ()
    return tuple(sorted({output["recorded_output_id"] for output in stated}))


def _append_archival(
    transaction: LedgerTransaction, operation_id: str, output_ids: tuple[str, ...]
) -> None:
    body = {"released_model_output_ids": list(output_ids)}
    receipt_id = f"receipt:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, Receipt(ARCHIVED_KIND, body), operation_id)


def is_archived(view: LedgerView, operation_id: str) -> bool:
    """Tell whether an operation was marked as archived."""
    where = {"operation_id": operation_id, "receipt_kind": ARCHIVED_KIND}
    return bool(view.tables.scan(TableQuery(schema.receipts, where, limit=1)))


def due_answers(view: LedgerView, registry: ModelRegistry, now_us: int) -> DueAnswers | None:
    """Return answers that may be erased now, `COLLECTED_AT_ONCE` at most; None where none may.

    Bytes that several outputs share go when all of them may. Reads each receipt by which a
    reference ended, so it belongs on a snapshot.
    """
    going: dict[str, list[tuple[str, int]]] = {}
    for record, facts in _facts(view, registry):
        if is_collectable(facts, now_us):
            output = (record["recorded_output_id"], record["reference_count"])
            going.setdefault(record["output_payload_blob_ref"], []).append(output)
    due = ((blob_ref, tuple(outputs)) for blob_ref, outputs in going.items())
    answers = tuple(islice((each for each in due if _may_go(view, *each)), COLLECTED_AT_ONCE))
    return DueAnswers(now_us, registry, answers) if answers else None


def collect_answers(transaction: LedgerTransaction, due: DueAnswers) -> list[str]:
    """Erase answers, with a durable receipt for each output, and return the outputs' ids.

    One that was referred to, held or collected since they were found stays as it is.
    """
    collected: list[str] = []
    for blob_ref, outputs in due.answers:
        records = _outputs_with_same_count(transaction, outputs, due.registry)
        if len(records) < len(outputs) or not _may_go(transaction, blob_ref, outputs):
            continue
        transaction.drop_blob(blob_ref)
        transaction.next_commit_time_us()
        for record in records:
            _append_collection(transaction, record, due.now_us)
            collected.append(record["recorded_output_id"])
    return collected


def _may_go(view: LedgerView, blob_ref: str, outputs: tuple[tuple[str, int], ...]) -> bool:
    """Tell whether bytes are there, of these outputs alone, and under no hold."""
    sharing = {"output_payload_blob_ref": blob_ref}
    return (
        view.tables.get(schema.blobs, blob_ref) is not None
        and view.tables.count(TableQuery(schema.recorded_model_outputs, sharing)) == len(outputs)
        and not hold_on(view, blob_ref)
    )


def _outputs_with_same_count(
    view: LedgerView, outputs: tuple[tuple[str, int], ...], registry: ModelRegistry
) -> list[Document]:
    """Return the records of outputs that are referred to as often as before, and not replayed."""
    records = ((view.record(schema.recorded_model_outputs, name), count) for name, count in outputs)
    return [
        record
        for record, count in records
        if record is not None
        and record["reference_count"] == count
        and not _is_replayed(record, registry)
    ]


def _is_replayed(record: Document, registry: ModelRegistry) -> bool:
    """Tell whether a replay may ask for an answer: its model is in use."""
    current = registry.current_version(record["model_version"])
    return bool(record["replay_eligible"]) and current is not None


def _facts(view: LedgerView, registry: ModelRegistry) -> list[tuple[Document, OutputFacts]]:
    """Return the outputs to which references ended, and what is known of each."""
    released = _releases_by_output(view)
    facts_of_records = []
    for output_id, ended in released.items():
        record = view.record(schema.recorded_model_outputs, output_id)
        if record is None:
            continue
        references_left = record["reference_count"] - ended.count
        facts = OutputFacts(
            references_left,
            ended.last_us if references_left == 0 else None,
            _is_replayed(record, registry),
        )
        facts_of_records.append((record, facts))
    return facts_of_records


def _releases_by_output(view: LedgerView) -> dict[str, _Released]:
    released: dict[str, _Released] = {}
    for row in receipts_of_kind(view.tables, ARCHIVED_KIND):
        document = orjson.loads(row["receipt_bytes"])
        for output_id in document["released_model_output_ids"]:
            ended = released.setdefault(output_id, _Released())
            ended.count += 1
            ended.last_us = parse_time_us(document["emitted_at"])
    return released


def _append_collection(transaction: LedgerTransaction, record: Document, now_us: int) -> None:
    names = ("recorded_output_id", "output_payload_blob_ref", "model_version")
    body = {name: record[name] for name in names} | {"collected_at": iso_time(now_us)}
    receipt_id = f"receipt:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, Receipt(COLLECTED_KIND, body), None)
