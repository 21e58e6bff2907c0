"""The port of whatever evaluates a binding, and the capacity of a fleet to do so (§13.4, §14.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

from kernel.work.contents import BindingEvaluation
from kernel.work.reports import CapacitySignal, OutcomeState
from queues.leases import CapacityLeases, Lease
from queues.queue import WorkQueue

EVALUATION_S_MAX = 30.0
LEASE_TTL_MS = 60_000
"""Longer than an evaluation may take."""

CAPACITY_RESOURCE = "binding_evaluation"

Pressure = Literal["suspend", "throttle", "run"]

UNDER_PRESSURE: Mapping[str, Pressure] = MappingProxyType(
    {"background": "suspend", "user_initiated": "throttle", "critical": "run"}
)
"""What a binding does without capacity, by its capacity priority (§14.2); most urgent last."""


class MidEvaluationRejection(Exception):  # noqa: N818 - named for what happened
    """Raised by an evaluator to which capacity was refused; it has stopped and changed nothing."""

    def __init__(
        self, binding_evaluation_id: str | None = None, *, retry_eligible: bool = True
    ) -> None:
        super().__init__("capacity was refused")
        self.binding_evaluation_id = binding_evaluation_id
        self.retry_eligible = retry_eligible


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an evaluation came to; an evaluator's is not pending."""

    outcome_state: OutcomeState
    outcome_reason_code: str
    outcome_target_ref: str | None = None


class BindingEvaluator(Protocol):
    """Whatever evaluates a binding against its event (§13.4)."""

    async def evaluate(self, request_id: str, evaluation: BindingEvaluation) -> Evaluated:
        """Evaluate; cancelled after `EVALUATION_S_MAX`, and may be asked again for one request.

        Raises:
            MidEvaluationRejection: when capacity was refused under way (§14.3).
        """


class BindingCapacity:
    """The slots in which a fleet evaluates bindings, and what is known of them."""

    def __init__(
        self, leases: CapacityLeases, queue: WorkQueue, slots: int, worker_id: str
    ) -> None:
        self._leases = leases
        self._queue = queue
        self._slots = slots
        self._worker_id = worker_id
        self._turn = 0

    async def acquire(self) -> Lease | None:
        """Take a slot, None where none is free."""
        self._turn += 1
        holder = f"{self._worker_id}/{self._turn}"
        return await self._leases.acquire(CAPACITY_RESOURCE, self._slots, holder, LEASE_TTL_MS)

    async def release(self, lease: Lease) -> None:
        """Give a slot back."""
        await self._leases.release(lease)

    async def signal(self, *, granted: bool) -> CapacitySignal:
        """Return what is known of the capacity now."""
        depth = await self._queue.depth()
        return CapacitySignal(
            ec_capacity_lease_state="granted" if granted else "not_granted",
            queue_depth=sum(depth.ready.values()) + depth.delayed,
            inflight_operations=depth.in_flight,
        )
