"""Periodic work once across a fleet: the worker that claims a period runs it.

Every worker has the same crons. A claim is a key, named after the cron and the number of the
period, that only one worker can set (SET NX). After a flush of Redis a period may run twice; what
a cron does is therefore such that a second run changes nothing.
"""

from typing import Any, Final

import orjson
from redis.asyncio import Redis

from queues.queue.items import check_name, check_range
from queues.redis.decoding import TEXT_BYTES_MAX, json_object, records
from queues.redis.keys import prefix_of
from queues.redis.scripts import Scripts

PERIOD_S_MAX: Final = 7 * 24 * 3600
_MEMORY_S: Final = 30 * 24 * 3600


class Crons:
    """Claims of periods, and what a run leaves for the next, on Redis.

    Every method raises `QueueError` with `queue_unavailable` when Redis cannot be reached.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._prefix = prefix_of(redis, "crons")
        self._scripts = Scripts(redis, self._prefix)

    async def claim(self, name: str, period: int, every_s: int, worker_id: str) -> bool:
        """Claim a period for this worker, for as long as two periods; False when another has it."""
        check_range("every_s", every_s, 1, PERIOD_S_MAX)
        key = f"{self._prefix}{check_name(name)}:{period}"
        claimed: Any = await self._scripts.ask(
            self._redis.set(key, worker_id.encode(), nx=True, ex=2 * every_s)
        )
        return bool(claimed)

    async def release(self, name: str, period: int) -> None:
        """Give a period back that could not be run, so that somebody tries again."""
        await self._scripts.ask(self._redis.delete(f"{self._prefix}{check_name(name)}:{period}"))

    async def remember(self, name: str, state: dict[str, Any]) -> None:
        """Store how far a run has come; a hint, which Redis may lose."""
        key = f"{self._prefix}{check_name(name)}:state"
        await self._scripts.ask(self._redis.set(key, orjson.dumps(state), ex=_MEMORY_S))

    async def recall(self, name: str) -> dict[str, Any]:
        """Return what the last run kept, empty where nothing is left of it."""
        key = f"{check_name(name)}:state"
        reply: Any = self._redis.getrange(f"{self._prefix}{key}", 0, TEXT_BYTES_MAX)
        state = await self._scripts.ask(reply, {key: "string"})
        if not state:
            return {}
        read = records("cron_state", [state], json_object)
        if not read:
            await self._scripts.ask(self._redis.delete(f"{self._prefix}{key}"))
        return read[0] if read else {}
