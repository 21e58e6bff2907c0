"""The small runtime of a test: a ledger whose clock it moves, and a queue for who needs one.

A test states what is particular to it in a class of its own: what it submits and what it reads.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fakeredis import FakeAsyncRedis, FakeServer

from actors.commit.work_units import RequestWorkUnit
from kernel.ledger.ledger import Document, Ledger, Request
from kernel.transaction.kernel import Kernel
from kernel.work.requests import WorkRequest, WorkStatus, status_of
from kernel.work.retry_policy import RetryPolicy
from queues.queue.items import Claim
from queues.queue.outbox_relay import OutboxRelay
from queues.queue.work_queue import WorkQueue
from tests.kernel.build import (
    START_US,
    FakeHost,
    accept,
    advance_policy,
    findings,
    memory_ledger,
    receipts_of_kind,
    submit,
)
from tests.workers.api.door import Door, running_door
from workers.worker.attempts import ErrorTexts
from workers.worker.batches import BatchProcessor
from workers.worker.gateway_reports import GatewayReporter

MAX_ATTEMPTS = 8
QUICK_RETRIES = RetryPolicy(
    attempts=MAX_ATTEMPTS, first_pause_ms=100, pause_ms_max=30_000, jitter_percent=0
)
"""For who waits for the end of retries."""

AnyWorld = TypeVar("AnyWorld", bound="QueuedWorld")


class World:
    """A ledger and its host; in memory and empty unless there is one already."""

    def __init__(self, ledger: Ledger | None = None, host: FakeHost | None = None) -> None:
        self.host = host or FakeHost()
        self.ledger = ledger or memory_ledger(self.host)
        self.policy = "PG-1"

    def now_ms(self) -> int:
        return self.host.time_us // 1000

    def now_s(self) -> float:
        """Seconds since the world began."""
        return (self.host.time_us - START_US) / 1_000_000

    def pass_s(self, seconds: float) -> None:
        self.host.time_us += round(seconds * 1_000_000)

    def pass_ms(self, ms: int) -> None:
        self.host.time_us += ms * 1000

    def advance_policy(self, **stated: Any) -> None:
        """Put the next policy in force."""
        self.policy = f"PG-{int(self.policy[3:]) + 1}"
        advance_policy(self.ledger, self.policy, **stated)

    def submit(self, document: Document, **options: Any) -> Any:
        return submit(self.ledger, document, **options)

    def accept(self, *documents: Document) -> str:
        return accept(self.ledger, *documents)

    def node(self, node_id: str) -> Document | None:
        with self.ledger.view() as view:
            return view.node(node_id)

    def open(self, queue: str | None = None) -> list[Request]:
        with self.ledger.view() as view:
            return view.open_requests(queue=queue)

    def status(self, request_id: str) -> WorkStatus:
        with self.ledger.view() as view:
            status = status_of(view, request_id)
        assert status is not None
        return status

    def receipts(self, kind: str) -> list[Document]:
        return receipts_of_kind(self.ledger, kind)

    def check(self) -> None:
        """Find nothing wrong with the record."""
        assert findings(self.ledger) == ()


class QueuedWorld(World):
    """The same with a queue in a Redis that can be flushed or taken away, and a relay to it."""

    texts = ErrorTexts()
    """How the worker of the queue tells of errors."""

    def __init__(
        self, queue: str, ledger: Ledger | None = None, host: FakeHost | None = None
    ) -> None:
        super().__init__(ledger, host)
        self.server = FakeServer()
        self.redis = FakeAsyncRedis(server=self.server)
        self.queue = WorkQueue(self.redis, queue, self.now_ms)
        self.relay = self.new_relay()

    def new_relay(self) -> OutboxRelay:
        return OutboxRelay(self.ledger, self.queue, self.now_s)

    def drain_by(self, gateway: Any, handler: Callable[[GatewayReporter], Any]) -> None:
        """Drain the queue by the handler that is made for the reporter to a gateway."""
        reporter = GatewayReporter(gateway, self.now_s)
        self.processor = BatchProcessor(
            self.queue,
            handler(reporter),
            reporter,
            lambda: 0.5,
            policy=QUICK_RETRIES,
            texts=self.texts,
        )

    async def drain(self, claims: list[Claim]) -> list[Claim]:
        await self.processor.drain(claims)
        return claims

    async def deliver(self, limit: int = 100) -> list[Claim]:
        """Claim what is due and drain it."""
        return await self.drain(await self.queue.claim(limit, 30_000))


class DoorWorld(QueuedWorld):
    """The same behind a whole gateway, which is asked for work."""

    def __init__(self, door: Door, host: FakeHost, queue: str) -> None:
        super().__init__(queue, door.ledger, host)
        self.door = door

    async def ask(self, *requests: WorkRequest) -> list[str]:
        recorded = await self.door.services.write(RequestWorkUnit(requests))
        return [request.request_id for request in recorded]


@asynccontextmanager
async def behind_a_door(
    new_world: Callable[[Door, FakeHost], AnyWorld], kernel: Kernel | None = None
) -> AsyncIterator[AnyWorld]:
    """Run a gateway and a world behind it."""
    fake = FakeHost()
    async with running_door(host=fake.host, kernel=kernel) as door:
        world = new_world(door, fake)
        yield world
        await world.redis.aclose()
