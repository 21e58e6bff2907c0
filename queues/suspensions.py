"""The order in which items were suspended: who waited longest goes on first (§14.3).

A suspended item waits in its queue like any other and comes back to look again; this is only the
order in which those that look may go on. Lost with Redis, it begins anew with the next look.
"""

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

from queues.scripting import Scripts

HEAD_ITEMS = 64
"""How many of the longest suspended are looked at in one call."""


class Suspensions:
    """The suspended items of one queue.

    Every method raises `QueueError` with `queue_unavailable` when Redis cannot be reached.
    """

    def __init__(self, redis: Redis, queue_prefix: str) -> None:
        """Bind to the queue whose keys have this prefix; see `WorkQueue.prefix`."""
        self._redis = redis
        self._scripts = Scripts(redis, queue_prefix)
        self._key = f"{queue_prefix}suspended"
        self._numbers = f"{queue_prefix}suspensions"
        self._item = f"{queue_prefix}item:"

    async def suspend(self, keys: Sequence[str]) -> None:
        """Put items at the end of the order, as given; one that is in it keeps its place."""
        if not keys:
            return
        last: Any = await self._scripts.ask(self._redis.incrby(self._numbers, len(keys)))
        places: dict[Any, Any] = {
            key: last - len(keys) + place for place, key in enumerate(keys, start=1)
        }
        await self._scripts.ask(self._redis.zadd(self._key, places, nx=True))

    async def resume(self, keys: Sequence[str]) -> None:
        """Take items out of the order, because they go on or are gone."""
        if keys:
            await self._scripts.ask(self._redis.zrem(self._key, *keys))

    async def in_order(self, keys: Sequence[str]) -> list[str]:
        """Return those of the keys that may go on now, the longest suspended first.

        One that is not suspended stands behind all that are. None may overtake a suspended item
        that is not among the keys; items that have left the queue are forgotten.
        """
        wanted: set[str] = set(keys)
        allowed: list[str] = []
        while True:
            found: Any = await self._scripts.ask(self._redis.zrange(self._key, 0, HEAD_ITEMS - 1))
            heads = [key.decode() for key in found]
            gone = await self._gone([key for key in heads if key not in wanted])
            if not gone:
                break
            await self.resume(gone)
        for key in heads:
            if key not in wanted:
                return allowed
            allowed.append(key)
        if len(heads) == HEAD_ITEMS:
            return allowed
        return [*allowed, *(key for key in keys if key not in set(allowed))]

    async def _gone(self, keys: Sequence[str]) -> list[str]:
        if not keys:
            return []
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.exists(f"{self._item}{key}")
            there: Any = await self._scripts.ask(pipe.execute())
        return [key for key, exists in zip(keys, there, strict=True) if not exists]
