"""Keeps generations of the source policy; the newest not reverted is in force (§4.3.17).

Generations are numbered without end: what was reverted is never in force again, and its id is
taken.
"""

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.records.capacity import KernelCostGovernance
from kernel.records.conflicts.policy import Policies
from kernel.records.record import Applied, Operation, write_record
from kernel.records.typed import Name, Payload, stamp, target_of, validate_payload
from kernel.values.errors import EffectInapplicable

REVERT = "policy_snapshot_revert"


class PolicySnapshot(Payload):
    """A generation and the one that it takes over from."""

    prior_policy_generation_id: Name
    kernel_cost_governance: KernelCostGovernance | None = None
    semantic_conflict_policies: Policies = ()


def apply_policy_snapshot(effect: KernelEffect, operation: Operation) -> Applied:
    """Put a new generation in force, or the one before back in force."""
    transaction = operation.transaction
    key, current = target_of(effect), transaction.policy_generation_id()
    if effect.effect_kind == REVERT:
        record = _generation_after_revert(operation, key, current)
    else:
        record = _next_generation(effect, operation, key, current)
    applied = write_record(operation, schema.policy_snapshots, key, record)
    transaction.forget_policy()
    body = {
        "prior_policy_generation_id": current,
        "policy_generation_id": transaction.policy_generation_id(),
    }
    operation.emit(Receipt("policy_generation_advance", body))
    return applied


def _next_generation(
    effect: KernelEffect, operation: Operation, key: str, current: str
) -> dict[str, object]:
    payload = validate_payload(PolicySnapshot, effect.payload)
    if payload.prior_policy_generation_id != current:
        raise EffectInapplicable(
            f"in force is {current}",
            code="policy_generation_stale",
            field="payload.prior_policy_generation_id",
        )
    if operation.transaction.record(schema.policy_snapshots, key) is not None:
        raise EffectInapplicable(
            f"generation {key} exists", code="record_already_exists", field="target_ref"
        )
    newest = operation.transaction.tables.scan(
        TableQuery(schema.policy_snapshots, order_by="generation", descending=True, limit=1)
    )
    return {
        "policy_generation_id": key,
        "generation": newest[0]["generation"] + 1,
        "state": "effective",
        "version": 1,
        "payload": effect.payload,
        **stamp(operation),
    }


def _generation_after_revert(operation: Operation, key: str, current: str) -> dict[str, object]:
    record = operation.transaction.record(schema.policy_snapshots, key)
    if record is None or key != current or record["generation"] == 1:
        raise EffectInapplicable(
            f"in force is {current}, and the first generation stays",
            code="record_not_found",
            field="target_ref",
        )
    return {
        **record,
        "state": "reverted",
        "version": record["version"] + 1,
        **stamp(operation),
    }
