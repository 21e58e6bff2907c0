"""Reports of attempts that failed, as a worker makes them."""

from typing import Any

from kernel.work.reports import AttemptError, AttemptFailed, AttemptSnoozed, Delivery, WorkerLost
from kernel.work.retry_policy import DEFAULT_POLICY

STARTED_US = 1_750_000_000_000_000


def delivery(claim: str = "claim-1", **fields: Any) -> Delivery:
    times = {"started_at_us": STARTED_US, "ended_at_us": STARTED_US + 1_500_000}
    return Delivery(claim=claim, **{"worker": "worker-1", **times, **fields})


def failed(request_id: str, claim: str = "claim-1", **fields: Any) -> AttemptFailed:
    """An attempt with a claim failed; `code` and `signature` are of its error."""
    code = fields.pop("code", "handler_failed: ValueError")
    error = AttemptError(
        code=code,
        error_class="ValueError",
        message="no such image",
        traceback="Traceback (most recent call last):\n",
        signature=fields.pop("signature", "ValueError in jobs.resize: no such image"),
    )
    stated = {"policy": DEFAULT_POLICY, "random_unit": 0.5, "error": error}
    held = {"delivery": delivery(claim)}
    return AttemptFailed(request_id=request_id, **{**stated, **held, **fields})


def snoozed(request_id: str, claim: str, pause_ms: int, **fields: Any) -> AttemptSnoozed:
    stated = {"policy": DEFAULT_POLICY, **fields}
    held = delivery(claim)
    return AttemptSnoozed(request_id=request_id, delivery=held, pause_ms=pause_ms, **stated)


def lost(request_id: str, claim: str, worker_ends: int, **fields: Any) -> WorkerLost:
    stated = {"policy": DEFAULT_POLICY, **fields}
    held = delivery(claim)
    return WorkerLost(request_id=request_id, delivery=held, worker_ends=worker_ends, **stated)


def given_up(request_id: str, error_signature: str) -> AttemptFailed:
    """An attempt failed that is the last one, whatever the policy."""
    return failed(request_id, "last-claim", code=error_signature, final=True)
