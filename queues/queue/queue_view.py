"""Looks at a queue: what it holds, in which state, how old, and what is paused."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, get_args

from redis.asyncio import Redis

from queues.errors import QueueError
from queues.queue.items import (
    BATCH_ITEMS_MAX,
    OFFSET_MAX,
    ItemPlace,
    LiveItem,
    LiveState,
    QueueDepth,
    check_name,
    check_range,
)
from queues.queue.priorities import Priority, priorities_of
from queues.queue.script_replies import live_of, place_of
from queues.redis.decoding import Read, records
from queues.redis.keys import QUEUE, prefix_of
from queues.redis.memory import RedisMemory, redis_memory
from queues.redis.scripts import Clock, Scripts

MARK_BYTES_MAX: Final = 32
ANY_RELAY: Final = "0"
"""The mark of a relay that has its ledger to itself."""

T = TypeVar("T")


class QueueView:
    """One named queue on Redis, read only; items that nobody can decode are taken out of it.

    Every method raises `QueueError` with `queue_unavailable` when Redis cannot be reached.
    """

    def __init__(
        self,
        redis: Redis,
        name: str,
        clock: Clock | None = None,
        priorities: Sequence[Priority] | None = None,
    ) -> None:
        """Bind to a queue; nothing is sent yet.

        Args:
            redis: a client that does not decode responses.
            name: of the queue, e.g. "authority-recompute".
            clock: ms since the epoch; without it the clock of the Redis server counts.
            priorities: for a name that is not in the table of queues.

        Raises:
            QueueError: `queue_argument_invalid`.
        """
        self.name = check_name(name)
        self.priorities = tuple(priorities or priorities_of(name))
        if not self.priorities:
            raise QueueError("queue_argument_invalid", f"no priorities for a queue {name!r}")
        self._priority_by_name = {row.name: row for row in self.priorities}
        self.prefix = prefix_of(redis, name)
        self._redis = redis
        self._scripts = Scripts(redis, self.prefix, clock)

    async def peek(self, limit: int, offset: int = 0, state: LiveState = "ready") -> list[LiveItem]:
        """Return up to `limit` (1..1000) items of one state after `offset` (0..10 000) of them.

        ready: in the order in which they are served, paused or not, suspended ones included.
        delayed and in_flight: the first to end first. suspended: by priority, in order of
        suspension.

        Raises:
            QueueError: `queue_argument_invalid`.
        """
        if state not in get_args(LiveState):
            raise QueueError("queue_argument_invalid", f"no state of a live item: {state!r}")
        rows = await self._scripts.run("peek", state, *_page(limit, offset))
        return await self._read(rows, live_of(self.priorities))

    async def locate(self, key: str) -> ItemPlace | None:
        """Return where a live item stands; None where the queue holds none under the key."""
        reply = await self._scripts.run("locate", key)
        places = records("item", [reply] if reply else [], place_of(self.priorities))
        return places[0] if places else None

    async def depth(self) -> QueueDepth:
        """Count what the queue holds at one moment."""
        return _depth_of(self, await self._scripts.run("depth", self._scripts.now()))

    async def depths(self, queues: "Sequence[QueueView]") -> list[QueueDepth]:
        """Count what each of some queues of this Redis holds, in one message."""
        prefixes = [queue.prefix for queue in queues]
        replies = await self._scripts.run_at("depth", prefixes, self._scripts.now())
        return [_depth_of(queue, reply) for queue, reply in zip(queues, replies, strict=True)]

    async def current_mark(self) -> str:
        """Return the mark of the relay that serves the queue, "" where Redis has lost it."""
        reply: Any = self._redis.getrange(f"{self.prefix}mark", 0, MARK_BYTES_MAX - 1)
        mark: bytes = await self._scripts.ask(reply, QUEUE)
        return mark.decode("latin-1")

    async def paused_priorities(self) -> frozenset[str | None]:
        """Return the priorities that Redis holds paused, with None where the whole queue is."""
        fields = await self._scripts.ask(self._redis.hkeys(f"{self.prefix}paused"), QUEUE)
        names: dict[bytes, str | None] = {
            str(row.rank).encode(): row.name for row in self.priorities
        }
        names[b"all"] = None
        return frozenset(names[field] for field in fields if field in names)

    async def memory(self) -> RedisMemory:
        """Return how full the server is that holds the queue."""
        return await redis_memory(self._redis)

    async def _read(self, rows: Sequence[Any], read: Read[T]) -> list[T]:
        """Decode items; those that cannot be decoded are taken out of the queue."""
        foreign: list[Any] = []
        items = records("item", rows, read, foreign)
        if foreign:
            await self._scripts.run("cancel", *(row[0] for row in foreign))
        return items

    def _priority(self, name: str) -> Priority:
        priority = self._priority_by_name.get(name)
        if priority is None:
            raise QueueError("queue_unknown_priority", f"{self.name} has no priority {name!r}")
        return priority

    def _least_rank(self, least_urgent: str | None) -> int:
        return (
            self.priorities[-1].rank if least_urgent is None else self._priority(least_urgent).rank
        )


async def depths_by_name(queues: Mapping[str, QueueView]) -> dict[str, QueueDepth]:
    """Count what each of the queues of one Redis holds, in one message.

    Raises:
        QueueError: `queue_unavailable`, `queue_refused`.
    """
    views = tuple(queues.values())
    depths = await views[0].depths(views) if views else []
    return {view.name: depth for view, depth in zip(views, depths, strict=True)}


def _page(limit: int, offset: int) -> tuple[int, int]:
    check_range("limit", limit, 1, BATCH_ITEMS_MAX)
    return check_range("offset", offset, 0, OFFSET_MAX), limit


def _depth_of(queue: QueueView, reply: Sequence[Any]) -> QueueDepth:
    delayed, in_flight, dead, not_due, paused = reply[:5]
    ranks = dict(
        zip(
            [row.name for row in queue.priorities],
            zip(*[iter(reply[5:])] * 4, strict=True),
            strict=False,
        )
    )
    return QueueDepth(
        ready={name: rank[0] for name, rank in ranks.items()},
        suspended={name: rank[1] for name, rank in ranks.items()},
        delayed=delayed,
        in_flight=in_flight,
        dead=dead,
        not_due=not_due,
        oldest_eligible_age_ms={name: max(0, rank[2]) for name, rank in ranks.items()},
        paused=paused == 1,
        paused_priorities=frozenset(name for name, rank in ranks.items() if rank[3] == 1),
    )
