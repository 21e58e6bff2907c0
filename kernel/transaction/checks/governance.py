"""Judges an envelope by the policy in force, its quotas and the capacity (V5, V11).

V5: the operation was decided under the policy that is in force (§2.2).

V11: an operation stays inside its quotas and the capacity that is leased (§2.2, §18, K4).

1. Above a threshold, which the policy states or else the process, background work of the runtime is
   put off for a second, and what a user writes never is, however urgent the recompute that it asks
   for (decision kernel/0518). The operations are counted that were committed before the transaction
   began: what one piece of work writes at once, such as all that a run of a detector emits, is put
   off whole or not at all, and never because of itself.
2. A day's quota for a kind, and a run's budget, refuse or put off as the policy says. If it says to
   go on, applying the operation tells of it (`operation_counts`).
3. Capacity that is not there refuses, or puts off, or is told of on a receipt of its own: the lease
   is not on the record, so that receipt is not the operation's. A lease that cannot be read is
   capacity that is not there. A user may go on all the same by saying so (`capacity_override`,
   decision kernel/0122).

What the runtime writes to settle what was begun is counted and told of and never refused by 2 and
3: an anchor, what closes a session of thoughts, a computed authority, a report, the record of a
fire or of a batch review, how far implications were detected, the seal of a run or of receipts,
what an operator decides, undoing, and a policy, which is the way out. Refused, it would stop the
runtime, or lose what has happened already; what begins such work is suspended before it
(`kernel/values/pressure.py`).
Nor does 1 put any of it off, but for a computed authority, whose request waits until it is
recorded, nor what an extraction came to: a model may have been asked for it.
"""

from math import isfinite

from kernel.algebra.verbs import (
    AUDIT_SESSION_END,
    AUDIT_VERIFY_CHAIN,
    BATCH_REVIEW,
    BELIEF_ANCHOR,
    EPOCH_ROLLBACK,
    FIRE_RECORD,
    IMPLICATION_HALT,
    IMPLICATION_RUN,
    LANDSCAPE_SEAL,
    MERKLE_FINALIZE,
    OPERATOR_VERBS,
    REBUILD,
    RECEIPTS_SEAL,
    REPORT_VERB,
    ROLLBACK,
    ROUND_OPEN,
    ROUND_SEAL,
)
from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.model.envelope import CapacityOverride, Envelope
from kernel.model.receipt import Receipt
from kernel.model.recomputes import RECALCULATE
from kernel.records.capacity import (
    BACKGROUND_PRIORITIES,
    CapacityGrant,
    CapacityPort,
    KernelCostGovernance,
    estimate,
    governance_of,
)
from kernel.transaction.checks.check import Passage, Refusal, Submission, Verdict, printable_excerpt
from kernel.transaction.operation_counts import operations_of_day, operations_of_run, run_of
from kernel.values.host import iso_time


def check_policy(submission: Submission) -> Verdict:
    """Refuse a missing or superseded policy generation; the caller refreshes and resubmits."""
    stated, current = (
        submission.envelope.policy_generation_id,
        submission.transaction.policy_generation_id(),
    )
    if stated == current:
        return None
    return Refusal(
        "envelope_policy_generation_stale",
        "policy_generation_id",
        f"in force is {current}, given was {printable_excerpt(stated)}",
    )


_PRIORITY_OF_USERS = "user_active_session"
_PRIORITY_OF_OTHERS = "background_normal"

_US_PER_S = 1_000_000
_S_PER_DAY = 24 * 3600

_SETTLING = frozenset(
    {
        RECALCULATE,
        "policy_snapshot_advance",
        REPORT_VERB,
        BATCH_REVIEW,
        BELIEF_ANCHOR,
        IMPLICATION_RUN,
        IMPLICATION_HALT,
        *(LANDSCAPE_SEAL, RECEIPTS_SEAL),
        FIRE_RECORD,
        ROLLBACK,
        EPOCH_ROLLBACK,
        REBUILD,
        *(AUDIT_VERIFY_CHAIN, MERKLE_FINALIZE, AUDIT_SESSION_END, ROUND_OPEN, ROUND_SEAL),
        *OPERATOR_VERBS,
    }
)
"""Verbs that the runtime speaks to settle what was begun."""

