"""Settles items of the review queues: takes what an item holds back, or discards it (§2.8, §19.3).

1. What is taken is submitted anew as the user's, with who took it and why, and goes through every
   check. The item is settled by that operation alone: a refusal leaves it open.
2. Content, session, causes and the fire of a binding stay as they were held back. Time, policy,
   epoch and run of a detector are left behind, and so is what a model answered: that is of the
   operation that was held back, and stays in its receipt.
3. What migration holds lacks what only an author can state, so it is judged as a caller's.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from pydantic import ValidationError

from kernel.algebra.verbs import REVIEW_DISCARD
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.supersession import lite_document
from kernel.migration.mapping import BEST_EFFORT, REQUIRED, Unmapped, map_lite
from kernel.model.envelope import MAX_ADJUDICATED, Envelope, ItemDecision
from kernel.model.lite import PBEOperationReceiptLite
from kernel.model.problems import first_problem
from kernel.model.receipt import MIGRATION_KIND, receipt_effect
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.records.conflicts.adjudications import ITEM_KINDS, item, resolution_of
from kernel.records.reviews.errors import ReviewRefused
from kernel.records.sources import state_taint
from kernel.rollback.envelopes import envelope, scope_of
from kernel.transaction.kernel import Kernel
from kernel.values.errors import LedgerCorrupt
from kernel.values.host import iso_time
from kernel.values.idempotency_keys import caller_key, runtime_key

_LEFT_BEHIND: Final = frozenset(
    {
        *("operation_id", "idempotency_key", "actor", "principal", "recorded_at", "duration_ms"),
        *("policy_generation_id", "epoch_id", "implication", "capacity_override", "supersedes"),
        *("recorded_model_outputs", "recompute_priority"),
    }
)
_INCOMPLETE: Final = "review_item_incomplete"


def take(
    kernel: Kernel,
    transaction: LedgerTransaction,
    receipt_id: str,
    decision: ItemDecision,
    supplied: Mapping[str, Any],
) -> SubmissionResult | RejectedResult:
    """Submit what an item holds back as the user's; durable as a submission.

    The same decision again is answered as before. `supplied` states fields that only an author can
    state, of what migration holds.

    Raises:
        ReviewRefused: `review_decided_meanwhile`; `review_item_unknown` where no such item holds an
            operation back; `review_item_incomplete` where a field is missing, or not to be
            supplied.
    """
    receipt = item(transaction, receipt_id)
    if receipt is None or receipt["receipt_kind"] not in ITEM_KINDS:
        message = f"no item {receipt_id} holds an operation back"
        raise ReviewRefused("review_item_unknown", message, "receipt_id")
    is_lite = receipt["receipt_kind"] == MIGRATION_KIND
    document = _earlier(transaction, receipt_id, decision)
    if document is None:
        _check_supplied(supplied, (*REQUIRED, *BEST_EFFORT) if is_lite else ())
        held = _of_lite(transaction, receipt, supplied) if is_lite else receipt["envelope"]
        own_key = runtime_key("review_take", receipt_id)
        key = caller_key("review_take", receipt_id) if is_lite else own_key
        document = _anew(transaction, held, receipt_id, key) | {
            "item_decision": decision.model_dump()
        }
    return kernel.submit(transaction, document, "caller" if is_lite else "orchestrator")


def discard(
    kernel: Kernel,
    transaction: LedgerTransaction,
    receipt_id: str,
    reason: str,
    decided_by: str | None = None,
) -> SubmissionResult | RejectedResult:
    """Discard an item of a review queue; durable as a submission."""
    said = {"reason": reason, "item_receipt_id": receipt_id}
    said |= {} if decided_by is None else {"decided_by": decided_by}
    effect = receipt_effect("review_item_discarded", said)
    fields = {
        "actor": "user",
        "causal_parent_operation_ids": [],
        "affected_subgraph_descriptor": scope_of([]),
        "adjudicates_receipt_ids": [receipt_id],
    }
    key = runtime_key("review_discard", receipt_id)
    document = envelope(transaction, REVIEW_DISCARD, key, [effect], fields)
    return kernel.submit(transaction, document, "orchestrator")


def _earlier(view: LedgerView, receipt_id: str, decision: ItemDecision) -> Document | None:
    """Return the envelope by which this very decision settled an item before, None if it is open.

    Raises:
        ReviewRefused: `review_decided_meanwhile`.
    """
    resolution = resolution_of(view, receipt_id)
    if resolution is None:
        return None
    operation_id = resolution["operation_id"]
    taken = view.envelope(operation_id)
    if taken is not None and taken.get("item_decision") == decision.model_dump():
        return taken
    message = f"it is settled since {resolution['adjudicated_at']}, by the operation {operation_id}"
    raise ReviewRefused("review_decided_meanwhile", message, "receipt_id")


def _anew(transaction: LedgerTransaction, held: Document, receipt_id: str, key: str) -> Document:
    """Return what was held back as an operation of the user's that settles its items."""
    named = dict.fromkeys((receipt_id, *held.get("adjudicates_receipt_ids", ())))
    settled = [each for each in named if resolution_of(transaction, each) is None]
    document = {
        **{name: value for name, value in held.items() if name not in _LEFT_BEHIND},
        "operation_id": transaction.host.new_id(),
        "idempotency_key": key,
        "actor": "user",
        "policy_generation_id": transaction.policy_generation_id(),
        "recorded_at": iso_time(transaction.host.now_us()),
        "adjudicates_receipt_ids": settled[:MAX_ADJUDICATED],
    }
    if "source_visibility_taint" not in document and _is_envelope(document):
        state_taint(transaction, document)
    return document


def _is_envelope(document: Document) -> bool:
    """Tell whether a document has the shape of an envelope; V1 says what is wrong with others."""
    try:
        Envelope.model_validate_json(orjson.dumps(document))
    except ValidationError:
        return False
    return True


def _check_supplied(supplied: Mapping[str, Any], admitted: tuple[str, ...]) -> None:
    for name in supplied:
        if name not in admitted:
            names = ", ".join(admitted) or "nothing"
            raise ReviewRefused(_INCOMPLETE, f"{names} may be supplied of it", f"supplied.{name}")


def _of_lite(
    transaction: LedgerTransaction, receipt: Document, supplied: Mapping[str, Any]
) -> Document:
    """Return the envelope of a lite one, with what its reviewer supplies."""
    sequence = int(receipt["ec_sequence_number"])
    row = transaction.tables.get(schema.kernel_event_log, sequence)
    if row is None:
        raise LedgerCorrupt(f"row {sequence} waits for a review and is not on record")
    lite = lite_document(transaction, row) | dict(supplied)
    try:
        PBEOperationReceiptLite.model_validate_json(orjson.dumps(lite))
    except ValidationError as error:
        field, message = first_problem(error)
        raise ReviewRefused(_INCOMPLETE, message, f"supplied.{field}") from error
    except orjson.JSONEncodeError as error:
        raise ReviewRefused(_INCOMPLETE, str(error), "supplied") from error
    mapped = map_lite(transaction, lite | {"recorded_model_outputs": None}, sequence)
    if isinstance(mapped, Unmapped):
        raise ReviewRefused(_INCOMPLETE, mapped.message, f"supplied.{mapped.field}")
    if not mapped["write_set_refs"]:
        targets = [effect.get("target_ref") for effect in mapped["primitive_effects"]]
        mapped["write_set_refs"] = [ref for ref in targets if isinstance(ref, str)]
    return mapped
