"""Deals with a mailbox entry in hand when a process ended (decision queues/0040).

An entry is counted as taken before it is begun, so one that is counted when it is read is a
suspect: it was in hand when a process ended. The consumer takes it once more while nothing else is
in hand, so that of several suspects only the one to blame is counted again. After `ENDS_MAX` such
ends it is set aside: a durable receipt (`mailbox_entry_set_aside`) names session, place and digest,
its caller is answered `request_set_aside`, and the entries behind it go on. A request that reaches
its owner directly stands in no mailbox, so nobody but its caller sends it again.
"""

from collections.abc import Sequence
from itertools import takewhile

import structlog

from actors.commit.refusal_units import SetAsideUnit
from actors.errors import ActorError, ReplyLost
from actors.forwarding.ports import Inbound, MailboxEntryPort
from actors.sessions.runtime import SessionRuntime
from kernel.ledger.shards import Fence, Position
from kernel.values.canonical import sha256_hex

ENDS_MAX = 3
"""Processes that an entry may end before it is set aside."""

_log = structlog.get_logger(__name__)


def before_suspects(entries: Sequence[MailboxEntryPort]) -> list[MailboxEntryPort]:
    """Return the entries up to the first that was in hand when a process ended."""
    return list(takewhile(lambda entry: not entry.ends, entries))


def is_poisoned(entry: MailboxEntryPort) -> bool:
    """Tell whether an entry has ended so many processes that nobody takes it any more."""
    return entry.ends >= ENDS_MAX


async def set_aside(
    entry: MailboxEntryPort, session_id: str, fence: Fence, runtime: SessionRuntime, mail: Inbound
) -> ActorError:
    """Record the receipt and move the entry beside its mailbox; return what its caller is told.

    Raises:
        StaleEpoch, CommitFailed: nothing was recorded, and the entry stays where it is.
    """
    unit = SetAsideUnit(
        session_id,
        fence.shard,
        Position(entry.mailbox_id, entry.offset),
        entry.ends,
        sha256_hex(entry.body),
    )
    error: ActorError | None = await runtime.record(unit, fence)
    if error is None:
        return ReplyLost("the request was taken before; ask again")
    _log.critical(
        "entry_set_aside",
        session_id=session_id,
        shard=fence.shard,
        offset=entry.offset,
        ends=entry.ends,
    )
    await mail.set_aside(fence.shard, entry.offset)
    return error