_COST_FIELD = "affected_subgraph_descriptor.estimated_capacity_cost"


def _judge_override(envelope: Envelope, override: CapacityOverride) -> Refusal | None:
    """Refuse an override that no user confirms, or somebody else than whose key brings it."""
    if envelope.actor != "user":
        message = "only a user confirms that something goes on without capacity"
        return Refusal("envelope_actor_unauthorized", "capacity_override", message)
    if envelope.principal is not None and override.confirmed_by != envelope.principal:
        message = f"{envelope.principal} confirms it, and nobody in the name of others"
        return Refusal("principal_differs", "capacity_override.confirmed_by", message)
    return None


def check_capacity(submission: Submission) -> Verdict:
    """Refuse what is beyond a quota or without capacity; say when it may be sent again."""
    governance = governance_of(submission.transaction)
    if submission.envelope.capacity_override is not None:
        refusal = _judge_override(submission.envelope, submission.envelope.capacity_override)
        if refusal is not None:
            return refusal
    refusal = _check_rate(submission, governance)
    if governance.on_quota_exceeded != "alert_and_continue":
        refusal = (
            refusal or _check_quota(submission, governance) or _check_budget(submission, governance)
        )
    if submission.capacity is None or not governance.consumes_ec_capacity_lease:
        return refusal
    return refusal or _check_lease(submission, submission.capacity, governance)


def priority_of(envelope: Envelope) -> str:
    """Return the priority of an operation: as stated, else by who acts."""
    if envelope.recompute_priority is not None:
        return envelope.recompute_priority
    return _PRIORITY_OF_USERS if envelope.actor == "user" else _PRIORITY_OF_OTHERS


def estimated_cost(envelope: Envelope) -> float:
    """Return what an operation is estimated to cost: as stated, and no less than by its effects.

    An author who states nothing, or too little, draws on capacity all the same.
    """
    scope = envelope.affected_subgraph_descriptor
    stated = 0.0 if scope is None else scope.estimated_capacity_cost
    return estimate(stated, len(envelope.primitive_effects))


def _check_rate(submission: Submission, governance: KernelCostGovernance) -> Refusal | None:
    limit = governance.throttle_ops_per_sec or submission.throttle_ops_per_sec
    if limit is None or not _is_background(submission.envelope):
        return None
    transaction = submission.transaction
    # One row suffices: with fewer operations in the last second it would be older.
    row = transaction.peek(schema.kernel_event_log, transaction.begun_at_sequence + 1 - limit)
    second_ago_us = transaction.head_now.committed_at_us - _US_PER_S
    if row is None or row["committed_at"] <= iso_time(second_ago_us) or not _can_wait(submission):
        return None
    message = f"more than {limit} operations in a second; background work waits"
    return Refusal("emergency_throttle", "recompute_priority", message, retry_after_s=1)


def _is_background(envelope: Envelope) -> bool:
    return envelope.actor != "user" and priority_of(envelope) in BACKGROUND_PRIORITIES


def _can_wait(submission: Submission) -> bool:
    """Tell whether background work comes back by itself when it is put off."""
    if submission.envelope.semantic_intent == RECALCULATE:
        return True
    return not _settles(submission) and not _is_extracted(submission)


def _is_extracted(submission: Submission) -> bool:
    """Tell whether the runtime records what a try of an extraction came to: a claim, or its end."""
    if submission.submitter != "orchestrator":
        return False
    payloads = [effect.payload for effect in submission.envelope.primitive_effects]
    if submission.envelope.semantic_intent == "extraction_state_change":
        return not any(payload.get("current_state") == "running" for payload in payloads)
    return any("extracted" in payload for payload in payloads)


def _check_quota(submission: Submission, governance: KernelCostGovernance) -> Refusal | None:
    if _settles(submission):
        return None
    kind, now_us = submission.envelope.operation_kind, submission.transaction.head_now
    quota = governance.quota_of(kind)
    count = operations_of_day(submission.transaction, now_us.committed_at_us, kind)
    if count < quota:
        return None
    alert: Document = {"operation_kind": kind, "operation_count": count, "quota": quota}
    queued = governance.on_quota_exceeded == "queue_pending"
    return Refusal(
        "quota_exceeded",
        "operation_kind",
        f"{count} operations of kind {kind} today, the quota is {quota}",
        retry_after_s=_until_midnight_s(now_us.committed_at_us) if queued else None,
        details={} if queued else {"alert": alert},
    )


