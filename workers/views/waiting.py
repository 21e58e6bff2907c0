"""Says why an open request waits, in one sentence: the first thing that keeps it from being begun.

What the record says comes first (a time, an earlier step, a full cycle, a pause), but for what a
worker has in hand, which a pause lets be finished. Then comes where its item stands in the queue,
whether its session has a gateway, who serves the queue, and who holds its capacity. The sentence is
true of the moment at which it was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernel.authority.requests import AUTHORITY_QUEUE, CASCADE_QUEUE, CASCADES, ready_items
from kernel.ledger.ledger import Request
from kernel.records.access.readable_view import ReadableView
from kernel.values.host import iso_time
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.outcomes import recorded_request
from kernel.work.pauses import Pause, pauses_of
from kernel.work.ready_requests import due_at_us, fan_out_of, next_of_runs
from queues.queue.items import ItemPlace, claimed_us, worker_of
from queues.queue.outbox_relay import route_of

NAMED_MAX = 3
"""Holders of capacity that a sentence names."""


@dataclass(frozen=True, slots=True)
class RecordedHold:
    """What the record says of an open request: why nobody may begin with it yet, if so."""

    queue: str
    priority: str
    reason: str | None
    pauses: tuple[Pause, ...] = ()
    """The pauses that hold its queue or its priority."""

    session_id: str | None = None
    """The session that records its result, where that is a certain one."""

    item: str = ""
    """The name under which its queue has it; one understanding's requests are one item."""


@dataclass(frozen=True, slots=True)
class CapacityHolder:
    """Somebody who holds a slot of what the request would need."""

    name: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What Redis says around a request; the place is None where its queue holds no item of it."""

    place: ItemPlace | None
    workers: int
    """Living workers that serve the queue."""

    full_with: Sequence[CapacityHolder] = ()
    """Who holds the slots of what it would need, where all are held."""

    away_gateway: str | None = None
    """The gateway of the session that it needs, where no living gateway owns that session; empty
    where nobody has it on the record."""


def hold_of_request(view: ReadableView, request_id: str, now_us: int) -> RecordedHold | None:
    """Return what the record says of a request; None where it has its outcome.

    Raises:
        WorkRefused: `work_request_unknown`.
    """
    if view.outcome_of(request_id) is not None:
        return None
    request = recorded_request(view, request_id)
    pauses = tuple(
        pause
        for pause in pauses_of(view)
        if pause.queue == request.queue and pause.priority in (None, request.priority)
    )
    reason, session_id = _reason(view, request, now_us), _session_of(view, request)
    item = route_of(request.queue).item(request).key
    return RecordedHold(request.queue, request.priority, reason, pauses, session_id, item)


def _session_of(view: ReadableView, request: Request) -> str | None:
    """Return the session that made the understanding whose authority is to be recomputed."""
    node = view.node(request.item_key) if request.queue == AUTHORITY_QUEUE else None
    created = None if node is None else view.log_row_of(node["created_by_operation_id"])
    return None if created is None else created["session_id"]


def _reason(view: ReadableView, request: Request, now_us: int) -> str | None:
    due_us = due_at_us(request)
    if due_us > now_us:
        return f"it is not begun until it is due, at {iso_time(due_us)}"
    if request.queue == AUTHORITY_QUEUE and not ready_items(view, [request]):
        if view.open_requests_of(CASCADE_QUEUE, CASCADES):
            return "a wide cascade is being written down; what it asks for follows"
        return "an understanding that feeds it, or one above that, is recomputed first"
    if request.queue == EXTRACTION_QUEUE:
        for first in next_of_runs(view, [request.item_key]):
            if first.request_id != request.request_id:
                return f"it waits behind {first.request_id}, an earlier step of its run"
    if request.queue == BINDING_QUEUE:
        plan = fan_out_of(view, request.item_key, now_us)
        if request.request_id in plan.deferred and plan.deferred_evaluation_at_us is not None:
            again = iso_time(plan.deferred_evaluation_at_us)
            room = len(plan.admitted)
            return f"its event's cycle is full: {room} go first, and the next is at {again}"
    return None


def why_waiting(held: RecordedHold, around: Surroundings | None) -> str:
    """Return the sentence; `around` is None where Redis does not answer."""
    if held.reason is not None:
        return held.reason
    if around is not None and around.place is not None and around.place.state == "in_flight":
        # A pause lets what is in hand be finished.
        return _in_queue(held, around, around.place)
    for pause in held.pauses:
        what = f"{held.queue} {pause.priority}" if pause.priority else held.queue
        by = f" by {pause.decided_by}" if pause.decided_by else ""
        return f"{what} was paused at {pause.paused_at}{by}"
    if around is None:
        return "Redis does not answer; it is handed on once Redis does"
    if around.place is None and around.away_gateway is not None:
        return f"{_away(around.away_gateway)}; whoever owns it next puts the request into its queue"
    if around.place is None:
        return "it is on the record and about to be put into its queue"
    return _in_queue(held, around, around.place)


def _in_queue(held: RecordedHold, around: Surroundings, place: ItemPlace) -> str:
    ends = None if place.state_ends_at_ms is None else _at(place.state_ends_at_ms)
    if place.state == "in_flight":
        times = f"for the {_ordinal(place.attempts)} time"
        return f"{_claimant(place)}, {times}; its claim ends at {ends}"
    if place.state == "delayed":
        why = f": {place.error}" if place.error else ""
        return f"it is tried again at {ends}{why}"
    if around.away_gateway is not None:
        return f"{_away(around.away_gateway)}; its result is recorded once another owns the session"
    if not around.workers:
        return f"no worker serves {held.queue}"
    return _behind(around, place)


def _behind(around: Surroundings, place: ItemPlace) -> str:
    if place.state == "suspended":
        return f"there was no capacity for it; {place.due_before} suspended ones go first"
    if around.full_with:
        return f"all {len(around.full_with)} slots are held, by {_holder_names(around.full_with)}"
    if place.of_top_priority:
        return f"{place.of_top_priority} of the top priority and {place.due_before} others go first"
    if place.due_before:
        return f"{place.due_before} that are due before it go first"
    return "it is next"


def _claimant(place: ItemPlace) -> str:
    """Say who has an item in hand, as far as the claim says so."""
    ends_us = 1000 * (place.state_ends_at_ms or 0)
    began_us = claimed_us(place.token, ends_us)
    if not place.token or began_us == ends_us:
        return "a worker has it in hand"
    return f"{worker_of(place.token)} took it in hand at {_at(began_us // 1000)}"


def _away(gateway: str) -> str:
    return f"its session's gateway{f' {gateway}' if gateway else ''} is away"


def _holder_names(holders: Sequence[CapacityHolder]) -> str:
    """Name those whose slots are free first."""
    shown = [
        f"{holder.name}, whose lease ends at {_at(holder.until_ms)}"
        for holder in holders[:NAMED_MAX]
    ]
    unnamed = len(holders) - len(shown)
    return "; ".join(shown) + (f" and {unnamed} more" if unnamed else "")


def _at(time_ms: int) -> str:
    return iso_time(1000 * time_ms)


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
