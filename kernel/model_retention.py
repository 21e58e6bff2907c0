"""How long the answers of models are kept (§6.5, §17.7).

An answer may go when nothing refers to it any more, that has been so for seven days, and its model
is retired. It never goes earlier, never because a receipt expired, and never under a legal hold.
What goes is the bytes: the record, its commitment and a durable receipt stay.

References are operations on the record that name the output. One ends when its operation is
archived past the audit's horizon: `mark_archived` puts the fact on the record and does nothing
else. Rows that move to the archive (`kernel/log_archival.py`) are no such fact: they are replayed
as before, and need the answers. The sweep reads all of those receipts.

Which models are in use changes outside the log, so eligibility is not stored: the registry is asked
here and in a replay (decision kernel/0095).
"""

from dataclasses import dataclass

import orjson

from kernel.errors import KernelError
from kernel.host import iso_time, parse_time_us
from kernel.ledger import schema
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


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """The facts that decide whether a model's answer may be collected."""

    reference_count: int
    unreferenced_since_us: int | None
    """When the count became 0, in microseconds since 1970; None while it is not."""

    replay_eligible: bool


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
    stated = envelope.get("recorded_model_outputs") or ()
    body = {
        "released_model_output_ids": sorted({output["recorded_output_id"] for output in stated})
    }
    transaction.next_commit_time_us()
    receipt_id = f"receipt:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, Receipt(ARCHIVED_KIND, body), operation_id)


def is_archived(view: LedgerView, operation_id: str) -> bool:
    """Tell whether an operation was marked as archived."""
    where = {"operation_id": operation_id, "receipt_kind": ARCHIVED_KIND}
    return bool(view.tables.select(schema.receipts, where, limit=1))


def collect_model_outputs(
    transaction: LedgerTransaction, registry: ModelRegistry, now_us: int
) -> list[str]:
    """Erase the answers that may go, with a durable receipt each, and return their outputs' ids.

    Bytes that several outputs share go when all of them may.
    """
    going: dict[str, list[Document]] = {}
    for record, facts in _facts(transaction, registry):
        if is_collectable(facts, now_us):
            going.setdefault(record["output_payload_blob_ref"], []).append(record)
    collected: list[str] = []
    for blob_ref, records in going.items():
        sharing = {"output_payload_blob_ref": blob_ref}
        all_of_them = transaction.tables.count(schema.recorded_model_outputs, sharing)
        is_collected = transaction.tables.get(schema.blobs, blob_ref) is None
        if is_collected or len(records) < all_of_them or hold_on(transaction, blob_ref):
            continue
        transaction.drop_blob(blob_ref)
        transaction.next_commit_time_us()
        for record in records:
            _append_collected(transaction, record, now_us)
            collected.append(record["recorded_output_id"])
    return collected


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