def _check_budget(submission: Submission, governance: KernelCostGovernance) -> Refusal | None:
    budget = governance.per_run_write_budget
    run = None if budget is None else run_of(submission.envelope)
    if budget is None or run is None:
        return None
    count = operations_of_run(submission.transaction, run)
    if count < budget or _settles(submission):
        return None
    field = "session_id" if submission.envelope.run_id is None else "run_id"
    return Refusal(
        "run_write_budget_exceeded",
        field,
        f"{count} operations in this run, its budget is {budget}",
        details={"alert": {"run_id": run, "operation_count": count, "quota": budget}},
    )


def _check_lease(
    submission: Submission, capacity: CapacityPort, governance: KernelCostGovernance
) -> Verdict:
    envelope = submission.envelope
    priority, cost = priority_of(envelope), estimated_cost(envelope)
    lease = capacity.lease(envelope.operation_kind, priority)
    if lease.granted and lease.cost_remaining >= cost:
        return _draw_on(envelope, lease, governance)
    if envelope.capacity_override is not None:
        confirmation = envelope.capacity_override.model_dump(include={"confirmed_by", "reason"})
        about = _about(envelope, lease) | _shortage(lease) | confirmation
        return Passage((Receipt("capacity_override", about),), cost=cost)
    strategy = governance.ec_capacity_lease_strategy
    if strategy == "alert_and_proceed" or _settles(submission):
        about = _about(envelope, lease) | _shortage(lease)
        return Passage((Receipt("capacity_alert", about),), cost=cost)
    # An operation that costs more than there can ever be would wait for ever.
    waits = strategy == "queue_until_available" and cost <= lease.ceiling
    return Refusal(
        "envelope_capacity_unavailable",
        _COST_FIELD,
        f"{envelope.operation_kind} at {priority} is paused, the system is at capacity "
        f"({_why(lease, cost)}): send it again when capacity is back, "
        "or override with explicit confirmation (capacity_override)",
        retry_after_s=lease.retry_after_s if waits else None,
        details={"ec_capacity_lease_id": lease.ec_capacity_lease_id} | _shortage(lease),
    )


def _settles(submission: Submission) -> bool:
    """Tell whether the runtime writes this envelope to settle what was begun."""
    envelope = submission.envelope
    return submission.submitter == "orchestrator" and (
        envelope.semantic_intent in _SETTLING or envelope.compensates_operation_id is not None
    )


def _draw_on(
    envelope: Envelope, lease: CapacityGrant, governance: KernelCostGovernance
) -> Passage | None:
    if not lease.ec_capacity_lease_id:
        return None
    attributed = governance.cost_attribution_by_transactional_intent
    receipts = (Receipt("capacity_lease", _about(envelope, lease)),) if attributed else ()
    return Passage(receipts, cost=estimated_cost(envelope))


def _about(envelope: Envelope, lease: CapacityGrant) -> Document:
    return {
        "operation_kind": envelope.operation_kind,
        "priority": priority_of(envelope),
        "estimated_cost": estimated_cost(envelope),
        "ec_capacity_lease_id": lease.ec_capacity_lease_id,
    }


def _shortage(lease: CapacityGrant) -> Document:
    about: Document = {"lease_granted": lease.granted, "lease_known": lease.known}
    # A lease without a bound, or one that cannot be read, has no number to state.
    if isfinite(lease.cost_remaining):
        about["cost_remaining"] = lease.cost_remaining
    return about


def _why(lease: CapacityGrant, cost: float) -> str:
    if not lease.known:
        return "its leases cannot be read"
    if cost > lease.ceiling:
        return f"it costs {cost:g}, and there are never more than {lease.ceiling:g}"
    return "not enough is left" if lease.granted else "nothing is granted"


def _until_midnight_s(now_us: int) -> int:
    return _S_PER_DAY - now_us // _US_PER_S % _S_PER_DAY
