"""What a queue does, in plain Python and without a thought of speed.

The scripts are held against this. Each rule of the README is one method here, said in the terms
of lists and sets.
"""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from typing import cast

from redis.asyncio import Redis

from kernel.work.retry_policy import WORKER_ENDS_MAX as ENDS_MAX
from queues.queue.items import Lineage, NewItem
from queues.queue.priorities import Priority
from queues.queue.work_queue import WorkQueue

VISIBILITY_MS = 1000


@dataclass
class Work:
    """A set of causes that is done in one go."""

    rank: int
    deadline_ms: int
    enqueued_ms: int
    payload: bytes
    causes: dict[str, Lineage]
    """In order of arrival."""

    def join(self, other: "Work") -> None:
        self.rank = min(self.rank, other.rank)
        self.deadline_ms = min(self.deadline_ms, other.deadline_ms)
        self.enqueued_ms = min(self.enqueued_ms, other.enqueued_ms)
        for cause, lineage in other.causes.items():
            self.causes.setdefault(cause, lineage)
        self.payload = other.payload


@dataclass
class ModelItem:
    work: Work
    state: str = "ready"
    attempt: int = 0
    token: str = ""
    until_ms: int = 0
    """When a claim expires or a retry is due."""
    stamp: int = 0
    """Of its first suspension; 0 before."""
    ends: int | None = None
    """How many begun claims expired; None when no claim expired."""
    begun: bool = False
    cancelled: bool = False
    successor: Work | None = None

    def hasten(self, rank: int, deadline_ms: int) -> None:
        """Make it as urgent as this; a more urgent rank ends a suspension."""
        if rank < self.work.rank:
            self.stamp = 0
            self.state = "ready" if self.state == "suspended" else self.state
        self.work.rank = min(self.work.rank, rank)
        self.work.deadline_ms = min(self.work.deadline_ms, deadline_ms)

    @property
    def is_worn_out(self) -> bool:
        return (self.ends or 0) >= ENDS_MAX

    def absorb(self) -> None:
        if self.successor and not self.is_worn_out:
            if self.successor.rank < self.work.rank:
                self.stamp = 0
            self.work.join(self.successor)
            self.successor = None

    def wait(self) -> None:
        """Wait for a claim: in the order of suspension once it was suspended."""
        self.state = "suspended" if self.stamp else "ready"


