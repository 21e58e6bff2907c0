"""Gathers evidence of what a ledger lost beside what its gateways remember.

The published checkpoint and the witnesses say how long the log had been. An item in Redis whose
request the ledger does not know was asked for on the ledger that is gone.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, get_args

from kernel.ledger.ledger import LedgerView
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.verification import ProofInvalid
from queues.errors import QueueError
from queues.queue.items import LiveItem, LiveState
from queues.queue.queue_view import QueueView
from workers.publication.witnessing import Witnesses, WitnessReply

ITEMS_MAX: Final = 10_000
"""Of each state of a queue, that are looked at."""

_PAGE: Final = 1000
_SAYS_CHARS_MAX: Final = 1000

Evidence = dict[str, str]


def evidence(source: str, name: str, says: str) -> Evidence:
    """Return one piece of evidence, cut to what a receipt holds of it."""
    return {"source": source, "name": name, "says": says[:_SAYS_CHARS_MAX]}


async def of_witnesses(note: bytes | None, witnesses: Witnesses) -> list[Evidence]:
    """Ask every witness how far it has seen the log; a few seconds at most."""
    try:
        signed = None if note is None else SignedCheckpoint.of_bytes(note)
    except ProofInvalid:
        return []
    if signed is None:
        return []
    replies = await witnesses.look(signed)
    return [
        evidence("witness", reply.url, f"{reply.outcome}: {_reply_text(reply, signed)}")
        for reply in sorted(replies, key=lambda reply: reply.url)
    ]


def _reply_text(reply: WitnessReply, signed: SignedCheckpoint) -> str:
    if reply.outcome == "cosigned":
        return f"{signed.stated.size} rows"
    return reply.message if reply.size is None else f"{reply.size} rows"


async def items_in(queues: Mapping[str, QueueView]) -> list[tuple[str, LiveItem]]:
    """Return the live items of queues; none of those that Redis does not tell of."""
    items: list[tuple[str, LiveItem]] = []
    with suppress(QueueError):
        for name, queue in queues.items():
            for state in get_args(LiveState):
                for offset in range(0, ITEMS_MAX, _PAGE):
                    page = await queue.peek(_PAGE, offset, state)
                    items += ((name, item) for item in page)
                    if len(page) < _PAGE:
                        break
    return items


def of_items(view: LedgerView, items: Iterable[tuple[str, LiveItem]]) -> list[Evidence]:
    """Return the requests of items that a ledger does not know."""
    causes = {cause: (queue, item) for queue, item in items for cause in item.causes}
    unknown = view.unknown_requests([*causes])
    return [
        evidence("redis_item", cause, f"{queue} {item.state}: {item.key}")
        for cause, (queue, item) in causes.items()
        if cause in unknown
    ]
