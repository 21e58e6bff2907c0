"""The outbox relay: open requests of the ledger become items of the queue.

The ledger is the truth and Redis a hint, so the relay only ever sends what is open, and may send
it again. It sends a request once when it is recorded; once more when Redis has lost its mark (it
was flushed or replaced); and once more after a while, because a server that was killed may have
kept its mark and lost its last second. What has to wait for another request is held until that one
is done: an understanding that is fed by one that waits (K12), a step of an extraction behind an
earlier one of its run (§16.4). `ROUTES` says for each queue what may be sent, and as what.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

import anyio
import anyio.to_thread
import orjson
import structlog

from kernel.authority.requests import AUTHORITY_QUEUE, ready_items
from kernel.canonical import sha256_hex
from kernel.errors import LedgerUnavailable
from kernel.ledger.ledger import Ledger, LedgerView, Request
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.order import due, first_of_each_run
from queues.errors import QueueError
from queues.items import BATCH_ITEMS_MAX, NAME_BYTES_MAX, NewItem
from queues.queue import WorkQueue

PAGE_REQUESTS = 1000
RESEND_AFTER_S = 5.0
SWEEP_EVERY_S = 1.0
PAUSE_BETWEEN_SENDS_S = 0.01
"""Collects what is committed meanwhile; an idle relay sends at once."""

PAUSE_SHARE = 4
"""A relay with much to look at rests so many times as long as it looked."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """How the requests of one queue become items."""

    ready: Callable[[LedgerView, Sequence[Request]], list[Request]]
    """Which of the open requests nothing holds back."""

    item: Callable[[Request], NewItem]


@dataclass(slots=True)
class _Sent:
    priority: str
    at_s: float


class OutboxRelay:
    """Carries requests from one ledger to one queue; run `run` in a task group."""

    def __init__(self, ledger: Ledger, queue: WorkQueue, clock_s: Callable[[], float]) -> None:
        self._ledger = ledger
        self._queue = queue
        self._route = ROUTES[queue.name]
        self._clock_s = clock_s
        self._sent: dict[str, _Sent] = {}
        self._held = False
        self._last_sequence = 0
        self._wake = anyio.Event()

    def notify(self) -> None:
        """Say that something was committed; cheap, and may be said too often."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled; what cannot be reached is tried again at the next sweep."""
        swept_at_s, reached = float("-inf"), True
        while True:
            began_s = self._clock_s()
            sweep = began_s - swept_at_s >= SWEEP_EVERY_S
            try:
                if sweep:
                    await self.sweep()
                    swept_at_s = self._clock_s()
                else:
                    await self.send_new()
                reached = True
            except (QueueError, LedgerUnavailable) as error:
                swept_at_s = self._clock_s()
                if reached:
                    _log.warning("relay_waits", code=error.code, error=str(error))
                reached = False
            took_s = self._clock_s() - began_s
            await anyio.sleep(max(PAUSE_BETWEEN_SENDS_S, PAUSE_SHARE * took_s))
            with anyio.move_on_after(SWEEP_EVERY_S):
                await self._wake.wait()
            self._wake = anyio.Event()

    async def send_new(self) -> int:
        """Send what was recorded since the last call and return how many requests that was."""
        if self._held:
            # What was held may be free now, so everything open is looked at again.
            return await self.sweep()
        ready = await anyio.to_thread.run_sync(self._read, self._last_sequence)
        return await self._send(ready)

    async def sweep(self) -> int:
        """Send everything open that the queue may not have, and return how many that was."""
        if not await self._queue.marked():
            self._sent.clear()
            await self._queue.mark()
        ready = await anyio.to_thread.run_sync(self._read, 0)
        return await self._send(ready)

    def _read(self, after: int) -> list[Request]:
        with self._ledger.view() as view:
            requests = list(_open_requests(view, self._queue.name, after))
            due_now = due(requests, self._ledger.host.now_us())
            ready = self._route.ready(view, due_now)
        # What is delayed is found by the sweeps; what waits for others is looked for at once.
        self._held = len(ready) < len(due_now)
        if after == 0:
            still_open = {request.request_id for request in requests}
            for request_id in self._sent.keys() - still_open:
                del self._sent[request_id]
        if requests:
            self._last_sequence = max(self._last_sequence, requests[-1].request_sequence)
        return ready

    async def _send(self, requests: Iterable[Request]) -> int:
        now_s = self._clock_s()
        due = [request for request in requests if self._is_due(request, now_s)]
        remaining = iter(due)
        while batch := list(islice(remaining, BATCH_ITEMS_MAX)):
            await self._queue.enqueue_many([self._route.item(request) for request in batch])
            for request in batch:
                self._sent[request.request_id] = _Sent(request.priority, now_s)
        return len(due)

    def _is_due(self, request: Request, now_s: float) -> bool:
        sent = self._sent.get(request.request_id)
        return (
            sent is None or sent.priority != request.priority or now_s - sent.at_s >= RESEND_AFTER_S
        )


def _open_requests(view: LedgerView, queue: str, after: int) -> Iterable[Request]:
    while page := view.open_requests(queue=queue, after=after, limit=PAGE_REQUESTS):
        yield from page
        after = page[-1].request_sequence


def _authority_item(request: Request) -> NewItem:
    """Requests for one understanding are one item with every cause."""
    payload = orjson.dumps({"target_cu_id": request.item_key})
    caused_by = _short(request.document["trigger_source_id"])
    key = _short(request.item_key)
    return NewItem(key, request.priority, _cause(request), payload, operation_id=caused_by)


def _request_item(request: Request) -> NewItem:
    """Asked-for work is an item for each request; what it asks for is read from the record.

    No operation caused it. The steps of a run are taken in the order of their numbers, which may be
    asked for backwards: `first_of_each_run` holds the later ones.
    """
    payload = orjson.dumps({"request_id": request.request_id})
    return NewItem(request.request_id, request.priority, _cause(request), payload)


def _cause(request: Request) -> str:
    """The queue knows a cause once, so a request of another priority is another cause."""
    return _short(f"{request.request_id}!{request.priority}")


def _all(_: LedgerView, requests: Sequence[Request]) -> list[Request]:
    return list(requests)


def _short(name: str) -> str:
    """A name longer than the queue takes stands there by its digest; the payload has it whole."""
    content = name.encode()
    return name if len(content) <= NAME_BYTES_MAX else f"sha256:{sha256_hex(content)}"


ROUTES: Mapping[str, Route] = MappingProxyType(
    {
        AUTHORITY_QUEUE: Route(ready_items, _authority_item),
        BINDING_QUEUE: Route(_all, _request_item),
        EXTRACTION_QUEUE: Route(first_of_each_run, _request_item),
    }
)
