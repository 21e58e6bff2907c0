"""Requests effects outside of the process, which the runtime performs after the commit (K19).

The decision is a record and a request of the outbox in one transaction; the effect itself is not
performed here, so replaying the log performs nothing again. Its outcome comes back as an operation
(`external_report.py`).
"""

from kernel.ledger.ledger import Document
from kernel.ledger.outbox import add_request
from kernel.model.envelope import KernelEffect
from kernel.records.record import Operation
from kernel.values.canonical import canonicalize

EXTERNAL_QUEUE = "external-effects"
_PRIORITY = "background_normal"


def request_external_effect(effect: KernelEffect, operation: Operation, payload: Document) -> None:
    """Ask for an effect outside, in the transaction of the decision; keyed by the operation.

    `payload` is what the performer needs, without the content itself, which may be erased.
    """
    transaction = operation.transaction
    transaction.head_now.request_sequence += 1
    sequence = transaction.head_now.request_sequence
    document = {
        "request_id": f"request:{sequence}:{operation.operation_id}",
        "operation_id": operation.operation_id,
        "effect_id": effect.effect_id,
        "effect_kind": effect.effect_kind,
        "target_ref": effect.target_ref,
        "external_effect_descriptor": effect.external_effect_descriptor,
        "payload": payload,
        "enqueued_at": operation.applied_at,
    }
    add_request(
        transaction.tables,
        {
            "request_id": document["request_id"],
            "request_sequence": sequence,
            "queue": EXTERNAL_QUEUE,
            "item_key": operation.operation_id,
            "priority": _PRIORITY,
            "cause_sequence": operation.sequence,
            "enqueued_at_us": transaction.head_now.committed_at_us,
            "request_bytes": canonicalize(document),
        },
    )
