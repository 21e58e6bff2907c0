"""The adapter to Redis: loads the Lua scripts, runs them, and translates errors once.

A script is its own file in `scripts/`, put behind `common.lua`, and one of a lease behind
`lease_common.lua` too. It is called by its hash; a server that lost it (restart, SCRIPT FLUSH) is
given the text again by redis-py. Before its step it drops every key of a fixed name that is of
another type than it should be (`keys.py`), and it says what it dropped beside its reply.

Every error that Redis answers with comes out as `queue_unavailable`, whatever the reason: a server
that is busy, full, read-only, being replaced or forbidding a command will serve again later, and
whoever asks tries again after a pause. Keys of a wrong type are dropped first.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from redis import exceptions
from redis.asyncio import Redis

from queues.dropped import dropped
from queues.errors import QueueError
from queues.keys import key_types

if TYPE_CHECKING:
    from redis.commands.core import AsyncScript

Clock = Callable[[], int]
"""Milliseconds since the epoch."""

_T = TypeVar("_T")
_REFUSALS: Final = (exceptions.RedisError, OSError, EOFError)
_NO_TYPES: Final[Mapping[str, str]] = {}
_STEP: Final = """
local function step()
{}
end
local answer = {{ step() }}
for kind, count in pairs(dropped) do
  answer[#answer + 1] = kind
  answer[#answer + 1] = count
end
return answer
"""
"""What a script's own file is put into, so that what was dropped stands behind its reply."""


@cache
def script_text(name: str) -> str:
    """Return the text that is sent for a script: types of keys, common parts, then its step."""
    folder = files("queues") / "scripts"
    types = "".join(f"['{key}']='{kind}'," for key, kind in key_types(name).items())
    parts = ("common", "lease_common") if name.startswith("lease_") else ("common",)
    head = "".join((folder / f"{part}.lua").read_text("utf-8") for part in parts)
    step = _STEP.format((folder / f"{name}.lua").read_text("utf-8"))
    return f"local KEY_TYPES = {{{types}}}\n{head}{step}"


@contextmanager
def translated() -> Iterator[None]:
    """Turn whatever Redis answers with, or its silence, into `queue_unavailable`."""
    try:
        yield
    except _REFUSALS as error:
        raise QueueError("queue_unavailable", f"Redis does not serve: {error}") from error


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
        """Run one script atomically and return its reply; count what it dropped.

        A cancelled call may or may not have taken effect.

        Raises:
            QueueError: `queue_unavailable`.
        """
        script = self._registered.get(name)
        if script is None:
            script = self.redis.register_script(script_text(name))
            self._registered[name] = script
        with translated():
            answer, *more = await script(keys=[self.prefix], args=cast("Sequence[Any]", args))
        for kind, count in zip(more[::2], more[1::2], strict=True):
            dropped(kind.decode(), count)
        return answer

    async def ask(self, reply: Awaitable[_T] | _T, types: Mapping[str, str] = _NO_TYPES) -> _T:
        """Await a plain command under the same translation of errors.

        Where it meets a key of a wrong type, the keys that `types` names are mended, and whoever
        asks again finds them empty.
        """
        with translated():
            try:
                return await cast("Awaitable[_T]", reply)
            except exceptions.ResponseError as error:
                if "WRONGTYPE" in str(error):
                    await self.mend(types)
                raise

    async def mend(self, types: Mapping[str, str]) -> None:
        """Drop keys behind this prefix that are of other types than these.

        Raises:
            QueueError: `queue_unavailable`.
        """
        if types:
            await self.run("mend", *chain.from_iterable(types.items()))
