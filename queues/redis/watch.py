"""Watches Redis by a write through a script of ours: who refuses, who is away, whose the keys are.

A server may answer PING and refuse every write. So one look runs the script `watch`, which uses
every command that the other scripts use, and, as long as the last look found something, the
commands that no script can send. Readiness, the metric and `rotulus doctor` say what a look says
(decision queues/0091). Beside the looks a process asks twice a second where the server is: one that
hangs lets a look wait while another one serves already.

The keys of a prefix are of one ledger. Its id stands beside them for `OWNER_KEPT_MS` after its last
look. Whoever comes with another ledger is refused, because two that share shards and queues stop
each other. After a flush the owner's next look writes it again (decision queues/0092).
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import anyio
import structlog
from redis import exceptions
from redis.asyncio import Redis

from queues.redis.connection import end_connections, follow_place, is_followed
from queues.redis.dropped import count_dropped
from queues.redis.keys import key_prefix_of, prefix_of
from queues.redis.refusals import RedisProblem, problem_of
from queues.redis.scripts import Scripts, script_text

LOOK_EVERY_S: Final = 1.0
LOOK_S: Final = 2.0
"""How long a look may take; then Redis is away."""

FOLLOW_EVERY_S: Final = 0.5
FRESH_S: Final = 0.5
OWNER_KEPT_MS: Final = 10 * 60 * 1000
NAME_CHARS_MAX: Final = 200
MARK_AGAIN_S: Final = 30.0
"""Pause before an id that could not be read is asked for again."""


_FAILED: Final = (exceptions.RedisError, OSError, EOFError, TimeoutError)
_MODES: Final = {b"cluster": "CLUSTERNODE", b"sentinel": "SENTINELNODE"}
"""What a single server may be instead, by its word for it."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerMark:
    """Which ledger it is: an id that no other has, and where it lies, for people."""

    id: str
    """Hexadecimal digits."""

    name: str

    def __str__(self) -> str:
        return f"{self.id[:12]} ({self.name})"


class RedisOfAnotherLedgerError(Exception):
    """Says that the keys of this prefix are another ledger's."""

    code: ClassVar[str] = "redis_of_another_ledger"

    def __init__(self, owner: LedgerMark, mine: LedgerMark, prefix: str) -> None:
        self.owner, self.mine = owner, mine
        self.todo = (
            "give each ledger a Redis, a database of it, or a ROTULUS_REDIS_PREFIX of its own; if"
            f" {owner.id[:12]} is gone for good, delete the key {prefix}{{ledger}}:owner"
        )
        self.what = (
            f"another ledger uses this Redis under the prefix {prefix!r}: {owner}; this one is"
            f" {mine}"
        )
        super().__init__(f"{self.code}: {self.what}; do: {self.todo}")


async def _unknown() -> LedgerMark | None:
    return None


