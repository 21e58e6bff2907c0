"""Loads the Lua scripts into Redis, runs them, and translates errors once.

Each step on a queue is one script and one round trip, because a step touches several keys and must
never be half done. The server is busy for a few milliseconds with a batch of 1000. The rules
therefore stand in two languages: tests hold the scripts against a model in plain Python.

A script is its own file in `queues/scripts/`, put behind `common` and the parts that `_PARTS`
names. It is called by its hash; redis-py sends the text again to a server that lost it (restart,
SCRIPT FLUSH). A script that first uses a key of a fixed name drops it where it has another type
than `redis/keys.py` says, and returns what it dropped beside its reply. That costs a TYPE command
for each such key that a call uses.

A server that is away comes out as `queue_unavailable`, and so does one that says nothing for
`REPLY_WAIT_S`: a network may lose every packet and tell nobody. A server that answers with an error
comes out as `queue_refused`, with the name of the refusal (`redis/refusals.py`). NOREPLICAS, BUSY
or MISCONF occur at an ordinary failover, so whoever asks tries again after a pause in either case.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
from redis import exceptions
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.redis.dropped import count_dropped
from queues.redis.keys import key_types
from queues.redis.refusals import problem_of

if TYPE_CHECKING:
    from redis.commands.core import AsyncScript

Clock = Callable[[], int]
"""Milliseconds since the epoch."""

REPLY_WAIT_S: Final = 5.0
"""How long Redis may take over a command, beside the time for which the command itself waits."""

_T = TypeVar("_T")
_REFUSALS: Final = (exceptions.RedisError, OSError, EOFError)
_NO_TYPES: Final[Mapping[str, str]] = {}
_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "claim": ("service_order",),
    "peek": ("service_order",),
    **dict.fromkeys(("lease_acquire", "lease_draw"), ("lease_common", "lease_expiry")),
    **dict.fromkeys(("lease_held", "lease_release", "lease_renew"), ("lease_common",)),
}
"""What is put between `common` and a script."""

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
"""Frame of a script's own file, which returns what was dropped behind the reply."""


@cache
def script_text(name: str) -> str:
    """Return the text that is sent for a script: types of keys, common parts, then its step."""
    folder = Path(__file__).parents[1] / "scripts"
    types = "".join(f"['{key}']='{kind}'," for key, kind in key_types(name).items())
    parts = ("common", *_PARTS.get(name, ()))
    head = "".join((folder / f"{part}.lua").read_text("utf-8") for part in parts)
    step = _STEP.format((folder / f"{name}.lua").read_text("utf-8"))
    return f"local KEY_TYPES = {{{types}}}\n{head}{step}"


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn an error reply into `queue_refused`, absence and silence into `queue_unavailable`."""
    try:
        yield
    except TimeoutError as error:
        raise QueueError(
            "queue_unavailable", f"Redis has not answered for {REPLY_WAIT_S:g} s"
        ) from error
    except _REFUSALS as error:
        problem = problem_of(error)
        if problem.state == "refused":
            raise QueueError("queue_refused", f"Redis refuses: {problem}") from error
        raise QueueError("queue_unavailable", f"Redis does not answer: {error}") from error


class Scripts:
    """Runs scripts against one key prefix.

    Keys and ids come back as bytes, so the client must not decode responses. Without a clock
    every script reads the time of the server, because the deadlines of a fleet have to agree; only
    tests hand a clock in.
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
        scripts = Scripts(self.redis, prefix, self._clock)
        scripts._registered = self._registered
        return scripts

    def now(self) -> int | str:
        """Return the handed-in time in ms, or "" for the server's own."""
        return "" if self._clock is None else self._clock()

    async def run(self, name: str, *args: int | str | bytes) -> Any:
        """Run one script atomically and return its reply; count what it dropped.

        A cancelled call may or may not have taken effect.

        Raises:
            QueueError: `queue_unavailable`, `queue_refused`.
        """
        script = self._script(name)
        with translate_errors(), anyio.fail_after(REPLY_WAIT_S):
            answer = await script(keys=[self.prefix], args=cast("Sequence[Any]", args))
        return _without_drops(answer)

    async def run_at(
        self, name: str, prefixes: Sequence[str], *args: int | str | bytes
    ) -> list[Any]:
        """Run one script at several prefixes, each atomically, in one message.

        Raises:
            QueueError: as `run`.
        """
        script = self._script(name)
        pipeline = self.redis.pipeline(transaction=False)

        async def send() -> list[Any]:
            for prefix in prefixes:
                pipeline.evalsha(script.sha, 1, prefix, *cast("Sequence[Any]", args))
            return await pipeline.execute()

        with translate_errors(), anyio.fail_after(REPLY_WAIT_S):
            try:
                answers = await send()
            except exceptions.NoScriptError:
                await self.redis.script_load(script.script)
                answers = await send()
        return [_without_drops(answer) for answer in answers]

    def _script(self, name: str) -> "AsyncScript":
        script = self._registered.get(name)
        if script is None:
            script = self._registered[name] = self.redis.register_script(script_text(name))
        return script

    async def ask(
        self,
        reply: Awaitable[_T] | _T,
        types: Mapping[str, str] = _NO_TYPES,
        *,
        blocks_s: float = 0.0,
    ) -> _T:
        """Await a plain command under the same limit and translation of errors.

        A command that waits by itself does so for `blocks_s`. When a command meets a key of a wrong
        type, the wrong ones among `types` are dropped; the caller finds them empty when it asks
        again.
        """
        with translate_errors():
            try:
                with anyio.fail_after(blocks_s + REPLY_WAIT_S):
                    return await cast("Awaitable[_T]", reply)
            except exceptions.ResponseError as error:
                if "WRONGTYPE" in str(error):
                    await self.mend(types)
                raise

    async def mend(self, types: Mapping[str, str]) -> None:
        """Drop the keys behind this prefix whose type is not the one named here.

        Raises:
            QueueError: `queue_unavailable`, `queue_refused`.
        """
        if types:
            await self.run("mend", *chain.from_iterable(types.items()))


def _without_drops(answer: Any) -> Any:
    """Return the reply of a script, and count what the script has dropped."""
    reply, *drops = answer
    for kind, count in zip(drops[::2], drops[1::2], strict=True):
        count_dropped(kind.decode(), count)
    return reply
