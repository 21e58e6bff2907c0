"""Asks a session in this process, or through the mailbox of its shard if another gateway owns it.

A request for a session of another gateway becomes an entry in the shard's mailbox. Whichever
gateway owns the shard by then takes it, and the answer comes back to this gateway. A caller waits
for a limited time. When it has given up, a late answer is dropped and the request may have taken
effect: the caller may ask again under its own key.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import anyio
import structlog

from actors.errors import MailboxFull, ReplyLost, RequestTooLarge, ShardUnowned
from actors.forwarding.message_codec import (
    LONG_CHARS,
    ForwardedMessage,
    aside,
    asker_of,
    decode_reply,
    encode_asking,
    is_long,
)
from actors.forwarding.ports import Outbound
from actors.messages import Message, Reply
from actors.sessions.runtime import SessionRuntime
from actors.sharding.assignment import shard_of
from actors.sharding.held_shards import HeldShards
from kernel.belief.errors import BeliefError
from kernel.values.host import Host

ENTRY_BYTES_MAX = 16 * 1024 * 1024
WAITING_MAX = 4096

_log = structlog.get_logger(__name__)


class RoutedSessions:
    """All sessions of a ledger that several gateways share; implements `Sessions`."""

    def __init__(
        self,
        runtime: SessionRuntime,
        held_shards: HeldShards,
        mail: Outbound,
        expected_owner: Callable[[int], str | None],
        gateway: str,
        host: Host,
        *,
        reply_s: float,
    ) -> None:
        self._runtime = runtime
        self._held_shards = held_shards
        self._mail = mail
        self._expected_owner = expected_owner
        self._gateway = gateway
        self._host = host
        self._reply_s = reply_s
        self._waiting: dict[str, tuple[Reply[bytes], float]] = {}
        """By the id of a request: its answer, and since when it is waited for."""

    @property
    def corrupt_sessions(self) -> Mapping[str, str]:
        """The sessions that this gateway does not serve, and why."""
        return self._runtime.corrupt_sessions

    async def ask(self, session_id: str, message: Message) -> Any:
        """Give a session a message and return its answer; see `Sessions.ask`.

        Raises:
            ShardUnowned: nobody owns the session right now; nothing was taken.
            StaleEpoch, ReplyLost: its owner changed meanwhile, or did not answer in time.
        """
        try:
            self._runtime.put(session_id, message)
        except ShardUnowned:
            return await self._forward(session_id, message)
        return await message.reply.wait()

    def deliver_answer(self, content: bytes) -> None:
        """Hand an answer to its caller, if that still waits."""
        try:
            waiting = self._waiting.get(asker_of(content))
        except ValueError as error:
            _log.error("reply_unreadable", error=repr(error))
            return
        if waiting is not None:
            waiting[0].set(content)

    def give_up(self, since_s: float = inf) -> None:
        """Fail who waits for an answer since before a time, because the mailboxes were lost."""
        for reply, asked_s in self._waiting.values():
            if asked_s < since_s:
                reply.fail(ReplyLost("the mailboxes were lost; ask again"))

    async def _forward(self, session_id: str, message: Message) -> Any:
        shard = shard_of(session_id, self._held_shards.shards)
        owner = self._expected_owner(shard)
        if owner is None:
            raise ShardUnowned("no gateway owns the session right now", {"shard": shard})
        if len(self._waiting) >= WAITING_MAX:
            raise MailboxFull("too many requests wait for other gateways")
        if "\x00" in session_id:
            raise BeliefError("INVALID_REQUEST", "a session's id does not hold U+0000")
        ask_id = self._host.new_id()
        asking = ForwardedMessage(ask_id, self._gateway, session_id, message)
        entry = await aside(encode_asking, asking, is_long=is_long(message))
        if len(entry) > ENTRY_BYTES_MAX:
            raise RequestTooLarge(f"more than {ENTRY_BYTES_MAX} bytes")
        reply: Reply[bytes] = Reply()
        self._waiting[ask_id] = reply, anyio.current_time()
        try:
            with anyio.fail_after(self._reply_s):
                if not await self._mail.post(shard, ask_id, entry, owner):
                    raise MailboxFull("the shard has too much waiting", {"shard": shard})
                return await _answer_in(await reply.wait())
        except TimeoutError:
            raise ReplyLost("the session's gateway has not answered; ask again") from None
        finally:
            del self._waiting[ask_id]


async def _answer_in(content: bytes) -> Any:
    try:
        _, answer, refusal = await aside(decode_reply, content, is_long=len(content) > LONG_CHARS)
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody else can read it either
        _log.error("reply_unreadable", error=repr(error))
        raise ReplyLost("the answer cannot be read; ask again") from None
    if refusal is not None:
        raise refusal
    return answer
