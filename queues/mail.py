"""The mailboxes of shards: one stream for each, read by the gateway that owns the shard.

An entry waits until it is deleted; who reads keeps its own place and asks for what comes after.
A mailbox holds so many entries and takes no more. Each entry names the mailbox in which it stands,
because the offsets of one that was lost with Redis say nothing of its successor's.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis

from queues.errors import QueueError
from queues.inbox import Heard, Inbox, mail_note, reply_note
from queues.scripting import Scripts

ENTRIES_MAX: Final = 1024

_MS_DIGITS: Final = 15
_NUMBER_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a shard's mailbox."""

    mailbox_id: str
    offset: str
    """Its place; sorts as text like the entries of its mailbox."""

    body: bytes


class ShardMail:
    """The mailboxes of every shard, as one gateway uses them."""

    def __init__(self, redis: Redis, inbox: Inbox, entries_max: int = ENTRIES_MAX) -> None:
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
        posted = await scripts.run("mail_post", self._entries_max, secrets.token_hex(8), entry)
        if posted:
            await self._inbox.tell([owner], mail_note(shard))
        return bool(posted)

    async def listen(self, timeout_s: float) -> Heard | None:
        """Wait for what other gateways send to this one; None when Redis cannot be reached."""
        return await self._inbox.listen(timeout_s)

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
            found: list[Any] = await self._scripts.ask(pipe.execute())
        except QueueError:
            return None
        return {
            shard: [_entry(stream_id, fields) for stream_id, fields in rows]
            for shard, rows in zip(cursors, found, strict=True)
            if rows
        }

    async def delete(self, offsets: Mapping[int, Collection[str]]) -> bool:
        """Remove entries; False when Redis cannot be reached."""
        pipe = self._redis.pipeline(transaction=False)
        for shard, some in offsets.items():
            pipe.xdel(f"{_prefix(shard)}mail", *map(_stream_id, some))
        try:
            executed: Any = pipe.execute()
            await self._scripts.ask(executed)
        except QueueError:
            return False
        return True

    async def reply(self, replies: Mapping[str, Sequence[bytes]]) -> None:
        """Send answers to gateways; where Redis cannot be reached they are lost."""
        try:
            for gateway, some in replies.items():
                await self._inbox.tell([gateway], *map(reply_note, some))
        except QueueError:
            return


def _prefix(shard: int) -> str:
    return f"rotulus:{{shard:{shard}}}:"


def _entry(stream_id: bytes, fields: Mapping[bytes, bytes]) -> Entry:
    ms, number = stream_id.decode().split("-")
    offset = f"{ms:>0{_MS_DIGITS}}-{number:>0{_NUMBER_DIGITS}}"
    return Entry(fields[b"mailbox"].decode(), offset, fields[b"body"])


def _stream_id(offset: str) -> str:
    ms, number = offset.split("-")
    return f"{int(ms)}-{int(number)}"
