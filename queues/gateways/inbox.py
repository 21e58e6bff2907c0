"""Keeps the inbox of a gateway: answers to its requests, and hints to look somewhere.

A hint names a mailbox, the leases, or the record, of whose work the gateway is the relay.

Each gateway has one list on which one connection blocks. The mailboxes of shards lie under their
own hash tags, on different nodes of a cluster, so they cannot be waited for together, and a
connection for each shard would be 64. Whoever posts to a mailbox therefore sends its owner a hint,
and the owner looks into every mailbox once a second all the same.

The list is cut to its newest notes and expires when nobody has sent anything for a while: the
asker of a lost answer asks again, and a lost hint costs up to a second.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis

from queues.errors import QueueError
from queues.gateways.message_seal import SEALED_BYTES_MAX
from queues.queue.items import check_name
from queues.redis.decoding import content, records
from queues.redis.dropped import count_dropped
from queues.redis.keys import INBOX, prefix_of
from queues.redis.scripts import Scripts

NOTES_MAX: Final = 8192
KEPT_S: Final = 60
TAKEN_AT_ONCE: Final = 256
NOTE_BYTES_MAX: Final = SEALED_BYTES_MAX + 1
TAKEN_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of the notes that are taken at once, but for the last of them."""

_REPLY: Final = b"r"
_MAIL: Final = b"m"
LEASES_CHANGED: Final = b"l"
WORK_RECORDED: Final = b"w"
_SHARD: Final = re.compile(rb"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class InboxBatch:
    """The notes to a gateway, by kind and in order."""

    replies: list[bytes]
    mail_for: frozenset[int]
    """Shards whose mailboxes have new entries."""

    leases_changed: bool
    work_recorded: bool = False
    """Whether requests for work were recorded or closed."""


def reply_note(sealed: bytes) -> bytes:
    """Return the note that carries an answer."""
    return _REPLY + sealed


def mail_note(shard: int) -> bytes:
    """Return the note that says that a shard has mail."""
    return _MAIL + str(shard).encode()


class Inbox:
    """The notes to one gateway, and the way to the inboxes of others."""

    def __init__(self, redis: Redis, gateway: str) -> None:
        self._redis = redis
        self._scripts = Scripts(redis, self._prefix(gateway))
        self.gateway = gateway

    async def listen(self, timeout_s: float) -> InboxBatch | None:
        """Wait for notes and return them, empty after `timeout_s`; None when Redis is away.

        It takes a connection of its own. Cancellation loses at most one note.
        """
        try:
            blocked: Any = self._redis.blpop([self._key(self.gateway)], timeout=timeout_s)  # type: ignore[arg-type]  # a fraction of a second is allowed
            first = await self._scripts.ask(blocked, INBOX, blocks_s=timeout_s)
            if first is None:
                return _read_notes([])
            limits = (TAKEN_AT_ONCE, NOTE_BYTES_MAX, TAKEN_BYTES_MAX)
            notes = await self._scripts.run("inbox_take", *limits)
        except QueueError:
            return None
        return _read_notes(records("note", [first[1], *notes], content(NOTE_BYTES_MAX)))

    async def tell(self, gateways: Collection[str], *notes: bytes) -> None:
        """Send notes to other gateways.

        Raises:
            QueueError: `queue_unavailable`.
        """
        for gateway in gateways:
            if notes:
                key, pipe = self._key(gateway), self._redis.pipeline(transaction=False)
                pipe.rpush(key, *notes)
                pipe.ltrim(key, -NOTES_MAX, -1)
                pipe.expire(key, KEPT_S)
                executed: Any = pipe.execute()
                await self._scripts.at(self._prefix(gateway)).ask(executed, INBOX)

    def _prefix(self, gateway: str) -> str:
        return prefix_of(self._redis, f"gateway:{check_name(gateway)}")

    def _key(self, gateway: str) -> str:
        return f"{self._prefix(gateway)}inbox"


def _read_notes(notes: Iterable[bytes]) -> InboxBatch:
    replies, mail_for, changed, recorded = [], set(), False, False
    for note in notes:
        kind = note[:1]
        if kind == _REPLY:
            replies.append(note[1:])
        elif kind == _MAIL and _SHARD.fullmatch(note[1:]):
            mail_for.add(int(note[1:]))
        elif note == LEASES_CHANGED:
            changed = True
        elif note == WORK_RECORDED:
            recorded = True
        else:
            count_dropped("note")
    return InboxBatch(replies, frozenset(mail_for), changed, recorded)
