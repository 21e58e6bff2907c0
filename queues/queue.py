"""A work queue: at least once, earliest deadline first, coalescing by key.

An item is waiting (ready, or delayed until a retry is due), in flight, or dead; the state
diagram is in the README of this folder. Each method is one atomic script, so nothing is ever
half done. Redis may lose everything at any moment: the relay notices by the missing mark and
sends again whatever is open in the ledger, and enqueuing what is known changes nothing.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import Any, Final, cast

from redis.asyncio import Redis

from queues.items import (
    BATCH_ITEMS_MAX,
    CLAIM_ITEMS_MAX,
    DURATION_MS_MAX,
    NAME_BYTES_MAX,
    Claim,
    DeadItem,
    Enqueued,
    NewItem,
    QueueDepth,
    WaitingItem,
    check_batch,
    check_name,
    check_range,
    enqueue_args,
    read_claim,
    read_dead,
    read_waiting,
)
from queues.priorities import PRIORITIES
from queues.scripting import Clock, Scripts

WAIT_S_MAX: Final = 60.0
_REAP_ITEMS: Final = 256
_REAP_ROUNDS_MAX: Final = 64


def _random_token() -> str:
    return secrets.token_hex(12)


def _clip(text: str) -> bytes:
    return text.encode()[:NAME_BYTES_MAX].decode(errors="ignore").encode()


class WorkQueue:
    """One named queue on Redis.

    Every method raises `QueueError` with `queue_unavailable` when Redis cannot be reached. A
    cancelled call may or may not have taken effect: a claim made by it expires, an enqueue is
    safe to send again.
    """

    def __init__(
        self,
        redis: Redis,
        name: str,
        clock: Clock | None = None,
        new_token: Callable[[], str] = _random_token,
    ) -> None:
        """Bind to a queue; nothing is sent yet.

        Args:
            redis: a client that does not decode responses.
            name: of the queue, e.g. "authority-recompute".
            clock: ms since the epoch; without it the clock of the Redis server counts.
            new_token: must never return the same token twice.
        """
        self.name = check_name(name)
        self.prefix = f"rotulus:{{{name}}}:"
        self._redis = redis
        self._scripts = Scripts(redis, self.prefix, clock)
        self._new_token = new_token

    async def enqueue_many(self, items: Sequence[NewItem]) -> list[Enqueued]:
        """Add up to 1000 requests, coalescing those whose key is known.

        Raises:
            QueueError: `queue_unknown_priority`, `queue_item_too_large`,
                `queue_batch_too_large`, `queue_argument_invalid`; then nothing was added.
        """
        check_batch(items)
        if not items:
            return []
        args = chain.from_iterable(enqueue_args(item) for item in items)
        states = await self._scripts.run("enqueue", self._scripts.now(), *args)
        return [
            Enqueued(item.key, state.decode()) for item, state in zip(items, states, strict=True)
        ]

    async def claim(self, limit: int, visibility_ms: int) -> list[Claim]:
        """Take up to `limit` (1..256) ready items, earliest deadline first.

        They are hidden from others for `visibility_ms`, then they return when `reap` runs.
        """
        check_range("limit", limit, 1, CLAIM_ITEMS_MAX)
        check_range("visibility_ms", visibility_ms, 1, DURATION_MS_MAX)
        token = self._new_token()
        now = self._scripts.now()
        rows = await self._scripts.run("claim", now, limit, visibility_ms, token)
        return [read_claim(row, token) for row in rows]

    async def acknowledge(self, claims: Sequence[Claim]) -> list[bool]:
        """Remove finished items; False where the token no longer held its item."""
        return await self._settle("acknowledge", (), [(c.key, c.token) for c in claims])

    async def retry(
        self, claims: Sequence[Claim], delay_ms_of: Sequence[int], error: str
    ) -> list[bool]:
        """Deliver failed items again, each after its own delay; False where not held any more.

        `error` is cut at 512 bytes.
        """
        rows = [
            (claim.key, claim.token, check_range("delay_ms", delay_ms, 0, DURATION_MS_MAX))
            for claim, delay_ms in zip(claims, delay_ms_of, strict=True)
        ]
        return await self._settle("retry", (self._scripts.now(), _clip(error)), rows)

    async def put_off(
        self, claims: Sequence[Claim], delay_ms_of: Sequence[int], reason: str
    ) -> list[bool]:
        """Give items back untried, each for its own time; the delivery is no attempt of theirs.

        False where not held any more. `reason` is cut at 512 bytes.
        """
        rows = [
            (claim.key, claim.token, check_range("delay_ms", delay_ms, 0, DURATION_MS_MAX))
            for claim, delay_ms in zip(claims, delay_ms_of, strict=True)
        ]
        return await self._settle("put_off", (self._scripts.now(), _clip(reason)), rows)

    async def bury(self, claims: Sequence[Claim], error_signatures: Sequence[str]) -> list[bool]:
        """Move items that cannot succeed to the dead letter box; False where not held any more.

        Signatures are cut at 512 bytes.
        """
        rows = [
            (claim.key, claim.token, _clip(signature))
            for claim, signature in zip(claims, error_signatures, strict=True)
        ]
        return await self._settle("bury", (self._scripts.now(),), rows)

    async def renew(self, claims: Sequence[Claim], visibility_ms: int) -> list[bool]:
        """Keep claims hidden for `visibility_ms` from now; False where not held any more."""
        check_range("visibility_ms", visibility_ms, 1, DURATION_MS_MAX)
        rows = [(claim.key, claim.token) for claim in claims]
        return await self._settle("renew", (self._scripts.now(), visibility_ms), rows)

    async def _settle(
        self,
        script: str,
        head: tuple[int | str | bytes, ...],
        rows: Sequence[tuple[int | str | bytes, ...]],
    ) -> list[bool]:
        check_batch(rows)
        if not rows:
            return []
        replies = await self._scripts.run(script, *head, *chain.from_iterable(rows))
        return [reply == 1 for reply in replies]

    async def reap(self) -> int:
        """Return expired claims to ready and say how many; at most 16 384 in one call."""
        total = 0
        for _ in range(_REAP_ROUNDS_MAX):
            ended = int(await self._scripts.run("reap", self._scripts.now(), _REAP_ITEMS))
            total += ended
            if ended < _REAP_ITEMS:
                break
        return total

    async def requeue(self, keys: Sequence[str]) -> list[bool]:
        """Make dead items ready with a new deadline and no attempts; False where none is dead."""
        targets = [row.service_target_ms for row in PRIORITIES]
        return await self._settle(
            "requeue", (self._scripts.now(), *targets), [(key,) for key in keys]
        )

    async def dead(self, limit: int) -> list[DeadItem]:
        """Return up to `limit` (1..1000) dead items, oldest death first."""
        rows = await self._scripts.run("dead", check_range("limit", limit, 1, BATCH_ITEMS_MAX))
        return [read_dead(row) for row in rows]

    async def dead_by_signature(self) -> dict[str, int]:
        """Count the dead items of each error signature."""
        reply: Any = self._redis.hgetall(f"{self.prefix}dead-signatures")
        counts = cast("dict[bytes, bytes]", await self._scripts.ask(reply))
        return {signature.decode(): int(count) for signature, count in counts.items()}

    async def peek(self, limit: int) -> list[WaitingItem]:
        """Return up to `limit` (1..1000) ready items in the order in which they are served."""
        rows = await self._scripts.run("peek", check_range("limit", limit, 1, BATCH_ITEMS_MAX))
        return [read_waiting(row) for row in rows]

    async def depth(self) -> QueueDepth:
        """Count what the queue holds at one moment."""
        delayed, in_flight, dead, *rest = await self._scripts.run("depth", self._scripts.now())
        names = [row.name for row in PRIORITIES]
        return QueueDepth(
            ready=dict(zip(names, rest[0::2], strict=True)),
            delayed=delayed,
            in_flight=in_flight,
            dead=dead,
            oldest_eligible_age_ms={
                name: max(0, age) for name, age in zip(names, rest[1::2], strict=True)
            },
        )

    async def wait(self, timeout_s: float) -> bool:
        """Block until there may be something to claim; False after `timeout_s` (at most 60).

        True is a hint: somebody else may be faster. False is no proof either. It takes a
        connection of its own, whose socket timeout must be longer than `timeout_s`.
        Cancellation loses at most one hint.
        """
        timeout_ms = int(min(timeout_s, WAIT_S_MAX) * 1000)
        check_range("timeout in ms", timeout_ms, 1, int(WAIT_S_MAX * 1000))
        pause_ms = int(await self._scripts.run("sleep", self._scripts.now(), timeout_ms))
        if pause_ms == 0:
            return True
        blocked = self._redis.blpop([f"{self.prefix}wake"], timeout=pause_ms / 1000)  # type: ignore[arg-type]  # a fraction of a second is allowed
        woken = await self._scripts.ask(cast("Awaitable[Any]", blocked))
        return woken is not None or pause_ms < timeout_ms

    async def mark(self) -> None:
        """Leave a mark that only a lost Redis removes."""
        await self._scripts.ask(self._redis.set(f"{self.prefix}mark", b"1"))

    async def marked(self) -> bool:
        """Tell whether the mark is still there; if not, open work has to be sent again."""
        return bool(await self._scripts.ask(self._redis.exists(f"{self.prefix}mark")))
