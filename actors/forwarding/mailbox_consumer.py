"""Takes the entries of the mailboxes of the shards that this process holds, and answers them.

Entries of a session go into its actor's mailbox in their order. An entry is deleted once its answer
is durable, and only then its caller is answered: a caller without an answer asks again, and one
with an answer never meets its entry again. If this process ends in between, the next owner finds
the entry, and finds in the ledger that it was taken (`Position`).

An owner that has lost its shard leaves the entries that it could not carry out in the mailbox:
`stale_epoch` and `shard_unowned` are no answers to an entry, and the next owner reads the mailbox
from the beginning. One that has lost its shard and does not know it yet must not say that nothing
was taken, because the next owner may have the entry in hand: such a refusal is sent only where the
fence is still held once the entry is deleted, and `reply_lost` in its place where it is not, or
where nobody can tell (decision actors/0100).

A Redis that is back after it was away may lack what it had said it has: the server that took over
has not got the newest entries and answers. So whoever waited for an answer by then is told
`reply_lost`, unless the answer comes within `ANSWERS_AGAIN_S`. An owner sends an answer that Redis
did not take again, and gives back again what it could not give back (decision queues/0097).

An entry is counted as taken before it is begun, until it is answered or given back;
`poisoned_entries.py` says what becomes of one that was in hand when a process ended.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio
import anyio.abc
import structlog

from actors.error_codes import ERRORS
from actors.errors import (
    ActorError,
    ActorFailed,
    ClocksDiffer,
    CommitFailed,
    ProtocolDiffers,
    ReplyLost,
    ShardUnowned,
    StaleEpoch,
)
from actors.forwarding.message_codec import (
    LONG_CHARS,
    Asker,
    ForwardedMessage,
    aside,
    decode_asking,
    encode_reply,
)
from actors.forwarding.poisoned_entries import before_suspects, is_poisoned, set_aside
from actors.forwarding.ports import Inbound, MailboxEntryPort
from actors.messages import Message
from actors.sessions.runtime import SessionRuntime
from actors.sharding.held_shards import HeldShards
from actors.supervision import WakeSignal, keep_running
from kernel.ledger.shards import Fence, Position
from kernel.values.json_text import is_longer_than

LOOK_EVERY_S = 1.0
"""How long a lost wake may delay an entry."""

UNREACHABLE_PAUSE_S = 0.25
ANSWERS_AGAIN_S = LOOK_EVERY_S + 0.5
"""How long an answer may take once Redis is back: its owner looks into every mailbox, and sends."""

SENT_AGAIN_S = 30.0
"""How long an answer is sent again; its asker has given up before."""

ENTRIES_AT_ONCE_MAX = 256
"""Entries of one shard that may be with their actors at once."""

FINISHED_MAX = 4096
ALONE_S = 30.0
"""How long other entries wait at most for one that is taken alone."""

MAY_BE_TAKEN = "the session has changed hands meanwhile; ask again under the same keys"
CLOCKS_DIFFER = "the clocks of this gateway and the session's are too far apart: set them"

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Reading:
    """How far a shard's mailbox was read under one fence."""

    cursor: str = ""
    begun: bool = False
    under_way: int = 0


@dataclass(frozen=True, slots=True)
class _Finished:
    shard: int
    offset: str
    gateway: str | None = None
    ask_id: str = ""
    reply: bytes = b""
    given_back: bool = False
    """Whether it was not carried out here and stays in the mailbox for the next owner."""

    untaken_under: Fence | None = None
    """The fence without which its answer, that nothing was taken, may be wrong."""


