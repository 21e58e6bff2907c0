"""Erases a payload: its content and salt go, its commitment and all that was proved stay (P6).

A payload is what the record commits to and holds nowhere else: the content of a thought, the
answer of a model. Both go in one transaction with a tombstone, an operation of the log that names
the commitment, the reason and the authority, and a durable receipt that says which payload it was;
verification asks for that receipt where a payload is gone. A legal hold wins. An envelope is no
such payload: the state is a fold of it, and what it says stands in the state as well (decision
kernel/0410).
"""

from dataclasses import dataclass
from typing import Literal

import orjson

from kernel.algebra.verbs import PAYLOAD_ERASE
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import TableQuery
from kernel.model.receipt import Receipt
from kernel.records.legal_holds import ErasureRefused, Grounds, hold_on
from kernel.records.operator_decisions import Decide, payload_target
from kernel.thoughts.sessions import content_commitment, thought_of_id

ERASED = "payload_erased"

PayloadKind = Literal["thought", "model_answer"]


@dataclass(frozen=True, slots=True)
class ErasablePayload:
    """What somebody wants erased: a thought of a session, or a model's answer by its output."""

    kind: PayloadKind
    payload_id: str
    session_id: str = ""
    """Of a thought."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """What became of a payload."""

    commitment: str
    erased: bool
    """False where it was gone before."""

    operation_id: str | None
    """The tombstone; None of what is gone otherwise, or was erased by an earlier release."""


def erase(
    transaction: LedgerTransaction, payload: ErasablePayload, grounds: Grounds, decide: Decide
) -> Erasure:
    """Delete a payload and its salt and put that on the record, all of it or nothing.

    What of it lies in the archive is deleted there by the caller, once this is committed.

    Raises:
        ErasureRefused: `payload_unknown`, `payload_held`, `payload_not_erasable`.
    """
    commitment = commitment_of(transaction, payload)
    hold = hold_on(transaction, commitment)
    if hold is not None:
        message = f"the hold {hold.hold_id} ({hold.authority}: {hold.reason}) keeps {commitment}"
        raise ErasureRefused(message, code="payload_held")
    content, receipt_id = transaction.blob(commitment), _receipt_id(commitment)
    receipt = transaction.receipt(receipt_id)
    operation_id = (receipt or {}).get("decided_by_operation_id")
    # The content of a thought that is neither here nor erased lies in the archive.
    if content is None and (receipt is not None or payload.kind != "thought"):
        return Erasure(commitment, erased=False, operation_id=operation_id)
    if content is not None:
        if is_envelope(transaction, commitment, content):
            message = f"{commitment} is the envelope of an operation, which cannot be erased"
            raise ErasureRefused(message, code="payload_not_erasable")
        transaction.drop_blob(commitment)
    if receipt is None:
        said = grounds.decide(PAYLOAD_ERASE, payload_target(commitment), decide)
        operation_id = said["decided_by_operation_id"]
        transaction.next_commit_time_us()
        body = {
            "payload_kind": payload.kind,
            "payload_id": payload.payload_id,
            "session_id": payload.session_id,
            "commitment": commitment,
        }
        append_receipt(transaction, receipt_id, Receipt(ERASED, body | said), None)
    return Erasure(commitment, erased=True, operation_id=operation_id)


def commitment_of(view: LedgerView, payload: ErasablePayload) -> str:
    """Return the commitment under which a payload is kept.

    Raises:
        ErasureRefused: `payload_unknown`.
    """
    if payload.kind == "thought":
        row = thought_of_id(view, payload.session_id, payload.payload_id)
        if row is not None:
            return content_commitment(row)
    else:
        record = view.record(schema.recorded_model_outputs, payload.payload_id)
        if record is not None:
            return str(record["output_payload_blob_ref"])
    place = f" of the session {payload.session_id}" if payload.session_id else ""
    raise ErasureRefused(f"no {payload.kind} is called {payload.payload_id}{place}")


def is_erased(view: LedgerView, commitment: str) -> bool:
    """Tell whether a payload was erased on the record."""
    return view.has_receipt(_receipt_id(commitment))


def is_envelope(view: LedgerView, commitment: str, content: bytes) -> bool:
    """Tell whether a row of the log commits to a payload that a thought or an output names."""
    try:
        operation_id = orjson.loads(content)["operation_id"]
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
        return False
    if not isinstance(operation_id, str):
        return False
    rows = view.tables.scan(TableQuery(schema.kernel_event_log, {"operation_id": operation_id}))
    return any(row["envelope_payload_blob_ref"] == commitment for row in rows)


def _receipt_id(commitment: str) -> str:
    return f"receipt:{commitment}:erased"
