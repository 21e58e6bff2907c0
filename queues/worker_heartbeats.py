"""Who works: one record for each worker process, which disappears when it stops beating."""

from dataclasses import asdict, dataclass, replace
from typing import Final

import orjson
from redis.asyncio import Redis

from queues.items import DURATION_MS_MAX, check_name, check_range
from queues.redis_scripts import Clock, Scripts

_FLEET_PREFIX: Final = "rotulus:{workers}:"


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """What a worker says about itself."""

    worker_id: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    started_at_ms: int
    completed: int
    failed: int
    in_flight: int
    version: str = ""
    host: str = ""
    last_error: str = ""
    """Code of the last item that failed; empty while none has."""

    seen_at_ms: int = 0
    """When the last beat arrived; filled in by `alive`, ignored by `beat`."""


class Heartbeats:
    """The records of a fleet on Redis.

    Every method raises `QueueError` with `queue_unavailable` when Redis cannot be reached.
    """

    def __init__(self, redis: Redis, clock: Clock | None = None) -> None:
        self._scripts = Scripts(redis, _FLEET_PREFIX, clock)

    async def beat(self, beat: WorkerBeat, ttl_ms: int) -> None:
        """Record a worker as alive for `ttl_ms` from now."""
        check_range("ttl_ms", ttl_ms, 1, DURATION_MS_MAX)
        worker_id = check_name(beat.worker_id)
        record = orjson.dumps(asdict(beat))
        await self._scripts.run("beat", self._scripts.now(), worker_id, ttl_ms, record)

    async def leave(self, worker_id: str) -> None:
        """Forget a worker that ends in good order."""
        await self._scripts.run("leave", worker_id)

    async def alive(self) -> list[WorkerBeat]:
        """Return the workers whose last beat has not expired, by id."""
        beats = []
        for seen_at_ms, record in await self._scripts.run("alive", self._scripts.now()):
            fields = orjson.loads(record)
            fields["queues"] = tuple(fields["queues"])
            beats.append(replace(WorkerBeat(**fields), seen_at_ms=seen_at_ms))
        return sorted(beats, key=lambda beat: beat.worker_id)
