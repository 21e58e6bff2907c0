"""Relays open requests of the ledger into the queue, as items.

The ledger is the truth and Redis a hint, so the relay only ever sends what is open, and may send
it again. It sends a request once when it is recorded; once more when Redis has lost its mark (it
was flushed or replaced); and once more after a while, because a server that was killed may have
kept its mark and lost its last second. A request that has to wait for another is held until that
one is done: an understanding that is fed by one that waits (K12), a step of an extraction behind an
earlier one of its run (§16.4). A request with a delay is not sent before its time, by the ledger's
clock, because a flush would bring it back without its delay; the sweep of each second finds it.
What was suspended before Redis lost it is sent with the time of its first suspension, which the
record tells, and waits in that order again (decision queues/0084). What failed before is sent with
its attempts and the time that it waits yet, which the ledger has (decision kernel/0680).
A pause that an operator decided holds in Redis too: each look compares what the ledger and Redis
say, and puts Redis right before anything is sent, so a lost Redis forgets no pause
(decision queues/0065). While Redis has no room beside what draining needs (`redis/memory.py`),
nothing is sent; a later sweep finds what was left out.
Where gateways share a ledger, the one that holds a `RelayLease` relays its queue. Its epoch is
the mark of the queue. Whoever takes the lease over sweeps once and leaves its own mark, and
from then on Redis refuses what the relay before it sends (decision queues/0068).
`route_of` says for each queue what may be sent, and as what (decision queues/0027).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Protocol

import anyio
import anyio.to_thread
import structlog

from kernel.authority.read_ahead import Around, read_ahead
from kernel.authority.requests import (
    AUTHORITY_QUEUE,
    CASCADE_QUEUE,
    awaited_requests,
    freed_requests,
    ready_items,
)
from kernel.ledger.ledger import Ledger, LedgerView, Request
from kernel.ledger.shards import Fence, holds
from kernel.values.errors import LedgerUnavailable
from kernel.values.fleet_protocol import protocol_payload
from kernel.work.attempts import WaitingRetry, waiting_retries
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.pauses import pauses_of
from kernel.work.ready_requests import due, first_of_each_run, next_of_runs, suspension_times
from queues.errors import REDIS_FAILED, QueueError
from queues.queue.items import (
    BATCH_ITEMS_MAX,
    DURATION_MS_MAX,
    ItemRetry,
    NewItem,
    cause_id,
    short_name,
)
from queues.queue.queue_view import ANY_RELAY
from queues.queue.work_queue import WorkQueue
from queues.redis.memory import RedisMemory

PAGE_REQUESTS = 1000
RESEND_AFTER_S = 5.0
SWEEP_EVERY_S = 1.0
PAUSE_BETWEEN_SENDS_S = 0.01
"""Lets commits of that time be sent together; an idle relay sends at once."""

PAUSE_AWAY_MAX_S = 1.0
"""The longest pause while Redis or the ledger is away."""

SWEEP_SHARE = 20
"""After a sweep, none is made for this many times as long as it took."""

REST_S_MAX = 30.0
"""The longest time without a sweep: what Redis lost in part, its mark left, is found by one."""

CLOSED_MAX = 5000
"""Outcomes that are followed to what they set free; beyond that a sweep is cheaper."""

KEPT_MAX = 2000
"""Items whose surroundings are read at once and kept while they are looked at."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """How the requests of one queue become items."""

    ready: Callable[[LedgerView, Sequence[Request]], list[Request]]
    """Returns those of the open requests that nothing holds back."""

    freed: Callable[[LedgerView, Sequence[str]], list[Request]]
    """Returns the requests that nothing holds back any more, now that these items are done."""

    raised: Callable[[LedgerView, Sequence[Request]], list[Request]]
    """Returns other requests that these may have made more urgent."""

    item: Callable[[Request], NewItem]

    follows_inputs: bool = False
    """Whether its rules look at the inputs of an item and at what it feeds."""

    suspended: Callable[[LedgerView, Sequence[Request]], Mapping[str, int]] = lambda _, __: {}
    """Returns when each of the requests was suspended first that was, in ms and in that order."""


class RelayLease(Protocol):
    """The right to relay a queue, which one gateway of a ledger has at a time."""

    @property
    def fence(self) -> Fence | None:
        """The fence under which this process relays, None where another does."""

    def lose(self, fence: Fence) -> None:
        """Take note that a fence is stale."""


@dataclass(slots=True)
class _Sent:
    priority: str
    at_s: float


class OutboxRelay:
    """Carries requests from one ledger to one queue; run `run` in a task group."""

    def __init__(
        self,
        ledger: Ledger,
        queue: WorkQueue,
        clock_s: Callable[[], float],
        lease: RelayLease | None = None,
    ) -> None:
        """Without a lease, nobody else relays this queue of this ledger."""
        self._ledger = ledger
        self._queue = queue
        self._lease = lease
        self._fence: Fence | None = None
        self._route = route_of(queue.name)
        self._clock_s = clock_s
        self._sent: dict[str, _Sent] = {}
        self._stamps: Mapping[str, int] = {}
        self._retries: Mapping[str, WaitingRetry] = {}
        self._held = False
        self._not_due = 0
        self._memory = RedisMemory()
        self._last_sequence = 0
        self._closed_to = 0
        self._swept_at_s = float("-inf")
        self._sweep_took_s = 0.0
        self._wake = anyio.Event()

    def notify(self) -> None:
        """Wake the relay after a commit; cheap, and harmless when called too often."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled; Redis or a ledger that is away is tried again after a pause."""
        looked_at_s, reached, pause_s = float("-inf"), True, PAUSE_BETWEEN_SENDS_S
        while True:
            look = self._clock_s() - looked_at_s >= SWEEP_EVERY_S
            try:
                await (self.look() if look else self.send_new())
                reached, pause_s = True, PAUSE_BETWEEN_SENDS_S
            except (QueueError, LedgerUnavailable) as error:
                if reached:
                    _log.warning("relay_waits", code=error.code, error=str(error))
                pause_s = min(PAUSE_AWAY_MAX_S, 4 * pause_s)
                # What was read and not sent is found again by a sweep alone.
                self._swept_at_s, look, reached = float("-inf"), True, False
            if look:
                looked_at_s = self._clock_s()
            await anyio.sleep(pause_s)
            with anyio.move_on_after(SWEEP_EVERY_S):
                await self._wake.wait()
            self._wake = anyio.Event()

    async def look(self) -> int:
        """Put pauses right; sweep when that is due or the queue has another mark, else send."""
        if not self._relays():
            return 0
        await self.restore_pauses()
        since_s = self._clock_s() - self._swept_at_s
        rest_s = min(REST_S_MAX, max(SWEEP_EVERY_S, SWEEP_SHARE * self._sweep_took_s))
        if since_s >= rest_s or await self._queue.current_mark() != self._mark:
            return await self.sweep()
        return await self.send_new()

    async def restore_pauses(self) -> None:
        """Let Redis hold the pauses that stand on the ledger, and no others.

        Redis is asked first: whoever decides writes the ledger before Redis.
        """
        held = await self._queue.paused_priorities()
        standing = await anyio.to_thread.run_sync(self._ledger.read, self._standing_pauses)
        for priority in standing - held:
            await self._queue.pause(priority)
        for priority in held - standing:
            await self._queue.resume(priority)
        if held != standing:
            paused, resumed = (
                sorted(priority or "all" for priority in changed)
                for changed in (standing - held, held - standing)
            )
            _log.info("pauses_restored", queue=self._queue.name, paused=paused, resumed=resumed)

    def _standing_pauses(self, view: LedgerView) -> frozenset[str | None]:
        return frozenset(
            pause.priority for pause in pauses_of(view) if pause.queue == self._queue.name
        )

    async def send_new(self) -> int:
        """Send what was recorded or set free since the last call; return how many that was.

        A relay that has not swept yet, or not since it failed, puts pauses right and sweeps.
        """
        if not self._relays():
            return 0
        if self._swept_at_s == float("-inf"):
            return await self.look()
        before = self._not_due
        ready = await anyio.to_thread.run_sync(self._read_new)
        if ready is None:
            return await self.sweep()
        if self._not_due != before:
            await self._queue.say_not_due(self._not_due)
        return await self._send(ready)

    async def sweep(self) -> int:
        """Send everything open that the queue may not have, and return how many that was."""
        if not self._relays():
            return 0
        began_s = self._clock_s()
        if not await self._leave_mark():
            return 0
        await self._has_room()  # so that a policy by which keys vanish is said before any does
        ready = await anyio.to_thread.run_sync(self._read_all, began_s)
        await self._queue.say_not_due(self._not_due)
        sent = await self._send(ready)
        self._swept_at_s = self._clock_s()
        self._sweep_took_s = self._swept_at_s - began_s
        return sent

    async def _leave_mark(self) -> bool:
        """Put this relay's mark on the queue; False where another relay serves it."""
        mark, fence = await self._queue.current_mark(), self._fence
        if mark == self._mark:
            return True
        # Whoever has replaced this relay raised the epoch before it left the mark that was found.
        if fence is not None and not await self._is_still_held(fence):
            return False
        self._sent.clear()
        return await self._queue.mark(self._mark, instead_of=mark)

    async def _is_still_held(self, fence: Fence) -> bool:
        is_held = await anyio.to_thread.run_sync(self._ledger.read, partial(holds, fence=fence))
        if not is_held and self._lease is not None:
            self._lease.lose(fence)
        return is_held

    @property
    def _mark(self) -> str:
        return ANY_RELAY if self._fence is None else str(self._fence.epoch)

    def _relays(self) -> bool:
        """Tell whether this process relays; one that begins to looks at everything open again."""
        if self._lease is None:
            return True
        fence = self._lease.fence
        if fence is not None and fence != self._fence:
            self._fence, self._held, self._swept_at_s = fence, False, float("-inf")
            self._last_sequence = 0
            self._sent.clear()
            _log.info("relay_begins", queue=self._queue.name, epoch=fence.epoch)
        return fence is not None

    def _read_all(self, now_s: float) -> list[Request]:
        with self._ledger.view() as view:
            requests = _open_requests(view, self._queue.name, 0)
            due_now = due(requests, self._ledger.host.now_us())
            # Every open request is here, so one walk over them finds those that wait for others.
            ready = self._route.ready(view, due_now)
            # What was sent under this mark has its place in Redis, and what is new never had one.
            unsent = [request for request in ready if request.request_id not in self._sent]
            self._stamps = _in_turn(self._route.suspended(view, unsent) if unsent else {})
            again = [request for request in ready if self._may_have_failed(request, now_s)]
            self._retries = waiting_retries(view, again) if again else {}
            self._not_due = len(requests) - len(due_now)
            self._note(view, requests)
        self._held = _has_unready(due_now, ready)
        for request_id in self._sent.keys() - {request.request_id for request in requests}:
            del self._sent[request_id]
        return ready

    def _read_new(self) -> list[Request] | None:
        """Return what may be sent, None where only a sweep can tell."""
        with self._ledger.view() as view:
            items = self._closed_items(view) if self._held else []
            if items is None:
                return None
            freed = self._route.freed(self._keeping(view, items, Around.BELOW), items)
            requests = _open_requests(view, self._queue.name, self._last_sequence)
            due_now = due(requests, self._ledger.host.now_us())
            keeping = self._keeping(view, [request.item_key for request in due_now], Around.ABOVE)
            raised = self._route.raised(keeping, due_now)
            ready = self._route.ready(keeping, [*due_now, *raised])
            self._not_due += len(requests) - len(due_now)
            self._note(view, requests)
        # What is delayed is found by the sweeps; what waits for others is looked for at once.
        self._held |= _has_unready(due_now, ready)
        return ready + due(freed, self._ledger.host.now_us())

    def _note(self, view: LedgerView, requests: Sequence[Request]) -> None:
        """Remember the newest request and operation that were read."""
        if requests:
            self._last_sequence = max(self._last_sequence, requests[-1].request_sequence)
        self._closed_to = view.head().ec_sequence_number

    def _closed_items(self, view: LedgerView) -> list[str] | None:
        """Return the items of this queue that have had an outcome since the last time."""
        # The newest operation may have had another outcome since: a dead letter is none of its own.
        requests = view.closed_requests(after=self._closed_to - 1, limit=CLOSED_MAX)
        # Until a wide cascade was written down everything is held back.
        if len(requests) == CLOSED_MAX or any(
            request.queue == CASCADE_QUEUE for request in requests
        ):
            return None
        items = (request.item_key for request in requests if request.queue == self._queue.name)
        return list(dict.fromkeys(items))

    def _keeping(self, view: LedgerView, items: Sequence[str], around: Around) -> LedgerView:
        if not self._route.follows_inputs or not 0 < len(items) <= KEPT_MAX:
            return view
        batch = view.batch()
        read_ahead(batch, [(around, item) for item in items])
        return batch

    def _may_have_failed(self, request: Request, now_s: float) -> bool:
        """Tell whether a request is to be sent that somebody may have tried; a new one is not."""
        is_new = 0 < self._last_sequence < request.request_sequence
        return not is_new and self._is_due(request, now_s)

    async def _send(self, requests: Iterable[Request]) -> int:
        now_s = self._clock_s()
        due = [request for request in requests if self._is_due(request, now_s)]
        remaining, sent = iter(due), 0
        while batch := list(islice(remaining, BATCH_ITEMS_MAX)):
            if not await self._has_room():
                break
            await self._enqueue(batch)
            for request in batch:
                self._sent[request.request_id] = _Sent(request.priority, now_s)
            sent += len(batch)
        return sent

    async def _enqueue(self, requests: Sequence[Request]) -> None:
        """Enqueue requests; one that is no item is left out and logged, and stays open."""
        try:
            items = [self._item(request) for request in requests]
            await self._queue.enqueue_many(items, self._mark)
        except Exception as error:
            code = getattr(error, "code", "internal")
            if code in REDIS_FAILED or code == "queue_mark_differs":
                raise
            if len(requests) == 1:
                request_id = requests[0].request_id
                _log.error("request_not_sent", request_id=request_id, code=code, error=repr(error))
                return
            half = len(requests) // 2
            await self._enqueue(requests[:half])
            await self._enqueue(requests[half:])

    def _item(self, request: Request) -> NewItem:
        item, stamp = self._route.item(request), self._stamps.get(request.request_id, 0)
        retry = self._retries.get(request.request_id)
        if retry is None:
            return replace(item, suspended_at_ms=stamp) if stamp else item
        wait_us = retry.next_attempt_at_us - self._ledger.host.now_us()
        delay_ms = min(DURATION_MS_MAX, max(1, wait_us // 1000))
        known = ItemRetry(retry.attempts, retry.worker_ends, delay_ms)
        return replace(item, suspended_at_ms=stamp, retry=known)

    async def _has_room(self) -> bool:
        """Tell whether Redis has room for more items; log what changes about its memory."""
        before, self._memory = self._memory, await self._queue.memory()
        if self._memory.may_evict and not before.may_evict:
            _log.warning("redis_may_evict", policy=self._memory.policy, should_be="noeviction")
        if self._memory.has_room != before.has_room:
            _log.warning(
                "relay_goes_on" if self._memory.has_room else "relay_waits_for_memory",
                queue=self._queue.name,
                used_bytes=self._memory.used_bytes,
                limit_bytes=self._memory.limit_bytes,
            )
        return self._memory.has_room

    def _is_due(self, request: Request, now_s: float) -> bool:
        sent = self._sent.get(request.request_id)
        return (
            sent is None or sent.priority != request.priority or now_s - sent.at_s >= RESEND_AFTER_S
        )


def _open_requests(view: LedgerView, queue: str, after: int) -> list[Request]:
    requests: list[Request] = []
    while page := view.open_requests(queue=queue, after=after, limit=PAGE_REQUESTS):
        requests += page
        after = page[-1].request_sequence
    return requests


def _has_unready(due_now: Sequence[Request], ready: Sequence[Request]) -> bool:
    return not {request.request_id for request in due_now} <= {
        request.request_id for request in ready
    }


def _in_turn(suspended: Mapping[str, int]) -> dict[str, int]:
    """Return stamps in the order given, of which no two are the same."""
    stamps, last = {}, 0
    for request_id, at_ms in suspended.items():
        last = stamps[request_id] = max(at_ms, last + 1)
    return stamps


def _authority_item(request: Request) -> NewItem:
    """Requests for one understanding are one item with every cause."""
    payload = protocol_payload({"target_cu_id": request.item_key})
    caused_by = short_name(request.document["trigger_source_id"])
    key = short_name(request.item_key)
    return NewItem(key, request.priority, _cause(request), payload, operation_id=caused_by)


def _request_item(request: Request) -> NewItem:
    """Each request of a producer is an item, whose worker reads the content from the record.

    No operation caused it. The steps of a run are taken in the order of their numbers, which may be
    asked for backwards: `first_of_each_run` holds the later ones.
    """
    payload = protocol_payload({"request_id": request.request_id})
    return NewItem(request.request_id, request.priority, _cause(request), payload)


def _cause(request: Request) -> str:
    return cause_id(request.request_id, request.priority)


def _nothing(_: LedgerView, __: Sequence[object]) -> list[Request]:
    return []


_ASKED = Route(lambda _, requests: list(requests), _nothing, _nothing, _request_item)
"""What producers ask for waits for nothing else, unless its queue has rules of its own."""

_ROUTES: Mapping[str, Route] = MappingProxyType(
    {
        AUTHORITY_QUEUE: Route(
            ready_items, freed_requests, awaited_requests, _authority_item, follows_inputs=True
        ),
        EXTRACTION_QUEUE: Route(first_of_each_run, next_of_runs, _nothing, _request_item),
        BINDING_QUEUE: replace(_ASKED, suspended=suspension_times),
    }
)


def route_of(queue: str) -> Route:
    """Return how the requests of a queue become items."""
    return _ROUTES.get(queue, _ASKED)
