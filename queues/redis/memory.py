"""Reads how much of its memory Redis has used, and whether it throws keys away when full.

Draining takes memory too: a claim, a lease, a heartbeat, a job of arq. A server that is full to the
brim refuses those along with what filled it, and then nothing ever leaves it. So whoever fills a
queue stops while a tenth of the memory is still free (`RESERVED_SHARE`); what is not sent is on the
ledger and is sent later.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis

from queues.errors import QueueError
from queues.redis.scripts import Scripts

RESERVED_SHARE: Final = 0.1

_EVICTS_NOTHING: Final = "noeviction"


@dataclass(frozen=True, slots=True)
class RedisMemory:
    """What a server says of its memory; a limit of 0 is none, or one that is not known."""

    used_bytes: int = 0
    limit_bytes: int = 0
    policy: str = _EVICTS_NOTHING

    @property
    def has_room(self) -> bool:
        """Whether a queue may be filled; what drains it always may use the rest."""
        return not self.limit_bytes or self.used_bytes < self.limit_bytes * (1 - RESERVED_SHARE)

    @property
    def may_evict(self) -> bool:
        """Whether keys vanish when the memory is full; lost items come back with a sweep."""
        return bool(self.limit_bytes) and self.policy != _EVICTS_NOTHING


async def redis_memory(redis: Redis) -> RedisMemory:
    """Ask a server for its memory; one that does not say so is taken for one without a limit."""
    try:
        said: Any = await Scripts(redis, "").ask(redis.info("memory"))
    except QueueError:
        return RedisMemory()
    if not isinstance(said, Mapping):
        return RedisMemory()
    used, limit = said.get("used_memory"), said.get("maxmemory")
    if not isinstance(used, int) or not isinstance(limit, int):
        return RedisMemory()
    return RedisMemory(used, limit, str(said.get("maxmemory_policy", _EVICTS_NOTHING)))
