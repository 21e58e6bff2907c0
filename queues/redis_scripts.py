"""The adapter to Redis: loads the Lua scripts, runs them, and translates errors once.

A script is its own file in `scripts/`, put behind `common.lua`, and one of a lease behind
`lease_common.lua` too. It is called by its hash; a server that lost it (restart, SCRIPT FLUSH) is
given the text again by redis-py.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from redis import exceptions
from redis.asyncio import Redis

from queues.errors import QueueError

if TYPE_CHECKING:
    from redis.commands.core import AsyncScript

Clock = Callable[[], int]
"""Milliseconds since the epoch."""

_T = TypeVar("_T")
_UNREACHABLE: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    OSError,
)


@cache
def script_text(name: str) -> str:
    """Return the text that is sent for a script: the common parts, then its own file."""
    folder = files("queues") / "scripts"
    parts = ("common", "lease_common", name) if name.startswith("lease_") else ("common", name)
    return "".join((folder / f"{part}.lua").read_text("utf-8") for part in parts)


@contextmanager
def translated() -> Iterator[None]:
    """Turn an unreachable or unwritable server into `queue_unavailable`."""
    try:
        yield
    except _UNREACHABLE as error:
        raise QueueError("queue_unavailable", f"Redis does not answer: {error}") from error


class Scripts:
    """Runs scripts against one key prefix.

    Keys and ids come back as bytes, so the client must not decode responses. Without a clock
    every script reads the time of the server, which gives a fleet one clock.
    """

    def __init__(self, redis: Redis, prefix: str, clock: Clock | None = None) -> None:
        if redis.connection_pool.connection_kwargs.get("decode_responses"):
            raise QueueError("queue_argument_invalid", "the client must not decode responses")
        self.redis = redis
        self.prefix = prefix
        self._clock = clock
        self._registered: dict[str, AsyncScript] = {}

    def at(self, prefix: str) -> "Scripts":
        """Return the same scripts bound to another prefix."""
        other = Scripts(self.redis, prefix, self._clock)
        other._registered = self._registered
        return other

    def now(self) -> int | str:
        """Return the handed-in time in ms, or "" for the server's own."""
        return "" if self._clock is None else self._clock()

    async def run(self, name: str, *args: int | str | bytes) -> Any:
        """Run one script atomically and return its reply.

        A cancelled call may or may not have taken effect.

        Raises:
            QueueError: `queue_unavailable`.
        """
        script = self._registered.get(name)
        if script is None:
            script = self.redis.register_script(script_text(name))
            self._registered[name] = script
        with translated():
            return await script(keys=[self.prefix], args=cast("Sequence[Any]", args))

    async def ask(self, reply: Awaitable[_T] | _T) -> _T:
        """Await a plain command under the same translation of errors."""
        with translated():
            return await cast("Awaitable[_T]", reply)
