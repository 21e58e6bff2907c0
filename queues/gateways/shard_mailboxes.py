"""The mailboxes of shards: one stream for each, read by the gateway that owns the shard.

An entry waits until it is deleted; who reads keeps its own place and asks for what comes after.
A mailbox holds so many entries and takes no more. Each entry names the mailbox in which it stands,
because the offsets of one that was lost with Redis say nothing of its successor's.

Entries and answers are sealed. What does not open was put there by nobody who may, or by a gateway
of another ledger: it is deleted unread, and counted.
"""

import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import structlog
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.gateways.inbox import Heard, Inbox, mail_note, reply_note
from queues.gateways.message_mac import Seal
from queues.keys import SHARD
from queues.redis_scripts import Scripts

ENTRIES_MAX: Final = 1024

Refused = Literal["entry", "answer"]

_MAILBOX_ID: Final = re.compile(rb"[0-9a-f]{16}")
_MS_DIGITS: Final = 15
_NUMBER_DIGITS: Final = 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a shard's mailbox."""

    mailbox_id: str
    offset: str
    """Its place; sorts as text like the entries of its mailbox."""

    body: bytes


class ShardMail:
    """The mailboxes of every shard, as one gateway uses them."""

    def __init__(
        self,
        redis: Redis,
        inbox: Inbox,
        seal: Seal,
        entries_max: int = ENTRIES_MAX,
        refused: Callable[[Refused], None] = lambda _: None,
    ) -> None:
        """`refused` is told of each entry and each answer that did not open."""
        self._seal = seal
        self._refused = refused
        self._redis = redis
        self._scripts = Scripts(redis, "")
        self._inbox = inbox
        self._entries_max = entries_max

    async def post(self, shard: int, entry: bytes, owner: str) -> bool:
        """Put an entry behind those of a shard and wake its owner; False when there is no room.

        Raises:
            QueueError: `queue_unavailable`; the entry may be there.
        """
        scripts = self._scripts.at(_prefix(shard))
        sealed = self._seal.close(_entry_place(shard), entry)
        posted = await scripts.run("mail_post", self._entries_max, secrets.token_hex(8), sealed)
        if posted:
            await self._inbox.tell([owner], mail_note(shard))
        return bool(posted)

    async def listen(self, timeout_s: float) -> Heard | None:
        """Wait for what other gateways send to this one; None when Redis cannot be reached."""
        heard = await self._inbox.listen(timeout_s)
        if heard is None or not heard.replies:
            return heard
        place = _reply_place(self._inbox.gateway)
        opened = [self._seal.open(place, one) for one in heard.replies]
        replies = [one for one in opened if one is not None]
        if len(replies) < len(opened):
            _log.warning("answers_refused", count=len(opened) - len(replies))
            for _ in range(len(opened) - len(replies)):
                self._refused("answer")
        return replace(heard, replies=replies)

    async def read(
        self, cursors: Mapping[int, str], limit: int
    ) -> Mapping[int, Sequence[Entry]] | None:
        """Return the entries of shards after the given offsets, "" for the beginning.

        None when Redis cannot be reached. At most `limit` of each shard; shards without are left
        out.
        """
        pipe = self._redis.pipeline(transaction=False)
        for shard, cursor in cursors.items():
            after = f"({_stream_id(cursor)}" if cursor else "-"
            pipe.xrange(f"{_prefix(shard)}mail", after, "+", count=limit)
        try:
            found: list[Any] = await self._scripts.ask(pipe.execute(raise_on_error=False))
            failed = [
                shard
                for shard, rows in zip(cursors, found, strict=True)
                if isinstance(rows, Exception)
            ]
            for shard in failed:
                await self._scripts.at(_prefix(shard)).mend(SHARD)
        except QueueError:
            return None
        if failed:
            return None
        read: dict[int, list[Entry]] = {}
        unopened: dict[int, list[str]] = {}
        for shard, rows in zip(cursors, found, strict=True):
            for stream_id, fields in rows:
                offset = _offset(stream_id)
                entry = self._open(shard, offset, fields)
                if entry is None:
                    unopened.setdefault(shard, []).append(offset)
                else:
                    read.setdefault(shard, []).append(entry)
        if unopened:
            await self._refuse(unopened)
        return read

    async def delete(self, offsets: Mapping[int, Collection[str]]) -> bool:
        """Remove entries; False when Redis cannot be reached."""
        pipe = self._redis.pipeline(transaction=False)
        for shard, some in offsets.items():
            pipe.xdel(f"{_prefix(shard)}mail", *map(_stream_id, some))
        try:
            # What is no mailbox any more holds none of them; `read` mends it.
            deleted: list[Any] = await self._scripts.ask(pipe.execute(raise_on_error=False))
        except QueueError:
            return False
        return all(isinstance(one, int) or "WRONGTYPE" in str(one) for one in deleted)

    async def reply(self, replies: Mapping[str, Sequence[bytes]]) -> None:
        """Send answers to gateways; where Redis cannot be reached they are lost."""
        try:
            for gateway, some in replies.items():
                place = _reply_place(gateway)
                notes = [reply_note(self._seal.close(place, one)) for one in some]
                await self._inbox.tell([gateway], *notes)
        except QueueError:
            return

    def _open(self, shard: int, offset: str, fields: Mapping[bytes, bytes]) -> Entry | None:
        mailbox_id = fields.get(b"mailbox", b"")
        body = self._seal.open(_entry_place(shard), fields.get(b"body", b""))
        if body is None or not _MAILBOX_ID.fullmatch(mailbox_id):
            return None
        return Entry(mailbox_id.decode(), offset, body)

    async def _refuse(self, unopened: Mapping[int, Collection[str]]) -> None:
        """Delete what nobody can open; where Redis has gone away it is refused again."""
        for shard, offsets in unopened.items():
            _log.warning("entries_refused", shard=shard, count=len(offsets))
            for _ in offsets:
                self._refused("entry")
        await self.delete(unopened)


def _prefix(shard: int) -> str:
    return f"rotulus:{{shard:{shard}}}:"


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
