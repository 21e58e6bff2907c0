"""Tells how a request got from its asking to its outcome, what caused it, and what it led to.

Everything is read from the record and from the attempts beside it. What is only true now, such as
whose hands it is in, is said where it is said why it waits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.ledger.store.tables import TableQuery
from kernel.values.host import iso_time, parse_time_us
from kernel.work import receipts
from kernel.work.pauses import pauses_of
from kernel.work.request_search import requests_caused_by
from kernel.work.requests import REENTRY, SCHEDULE_KEY, WorkStatus, requeue_of

SWITCHES_MAX: Final = 100
"""Newest pauses of queues, and newest ends of pauses, that are looked at."""

RECEIPTS_MAX: Final = 40
LED_TO_MAX: Final = 20

What = Literal[
    "asked",
    "due",
    "paused",
    "resumed",
    "put off",
    "priority",
    "attempt",
    "begun",
    "outcome",
    "settled",
]


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """Something that happened to a request, or to its queue while it was open."""

    at: str
    what: What
    words: str
    took_ms: int | None = None
    """How long it lasted, where it did."""

    who: str = ""
    operation_id: str | None = None


@dataclass(frozen=True, slots=True)
class RequestLink:
    """What a request came from, or led to: an operation, a request, a schedule, or a producer."""

    kind: Literal["operation", "request", "schedule", "producer", "extraction"]
    name: str
    words: str
    queue: str = ""
    """Of a request, its queue."""


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """The way of a request."""

    events: tuple[RequestEvent, ...]
    """In the order of their times."""

    cause: RequestLink
    led_to: tuple[RequestLink, ...]
    is_cut: bool
    """Whether it led to more requests than are listed."""


def request_history(view: LedgerView, status: WorkStatus) -> RequestHistory:
    """Return the way of a request that is on the record."""
    row = view.tables.get(schema.outbox, status.request_id)
    assert row is not None, "it has a status"  # noqa: S101 - for the types
    request = Request.of_row(row)
    events = [
        RequestEvent(status.enqueued_at, "asked", f"Asked for at the priority {_first(request)}"),
        *_receipts(view, status),
        *_switches(view, status),
        *_attempts(status),
    ]
    if status.not_before is not None and status.not_before > status.enqueued_at:
        events.append(RequestEvent(status.not_before, "due", "Due, by the delay it was asked with"))
    if status.closed_at is not None:
        events.append(_outcome(status, status.closed_at))
    events += _settlement(view, status)
    led_to = [*_led_to(view, status)]
    return RequestHistory(
        tuple(sorted(events, key=lambda event: event.at)),
        _cause(view, request),
        tuple(led_to[:LED_TO_MAX]),
        len(led_to) > LED_TO_MAX,
    )


def _first(request: Request) -> str:
    """Return the priority at which it was asked for."""
    return str(request.document.get("priority", request.priority))


def _outcome(status: WorkStatus, closed_at: str) -> RequestEvent:
    ended = {"completed": "Completed", "dead_letter": "Given up", "cancelled": "Cancelled"}
    reason = f": {status.reason}" if status.reason else ""
    words = f"{ended[status.state]}{reason}"
    is_cancelled = status.state == "cancelled"
    return RequestEvent(
        closed_at,
        "outcome",
        words,
        who=(status.settled_by or "") if is_cancelled else "",
        operation_id=status.settled_operation_id if is_cancelled else status.operation_id,
    )


def _settlement(view: LedgerView, status: WorkStatus) -> Iterator[RequestEvent]:
    if status.state != "dead_letter" or status.settled_operation_id is None:
        return
    row = view.log_row_of(status.settled_operation_id)
    if row is not None:
        words = "Asked for anew" if status.requeued_as else f"Dismissed: {status.dismissed or ''}"
        yield RequestEvent(
            row["committed_at"],
            "settled",
            words,
            who=status.settled_by or "",
            operation_id=status.settled_operation_id,
        )


def _attempts(status: WorkStatus) -> Iterator[RequestEvent]:
    failures = status.failures
    for attempt in () if failures is None else failures.attempts:
        why = attempt.error_class or attempt.code
        words = f"Attempt {attempt.attempt_number} failed: {why}"
        yield RequestEvent(
            attempt.started_at, "attempt", words, took_ms=attempt.took_ms, who=attempt.worker
        )
    if status.took_ms is not None and status.closed_at is not None:
        # Its report came a moment after its end; so it began a moment earlier than is said here.
        began_us = parse_time_us(status.closed_at) - 1000 * status.took_ms
        words = "Begun for the attempt that succeeded"
        began_at, who = iso_time(max(0, began_us)), status.worker or ""
        yield RequestEvent(began_at, "begun", words, took_ms=status.took_ms, who=who)


def _receipts(view: LedgerView, status: WorkStatus) -> Iterator[RequestEvent]:
    """Yield what receipts of the request tell that neither began nor ended it."""
    begin = f"receipt:{status.request_id}:"
    query = TableQuery(
        schema.receipts,
        columns=("receipt_id", "receipt_bytes"),
        order_by="receipt_id",
        after=begin,
        limit=RECEIPTS_MAX,
    )
    for receipt_id, content in view.tables.scan(query):
        if not receipt_id.startswith(begin):
            return
        document: Document = orjson.loads(content)
        if document["receipt_kind"] == receipts.PRIORITIZED:
            yield RequestEvent(
                document["emitted_at"],
                "priority",
                f"Given the priority {document['priority']}",
                who=document.get("decided_by", ""),
                operation_id=document.get("decided_by_operation_id"),
            )
        elif document["receipt_kind"] == receipts.PENDING:
            why = document["result"]["outcome_reason_code"]
            yield RequestEvent(document["emitted_at"], "put off", f"Put off: {why}")


def _switches(view: LedgerView, status: WorkStatus) -> Iterator[RequestEvent]:
    """Yield when its queue, or its priority, was paused and resumed while it was open.

    The newest switches of all queues are looked at; the one that stood when it was asked for is
    told while it stands.
    """
    said = {receipts.PAUSED: "Paused", receipts.RESUMED: "Resumed"}
    for kind, word in said.items():
        for receipt in view.receipts_of_kind(kind, limit=SWITCHES_MAX):
            if receipt["queue"] != status.queue:
                continue
            priority, at = receipt.get("priority"), receipt["emitted_at"]
            is_within = status.enqueued_at <= at <= (status.closed_at or at)
            if priority not in (None, status.priority) or not is_within:
                continue
            what = f"the priority {priority}" if priority else "its queue"
            reason = f": {receipt['reason']}" if receipt["reason"] else ""
            yield RequestEvent(
                at,
                "paused" if kind == receipts.PAUSED else "resumed",
                f"{word} {what}{reason}",
                who=receipt["decided_by"],
                operation_id=receipt.get("decided_by_operation_id"),
            )
    if status.state == "open":
        for pause in pauses_of(view):
            is_of_it = pause.queue == status.queue and pause.priority in (None, status.priority)
            if is_of_it and pause.paused_at < status.enqueued_at:
                words = "Paused before it was asked for"
                yield RequestEvent(pause.paused_at, "paused", words, who=pause.decided_by)


def _cause(view: LedgerView, request: Request) -> RequestLink:
    """Return what asked for a request."""
    document = request.document
    if (dead := document.get("requeues")) is not None:
        return RequestLink("request", dead, "asked for anew, after it was given up", request.queue)
    key = document.get("request_key")
    if key is None:
        return _operation(view, request.cause_sequence, "the record asks for it, because of")
    if key.startswith(SCHEDULE_KEY):
        name, _, _ = key.removeprefix(SCHEDULE_KEY).rpartition(":")
        return RequestLink("schedule", name, "asked for by the schedule", request.queue)
    if key.startswith(REENTRY):
        return RequestLink("extraction", request.item_key, "the next try of the extraction")
    return RequestLink("producer", key, "asked for by a producer, under the key")


def _operation(view: LedgerView, sequence: int, words: str) -> RequestLink:
    row = view.log_row_at(sequence)
    if row is None:
        return RequestLink("operation", "", f"{words} row {sequence}, which was moved away")
    return RequestLink("operation", row["operation_id"], f"{words} {row['semantic_intent']}")


def _led_to(view: LedgerView, status: WorkStatus) -> Iterator[RequestLink]:
    again = requeue_of(view, status.queue, status.request_id) if status.state != "open" else None
    if again is not None:
        yield RequestLink("request", again, "asks for the same anew", status.queue)
    if status.operation_id is None:
        return
    row = view.log_row_of(status.operation_id)
    intent = "" if row is None else f", {row['semantic_intent']}"
    yield RequestLink("operation", status.operation_id, f"recorded the result{intent}")
    sequence = None if row is None else row["ec_sequence_number"]
    caused = () if sequence is None else requests_caused_by(view, sequence)
    for each in islice(caused, LED_TO_MAX + 1):
        yield RequestLink("request", each.request_id, f"asks for {each.item_key}", each.queue)
