"""V11: an operation stays inside its quotas and the capacity that is leased (§2.2, §18, K4).

1. Above a threshold that the policy states, operations of a background priority are put off.
2. A day's quota for a kind, and a run's budget, refuse or put off as the policy says. Where it
   says to go on, applying the operation tells of it (`operation_counts`).
3. Capacity that is not there refuses, or puts off, or is told of on a receipt of its own: the
   lease is not on the record, so that receipt is not the operation's.
"""

from math import isfinite

from kernel.capacity import (
    BACKGROUND_PRIORITIES,
    KernelCostGovernance,
    estimated_cost,
    governance_of,
    priority_of,
)
from kernel.checks.check import Passage, Refusal, Submission, Verdict
from kernel.host import iso_time
from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.model.receipt import Receipt
from kernel.operation_counts import operations_of_day, operations_of_run, run_of

_US_PER_S = 1_000_000
_S_PER_DAY = 24 * 3600

_COST_FIELD = "affected_subgraph_descriptor.estimated_capacity_cost"


def check(submission: Submission) -> Verdict:
    """Refuse what is beyond a quota or without capacity; say when it may be sent again."""
    governance = governance_of(submission.transaction)
    return (
        _check_rate(submission, governance)
        or _check_quota(submission, governance)
        or _check_budget(submission, governance)
        or _check_lease(submission, governance)
    )


def _check_rate(submission: Submission, governance: KernelCostGovernance) -> Refusal | None:
    limit = governance.throttle_ops_per_sec
    if limit is None or priority_of(submission.envelope) not in BACKGROUND_PRIORITIES:
        return None
    head = submission.transaction.head_now
    # One row tells: were there fewer in the last second, it would be older.
    row = submission.transaction.tables.get(
        schema.kernel_event_log, head.ec_sequence_number + 1 - limit
    )
    if row is None or row["committed_at"] <= iso_time(head.committed_at_us - _US_PER_S):
        return None
    message = f"more than {limit} operations in a second; background work waits"
    return Refusal("emergency_throttle", "recompute_priority", message, retry_after_s=1)


def _check_quota(submission: Submission, governance: KernelCostGovernance) -> Refusal | None:
    kind, now_us = submission.envelope.operation_kind, submission.transaction.head_now
    quota = governance.quota_of(kind)
    count = operations_of_day(submission.transaction, now_us.committed_at_us, kind)
    alert: Document = {"operation_kind": kind, "operation_count": count, "quota": quota}
    if count < quota or governance.on_quota_exceeded == "alert_and_continue":
        return None
    queued = governance.on_quota_exceeded == "queue_pending"
    return Refusal(
        "quota_exceeded",
        "operation_kind",
        f"{count} operations of kind {kind} today, the quota is {quota}",
        retry_after_s=_until_midnight_s(now_us.committed_at_us) if queued else None,
        details={} if queued else {"alert": alert},
    )


def _check_budget(submission: Submission, governance: KernelCostGovernance) -> Refusal | None:
    budget, run = governance.per_run_write_budget, run_of(submission.envelope)
    if budget is None or run is None or governance.on_quota_exceeded == "alert_and_continue":
        return None
    count = operations_of_run(submission.transaction, run)
    if count < budget:
        return None
    field = "session_id" if submission.envelope.run_id is None else "run_id"
    return Refusal(
        "run_write_budget_exceeded",
        field,
        f"{count} operations in this run, its budget is {budget}",
        details={"alert": {"run_id": run, "operation_count": count, "quota": budget}},
    )


def _check_lease(submission: Submission, governance: KernelCostGovernance) -> Verdict:
    if not governance.consumes_ec_capacity_lease:
        return None
    envelope = submission.envelope
    priority, cost = priority_of(envelope), estimated_cost(envelope)
    lease = submission.capacity.lease(envelope.operation_kind, priority)
    about: Document = {
        "operation_kind": envelope.operation_kind,
        "priority": priority,
        "estimated_cost": cost,
        "ec_capacity_lease_id": lease.ec_capacity_lease_id,
    }
    if lease.granted and lease.cost_remaining >= cost:
        if lease.ec_capacity_lease_id and governance.cost_attribution_by_transactional_intent:
            return Passage((Receipt("capacity_lease", about),))
        return None
    strategy = governance.ec_capacity_lease_strategy
    if strategy == "alert_and_proceed":
        about["lease_granted"] = lease.granted
        # A lease without a bound, or one that cannot say, has no number to tell.
        if isfinite(lease.cost_remaining):
            about["cost_remaining"] = lease.cost_remaining
        return Passage((Receipt("capacity_alert", about),))
    short = "not enough capacity is left" if lease.granted else "no capacity is granted"
    return Refusal(
        "envelope_capacity_unavailable",
        _COST_FIELD,
        f"{short} for {envelope.operation_kind} at {priority}",
        retry_after_s=lease.retry_after_s if strategy == "queue_until_available" else None,
    )


def _until_midnight_s(now_us: int) -> int:
    return _S_PER_DAY - now_us // _US_PER_S % _S_PER_DAY
