"""Keeps the mailboxes of shards: one stream for each, read by the gateway that owns the shard.

An entry waits until it is deleted; the reader keeps its own place and reads from there on. A
mailbox refuses an entry beyond `ENTRIES_MAX`. Each entry names its mailbox, because the offsets of
a mailbox that was lost with Redis say nothing about those of its successor.

Entries and answers are sealed, and expire by the clock of the asker (decisions queues/0047 and
queues/0059). A message that does not open was not sealed by a gateway of this ledger; one that
opens a second time, at another place, is a copy. Both are deleted and counted, and so is a message
that has expired, or that is sealed under a key which no gateway has any more. An entry that was
posted a moment ago and has expired, or expires far too late, comes from a gateway whose clock
differs: it is not carried out, and its asker is told. A process takes a request once. That a
request takes effect once, whichever gateway takes it, is ensured by the ledger (`mailbox_offsets`,
and the keys of requests).

A mailbox counts how often an entry was in the hands of a process that ended (decision queues/0040).
"""

import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import structlog
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.gateways.inbox import Inbox, InboxBatch, mail_note, reply_note
from queues.gateways.message_seal import SEALED_BYTES_MAX, MessageSeal
from queues.redis.keys import SHARD, prefix_of
from queues.redis.scripts import Scripts

