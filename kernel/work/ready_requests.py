"""Picks the open requests that may be worked on now, by order and fan-out (§14.1, §16.4)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView, Request
from kernel.ledger.store.tables import TableQuery
from kernel.model.bindings.outcomes import SUSPENDED
from kernel.records.bindings import generation_in_force
from kernel.values.host import parse_time_us
from kernel.values.priorities import PRIORITIES_OF
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.receipts import pending_id

FAN_OUT_MAX = 50
"""Bindings that are evaluated for one source event in one cycle (K.30)."""

FAN_OUT_CYCLE_US = 60 * 1_000_000

_RANKS = {priority: rank for rank, priority in enumerate(PRIORITIES_OF[BINDING_QUEUE])}


@dataclass(frozen=True, slots=True)
class FanOut:
    """The open requests of an event, parted into this cycle's and deferred ones."""

    admitted: frozenset[str]
    deferred: tuple[str, ...]
    """The deferred requests, in the order in which their turn will come."""

    deferred_evaluation_at_us: int | None
    """The time at which the cycle has room again; None where nothing is deferred."""


def due_at_us(request: Request) -> int:
    """Return when a request's delay ends and its time has come, 0 where it has neither.

    A request without either is due whatever the clock says, even one that was set back.
    """
    stated = request.request_bytes
    # Nearly all of them have neither, and reading is slower.
    if b'"delay_s"' not in stated and b'"run_at"' not in stated:
        return 0
    delay_s, run_at = int(request.document.get("delay_s", 0)), request.document.get("run_at")
    delayed_us = request.enqueued_at_us + delay_s * 1_000_000 if delay_s else 0
    return max(delayed_us, 0 if run_at is None else parse_time_us(run_at))


def due(requests: Iterable[Request], now_us: int) -> list[Request]:
    """Return the requests whose delay has ended."""
    return [request for request in requests if due_at_us(request) <= now_us]


def first_of_each_run(view: LedgerView, requests: Iterable[Request]) -> list[Request]:
    """Return the requests that no earlier attempt of their run holds back."""
    first: dict[str, str] = {}
    ready = []
    for request in requests:
        run = request.item_key
        if run not in first:
            waiting = view.open_requests_of(EXTRACTION_QUEUE, run)
            first[run] = min(waiting, key=_attempt).request_id if waiting else ""
        if first[run] == request.request_id:
            ready.append(request)
    return ready


def next_of_runs(view: LedgerView, runs: Iterable[str]) -> list[Request]:
    """Return the request of each run that no earlier attempt holds back."""
    waiting = (view.open_requests_of(EXTRACTION_QUEUE, run) for run in runs)
    return [min(requests, key=_attempt) for requests in waiting if requests]


def _attempt(request: Request) -> tuple[int, int]:
    # A task that a worker performs has no number of its own; it goes first.
    return request.document["content"].get("attempt_number", 0), request.request_sequence


def suspension_times(view: LedgerView, requests: Iterable[Request]) -> dict[str, int]:
    """Return when each request was suspended first that ever was, in ms and in that order (§14.3).

    The record tells of a suspension once, so the order is there whatever Redis has lost.
    """
    of_receipt = {
        pending_id(request.request_id, SUSPENDED): request.request_id for request in requests
    }
    rows = view.tables.scan(TableQuery(schema.receipts, any_of=("receipt_id", [*of_receipt])))
    rows.sort(key=lambda row: row["receipt_sequence"])
    return {
        of_receipt[row["receipt_id"]]: parse_time_us(
            orjson.loads(row["receipt_bytes"])["emitted_at"]
        )
        // 1000
        for row in rows
    }


def fan_out_of(
    view: LedgerView, source_event_id: str, now_us: int, fan_out_max: int = FAN_OUT_MAX
) -> FanOut:
    """Admit an event's open requests, by `plan_fan_out`, while its cycle has room."""
    waiting: list[Request] = []
    evaluated_us = []
    for row in view.request_rows_of(BINDING_QUEUE, source_event_id):
        if row["open"]:
            waiting += due([Request.of_row(row)], now_us)
            continue
        outcome = view.outcome_of(row["request_id"])
        if outcome is not None and outcome["outcome"] == "completed":
            evaluated_us.append(outcome["closed_at_us"])
    priority_of = partial(_binding_priority, view, {})
    suspended = partial(suspension_times, view)
    return plan_fan_out(waiting, evaluated_us, now_us, fan_out_max, priority_of, suspended)


def plan_fan_out(
    waiting: Sequence[Request],
    evaluated_us: Iterable[int],
    now_us: int,
    fan_out_max: int,
    priority_of: Callable[[Request], int] = lambda _: 0,
    suspended_of: Callable[[Sequence[Request]], Iterable[str]] = lambda _: (),
) -> FanOut:
    """Return the plan of a cycle from the open requests and the times of the last evaluations.

    Those of the highest binding priority come first, then those of the most urgent capacity
    priority, then those that were suspended, in the order of their suspension, then the oldest.
    `priority_of` and `suspended_of` are asked only where not all are admitted.
    """
    recent = sorted(at for at in evaluated_us if at > now_us - FAN_OUT_CYCLE_US)
    room = max(0, fan_out_max - len(recent))
    ordered = waiting
    if len(waiting) > room:
        places = {request_id: place for place, request_id in enumerate(suspended_of(waiting))}
        ordered = sorted(
            waiting,
            key=lambda request: (
                -priority_of(request),
                _RANKS[request.priority],
                places.get(request.request_id, len(places)),
                request.request_sequence,
            ),
        )
    admitted, deferred = ordered[:room], ordered[room:]
    since = recent[0] if recent else now_us
    return FanOut(
        frozenset(request.request_id for request in admitted),
        tuple(request.request_id for request in deferred),
        since + FAN_OUT_CYCLE_US if deferred else None,
    )


def _binding_priority(view: LedgerView, known: dict[str, int], request: Request) -> int:
    """Return the priority of the generation in force of a request's binding; 0 of none."""
    binding_id = str(request.document["content"]["binding_id"])
    if binding_id not in known:
        generation = generation_in_force(view, binding_id)
        snapshot = {} if generation is None else generation["binding_snapshot"]
        known[binding_id] = int(snapshot.get("priority", 0))
    return known[binding_id]
