"""Queues work: at least once, earliest deadline first, coalescing by key.

An item is waiting (ready, suspended, or delayed until a retry is due), in flight, or dead; the
state diagram is in the README of this folder. Each method is one atomic script, so nothing is ever
half done. Redis may lose everything at any moment: the relay notices by the missing mark and sends
again whatever is open in the ledger, and enqueuing what is known changes nothing.

A claim is named by its key and a token, 96 random bits that the client draws for each call. A
token from a counter in Redis would start again after a flush and match somebody else's claim.

The queue keeps no order but that of urgency (decision queues/0011). An item whose claim expired is
a suspect, and is claimed alone (decision queues/0041).
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import structlog
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.queue.items import (
    BATCH_ITEMS_MAX,
    CLAIM_ITEMS_MAX,
    DURATION_MS_MAX,
    CancelState,
    Claim,
    Enqueued,
    NewItem,
    check_batch,
    check_range,
    clip,
    enqueue_args,
    ledger_state_args,
)
from queues.queue.priorities import Priority
from queues.queue.queue_view import ANY_RELAY, QueueView
from queues.queue.script_replies import claims_of
from queues.redis.connection import WAIT_S_MAX
from queues.redis.decoding import records
from queues.redis.keys import QUEUE
from queues.redis.scripts import Clock

_REAP_ITEMS: Final = 256
_REAP_ROUNDS_MAX: Final = 64
_log = structlog.get_logger(__name__)


class _Asked:
    """A request of `enqueue` that has no answer yet."""

    __slots__ = ("answer", "is_sent", "item", "woken")

    def __init__(self, item: NewItem) -> None:
        self.item = item
        self.answer: Enqueued | QueueError | None = None
        self.is_sent = False
        self.woken = anyio.Event()


class WorkQueue(QueueView):
    """A named queue of coalesced work items on Redis, claimed in the order of priorities.

    Every method raises `QueueError` with `queue_unavailable` when Redis cannot be reached. A
    cancelled call may or may not have taken effect: a claim made by it expires, an enqueue is
    safe to send again.
    """

    def __init__(
        self,
        redis: Redis,
        name: str,
        clock: Clock | None = None,
        new_token: Callable[[], str] = lambda: secrets.token_hex(12),
        priorities: Sequence[Priority] | None = None,
    ) -> None:
        """Bind to a queue, as a `QueueView` is; `new_token` never returns the same token twice."""
        super().__init__(redis, name, clock, priorities)
        self._new_token = new_token
        self._asked: list[_Asked] = []

    async def enqueue_many(self, items: Sequence[NewItem], mark: str = "") -> list[Enqueued]:
        """Add up to 1000 requests, coalescing those whose key is known.

        With the mark of a relay, they are added only while the queue has that mark.

        Raises:
            QueueError: `queue_unknown_priority`, `queue_item_too_large`,
                `queue_batch_too_large`, `queue_argument_invalid`, `queue_mark_differs`; then
                nothing was added.
        """
        check_batch(items)
        if not items:
            return []
        args = chain.from_iterable(
            enqueue_args(item, self._priority(item.priority)) for item in items
        )
        head = (self._scripts.now(), self.priorities[-1].rank, mark, *ledger_state_args(items))
        states = await self._scripts.run("enqueue", *head, *args)
        if len(states) != len(items):
            raise QueueError("queue_mark_differs", f"{self.name} has another mark than {mark!r}")
        return [
            Enqueued(item.key, state.decode()) for item, state in zip(items, states, strict=True)
        ]

    async def enqueue(self, item: NewItem) -> Enqueued:
        """Add one request, as `enqueue_many` does; those of one turn of the loop go in one call.

        The task that sends them is one of those that wait. Where it is cancelled, another one sends
        again what has no answer.
        """
        enqueue_args(item, self._priority(item.priority))  # what is refused is refused alone
        asking = _Asked(item)
        self._asked.append(asking)
        try:
            await anyio.lowlevel.checkpoint()
            while asking.answer is None:
                await (asking.woken.wait() if asking.is_sent else self._enqueue_asked())
        finally:
            if not asking.is_sent:
                self._asked.remove(asking)
        if isinstance(asking.answer, QueueError):
            raise QueueError(asking.answer.code, str(asking.answer)) from asking.answer
        return asking.answer

    async def _enqueue_asked(self) -> None:
        sent = self._asked[:BATCH_ITEMS_MAX]
        del self._asked[:BATCH_ITEMS_MAX]
        for asking in sent:
            asking.is_sent, asking.woken = True, anyio.Event()
        answers: Sequence[Enqueued | QueueError | None] = [None] * len(sent)
        try:
            answers = await self.enqueue_many([asking.item for asking in sent])
        except QueueError as error:
            answers = [error] * len(sent)
        finally:
            for asking, answer in zip(sent, answers, strict=True):
                asking.answer, asking.is_sent = answer, answer is not None
                asking.woken.set()
            self._asked[:0] = [asking for asking in sent if not asking.is_sent]

    async def claim(
        self, limit: int, visibility_ms: int, least_urgent: str | None = None
    ) -> list[Claim]:
        """Take up to `limit` (1..256) items: the top priority, then the earliest deadline.

        They are hidden from others for `visibility_ms`, then they return when `reap` runs. With
        `least_urgent`, only that priority and more urgent ones are taken. Whoever claims a priority
        has capacity for it: suspended items come first, in the order of their suspension. An item
        of which a claim has expired (`Claim.ends`) comes alone; its worker calls `begin`.

        Raises:
            QueueError: `queue_argument_invalid`, `queue_unknown_priority`.
        """
        check_range("limit", limit, 1, CLAIM_ITEMS_MAX)
        check_range("visibility_ms", visibility_ms, 1, DURATION_MS_MAX)
        token, rank = self._new_token(), self._least_rank(least_urgent)
        now = self._scripts.now()
        reply = await self._scripts.run("claim", now, limit, visibility_ms, token, rank)
        foreign: list[Any] = []
        rows = zip(reply[::2], reply[1::2], strict=True)
        claims = records("item", rows, claims_of(token, self.priorities), foreign)
        if foreign:  # what nobody can read is in flight now, and leaves the queue
            pairs = chain.from_iterable((row[0], token) for row in foreign)
            await self._scripts.run("acknowledge", *pairs)
        return claims

    async def begin(self, claims: Sequence[Claim]) -> list[bool]:
        """Mark items as begun, until their claims end; False where the token held no longer.

        A claim that expires now is an attempt of its item, and counted in `Claim.ends`.
        """
        return await self._settle("begin", (), [(c.key, c.token) for c in claims])

    async def acknowledge(self, claims: Sequence[Claim]) -> list[bool]:
        """Remove finished items; False where the token no longer held its item."""
        return await self._settle("acknowledge", (), [(c.key, c.token) for c in claims])

    async def retry(
        self, claims: Sequence[Claim], delay_ms_of: Sequence[int], error: str
    ) -> list[bool]:
        """Deliver failed items again, each after its own delay; False where not held any more.

        `error` is cut at 512 bytes.
        """
        return await self._delay(claims, delay_ms_of, error, attempts=1)

    async def put_off(
        self, claims: Sequence[Claim], delay_ms_of: Sequence[int], reason: str
    ) -> list[bool]:
        """Give items back untried, each for its own time; False where not held any more.

        The delivery does not count as an attempt, so a gateway that is away or an input that is
        not there yet uses no attempts up. An item can be put off without end; its open request
        shows that. `reason` is cut at 512 bytes.
        """
        return await self._delay(claims, delay_ms_of, reason, attempts=0)

    async def bury(self, claims: Sequence[Claim]) -> list[bool]:
        """Set items aside that cannot succeed; False where not held any more.

        Their causes stay known, so that none is taken for new when it is sent again, until
        `cancel` forgets them.
        """
        return await self._settle(
            "bury", (self._scripts.now(),), [(c.key, c.token) for c in claims]
        )

    async def suspend(self, claims: Sequence[Claim]) -> list[bool]:
        """Put back items for which there is no capacity; False where not held any more.

        The delivery does not count as an attempt. An item waits ahead of its priority, in the order
        of first suspension, for the next claim that takes the priority (§14.3). Nobody is woken for
        it. A more urgent cause ends the suspension.
        """
        rows = [(claim.key, claim.token) for claim in claims]
        return await self._settle("suspend", (self._scripts.now(),), rows)

    async def renew(self, claims: Sequence[Claim], visibility_ms: int) -> list[bool]:
        """Keep claims hidden for `visibility_ms` from now; False where lost or cancelled."""
        check_range("visibility_ms", visibility_ms, 1, DURATION_MS_MAX)
        rows = [(claim.key, claim.token) for claim in claims]
        return await self._settle("renew", (self._scripts.now(), visibility_ms), rows)

    async def _delay(
        self, claims: Sequence[Claim], delay_ms_of: Sequence[int], error: str, *, attempts: int
    ) -> list[bool]:
        rows = [
            (claim.key, claim.token, check_range("delay_ms", delay_ms, 0, DURATION_MS_MAX))
            for claim, delay_ms in zip(claims, delay_ms_of, strict=True)
        ]
        return await self._settle("retry", (self._scripts.now(), clip(error), attempts), rows)

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

    async def cancel(self, keys: Sequence[str]) -> list[CancelState]:
        """Remove items without their being done, live and dead ones.

        cancelled: it is gone. stopping: it is in flight, cannot be renewed and leaves with the end
        of its claim. Causes are forgotten, so what is still open in the ledger will be asked for
        again: close it there first.
        """
        check_batch(keys)
        replies = await self._scripts.run("cancel", *keys) if keys else []
        return [reply.decode() for reply in replies]

    async def withdraw(self, keys: Sequence[str]) -> list[str]:
        """Remove items that wait; what is open in the ledger is asked for again as it says there.

        withdrawn: it is gone. running: it is in flight, and stays.
        """
        check_batch(keys)
        replies = await self._scripts.run("withdraw", *keys) if keys else []
        return [reply.decode() for reply in replies]

    async def remove_closed(self, keys: Sequence[str]) -> None:
        """Remove items whose requests are closed; where Redis is away they stay, harmlessly.

        Whoever claims such an item finds nothing open and drops it.
        """
        try:
            await self.cancel(keys)
        except QueueError as error:
            _log.debug("closed_items_stay", queue=self.name, code=error.code)

    async def pause(self, priority: str | None = None) -> bool:
        """Let nothing more be claimed, or nothing of one priority; False if it was so already.

        Enqueuing and what is in flight go on. What is decided stands on the ledger: a lost Redis
        forgets it, and the relay pauses again (decision queues/0065).
        """
        return await self._switch("pause", priority)

    async def resume(self, priority: str | None = None) -> bool:
        """End the pause of the queue, or that of one priority; False if there was none."""
        return await self._switch("resume", priority)

    async def _switch(self, script: str, priority: str | None) -> bool:
        rank = "all" if priority is None else self._priority(priority).rank
        return bool(await self._scripts.run(script, rank) == 1)

    async def wait(self, timeout_s: float, least_urgent: str | None = None) -> bool:
        """Block until `claim` with this `least_urgent` may find something; False after `timeout_s`.

        `timeout_s` is 60 at most. True is a hint: somebody else may be faster. After False, waiting
        again is enough, for it looks before it blocks: an idle consumer sends two commands for
        each timeout. It takes a connection of its own, whose socket timeout must be longer than
        `timeout_s`. Cancellation loses at most one hint.
        """
        timeout_ms = int(min(timeout_s, WAIT_S_MAX) * 1000)
        check_range("timeout in ms", timeout_ms, 1, int(WAIT_S_MAX * 1000))
        rank = self._least_rank(least_urgent)
        pause_ms = int(await self._scripts.run("sleep", self._scripts.now(), timeout_ms, rank))
        if pause_ms == 0:
            return True
        lists = [f"{self.prefix}wake:{priority_rank}" for priority_rank in range(rank + 1)]
        blocked = self._redis.blpop(lists, timeout=pause_ms / 1000)  # type: ignore[arg-type]  # a fraction of a second is allowed
        woken = await self._scripts.ask(
            cast("Awaitable[Any]", blocked), QUEUE, blocks_s=pause_ms / 1000
        )
        return woken is not None or pause_ms < timeout_ms

    async def mark(self, mark: str = ANY_RELAY, instead_of: str = "") -> bool:
        """Leave the mark of a relay instead of another; False where it was yet another one."""
        return bool(await self._scripts.run("mark", mark, instead_of.encode("latin-1")) == 1)

    async def say_not_due(self, count: int) -> None:
        """Leave the number of open requests whose time has not come, for `depth`."""
        await self._scripts.ask(self._redis.set(f"{self.prefix}not-due", count), QUEUE)
