"""Claims periodic work once across a fleet: the worker that claims a period runs it.

Every worker has the same crons. A claim is a key, named after the cron and the number of the
period, that only one worker can set (SET NX). After a flush of Redis a period may run twice; what
a cron does is therefore such that a second run changes nothing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final

import orjson
from redis.asyncio import Redis

from queues.queue.items import NAME_BYTES_MAX, check_name, check_range
from queues.redis.decoding import (
    TEXT_BYTES_MAX,
    Field,
    fields,
    json_object,
    records,
    text,
    whole,
)
from queues.redis.keys import prefix_of
from queues.redis.scripts import Scripts

PERIOD_S_MAX: Final = 7 * 24 * 3600
_MEMORY_S: Final = 30 * 24 * 3600
_TIME: Final = whole(0, 10**11)
_FIRING: Final = fields(
    {
        "name": Field(text(NAME_BYTES_MAX)),
        "every_s": Field(whole(0, PERIOD_S_MAX)),
        "next_s": Field(_TIME),
        "last_s": Field(_TIME, 0),
        "worker_id": Field(text(NAME_BYTES_MAX), ""),
        "took_ms": Field(whole(0), 0),
    }
)
_FIRING_KEYS: Final[Mapping[str, str]] = MappingProxyType({"firings": "hash"})


FIRINGS_MAX: Final = 4096
"""Crons of which it is known when they ran; more have not been written by any worker."""

_FIRINGS: Final = "firings"


@dataclass(frozen=True, slots=True)
class CronFiring:
    """When a cron ran last, as its worker says, and when it is due next."""

    name: str
    every_s: int
    """The interval; 0 where times of its own are named."""

    next_s: int
    """When its next period begins, in seconds since 1970."""

    last_s: int = 0
    """When the period began that was run last; 0 where none is known."""

    worker_id: str = ""
    """Who ran it."""

    took_ms: int = 0


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

    async def note(self, firing: CronFiring, *, is_first: bool = False) -> None:
        """Store when a cron ran; a hint. The first look of a worker takes no other's word away."""
        check_name(firing.name)
        put: Any = self._redis.hsetnx if is_first else self._redis.hset
        key, record = f"{self._prefix}{_FIRINGS}", orjson.dumps(asdict(firing))
        await self._scripts.ask(put(key, firing.name, record), _FIRING_KEYS)
        await self._scripts.ask(self._redis.expire(key, _MEMORY_S), _FIRING_KEYS)

    async def firings(self) -> list[CronFiring]:
        """Return when each cron ran, as far as Redis knows, by name."""
        key = f"{self._prefix}{_FIRINGS}"
        if await self._scripts.ask(self._redis.hlen(key), _FIRING_KEYS) > FIRINGS_MAX:
            await self._scripts.ask(self._redis.delete(key))
            return []
        reply: Any = await self._scripts.ask(self._redis.hgetall(key), _FIRING_KEYS)
        read = records("cron_firing", [*reply.values()], lambda value: _FIRING(json_object(value)))
        return sorted((CronFiring(**each) for each in read), key=lambda each: each.name)

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
