"""Declares what evaluates a binding, and a fleet's capacity to do so (§13.4, §14.3)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import anyio.to_thread

from kernel.ledger.ledger import Ledger, LedgerView, Request
from kernel.model.bindings.dispatch import EvaluatedOn
from kernel.model.bindings.outcomes import BindingOutcomeRecord
from kernel.model.bindings.particulars import NONE_STATED, Particulars
from kernel.records.source_artifacts import Artifact, read_artifact
from kernel.values.pressure import (
    NOTHING,
    ONE_SLOT,
    RUN,
    CapacityState,
    Course,
    capacity_signal,
    course_of,
)
from kernel.values.priorities import CapacityPriority
from kernel.work.evaluations import evaluate_request
from kernel.work.reports import ReportedCapacity
from queues.leases.capacity_leases import CAPACITY_RESOURCE, CapacityLeases
from queues.leases.lease_holder import LeaseHolder, capacity_of
from queues.queue.work_queue import WorkQueue
from workers.environment.foreign_threads import call_within

EVALUATION_S_MAX = 30.0
READ_S_MAX = 25.0
"""How long a reader of a plug-in may take of that."""

LEASE_TTL_MS = 5_000
"""How long the slot of a worker that died is missing; one that evaluates renews it."""


class MidEvaluationRejection(Exception):
    """Raised by an evaluator to which capacity was refused; it has stopped and changed nothing."""

    def __init__(
        self, binding_evaluation_id: str | None = None, *, retry_eligible: bool = True
    ) -> None:
        super().__init__("capacity was refused")
        self.binding_evaluation_id = binding_evaluation_id
        self.retry_eligible = retry_eligible


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an evaluation came to, and what the artifact's text was read to say for it."""

    outcome: BindingOutcomeRecord
    evaluated_on: EvaluatedOn
    particulars: Particulars = NONE_STATED


class BindingEvaluator(Protocol):
    """Evaluates a binding against its event (§13.4)."""

    async def evaluate(self, request: Request) -> Evaluated:
        """Evaluate; cancelled after `EVALUATION_S_MAX`, and may be asked again for one request.

        Raises:
            MidEvaluationRejection: when capacity was refused under way (§14.3).
        """


class ParticularsReader(Protocol):
    """Reads of an artifact what its fields do not say and the target of a fire has to state."""

    def read(self, view: LedgerView, target_kind: str, artifact: Artifact) -> Particulars:
        """Return what the text says, with the stretches that say it; called on a thread."""


class ReadersOfPlugins:
    """Reads by the plug-in that claims a target kind, else by the reader of this distribution."""

    def __init__(self, by_kind: Mapping[str, ParticularsReader], other: ParticularsReader) -> None:
        self._by_kind = by_kind
        self._other = other

    def read(self, view: LedgerView, target_kind: str, artifact: Artifact) -> Particulars:
        """Return what the text says; see `ParticularsReader`."""
        reader = self._by_kind.get(target_kind)
        if reader is None:
            return self._other.read(view, target_kind, artifact)
        particulars: object = call_within(READ_S_MAX, reader.read, view, target_kind, artifact)
        if not isinstance(particulars, Particulars):
            raise TypeError(f"it returned a {type(particulars).__name__}, no Particulars")
        return particulars


class RecordEvaluator:
    """Evaluates by the record, at the newest snapshot (§13.4); writes nothing."""

    def __init__(self, ledger: Ledger, reader: ParticularsReader) -> None:
        self._ledger = ledger
        self._reader = reader

    async def evaluate(self, request: Request) -> Evaluated:
        """Evaluate on a thread of its own."""
        return await anyio.to_thread.run_sync(self._evaluate, request)

    def _evaluate(self, request: Request) -> Evaluated:
        with self._ledger.view() as view:
            evaluation = evaluate_request(view, request)
            if not evaluation.reads_text:
                return Evaluated(evaluation.outcome, evaluation.read)
            artifact = read_artifact(view, str(evaluation.read.artifact_ref))
            if artifact is None:
                return Evaluated(evaluation.outcome, evaluation.read)
            kind = evaluation.outcome.target_kind
            particulars = self._reader.read(view, kind, artifact)
            evaluation = evaluate_request(view, request, particulars)
            return Evaluated(evaluation.outcome, evaluation.read, particulars)


class BindingCapacity:
    """The slots in which a fleet evaluates bindings, and what is known of them."""

    def __init__(
        self, leases: CapacityLeases, queue: WorkQueue, slots: int, worker_id: str
    ) -> None:
        self._leases = leases
        self._queue = queue
        self._capacity = capacity_of(slots)
        self._worker_id = worker_id
        self._turn = 0
        self._holders: set[LeaseHolder] = set()
        """The holders that have a slot now, or ask for one."""

    async def least_capacity(self) -> CapacityPriority:
        """Return the least capacity priority that would not be suspended now."""
        course = course_of(await self._state(), "background")
        return "user_initiated" if course.action == "suspend" else "background"

    @asynccontextmanager
    async def holder(self) -> AsyncIterator[LeaseHolder]:
        """Yield the holder of a slot for a batch; `course` takes the slot, and it is renewed."""
        self._turn += 1
        holder = LeaseHolder(self._leases, f"{self._worker_id}/{self._turn}", LEASE_TTL_MS)
        self._holders.add(holder)
        try:
            yield holder
        finally:
            self._holders.discard(holder)
            await holder.release()

    async def renew(self) -> None:
        """Keep every slot that is held here for another time to live."""
        for holder in tuple(self._holders):
            await holder.renew()

    async def course(self, holder: LeaseHolder, priority: CapacityPriority) -> Course:
        """Take a slot for the holder at this priority, or return what to do without one."""
        if await holder.hold(CAPACITY_RESOURCE, self._capacity, priority):
            return RUN
        await holder.release()
        return course_of(await self._state(), priority)

    async def signal(self, holder: LeaseHolder, priority: CapacityPriority) -> ReportedCapacity:
        """Return what is known of the capacity; a holder of a slot wants no other."""
        depth = await self._queue.depth()
        waiting = sum(depth.ready.values()) + sum(depth.suspended.values()) + depth.delayed
        amount = ONE_SLOT if holder.lease is None else NOTHING
        signal = capacity_signal(await self._state(), priority, waiting, amount)
        return ReportedCapacity.model_validate(signal)

    async def _state(self) -> CapacityState:
        return await self._leases.state(CAPACITY_RESOURCE, self._capacity)