ENTRIES_MAX: Final = 1024
READ_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of the entries that are read at once, but for the last of them."""

ASIDE_MAX: Final = 64
"""Entries of a shard that are kept beside its mailbox; of more, only the receipt is left."""

VALID_MS: Final = 120_000
"""How long a request and its answer are valid at least, by the clock of the asker: longer than any
asker waits. The clocks of gateways may differ by as much."""

Refused = Literal["entry", "answer", "earlier_key", "expired", "replayed", "clocks_differ"]

_MAILBOX_ID: Final = re.compile(rb"[0-9a-f]{16}")
_AROUND_BYTES: Final = 64
"""Names of the fields, and the id of the mailbox."""

_MS_DIGITS: Final = 15
_NUMBER_DIGITS: Final = 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MailboxEntry:
    """An entry of a shard's mailbox."""

    mailbox_id: str
    offset: str
    """The entry's place in the mailbox; the order of these texts is the order of the entries."""

    body: bytes

    ends: int = 0
    """How many processes have ended while they had it in hand."""

    clocks_differ: bool = False
    """Whether the clock of its asker differs from that of this gateway by more than is allowed."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """An entry beside its mailbox, which nobody takes any more."""

    shard: int
    offset: str
    bytes: int


class ShardMail:
    """The mailboxes of every shard, as one gateway uses them."""

    def __init__(
        self,
        redis: Redis,
        inbox: Inbox,
        seal: MessageSeal,
        entries_max: int = ENTRIES_MAX,
        refused: Callable[[Refused], None] = lambda _: None,
        clock_s: Callable[[], float] = time.time,
        valid_ms: int = VALID_MS,
    ) -> None:
        """Bind to Redis.

        Args:
            redis: a client that does not decode responses.
            inbox: the inbox of this gateway.
            seal: seals and opens under the key of the gateways' mail.
            entries_max: limit of one mailbox.
            refused: called for each message that was not accepted, with why.
            clock_s: seconds since the epoch.
            valid_ms: how long a request of this gateway is valid, by its own clock.
        """
        self._seal = seal
        self._valid_ms = valid_ms
        self._clock_s = clock_s
        self._taken: dict[str, tuple[int, tuple[int, bytes, str]]] = {}
        """By id of a request: until when it is valid, and the place where it was read."""
        self._forgets_at_ms = 0
        self._refused = refused
        self._redis = redis
        self._scripts = Scripts(redis, "")
        self._inbox = inbox
        self._entries_max = entries_max

    async def post(self, shard: int, ask_id: str, entry: bytes, owner: str) -> bool:
        """Append an entry to a shard's mailbox and wake its owner; False when there is no room.

        Raises:
            QueueError: `queue_unavailable`, and the entry may be there; `mail_key_missing`.
        """
        scripts = self._scripts.at(self._prefix(shard))
        sealed = self._seal.close("ask", _entry_place(shard), ask_id, self._expiry_ms(), entry)
        posted = await scripts.run("mail_post", self._entries_max, secrets.token_hex(8), sealed)
        if posted:
            await self._inbox.tell([owner], mail_note(shard))
        return bool(posted)

    async def listen(self, timeout_s: float) -> InboxBatch | None:
        """Wait for notes to this gateway and open its answers; None when Redis is away."""
        heard = await self._inbox.listen(timeout_s)
        if heard is None or not heard.replies:
            return heard
        place = _reply_place(self._inbox.gateway)
        replies = []
        for sealed in heard.replies:
            opened = self._seal.open("answer", place, sealed)
            if opened is None:
                self._refused("earlier_key" if self._seal.is_earlier(sealed) else "answer")
            elif opened.expires_at_ms <= self._now_ms():
                self._refused("expired")
            else:
                replies.append(opened.content)
        if len(replies) < len(heard.replies):
            _log.warning("answers_refused", count=len(heard.replies) - len(replies))
        return replace(heard, replies=replies)

    async def read(
        self, cursors: Mapping[int, str], limit: int
    ) -> Mapping[int, Sequence[MailboxEntry]] | None:
        """Return the entries of shards after the given offsets, "" for the beginning.

        None when Redis cannot be reached. At most `limit` of each shard; a shard without entries is
        left out. Entries wait while this gateway has no key to open them.
        """
        if not self._seal.has_key:
            return {}
        try:
            waiting = await self._waiting(cursors)
            if waiting is None:
                return None
            rows = await self._rows({shard: cursors[shard] for shard in waiting}, limit)
        except QueueError:
            return None
        read: dict[int, list[MailboxEntry]] = {}
        refused: dict[int, list[tuple[str, Refused]]] = {}
        self._forget()
        for shard, (stream_id, *about) in rows:
            offset = _offset(stream_id)
            entry = self._open(shard, offset, *about)
            if not isinstance(entry, MailboxEntry):
                refused.setdefault(shard, []).append((offset, entry))
                continue
            read.setdefault(shard, []).append(entry)
            if entry.clocks_differ:
                _log.error(
                    "clocks_differ", shard=shard, offset=offset, limit_s=self._valid_ms / 1000
                )
                self._refused("clocks_differ")
        if refused:
            await self._refuse(refused)
        return read

    async def _waiting(self, shards: Collection[int]) -> list[int] | None:
        """Return the shards whose mailboxes are not empty; None where one had to be mended."""
        pipe = self._redis.pipeline(transaction=False)
        for shard in shards:
            pipe.xlen(f"{self._prefix(shard)}mail")
        lengths: list[Any] = await self._scripts.ask(pipe.execute(raise_on_error=False))
        failed = [
            shard for shard, n in zip(shards, lengths, strict=True) if isinstance(n, Exception)
        ]
        for shard in failed:
            await self._scripts.at(self._prefix(shard)).mend(SHARD)
        if failed:
            return None
        return [shard for shard, n in zip(shards, lengths, strict=True) if n]

    async def _rows(self, cursors: Mapping[int, str], limit: int) -> list[tuple[int, Any]]:
        """Return rows of entries, each with its shard, until they fill what is read at once."""
        rows: list[tuple[int, Any]] = []
        room = READ_BYTES_MAX
        for shard, cursor in cursors.items():
            after = f"({_stream_id(cursor)}" if cursor else "-"
            limits = (limit, SEALED_BYTES_MAX + _AROUND_BYTES, room)
            entries = await self._scripts.at(self._prefix(shard)).run("mail_read", after, *limits)
            rows += [(shard, entry) for entry in entries]
            room -= sum(len(body) for _, _, body, *_ in entries)
            if room <= 0:
                break
        return rows

    async def delete(self, offsets: Mapping[int, Collection[str]]) -> bool:
        """Remove entries; False when Redis cannot be reached."""
        pipe = self._redis.pipeline(transaction=False)
        for shard, of_shard in offsets.items():
            pipe.xdel(f"{self._prefix(shard)}mail", *map(_stream_id, of_shard))
            pipe.hdel(f"{self._prefix(shard)}taken", *map(_stream_id, of_shard))
        try:
            # What is no mailbox any more holds none of them; `read` mends it.
            deleted: list[Any] = await self._scripts.ask(pipe.execute(raise_on_error=False))
        except QueueError:
            return False
        return all(isinstance(reply, int) or "WRONGTYPE" in str(reply) for reply in deleted)

    async def take(self, offsets: Mapping[int, Collection[str]]) -> bool:
        """Count entries as taken until they are deleted or given back; False as for `delete`."""
        return await self._count_taken(offsets, 1)

    async def give_back(self, offsets: Mapping[int, Collection[str]]) -> bool:
        """Lower the count of entries that were not carried out; False as for `delete`."""
        return await self._count_taken(offsets, -1)

    async def _count_taken(self, offsets: Mapping[int, Collection[str]], by: int) -> bool:
        pipe = self._redis.pipeline(transaction=False)
        for shard, of_shard in offsets.items():
            for offset in of_shard:
                pipe.hincrby(f"{self._prefix(shard)}taken", _stream_id(offset), by)
        try:
            counted: list[Any] = await self._scripts.ask(pipe.execute(raise_on_error=False))
        except QueueError:
            return False
        return all(isinstance(reply, int) for reply in counted)

    async def set_aside(self, shard: int, offset: str) -> None:
        """Move an entry beside its mailbox, where nobody takes it.

        Raises:
            QueueError: `queue_unavailable`.
        """
        scripts = self._scripts.at(self._prefix(shard))
        await scripts.run("mail_set_aside", _stream_id(offset), ASIDE_MAX)

    async def put_back(self, shard: int, offset: str, owner: str | None) -> bool:
        """Append an entry that was set aside to its mailbox; False where it is not there.

        It is sealed anew, because it has expired and its id was taken.

        Raises:
            QueueError: `queue_unavailable`.
        """
        scripts, place = self._scripts.at(self._prefix(shard)), _entry_place(shard)
        aside = (f"{self._prefix(shard)}aside", _stream_id(offset))
        size: Any = self._redis.hstrlen(*aside)
        if await scripts.ask(size, SHARD) > SEALED_BYTES_MAX:
            return False
        reply: Any = self._redis.hget(*aside)
        sealed: bytes | None = await scripts.ask(reply)
        opened = None if sealed is None else self._seal.open("ask", place, sealed)
        if opened is None:
            return False
        ask_id, mailbox_id = secrets.token_hex(16), secrets.token_hex(8)
        again = self._seal.close("ask", place, ask_id, self._expiry_ms(), opened.content)
        there = await scripts.run("mail_put_back", _stream_id(offset), mailbox_id, again)
        if there and owner is not None:
            await self._inbox.tell([owner], mail_note(shard))
        return bool(there)

    async def aside(self, shards: Collection[int]) -> list[SetAside]:
        """Return the entries of shards that were set aside, the oldest of each shard first.

        Raises:
            QueueError: `queue_unavailable`.
        """
        entries = []
        for shard in shards:
            rows = await self._scripts.at(self._prefix(shard)).run("mail_list_aside", ASIDE_MAX)
            places = sorted((_offset(stream_id), size) for stream_id, size in rows)
            entries += [SetAside(shard, offset, size) for offset, size in places]
        return entries

    async def reply(self, replies: Mapping[str, Sequence[tuple[str, bytes]]]) -> bool:
        """Send answers by gateway, each with the id of its request.

        False as for `delete`; some of them may have been sent, and may be sent again.
        """
        try:
            for gateway, answers in replies.items():
                place, soon_ms = _reply_place(gateway), self._expiry_ms()
                notes = []
                for ask_id, answer in answers:
                    # An answer counts as long as what it answers, by the clock of who asked.
                    expiry_ms, _ = self._taken.get(ask_id, (soon_ms, None))
                    sealed = self._seal.close("answer", place, ask_id, expiry_ms, answer)
                    notes.append(reply_note(sealed))
                await self._inbox.tell([gateway], *notes)
        except QueueError:
            return False
        return True

    def _open(
        self, shard: int, offset: str, mailbox_id: bytes, body: bytes, ends: int, age_ms: int
    ) -> MailboxEntry | Refused:
        opened = self._seal.open("ask", _entry_place(shard), body)
        if opened is None or not _MAILBOX_ID.fullmatch(mailbox_id):
            return "earlier_key" if self._seal.is_earlier(body) else "entry"
        ahead_ms = opened.expires_at_ms - self._now_ms()
        # Whoever sealed it did so before it was put there, by Redis' clock not long ago.
        if ahead_ms <= 0 and age_ms >= self._valid_ms:
            return "expired"
        clocks_differ = not 0 < ahead_ms <= 2 * self._valid_ms
        place = (shard, mailbox_id, offset)
        _, taken_at = self._taken.setdefault(opened.ask_id, (opened.expires_at_ms, place))
        if taken_at != place:
            return "replayed"
        return MailboxEntry(mailbox_id.decode(), offset, opened.content, ends, clocks_differ)

    def _prefix(self, shard: int) -> str:
        return prefix_of(self._redis, f"shard:{shard}")

    def _now_ms(self) -> int:
        return int(self._clock_s() * 1000)

    def _expiry_ms(self) -> int:
        return self._now_ms() + self._valid_ms

    def _forget(self) -> None:
        """Forget the ids of expired requests: nobody takes those a second time."""
        now_ms = self._now_ms()
        if now_ms >= self._forgets_at_ms:
            self._forgets_at_ms = now_ms + self._valid_ms // 4
            latest_ms = now_ms + 2 * self._valid_ms
            self._taken = {
                ask_id: taken
                for ask_id, taken in self._taken.items()
                if now_ms < taken[0] <= latest_ms
            }

    async def _refuse(self, refused: Mapping[int, Sequence[tuple[str, Refused]]]) -> None:
        """Log, count and delete refused entries; while Redis is away they are refused again."""
        for shard, entries in refused.items():
            whys = sorted({reason for _, reason in entries})
            _log.warning("entries_refused", shard=shard, count=len(entries), whys=whys)
            for _, reason in entries:
                self._refused(reason)
        await self.delete({shard: [at for at, _ in entries] for shard, entries in refused.items()})


def _entry_place(shard: int) -> str:
    return f"shard:{shard}"


def _reply_place(gateway: str) -> str:
    return f"gateway:{gateway}"


def _offset(stream_id: bytes) -> str:
    ms, number = stream_id.decode().split("-")
    return f"{ms:>0{_MS_DIGITS}}-{number:>0{_NUMBER_DIGITS}}"


def _stream_id(offset: str) -> str:
    ms, number = offset.split("-")
    return f"{int(ms)}-{int(number)}"
