"""Counts what a queue holds of what the record asks for, so that the numbers add up.

Open requests are ready, suspended, delayed, in flight, or held. Delayed are items that wait for
another attempt and requests whose time has not come. Of the others those are held for which no item
of their own stands in Redis: an earlier step or a full cycle holds them back, they are on their
way, or they joined the item of another. Redis and the ledger are read one after the other, so items
whose requests have just been closed are counted apart.
"""

from dataclasses import dataclass

from queues.queue.items import QueueDepth


@dataclass(frozen=True, slots=True)
class Backlog:
    """The open requests of a queue by where they stand: open + stale is the sum of the others."""

    open: int
    held: int
    ready: int
    suspended: int
    delayed: int
    in_flight: int
    stale: int
    """Items without an open request, which leave the queue at their next claim."""


def backlog(depth: QueueDepth, open_requests: int) -> Backlog:
    """Return where the open requests of a queue stand."""
    ready, suspended = sum(depth.ready.values()), sum(depth.suspended.values())
    items = ready + suspended + depth.delayed + depth.in_flight
    without_item = max(0, open_requests - items)
    # The relay's number is that of its last look, so it may be more than there are.
    not_due = min(depth.not_due, without_item)
    return Backlog(
        open=open_requests,
        held=without_item - not_due,
        ready=ready,
        suspended=suspended,
        delayed=depth.delayed + not_due,
        in_flight=depth.in_flight,
        stale=max(0, items - open_requests),
    )