@dataclass
class QueueModel:
    priorities: tuple[Priority, ...]
    now_ms: int = 1_000_000
    items: dict[str, ModelItem] = field(default_factory=dict)
    dead: dict[str, Work] = field(default_factory=dict)
    paused: set[str | None] = field(default_factory=set)
    """Names of priorities; None is the queue."""
    count: int = 0
    """Of stamps given."""

    def next_number(self) -> int:
        self.count += 1
        return self.count

    # What is asked for.

    def enqueue(self, new: NewItem) -> str:
        priority = next(row for row in self.priorities if row.name == new.priority)
        lineage = Lineage(new.operation_id, new.traceparent)
        deadline_ms = self.now_ms + priority.service_target_ms
        causes = {new.cause_id: lineage}
        work = Work(priority.rank, deadline_ms, self.now_ms, new.payload, causes)
        item, dead = self.items.get(new.key), self.dead.get(new.key)
        if dead and new.cause_id in dead.causes:
            return "dead"
        if item is None:
            self.items[new.key] = ModelItem(work)
            return "new"
        behind = item.successor.causes if item.successor else {}
        if new.cause_id in item.work.causes or new.cause_id in behind:
            return "known"
        if item.state == "in_flight" or item.is_worn_out:
            if item.successor:
                item.successor.join(work)
            else:
                item.successor = work
            return "successor"
        item.hasten(work.rank, work.deadline_ms)
        item.work.join(work)
        return "merged"

    # Service.

    def service_order(
        self, least: int | None = None, *, paused_too: bool = False
    ) -> list[tuple[str, ModelItem]]:
        """The top priority first, then of each rank's next the one with the earliest deadline."""
        ranks = []
        for row in self.priorities:
            if least is not None and row.rank > least:
                continue
            if not paused_too and self.paused & {None, row.name}:
                continue
            of_rank = [entry for entry in self.items.items() if entry[1].work.rank == row.rank]
            suspended = [entry for entry in of_rank if entry[1].state == "suspended"]
            ready = [entry for entry in of_rank if entry[1].state == "ready"]
            suspended.sort(key=lambda entry: entry[1].stamp)
            ready.sort(key=lambda entry: (entry[1].work.deadline_ms, entry[0]))
            ranks.append(suspended + ready)
        order = []
        while heads := [rank for rank in ranks if rank]:
            first = min(
                heads,
                key=lambda rank: (
                    rank[0][1].work.rank > 0,
                    rank[0][1].work.deadline_ms,
                    rank[0][1].work.rank,
                ),
            )
            order.append(first.pop(0))
        return order

    def claim(self, limit: int, token: str, least: int | None) -> list[tuple[str, ModelItem]]:
        for item in self.items.values():
            if item.state == "delayed" and item.until_ms <= self.now_ms:
                item.wait()
        taken = self.service_order(least)[:limit]
        suspects = [place for place, (_, item) in enumerate(taken) if item.ends is not None]
        if suspects:
            taken = taken[: suspects[0] or 1]
        for _, item in taken:
            item.state, item.token = "in_flight", token
            item.attempt += 1
            item.begun = False
            item.until_ms = self.now_ms + VISIBILITY_MS
        return taken

    # How a claim ends.

    def held(self, key: str, token: str) -> ModelItem | None:
        item = self.items.get(key)
        return item if item and item.state == "in_flight" and item.token == token else None

    def finish(self, key: str) -> None:
        item = self.items.pop(key)
        if item.successor:
            self.items[key] = ModelItem(item.successor)

    def retry(self, key: str, delay_ms: int, attempts: int = 1) -> None:
        item = self.items[key]
        if item.cancelled:
            return self.finish(key)
        item.attempt -= 1 - attempts
        item.absorb()
        item.state, item.until_ms = "delayed", self.now_ms + delay_ms
        return None

    def suspend(self, key: str) -> None:
        item = self.items[key]
        if item.cancelled:
            return self.finish(key)
        item.attempt -= 1
        item.absorb()
        item.state, item.stamp = "suspended", item.stamp or self.next_number()
        return None

    def bury(self, key: str) -> None:
        item = self.items[key]
        if item.cancelled:
            return self.finish(key)
        work = item.work
        if key in self.dead:
            before = self.dead[key]
            before.join(work)
            work = before
        self.dead[key] = work
        return self.finish(key)

    def reap(self) -> int:
        ended = [
            (key, item)
            for key, item in self.items.items()
            if item.state == "in_flight" and item.until_ms <= self.now_ms
        ]
        for key, item in ended:
            if item.cancelled:
                self.finish(key)
            else:
                item.ends = (item.ends or 0) + item.begun
                item.attempt -= not item.begun
                item.absorb()
                item.wait()
        return len(ended)

    # What an operator does.

    def cancel(self, key: str) -> str:
        dead, item = self.dead.pop(key, None), self.items.get(key)
        if item and item.state == "in_flight":
            item.successor, item.work.causes, item.cancelled = None, {}, True
            return "stopping"
        if item:
            self.finish(key)
        return "cancelled" if item or dead else "unknown"

    def switch(self, priority: str | None, *, paused: bool) -> bool:
        changes = (priority in self.paused) != paused
        self.paused ^= {priority} if changes else set()
        return changes

    # What can be seen.

    def in_state(self, state: str) -> Iterable[tuple[str, ModelItem]]:
        return [entry for entry in self.items.items() if entry[1].state == state]


async def buried(redis: Redis, queue: WorkQueue) -> dict[str, list[str]]:
    """Return the causes that are buried, by key and in order of arrival."""
    causes = {}
    for key in await redis.zrange(f"{queue.prefix}dead", 0, -1):
        reply = redis.hgetall(f"{queue.prefix}dead-item:{key.decode()}")
        record = await cast("Awaitable[dict[bytes, bytes]]", reply)
        orders = {
            field[2:].decode(): int(value.partition(b"\0")[0])
            for field, value in record.items()
            if field[:2] == b"c:"
        }
        causes[key.decode()] = sorted(orders, key=orders.__getitem__)
    return causes
