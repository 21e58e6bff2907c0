"""Keeps heartbeats: one record for each worker process.

A worker whose beats stop without a good-bye is gone, and is remembered as such for a day, the
hundred that went last. One that leaves is forgotten at once, and one that beats again lives.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import orjson
from redis.asyncio import Redis

from kernel.values.fleet_protocol import PROTOCOL
from queues.queue.items import DURATION_MS_MAX, NAME_BYTES_MAX, check_name, check_range
from queues.redis.decoding import (
    Field,
    Foreign,
    by_name,
    fields,
    json_object,
    many,
    records,
    row,
    text,
    whole,
)
from queues.redis.dropped import KINDS_MAX
from queues.redis.keys import prefix_of
from queues.redis.scripts import Clock, Scripts

_QUEUES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A worker's report about itself."""

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

    protocol: int = PROTOCOL
    """The version of what it says to others, 0 where it says none."""

    dropped: dict[str, int] = field(default_factory=dict)
    """Values of Redis that it dropped since it began, by kind."""

    seen_at_ms: int = 0
    """When the last beat arrived; filled in by `alive`, ignored by `beat`."""


class WorkerBeats(NamedTuple):
    """The workers of a fleet, as their last beats say."""

    alive: list[WorkerBeat]
    """Those whose last beat has not expired, by id."""

    gone: list[WorkerBeat]
    """Those whose beats ended without a good-bye, the last one first."""


class Heartbeats:
    """The records of a fleet on Redis.

    Every method raises `QueueError` with `queue_unavailable` when Redis cannot be reached.
    """

    def __init__(self, redis: Redis, clock: Clock | None = None) -> None:
        self._scripts = Scripts(redis, prefix_of(redis, "workers"), clock)

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
        return (await self.look()).alive

    async def look(self) -> WorkerBeats:
        """Return the workers that live, and those that are gone."""
        alive, gone = await self._scripts.run("alive", self._scripts.now())
        foreign: list[Any] = []
        fleet = WorkerBeats(
            sorted(
                records("heartbeat", alive, read_beat, foreign), key=lambda beat: beat.worker_id
            ),
            sorted(
                records("heartbeat", gone, read_beat, foreign), key=lambda beat: -beat.seen_at_ms
            ),
        )
        for worker_id, *_ in foreign:
            await self._scripts.run("leave", worker_id)
        return fleet


_COUNT: Final = whole(0)
_BEAT: Final = fields(
    {
        "worker_id": Field(text(NAME_BYTES_MAX)),
        "pid": Field(_COUNT, 0),
        "queues": Field(many(text(NAME_BYTES_MAX), _QUEUES_MAX), ()),
        "slots": Field(_COUNT, 0),
        "started_at_ms": Field(_COUNT, 0),
        "completed": Field(_COUNT, 0),
        "failed": Field(_COUNT, 0),
        "in_flight": Field(_COUNT, 0),
        "version": Field(text(), ""),
        "host": Field(text(), ""),
        "last_error": Field(text(), ""),
        "protocol": Field(_COUNT, 0),
        "dropped": Field(by_name(_COUNT, KINDS_MAX), {}),
    }
)
_ROW: Final = row(text(NAME_BYTES_MAX), _COUNT, json_object)


def read_beat(value: Any) -> WorkerBeat:
    """Return a stored beat; a worker of another version may say more than is known here, or less.

    Raises:
        Foreign: it is no beat of that worker.
    """
    worker_id, seen_at_ms, record = _ROW(value)
    beat = WorkerBeat(**_BEAT(record), seen_at_ms=seen_at_ms)
    if beat.worker_id != worker_id:
        raise Foreign("a beat under another worker's name")
    return beat
