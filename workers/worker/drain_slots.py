"""Runs drain slots: each takes a lease for a queue, claims a batch, and rests until there is more.

A slot takes its lease at the least capacity priority that has room, and claims items that are at
least as urgent (§8.3, §14.2). When there is no room at all, critical work is claimed all the same,
a user's after a pause, and the background waits. A slot does not claim what its handler would
suspend (`Handler.least_capacity`), or the item would come back at once. One slot beside the others
serves critical work alone (decision workers/0035).

A slot belongs to no queue (`queue_turns.py`) and holds a lease only while it drains. One connection
for each queue waits for work, whatever the number of slots, and a second one for critical work
while all slots are busy. An idle worker sends about one command a second: these waits, which last
ten seconds, a heartbeat every four seconds, and the crons. The claims and leases of a worker that
died come back within eight seconds, because they last five and are renewed each second.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import structlog

from kernel.values.pressure import course_of
from kernel.values.priorities import CAPACITY_PRIORITIES, CapacityPriority
from queues.errors import QueueError
from queues.leases.capacity_leases import CapacityLeases
from queues.leases.lease_holder import LeaseHolder, capacity_of
from queues.queue.items import Claim
from queues.queue.priorities import least_of
from queues.queue.work_queue import WorkQueue
from workers.worker import batch_progress
from workers.worker.batch_progress import BatchProgress
from workers.worker.batches import BatchProcessor
from workers.worker.metrics import WorkerMetrics
from workers.worker.queue_turns import is_fair, turn_order

_log = structlog.get_logger(__name__)

VISIBILITY_MS = 5_000
"""How long the claims of a dead worker stay hidden; a living worker renews its own."""

RENEW_EVERY_S = 1.0
LEASE_TTL_MS = 5_000
LEASE_RETRY_MS = 250
"""Pause after which a slot that had to leave an item looks for capacity again."""

IDLE_WAIT_S = 10.0
"""How long a wait may be deaf, because a flushed Redis forgets who waits."""

GATEWAY_RETRY_S = 0.5
PEEKED = 8
"""Names at the head of a queue among which a slot looks for an item; the others may be foreign."""

STUCK_PAUSE_S = 0.02
"""Pause after a batch of which nothing left the queue: something else has to happen first."""


@dataclass(frozen=True, slots=True)
class ClaimPermit:
    """What a slot may claim from a queue now, by the least urgent priority; None for nothing."""

    at_once: str | None
    after_pause: str | None = None
    pause_ms: int = 0
    """Seconds after which to look again, 0 when nothing is left out."""


async def next_deadline_ms(queue: WorkQueue) -> int | None:
    """Return the deadline of what the queue would serve next, None where nothing is ready.

    What cannot be read at the head does not hide the items behind it.
    """
    items = await queue.peek(PEEKED)
    return items[0].deadline_ms if items else None


@dataclass(slots=True)
class _Slot:
    holder: LeaseHolder
    floor: CapacityPriority
    """The least urgent priority that the slot serves at all."""


class QueueWakeSignal:
    """Wakes resting slots when a queue may have something for them."""

    def __init__(self, behind: "QueueWakeSignal | None" = None) -> None:
        """While a slot of the signal `behind` this one rests, this one is silent."""
        self._behind = behind
        self._resting = 0
        self._somebody_rests = anyio.Event()
        self._nobody_rests = anyio.Event()
        self._nobody_rests.set()
        self._rings = anyio.Event()

    @asynccontextmanager
    async def resting(self) -> AsyncIterator[anyio.Event]:
        """Listen to the queues while the block runs; yields the event of the next ring."""
        self._resting += 1
        self._somebody_rests.set()
        self._nobody_rests = anyio.Event()
        try:
            yield self._rings
        finally:
            self._resting -= 1
            if not self._resting:
                self._somebody_rests = anyio.Event()
                self._nobody_rests.set()

    async def listen(self, queue: WorkQueue, least_urgent: str) -> None:
        """Wait on a queue while a slot rests; one connection, whatever the number of slots."""
        while True:
            await self._somebody_rests.wait()
            if self._behind is not None:
                await self._behind._nobody_rests.wait()  # noqa: SLF001 - of the same kind
            if await queue.wait(IDLE_WAIT_S, least_urgent):
                self._rings.set()
                self._rings = anyio.Event()
                # The slots that were woken look before this one waits again.
                await anyio.lowlevel.checkpoint()


@dataclass(slots=True)
class DrainSlots:
    """The slots of one process, what they share, and the batches that they have in hand."""

    processors: Mapping[str, BatchProcessor]
    """The drainers by the name of their queue."""

    leases: CapacityLeases
    lease_slots: int
    stopping: anyio.Event
    metrics: WorkerMetrics
    _served: dict[str, int] = field(default_factory=dict)
    _serving: int = 0
    _in_hand: dict[str, tuple[WorkQueue, Sequence[Claim]]] = field(default_factory=dict)
    """The batch that a slot has begun, by the slot's holder."""

    _signals: dict[CapacityPriority, QueueWakeSignal] = field(default_factory=dict)
    """The signals, by the least priority of the slots that hear them."""

    def listeners(self) -> list[tuple[QueueWakeSignal, WorkQueue, str]]:
        """Return the listeners to run while slots drain: `QueueWakeSignal.listen` of each queue."""
        all_priorities = QueueWakeSignal()
        self._signals = {
            "background": all_priorities,
            "critical": QueueWakeSignal(behind=all_priorities),
        }
        return [
            (signal, processor.queue, least_urgent)
            for floor, signal in self._signals.items()
            for processor in self.processors.values()
            if (least_urgent := least_of(processor.queue.priorities, floor)) is not None
        ]

    async def drain(self, holder: str, turn_s: float, *, critical_alone: bool) -> None:
        """Drain under leases of this holder until the turn is over or the process stops."""
        floor: CapacityPriority = "critical" if critical_alone else "background"
        slot = _Slot(LeaseHolder(self.leases, holder, LEASE_TTL_MS), floor)
        try:
            with anyio.move_on_after(turn_s):
                while not self.stopping.is_set():
                    await self._drain_once(slot)
        finally:
            await slot.holder.release()

    async def give_back(self) -> None:
        """Return unfinished batches to their queues, at once and untried."""
        while self._in_hand:
            _, (queue, claims) = self._in_hand.popitem()
            await queue.put_off(claims, [0] * len(claims), "worker_stopped")

    async def _drain_once(self, slot: _Slot) -> None:
        """Serve a batch of the queue whose turn it is, or rest until there may be one."""
        gateway_away, pressed = False, list[tuple[BatchProcessor, ClaimPermit]]()
        for processor in await self._in_turn(slot):
            if not await processor.ready():
                gateway_away = True
                continue
            permit = await self._permit(slot, processor)
            if await self._serve(slot, processor, permit.at_once):
                return
            if permit.pause_ms:
                pressed.append((processor, permit))
        await slot.holder.release()
        if gateway_away:
            await self._rest(GATEWAY_RETRY_S)
        elif pressed:
            await self._rest(min(permit.pause_ms for _, permit in pressed) / 1000)
            for processor, permit in pressed:
                if self.stopping.is_set() or await self._serve(slot, processor, permit.after_pause):
                    return
        else:
            async with self._signals[slot.floor].resting() as rings:
                await self._until_stopped(rings.wait())

    async def _in_turn(self, slot: _Slot) -> list[BatchProcessor]:
        self._serving += 1
        processors = {
            name: processor
            for name, processor in self.processors.items()
            if least_of(processor.queue.priorities, slot.floor) is not None
        }
        if len(processors) == 1:
            return list(processors.values())
        deadlines: dict[str, int | None] = dict.fromkeys(processors)
        for name, processor in processors.items():
            if is_fair(self._serving):
                break
            deadlines[name] = await next_deadline_ms(processor.queue)
        order = turn_order(deadlines, self._served, self._serving)
        return [processors[name] for name in order]

    async def _permit(self, slot: _Slot, processor: BatchProcessor) -> ClaimPermit:
        """Take a lease at the least priority that has room; say what goes on where none has.

        A lease of the reserve of critical work changes nothing for users: their work is throttled.
        """
        queue, capacity = processor.queue, capacity_of(self.lease_slots)
        floor = max(slot.floor, await processor.least_capacity(), key=CAPACITY_PRIORITIES.index)
        for priority in CAPACITY_PRIORITIES[CAPACITY_PRIORITIES.index(floor) :]:
            least_urgent = least_of(queue.priorities, priority)
            if least_urgent is not None and await slot.holder.hold(queue.name, capacity, priority):
                if priority == slot.floor:
                    return ClaimPermit(least_urgent)
                if priority != "critical":
                    return ClaimPermit(least_urgent, pause_ms=LEASE_RETRY_MS)
        critical = least_of(queue.priorities, "critical")
        if slot.floor == "critical":
            return ClaimPermit(critical)
        course = course_of(await self.leases.state(queue.name, capacity), "user_initiated")
        users = least_of(queue.priorities, "user_initiated")
        return ClaimPermit(critical, users, max(1, course.for_ms))

    async def _serve(
        self, slot: _Slot, processor: BatchProcessor, least_urgent: str | None
    ) -> bool:
        """Claim items that are at least as urgent and drain them; False when there were none."""
        if least_urgent is None:
            return False
        claims = await processor.queue.claim(processor.claim_items, VISIBILITY_MS, least_urgent)
        if not claims:
            return False
        self._served[processor.queue.name] = self._serving
        if not await self._finish(slot, processor, claims):
            await self._rest(STUCK_PAUSE_S)
        return True

    async def _finish(
        self, slot: _Slot, processor: BatchProcessor, claims: Sequence[Claim]
    ) -> bool:
        """Drain a batch to its end once it was begun, because it may be on the record already."""
        moved, began_s = False, time.perf_counter()
        self.metrics.note_claims(processor.queue.name, claims)
        self._in_hand[slot.holder.name] = (processor.queue, claims)
        progress = BatchProgress()
        with anyio.CancelScope(shield=True), progress.follow():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._renew, slot, processor, claims, progress)
                moved = await processor.drain(claims)
                tasks.cancel_scope.cancel()
        # Not where it was cut off: then the batch is given back, or was so already.
        self._in_hand.pop(slot.holder.name, None)
        self.metrics.note_drained(processor.queue.name, time.perf_counter() - began_s)
        return moved

    async def _renew(
        self,
        slot: _Slot,
        processor: BatchProcessor,
        claims: Sequence[Claim],
        progress: BatchProgress,
    ) -> None:
        while True:
            await anyio.sleep(RENEW_EVERY_S)
            if progress.stalled_s >= batch_progress.PROGRESS_S_MAX:
                _log.error("batch_makes_no_progress", queue=processor.queue.name, items=len(claims))
                return
            with contextlib.suppress(QueueError):  # settling the claims will show it
                await processor.renew(claims, VISIBILITY_MS)
                await slot.holder.renew()

    async def _rest(self, seconds: float) -> None:
        await self._until_stopped(anyio.sleep(seconds))

    async def _until_stopped(self, waiting: Awaitable[Any]) -> None:
        """Await something until a stop cuts it short."""

        async def stop_early() -> None:
            await self.stopping.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_early)
            await waiting
            tasks.cancel_scope.cancel()