class MailboxConsumer:
    """Takes and answers the mail of one gateway; run `run` in a task group."""

    def __init__(
        self,
        mail: Inbound,
        held_shards: HeldShards,
        runtime: SessionRuntime,
        *,
        answered: Callable[[bytes], None],
        answers_lost: Callable[[float], None],
        leases_changed: Callable[[], None],
        work_recorded: Callable[[], None] = lambda: None,
    ) -> None:
        self._mail = mail
        self._held_shards = held_shards
        self._runtime = runtime
        self._answered = answered
        self._answers_lost = answers_lost
        self._leases_changed = leases_changed
        self._work_recorded = work_recorded
        self._readings: dict[Fence, _Reading] = {}
        self._woken: set[int] = set()
        self._wake = WakeSignal()
        self._undeleted: dict[int, set[str]] = {}
        self._unreturned: dict[int, list[str]] = {}
        """Entries that are counted as taken and were given back."""

        self._finished, self._to_tell = anyio.create_memory_object_stream[_Finished](FINISHED_MAX)
        self._open = 0
        self._emptied = anyio.Event()
        self.is_listening = True
        """Whether notes arrived, or could have, at the last look."""

    async def run(self) -> None:
        """Listen, take entries and send answers until cancelled."""
        async with self._finished, self._to_tell, anyio.create_task_group() as tasks:
            tasks.start_soon(keep_running, "mail_listener", self._listen)
            tasks.start_soon(keep_running, "mail_teller", self._tell)
            tasks.start_soon(keep_running, "mail_taker", partial(self._take, tasks))

    def wake(self) -> None:
        """Look into every mailbox now, because shards were taken."""
        self._wake.set()

    async def empty(self) -> None:
        """Wait until no entry is with an actor and every answer was sent."""
        while self._open:
            if self._emptied.is_set():
                self._emptied = anyio.Event()
            await self._emptied.wait()

    async def _listen(self) -> None:
        back_at_s: float | None = None
        while True:
            heard = await self._mail.listen(LOOK_EVERY_S)
            if heard is None:
                self.is_listening = False
                await anyio.sleep(UNREACHABLE_PAUSE_S)
                continue
            if not self.is_listening:
                self.is_listening, back_at_s = True, anyio.current_time()
            for reply in heard.replies:
                self._answered(reply)
            if back_at_s is not None and anyio.current_time() - back_at_s >= ANSWERS_AGAIN_S:
                self._answers_lost(back_at_s)
                back_at_s = None
            if heard.mail_for:
                self._look_at(heard.mail_for)
            if heard.leases_changed:
                self._leases_changed()
            if heard.work_recorded:
                self._work_recorded()

    def _look_at(self, shards: Collection[int]) -> None:
        self._woken.update(shards)
        self._wake.set()

    async def _take(self, tasks: anyio.abc.TaskGroup) -> None:
        looked_at_s = float("-inf")
        while True:
            await self._wake.wait(LOOK_EVERY_S)
            everywhere = anyio.current_time() - looked_at_s >= LOOK_EVERY_S
            if everywhere:
                looked_at_s = anyio.current_time()
                await self._give_back({})
            shards, self._woken = self._woken, set()
            held = self._held_shards.held
            self._readings = {
                fence: self._readings.get(fence) or _Reading() for fence in held.values()
            }
            looked_at = {
                shard: fence
                for shard, fence in held.items()
                if (everywhere or shard in shards or not self._readings[fence].begun)
                and self._readings[fence].under_way < ENTRIES_AT_ONCE_MAX
            }
            if looked_at:
                await self._take_from(looked_at, tasks)

    async def _take_from(self, held: Mapping[int, Fence], tasks: anyio.abc.TaskGroup) -> None:
        cursors = {shard: self._readings[fence].cursor for shard, fence in held.items()}
        by_shard = await self._mail.read(cursors, ENTRIES_AT_ONCE_MAX)
        if by_shard is None:
            return
        fresh = {
            shard: before_suspects(entries)
            for shard, entries in by_shard.items()
            if self._held_shards.held.get(shard) == held[shard]
        }
        # Counted before it is begun: a process that ends has no time to say so.
        offsets = {
            shard: [entry.offset for entry in of_shard]
            for shard, of_shard in fresh.items()
            if of_shard
        }
        if offsets and not await self._mail.take(offsets):
            return
        askings = {
            (shard, entry.offset): await _asking_in(entry, shard)
            for shard, entries in fresh.items()
            for entry in entries
        }
        suspects = []
        for shard, fence in held.items():
            if self._held_shards.held.get(shard) != fence:
                await self._give_back({shard: offsets.get(shard, ())})
                continue
            reading, entries = self._readings[fence], by_shard.get(shard, ())
            reading.begun = True
            begun = fresh.get(shard, [])
            for entry in begun:
                reading.cursor = entry.offset
                self._begin(fence, reading, entry, askings[shard, entry.offset], tasks)
            if len(begun) < len(entries):
                suspects.append((fence, entries[len(begun)]))
            if len(entries) >= ENTRIES_AT_ONCE_MAX or len(begun) < len(entries):
                self._look_at([shard])
        for fence, entry in suspects:
            await self._take_alone(fence, entry, tasks)

    async def _take_alone(
        self, fence: Fence, entry: MailboxEntryPort, tasks: anyio.abc.TaskGroup
    ) -> None:
        """Take an entry that was in hand when a process ended, while nothing else is in hand."""
        with anyio.move_on_after(ALONE_S):
            await self.empty()
        if self._open or self._held_shards.held.get(fence.shard) != fence:
            return
        reading = self._readings[fence]
        if is_poisoned(entry):
            try:
                await self._set_aside(fence, entry)
                reading.cursor = entry.offset
            except (StaleEpoch, CommitFailed) as error:
                _log.warning("entry_not_set_aside", shard=fence.shard, code=error.code)
            return
        _log.warning("entry_taken_alone", shard=fence.shard, offset=entry.offset, ends=entry.ends)
        if await self._mail.take({fence.shard: [entry.offset]}):
            reading.cursor = entry.offset
            asking = await _asking_in(entry, fence.shard)
            self._begin(fence, reading, entry, asking, tasks)
            with anyio.move_on_after(ALONE_S):
                await self.empty()

    async def _set_aside(self, fence: Fence, entry: MailboxEntryPort) -> None:
        asking = await _asking_in(entry, fence.shard)
        finished = _Finished(fence.shard, entry.offset)
        if asking is not None:
            error = await set_aside(entry, asking.session_id, fence, self._runtime, self._mail)
            reply = encode_reply(asking.ask_id, None, error)
            finished = replace(finished, gateway=asking.gateway, ask_id=asking.ask_id, reply=reply)
        self._open += 1
        self._finish(finished)

    def _begin(
        self,
        fence: Fence,
        reading: _Reading,
        entry: MailboxEntryPort,
        asking: Asker | None,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        """Put an entry's message into its actor's mailbox; no wait, so that order is kept."""
        if asking is None:
            self._open += 1
            self._finish(_Finished(fence.shard, entry.offset))
            return
        refusal = _refusal_of(entry, asking)
        if refusal is not None or not isinstance(asking, ForwardedMessage):
            self._open += 1
            reply = encode_reply(asking.ask_id, None, refusal)
            self._finish(
                _Finished(
                    fence.shard,
                    entry.offset,
                    asking.gateway,
                    asking.ask_id,
                    reply,
                    untaken_under=fence,
                )
            )
            return
        message = asking.message
        message.position = Position(entry.mailbox_id, entry.offset)
        message.ask_id = asking.ask_id
        try:
            self._runtime.put(asking.session_id, message)
        except Exception as error:  # noqa: BLE001 - the error is the answer
            message.reply.fail(error)
        reading.under_way += 1
        self._open += 1
        tasks.start_soon(self._wait_for, fence, reading, entry.offset, asking)

    async def _wait_for(
        self, fence: Fence, reading: _Reading, offset: str, asking: ForwardedMessage
    ) -> None:
        try:
            reply, says_untaken = await _reply_of(asking.ask_id, asking.message)
        except (ShardUnowned, StaleEpoch):
            self._finish(_Finished(fence.shard, offset, given_back=True))
            return
        finally:
            reading.under_way -= 1
            if reading.under_way == ENTRIES_AT_ONCE_MAX - 1:
                self._look_at([fence.shard])
        self._finish(
            _Finished(
                fence.shard,
                offset,
                asking.gateway,
                asking.ask_id,
                reply,
                untaken_under=fence if says_untaken else None,
            )
        )

    def _finish(self, finished: _Finished) -> None:
        try:
            self._finished.send_nowait(finished)
        except anyio.WouldBlock:
            # Its caller gives up and asks again; the next owner finds that the entry was taken.
            _log.warning("reply_dropped", shard=finished.shard)
            self._close(1)

    def _close(self, entries: int) -> None:
        self._open -= entries
        if not self._open:
            self._emptied.set()

    async def _tell(self) -> None:
        async for first in self._to_tell:
            batch = [first]
            while self._to_tell.statistics().current_buffer_used:
                batch.append(self._to_tell.receive_nowait())
            try:
                await self._settle(batch)
            finally:
                self._close(len(batch))

    async def _settle(self, batch: Sequence[_Finished]) -> None:
        given_back: dict[int, list[str]] = {}
        for message in batch:
            if message.given_back:
                given_back.setdefault(message.shard, []).append(message.offset)
            else:
                self._undeleted.setdefault(message.shard, set()).add(message.offset)
        await self._give_back(given_back)
        if self._undeleted and await self._mail.delete(self._undeleted):
            self._undeleted = {}
        still_owned = await self._owned_fences(batch)
        replies: dict[str, list[tuple[str, bytes]]] = {}
        for message in batch:
            if message.gateway is None:
                continue
            reply = message.reply
            if message.untaken_under not in still_owned:
                reply = encode_reply(message.ask_id, None, ReplyLost(MAY_BE_TAKEN))
            replies.setdefault(message.gateway, []).append((message.ask_id, reply))
        until_s = anyio.current_time() + SENT_AGAIN_S
        while not await self._mail.reply(replies):
            if anyio.current_time() >= until_s:
                return
            await anyio.sleep(UNREACHABLE_PAUSE_S)

    async def _give_back(self, offsets: Mapping[int, Sequence[str]]) -> None:
        """Count entries as not taken: these, and those of before that Redis did not hear of.

        Otherwise a loss of Redis would count as an end of a process, of which an entry has three.
        """
        returned, self._unreturned = self._unreturned, {}
        for shard, of_shard in offsets.items():
            returned.setdefault(shard, []).extend(of_shard)
        if any(returned.values()) and not await self._mail.give_back(returned):
            for shard, of_shard in returned.items():
                self._unreturned.setdefault(shard, []).extend(of_shard)

    async def _owned_fences(self, batch: Sequence[_Finished]) -> Collection[Fence | None]:
        """Return None and the fences under which nobody else can have taken a deleted entry.

        The next owner of a shard advances its epoch before it reads the mailbox, so an epoch that
        is the same after the deletion says that no other owner has read the entry.
        """
        owned: set[Fence | None] = {None}
        for fence in {message.untaken_under for message in batch} - owned:
            if fence is None or self._undeleted.get(fence.shard):
                continue
            with suppress(StaleEpoch, CommitFailed):
                await self._runtime.confirm(fence)
                owned.add(fence)
        return owned


def _refusal_of(entry: MailboxEntryPort, asking: Asker) -> ActorError | None:
    if not isinstance(asking, ForwardedMessage):
        _log.error("protocol_differs", gateway=asking.gateway)
        return ProtocolDiffers("the session's gateway is of another version; ask again")
    return ClocksDiffer(CLOCKS_DIFFER) if entry.clocks_differ else None


async def _asking_in(entry: MailboxEntryPort, shard: int) -> Asker | None:
    """Read an entry; None, and nobody can be told, where it cannot be read."""
    try:
        return await aside(decode_asking, entry.body, is_long=len(entry.body) > LONG_CHARS)
    except Exception as error:  # noqa: BLE001 - nobody else can read it either
        _log.error("entry_unreadable", shard=shard, error=repr(error))
        return None


async def _reply_of(ask_id: str, message: Message) -> tuple[bytes, bool]:
    """Return the answer to a message, or its error, and whether that says that nothing was taken.

    Raises:
        ShardUnowned, StaleEpoch: it was not carried out here.
    """
    answer: Any = None
    failure: Exception | None = None
    try:
        answer = await message.reply.wait()
    except (ShardUnowned, StaleEpoch):
        raise
    except Exception as error:  # noqa: BLE001 - the error is the answer
        failure = error
    try:
        is_long = is_longer_than(answer, LONG_CHARS)
        reply = await aside(encode_reply, ask_id, answer, failure, is_long=is_long)
    except Exception as error:  # noqa: BLE001 - whatever cannot be said, its asker is told that
        _log.error("answer_unspeakable", error=repr(error))
        return encode_reply(ask_id, None, ActorFailed("the answer cannot be sent")), False
    return reply, isinstance(failure, ActorError) and _says_untaken(failure)


def _says_untaken(error: ActorError) -> bool:
    """Whether an error says that nothing was taken and that the same may be taken the next time."""
    meaning = ERRORS.get(error.code)
    return meaning is not None and meaning.is_retryable and not meaning.may_be_taken