class RedisWatch:
    """What one process knows of its Redis."""

    def __init__(
        self,
        redis: Redis,
        mark: Callable[[], Awaitable[LedgerMark | None]] = _unknown,
        *,
        claims: bool = True,
        clock_s: Callable[[], float] = anyio.current_time,
    ) -> None:
        """Bind to a client.

        Args:
            redis: a client that does not decode responses.
            mark: returns whose process this is, None while that is not known.
            claims: whether the ledger becomes the owner where there is none.
            clock_s: seconds that never go back.
        """
        self.problem: RedisProblem | None = None
        """What the last look found, None where all is well."""

        self._redis = redis
        self._scripts = Scripts(redis, prefix_of(redis, "ledger"))
        self._script = redis.register_script(script_text("watch"))
        self._mark = mark
        self._known: LedgerMark | None = None
        self._asks_at_s = float("-inf")
        self._claims = claims
        self._clock_s = clock_s
        self._looked_at_s = float("-inf")
        self._is_tried = False
        self._lock = anyio.Lock()

    async def current(self) -> RedisProblem | None:
        """Return what is wrong, from a look that is half a second old at most."""
        async with self._lock:
            if self._clock_s() - self._looked_at_s > FRESH_S:
                await self._look()
        return self.problem

    async def refuse_another(self) -> None:
        """Look, and refuse what is another ledger's.

        Raises:
            RedisOfAnotherLedgerError: another ledger uses these keys.
        """
        async with self._lock:
            stranger = await self._look()
        if stranger is not None:
            raise stranger

    async def run(self) -> None:
        """Look until cancelled.

        Raises:
            RedisOfAnotherLedgerError: another ledger uses these keys; this process has to end.
        """
        while True:
            await self.refuse_another()
            await anyio.sleep(LOOK_EVERY_S)

    async def follow(self) -> None:
        """Go where the server is, also while a look waits for one that hangs, until cancelled.

        A server that is named itself is nowhere else; then nothing is looked for.
        """
        if not is_followed(self._redis):
            await anyio.sleep_forever()
        while True:
            await anyio.sleep(FOLLOW_EVERY_S)
            with suppress(*_FAILED):
                await follow_place(self._redis)

    async def _look(self) -> RedisOfAnotherLedgerError | None:
        stranger, problem = None, None
        try:
            with anyio.fail_after(LOOK_S):
                await follow_place(self._redis)
                if not self._is_tried:
                    await self._refuse_mode()
                stranger = await self._owner_is_another()
                if not self._is_tried:
                    await self._try_what_no_script_sends()
        except _FAILED as error:
            problem = problem_of(error)
            if isinstance(error, TimeoutError):
                # A network that lost one connection has lost the others, and tells nobody.
                await end_connections(self._redis)
        if stranger is not None:
            problem = RedisProblem("refused", stranger.code, stranger.what, stranger.todo)
        self._say(problem)
        self.problem, self._is_tried = problem, problem is None
        self._looked_at_s = self._clock_s()
        return stranger

    async def _owner_is_another(self) -> RedisOfAnotherLedgerError | None:
        if self._known is None and self._clock_s() >= self._asks_at_s:
            self._asks_at_s = self._clock_s() + MARK_AGAIN_S
            self._known = await self._mark()
        mine = self._known
        stated: list[Any] = ["", "", OWNER_KEPT_MS, int(self._claims)]
        if mine is not None:
            name = " ".join(mine.name.split())[:NAME_CHARS_MAX]
            stated[:2] = [mine.id, name]
        owner, *drops = await self._script(keys=[self._scripts.prefix], args=stated)
        for kind, count in zip(drops[::2], drops[1::2], strict=True):
            count_dropped(kind.decode(), count)
        owner_id, _, owner_name = owner.decode("utf-8", "replace").partition(" ")
        if mine is None or owner_id in ("", mine.id):
            return None
        return RedisOfAnotherLedgerError(
            LedgerMark(owner_id, owner_name), mine, key_prefix_of(self._redis)
        )

    async def _try_what_no_script_sends(self) -> None:
        # The script of another process writes every other key: what is watched would have changed.
        key = f"{self._scripts.prefix}try:nothing"
        async with self._redis.pipeline(transaction=True) as pipe:
            await pipe.watch(key)
            await pipe.exists(key)
            pipe.multi()  # type: ignore[no-untyped-call]
            pipe.psetex(f"{self._scripts.prefix}try:text", 1000, b"1")
            pipe.delete(key)
            await pipe.execute()
        blocked: Any = self._redis.blpop([key], timeout=0.01)  # type: ignore[arg-type]  # a fraction of a second is allowed
        await blocked

    async def _refuse_mode(self) -> None:
        """Refuse a node of a cluster, or a sentinel, that is named as a single server.

        A node may serve some keys and not others, and a transaction on several of them not at all.
        """
        place = getattr(self._redis, "place", None)
        if place is None or place.way != "single":
            return
        try:
            said: Any = await self._redis.execute_command("HELLO")  # type: ignore[no-untyped-call]
        except exceptions.ResponseError:
            return  # an older server, or a user who may not ask
        words = said.items() if isinstance(said, dict) else zip(said[::2], said[1::2], strict=False)
        mode = _MODES.get(dict(words).get(b"mode", b""))
        if mode is not None:
            raise exceptions.ResponseError(mode)

    def _say(self, problem: RedisProblem | None) -> None:
        """Log where a problem begins, changes its name, or ends."""
        before = self.problem
        if problem is None:
            if before is not None:
                _log.info("redis_serves_again", before=before.name)
        elif before is None or before.name != problem.name:
            _log.error(
                "redis_refuses" if problem.state == "refused" else "redis_away",
                refusal=problem.name,
                error=problem.what,
                todo=problem.todo,
            )
