"""Takes the entries of the mailboxes of the shards that this process holds, and answers them.

Entries of a session are put into its actor's mailbox in the order in which they stand. An entry is
deleted once its answer is durable, and then its asker is told. If this process ends in between,
the next owner finds the entry, and in the ledger that it was taken (`Position`).

What an owner that has lost its shard could not carry out stays where it is, for the next one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import anyio.abc
import structlog

from actors.errors import ShardUnowned, StaleEpoch
from actors.forwarding.message_codec import Asking, decode_asking, encode_reply
from actors.messages import Message
from actors.sessions.runtime import SessionRuntime
from actors.sharding.held_shards import Ownership
from kernel.ledger.shards import Fence, Position

LOOK_EVERY_S = 1.0
"""How long a lost wake may delay an entry."""

UNREACHABLE_PAUSE_S = 0.25
ENTRIES_AT_ONCE_MAX = 256
"""Entries of one shard that are with their actors."""

FINISHED_MAX = 4096

_log = structlog.get_logger(__name__)


class Entry(Protocol):
    """An entry of a shard's mailbox."""

    @property
    def mailbox_id(self) -> str:
        """Which mailbox it is; a lost one has a successor with another id."""

    @property
    def offset(self) -> str:
        """Its place there; sorts as text like the entries."""

    @property
    def body(self) -> bytes:
        """What was put in."""


class Heard(Protocol):
    """What other gateways have sent to this one."""

    @property
    def replies(self) -> Sequence[bytes]:
        """Answers to what this gateway has asked."""

    @property
    def mail_for(self) -> Collection[int]:
        """Shards in whose mailboxes something new stands."""

    @property
    def leases_changed(self) -> bool:
        """Whether the lease table has changed."""


class Inbound(Protocol):
    """The mailboxes of shards, for who takes something out; None or False: not reachable."""

    async def listen(self, timeout_s: float) -> Heard | None:
        """Wait for what others send; returns with nothing at the latest after a time."""

    async def read(
        self, cursors: Mapping[int, str], limit: int
    ) -> Mapping[int, Sequence[Entry]] | None:
        """Return the entries of shards after the given offsets, "" for the beginning."""

    async def delete(self, offsets: Mapping[int, Collection[str]]) -> bool:
        """Remove entries."""

    async def reply(self, replies: Mapping[str, Sequence[bytes]]) -> None:
        """Send answers to gateways."""


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
    reply: bytes = b""


class Postroom:
    """The mail of one gateway; run `run` in a task group."""

    def __init__(
        self,
        mail: Inbound,
        ownership: Ownership,
        runtime: SessionRuntime,
        *,
        answered: Callable[[bytes], None],
        leases_changed: Callable[[], None],
    ) -> None:
        self._mail = mail
        self._ownership = ownership
        self._runtime = runtime
        self._answered = answered
        self._leases_changed = leases_changed
        self._readings: dict[Fence, _Reading] = {}
        self._woken: set[int] = set()
        self._wake = anyio.Event()
        self._undeleted: dict[int, set[str]] = {}
        self._finished, self._to_tell = anyio.create_memory_object_stream[_Finished](FINISHED_MAX)
        self._open = 0
        self._emptied = anyio.Event()

    async def run(self) -> None:
        """Carry mail until cancelled."""
        async with self._finished, self._to_tell, anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            tasks.start_soon(self._tell)
            tasks.start_soon(self._take, tasks)

    def wake(self) -> None:
        """Look into every mailbox now: shards were taken."""
        self._wake.set()

    async def empty(self) -> None:
        """Wait until no entry is with an actor and everybody was told who is to be told."""
        while self._open:
            self._emptied = anyio.Event()
            await self._emptied.wait()

    async def _listen(self) -> None:
        while True:
            heard = await self._mail.listen(LOOK_EVERY_S)
            if heard is None:
                await anyio.sleep(UNREACHABLE_PAUSE_S)
                continue
            for reply in heard.replies:
                self._answered(reply)
            if heard.mail_for:
                self._look_at(heard.mail_for)
            if heard.leases_changed:
                self._leases_changed()

    def _look_at(self, shards: Collection[int]) -> None:
        self._woken.update(shards)
        self._wake.set()

    async def _take(self, tasks: anyio.abc.TaskGroup) -> None:
        looked_at_s = float("-inf")
        while True:
            with anyio.move_on_after(LOOK_EVERY_S):
                await self._wake.wait()
            self._wake = anyio.Event()
            everywhere = anyio.current_time() - looked_at_s >= LOOK_EVERY_S
            if everywhere:
                looked_at_s = anyio.current_time()
            shards, self._woken = self._woken, set()
            held = self._ownership.held
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
        found = await self._mail.read(cursors, ENTRIES_AT_ONCE_MAX)
        if found is None:
            return
        for shard, fence in held.items():
            entries = found.get(shard, ())
            if self._ownership.held.get(shard) != fence:
                continue
            reading = self._readings[fence]
            reading.begun = True
            for entry in entries:
                reading.cursor = entry.offset
                self._begin(fence, reading, entry, tasks)
            if len(entries) >= ENTRIES_AT_ONCE_MAX:
                self._look_at([shard])

    def _begin(
        self, fence: Fence, reading: _Reading, entry: Entry, tasks: anyio.abc.TaskGroup
    ) -> None:
        """Put an entry's message into its actor's mailbox; no wait, so that order is kept."""
        try:
            asking = decode_asking(entry.body)
        except Exception as error:  # noqa: BLE001 - nobody else can read it either
            _log.error("entry_unreadable", shard=fence.shard, error=repr(error))
            self._open += 1
            self._finish(_Finished(fence.shard, entry.offset))
            return
        message = asking.message
        message.position = Position(entry.mailbox_id, entry.offset)
        try:
            self._runtime.put(asking.session_id, message)
        except Exception as error:  # noqa: BLE001 - the error is the answer
            message.reply.fail(error)
        reading.under_way += 1
        self._open += 1
        tasks.start_soon(self._wait_for, fence, reading, entry.offset, asking)

    async def _wait_for(self, fence: Fence, reading: _Reading, offset: str, asking: Asking) -> None:
        try:
            reply = await _reply_of(asking.ask_id, asking.message)
        except (ShardUnowned, StaleEpoch):
            self._close(1)
            return
        finally:
            reading.under_way -= 1
            if reading.under_way == ENTRIES_AT_ONCE_MAX - 1:
                self._look_at([fence.shard])
        self._finish(_Finished(fence.shard, offset, asking.gateway, reply))

    def _finish(self, finished: _Finished) -> None:
        try:
            self._finished.send_nowait(finished)
        except anyio.WouldBlock:
            # Its asker gives up and asks again; the next owner finds that it was taken.
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
            replies: dict[str, list[bytes]] = {}
            for one in batch:
                self._undeleted.setdefault(one.shard, set()).add(one.offset)
                if one.gateway is not None:
                    replies.setdefault(one.gateway, []).append(one.reply)
            if await self._mail.delete(self._undeleted):
                self._undeleted = {}
            await self._mail.reply(replies)
            self._close(len(batch))


async def _reply_of(ask_id: str, message: Message) -> bytes:
    """The answer to a message as bytes, or its error.

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
        return encode_reply(ask_id, answer, failure)
    except TypeError as error:
        _log.error("answer_unspeakable", error=str(error))
        return encode_reply(ask_id, None, error)
