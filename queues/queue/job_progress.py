"""Keeps how far jobs in hand are, on Redis: a hint for whoever looks, kept for an hour."""

from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson
from redis.asyncio import Redis

from kernel.values.canonical import sha256_hex
from queues.redis.decoding import Field, fields, json_object, records, text, whole
from queues.redis.keys import prefix_of
from queues.redis.scripts import Scripts

KEPT_S: Final = 3600
NOTE_CHARS_MAX: Final = 200
_BYTES_MAX: Final = 2048


@dataclass(frozen=True, slots=True)
class NotedProgress:
    """What a handler said last of a job."""

    percent: int

    note: str


_PROGRESS: Final = fields(
    {"percent": Field(whole(0, 100)), "note": Field(text(4 * NOTE_CHARS_MAX))}
)


def _read(said: Any) -> NotedProgress:
    return NotedProgress(**_PROGRESS(json_object(said)))


class JobProgress:
    """Progress of jobs, by request; raises `QueueError` when Redis cannot be reached."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._scripts = Scripts(redis, prefix_of(redis, "progress"))

    async def note(self, queue: str, request_id: str, percent: int, note: str) -> None:
        """Store how far a job is, in place of what was said before."""
        said, key = orjson.dumps(asdict(NotedProgress(percent, note))), _key(queue, request_id)
        await self._scripts.ask(self._redis.set(self._scripts.prefix + key, said, ex=KEPT_S))

    async def of(self, queue: str, request_id: str) -> NotedProgress | None:
        """Return what was said last of a job, None where nothing is known."""
        key = _key(queue, request_id)
        reply: Any = self._redis.getrange(self._scripts.prefix + key, 0, _BYTES_MAX)
        said = await self._scripts.ask(reply, {key: "string"})
        read = records("job_progress", [said], _read) if said else []
        return read[0] if read else None


def _key(queue: str, request_id: str) -> str:
    return sha256_hex(f"{queue} {request_id}".encode())
