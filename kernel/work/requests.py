"""Records requests for work: once for each key of a producer, durable with its receipt (K19).

A request is known by its queue and its producer's key, whose digest is in the request's id, so the
primary key keeps it for ever. The same asking is the same request whatever became of it, and
another asking under the key is refused. Work that was given up is asked for again under a new key,
or requeued. Producers share one space of keys; the runtime's own are none that they may state. A
delay counts from the record's time (decision kernel/0154); a time is stated as such, so that who
asks again later states the same (decision queues/0077).

A full queue is found by counting what is open: first in all queues together, which is cheap, and in
the one queue only when that is beyond its limit.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ValidationError

from kernel.authority.requests import OPEN_CASCADES, readiness_queries
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView, Request
from kernel.ledger.store.buffer import joined_ahead
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.bindings.source_binding import read_source_binding
from kernel.model.node_kinds import derived_name_in
from kernel.model.problems import first_problem
from kernel.records.bindings import generation_in_force
from kernel.values.canonical import canonicalize, canonicalize_readable, digest
from kernel.values.foreign_code import cause_of
from kernel.values.host import iso_time, parse_time_us
from kernel.work import receipts
from kernel.work.attempts import Failures, failures_of, success_of
from kernel.work.content_schema import ContentMisfit, SchemaContent
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.errors import WorkRefused
from kernel.work.pauses import PAUSES
from kernel.work.queue_kinds import QUEUE_KINDS, QueueKind, is_built_in, not_asked, requestable_kind
from kernel.work.ready_requests import due_at_us
from kernel.work.registrations import registered_kind
from kernel.work.tags import check_tags

REQUESTS_MAX = 256
"""Requests that one call may record."""

KEY_CHARS_MAX = 400
ITEM_KEY_CHARS_MAX = 512
CONTENT_BYTES_MAX = 32 * 1024
DELAY_S_MAX = 30 * 24 * 3600
OPEN_MAX = 100_000
"""Requests of one queue that may be open when more is asked for."""

ITEM_REQUESTS_MAX = 10_000
"""Requests for one event, or one run, open or not."""

REENTRY: Final = "reentry:"
SCHEDULE_KEY: Final = "schedule:"
"""How the key of a job begins for which a schedule asks; its name and its period follow."""

RUNTIME_KEYS: Final = ("requeue:request:", REENTRY)
"""How the keys begin that the runtime makes itself, beside those of extractions: their runs."""

State = Literal["open", "completed", "dead_letter", "cancelled"]


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """One request of a producer: its queue, its key, its content and its priority."""

    queue: str
    request_key: str
    """The producer's own name for this asking."""

    content: Document
    priority: str | None = None
    """A priority of its queue (`kernel.work.queue_kinds`), where the content does not decide it."""

    delay_s: int = 0
    """How long after it was recorded the request becomes due."""

    run_at: str | None = None
    """The time before which it is not due, in ISO 8601 with its offset."""

    requeues: str | None = None
    """The dead letter that this asks for anew; the kernel sets it, producers do not."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """By which somebody looks for it later; see `tags.py`."""

    said: Mapping[str, str] = field(default_factory=dict)
    """Who requeued it, for its receipt; who asks for the same once more may be somebody else."""


@dataclass(frozen=True, slots=True)
class WorkStatus:
    """A request as it stands."""

    request_id: str
    queue: str
    request_key: str | None
    """The producer's name for it; None for what no producer asked for, such as a recompute."""

    item_key: str
    priority: str
    """The priority at which it waits now."""

    content: Document
    state: State
    enqueued_at: str
    tags: dict[str, str] = field(default_factory=dict)
    closed_at: str | None = None
    operation_id: str | None = None
    """The operation that did the work, where one did."""

    reason: str | None = None
    """Why it was given up or cancelled."""

    result: Document | None = None
    """What the work came to, where it is no operation."""

    took_ms: int | None = None
    """How long the attempt took that came to it, as its worker says."""

    worker: str | None = None
    """Whose attempt that was; None where no worker said so."""

    not_before: str | None = None
    """When its delay ends, where it has one."""

    requeued_as: str | None = None
    """The request that asks for it anew, where it was given up and requeued."""

    dismissed: str | None = None
    """Why it was dismissed, where it was given up and somebody settled it so."""

    settled_by: str | None = None
    """Who requeued, dismissed or cancelled it: the name given and the address."""

    settled_operation_id: str | None = None
    """The operation of the log that says so."""

    failures: Failures | None = None
    """What was tried in vain; None where it has not failed."""


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """How a request of any queue ended, if it has."""

    request_id: str
    state: State
    closed_at: str | None = None
    operation_id: str | None = None
    reason: str | None = None
    result: Document | None = None
    took_ms: int | None = None
    worker: str | None = None
    requeued_as: str | None = None
    """The request that asks for it anew, where it was given up and requeued."""


@dataclass(frozen=True, slots=True)
class WorkReceipt:
    """The request of an asking, and whether it was there before."""

    request_id: str
    duplicate: bool


@dataclass(frozen=True, slots=True)
class _Checked:
    request_id: str
    body: Document


def request_id_of(queue: str, request_key: str) -> str:
    """Return the id that the request under a producer's key has."""
    return f"request:{queue}:{digest([queue, request_key])}"


def enqueue_from_outside(
    transaction: LedgerTransaction, requests: Sequence[WorkRequest], *, by_worker: bool = False
) -> tuple[WorkReceipt, ...]:
    """Record what producers ask for: as `enqueue`, but under no name that the runtime derives.

    A worker asks under the keys of schedules as well.

    Raises:
        WorkRefused: `work_request_key_reserved`, and those of `enqueue`.
    """
    for index, request in enumerate(requests):
        try:
            _check_names(transaction, request, by_worker=by_worker)
        except WorkRefused as refused:
            refused.index = index
            raise
    return enqueue(transaction, requests)


def enqueue(
    transaction: LedgerTransaction, requests: Sequence[WorkRequest]
) -> tuple[WorkReceipt, ...]:
    """Record requests, all or none; durable and ready to be carried with the transaction.

    Raises:
        WorkRefused: with a code; then nothing was recorded.
    """
    if len(requests) > REQUESTS_MAX:
        raise _invalid(f"at most {REQUESTS_MAX} requests at once", "requests")
    fresh: dict[str, Document] = {}
    answers = []
    said_by: dict[str, Document] = {}
    for index, request in enumerate(requests):
        try:
            checked = _check(transaction, request)
            known = fresh.get(checked.request_id) or _request_document(
                transaction, checked.request_id
            )
            if known is None:
                _check_not_too_late(checked.body, transaction.host.now_us())
                _take_priority_of_binding(transaction, checked.body)
            _check_same(known, checked.body)
        except WorkRefused as refused:
            refused.index = index
            raise
        answers.append(WorkReceipt(checked.request_id, known is not None))
        if known is None:
            fresh[checked.request_id] = checked.body
            said_by[checked.request_id] = dict(request.said)
    if fresh:
        _check_room(transaction, list(fresh.values()))
        transaction.next_commit_time_us()
    for request_id, body in fresh.items():
        receipts.record(
            transaction,
            receipts.REQUESTED,
            request_receipt_id(request_id),
            body | said_by[request_id],
        )
    return tuple(answers)


def status_of(view: LedgerView, request_id: str, *, attempts: bool = False) -> WorkStatus | None:
    """Return a request of any queue as it stands, None where nothing asked under this id.

    With `attempts`, its failures have those that are kept.
    Of what the record itself asks for, such as a recompute, the content is what the record says.
    """
    ask_ahead_of(view, [request_id], attempts=attempts)
    row = view.tables.get(schema.outbox, request_id)
    if row is None:
        return None
    request, outcome = Request.of_row(row), view.outcome_of(request_id)
    document = request.document
    shared: dict[str, Any] = {name: row[name] for name in ("queue", "item_key", "priority")}
    shared |= {name: document.pop(name) for name in ("request_id", "enqueued_at")}
    shared["request_key"] = document.pop("request_key", None)
    shared["tags"] = document.pop("tags", {})
    shared["content"] = document.get("content", document)
    if due_us := due_at_us(request):
        shared["not_before"] = iso_time(due_us)
    shared["failures"] = failures_of(view, request_id, attempts=attempts)
    if outcome is None:
        return WorkStatus(**shared, state="open")
    receipt = closing_receipt(view, request_id)
    settled = receipt
    if outcome["outcome"] == "dead_letter":
        again = requeue_of(view, row["queue"], request_id)
        dismissal = view.receipt(dismissal_receipt_id(request_id)) or {}
        asked_anew = {} if again is None else view.receipt(request_receipt_id(again)) or {}
        shared |= {"requeued_as": again, "dismissed": dismissal.get("reason")}
        settled = asked_anew if "decided_by" in asked_anew else dismissal
    shared["settled_by"] = settled.get("decided_by")
    shared["settled_operation_id"] = settled.get("decided_by_operation_id")
    return WorkStatus(
        **shared,
        state=outcome["outcome"],
        closed_at=iso_time(outcome["closed_at_us"]),
        operation_id=outcome["operation_id"],
        reason=receipt.get("reason", receipt.get("error_signature")),
        result=_result(receipt),
        **_attempt(view, outcome, receipt),
    )


def ask_ahead_of(
    view: LedgerView, request_ids: Sequence[str], *, attempts: bool = False, holds: bool = False
) -> None:
    """Ask ahead for what says how requests stand; with `holds` for what holds them back, too."""
    receipt_ids = [each for name in request_ids for each in closing_ids(name)]
    receipt_ids += map(dismissal_receipt_id, request_ids)
    requests = joined_ahead(schema.outbox, "request_id", request_ids)
    joined = [
        requests,
        joined_ahead(schema.outbox_outcomes, "request_id", request_ids),
        joined_ahead(schema.request_failures, "request_id", request_ids),
        joined_ahead(schema.receipts, "receipt_id", receipt_ids),
    ]
    if attempts:
        joined.append(joined_ahead(schema.request_attempts, "request_id", request_ids))
    if holds:
        joined += readiness_queries((requests, "item_key"))
    view.ask_ahead(*joined, others=[PAUSES, OPEN_CASCADES] if holds else ())


def closed_requests(view: LedgerView, request_ids: Sequence[str]) -> list[str]:
    """Return those of the requests that have their outcomes."""
    view.ask_ahead(joined_ahead(schema.outbox_outcomes, "request_id", request_ids))
    return [name for name in request_ids if view.outcome_of(name) is not None]


def recorded_requests(view: LedgerView, request_ids: Collection[str]) -> set[str]:
    """Return those of the ids under which something was asked."""
    view.ask_ahead(joined_ahead(schema.outbox, "request_id", request_ids))
    return {name for name in request_ids if view.tables.get(schema.outbox, name) is not None}


def request_receipt_id(request_id: str) -> str:
    """Return the id of the receipt that records a producer's request."""
    return f"receipt:{request_id}:requested"


def requeue_key(request_id: str) -> str:
    """Return the key under which a dead letter is asked for anew."""
    return f"requeue:{request_id}"


def reentry_key(run_id: str, after_attempt: int) -> str:
    """Return the key under which the next try of an extraction is asked for."""
    return f"{REENTRY}{digest([run_id, after_attempt])}"


def requeue_of(view: LedgerView, queue: str, request_id: str) -> str | None:
    """Return the request that asks anew for one that was given up; None where none does."""
    again = request_id_of(queue, requeue_key(request_id))
    return None if view.tables.get(schema.outbox, again) is None else again


def dismissal_receipt_id(request_id: str) -> str:
    """Return the id of the receipt that dismisses a dead letter."""
    return f"receipt:{request_id}:dismissed"


def outcome_of(view: LedgerView, queue: str, request_id: str) -> RequestOutcome | None:
    """Return how a request of a queue ended, None where the queue has none under this id."""
    ask_ahead_of(view, [request_id])
    row = view.tables.get(schema.outbox, request_id)
    if row is None or row["queue"] != queue:
        return None
    outcome = view.outcome_of(request_id)
    if outcome is None:
        return RequestOutcome(request_id, "open")
    receipt = closing_receipt(view, request_id)
    return RequestOutcome(
        request_id,
        outcome["outcome"],
        iso_time(outcome["closed_at_us"]),
        outcome["operation_id"],
        receipt.get("reason", receipt.get("error_signature")),
        _result(receipt),
        requeued_as=(
            requeue_of(view, queue, request_id) if outcome["outcome"] == "dead_letter" else None
        ),
        **_attempt(view, outcome, receipt),
    )


def closing_ids(request_id: str) -> tuple[str, str]:
    """Return the ids that the receipt that closed a request may have."""
    return receipts.closing_receipt_id(request_id), f"receipt:{request_id}:dead_letter"


def closing_receipt(view: LedgerView, request_id: str) -> Document:
    """Return the receipt that closed a request, where no operation did."""
    receipts_there = map(view.receipt, closing_ids(request_id))
    return next((receipt for receipt in receipts_there if receipt is not None), {})


def _attempt(view: LedgerView, outcome: Row, receipt: Document) -> Document:
    """Return what is known of the attempt that came to an outcome; an operation may have one."""
    operation_id = outcome["operation_id"]
    if not receipt and operation_id is not None:
        receipt = success_of(view, operation_id)
    return {name: receipt.get(name) for name in ("took_ms", "worker")}


def _result(receipt: Document) -> Document | None:
    result: Document | None = receipt.get("handler_result", receipt.get("result"))
    return result


def read_content(request: Request) -> Any:
    """Return a request's content as the model of its queue."""
    stated = request.document["content"]
    return QUEUE_KINDS[request.queue].read(stated, canonicalize(stated))


def _check_names(view: LedgerView, request: WorkRequest, *, by_worker: bool) -> None:
    """Refuse a key of the runtime's, and a run of its name that it has not asked for."""
    key, run_id = request.request_key, request.content.get("extraction_run_id")
    reserved = RUNTIME_KEYS if by_worker else (*RUNTIME_KEYS, SCHEDULE_KEY)
    if key.startswith(reserved) or derived_name_in(key) == key:
        raise _reserved_key_refusal(f"{key[:64]!r} is a key of the runtime's own", "request_key")
    if not isinstance(run_id, str) or derived_name_in(run_id) != run_id:
        return
    if view.tables.get(schema.outbox, request_id_of(EXTRACTION_QUEUE, run_id)) is None:
        message = f"the runtime alone asks for a run {run_id} first"
        raise _reserved_key_refusal(message, "content.extraction_run_id")


def _reserved_key_refusal(message: str, field: str) -> WorkRefused:
    return WorkRefused("work_request_key_reserved", message, field)


def _check(view: LedgerView, request: WorkRequest) -> _Checked:
    """Check a request by the row that this process has of its queue, else by the newest one.

    A worker may have registered the queue, or another schema of it, a moment ago.
    """
    kind = requestable_kind(request.queue)
    if kind is not None:
        try:
            return _check_by(kind, request)
        except WorkRefused:
            if not kind.is_registered:
                raise
    newest = registered_kind(view, request.queue)
    if newest is None:
        raise WorkRefused("work_queue_unknown", not_asked(request.queue), "queue")
    return _check_by(newest, request)


def _check_by(kind: QueueKind, request: WorkRequest) -> _Checked:
    key = request.request_key
    if not 1 <= len(key) <= KEY_CHARS_MAX or not _is_text(key):
        raise _invalid(f"a key is a text of 1 to {KEY_CHARS_MAX} characters", "request_key")
    if not 0 <= request.delay_s <= DELAY_S_MAX:
        raise _invalid(f"a delay is 0 to {DELAY_S_MAX} seconds", "delay_s")
    content = _read(kind, request.content)
    item_key = _item_key(kind, content)
    request_id = request_id_of(request.queue, key)
    body: Document = {
        "request_id": request_id,
        "queue": request.queue,
        "item_key": item_key,
        "priority": _priority(kind, request, content),
        "request_key": key,
        "content": request.content,
    }
    if request.delay_s:
        body["delay_s"] = request.delay_s
    if request.run_at is not None:
        body["run_at"] = _time(request.run_at)
    if request.tags:
        check_tags(request.tags)
        body["tags"] = dict(request.tags)
    if request.requeues is not None:
        body["requeues"] = request.requeues
    # In the form in which it is read back, because it is compared with what is recorded.
    return _Checked(request_id, orjson.loads(canonicalize(body)))


def _time(stated: str) -> str:
    try:
        return iso_time(parse_time_us(stated))
    except (ValueError, OverflowError):
        message = "a time is written as 2026-01-31T12:00:00Z"
        raise _invalid(message, "run_at") from None


def _check_not_too_late(body: Document, now_us: int) -> None:
    latest_us = now_us + DELAY_S_MAX * 1_000_000
    if "run_at" in body and parse_time_us(body["run_at"]) > latest_us:
        raise _invalid(f"a time is at most {DELAY_S_MAX} seconds from now", "run_at")


def _item_key(kind: QueueKind, content: BaseModel | SchemaContent) -> str:
    item_key = _content_field(kind, content, kind.item_key)
    place = f"content.{kind.item_key}"
    if not isinstance(item_key, str) or not 1 <= len(item_key) <= ITEM_KEY_CHARS_MAX:
        raise _invalid(f"a name is a text of 1 to {ITEM_KEY_CHARS_MAX} characters", place)
    if not _is_text(item_key):
        raise _invalid("a name holds the character U+0000", place)
    return item_key


def _is_text(name: str) -> bool:
    """Tell whether every store can hold a text: no lone surrogate, and no U+0000."""
    try:
        return b"\x00" not in name.encode()
    except UnicodeEncodeError:
        return False


def _read(kind: QueueKind, content: Document) -> BaseModel | SchemaContent:
    try:
        stated = canonicalize_readable(content)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"the content has no canonical form: {error}", "content") from None
    if len(stated) > CONTENT_BYTES_MAX:
        raise _invalid(f"a content has at most {CONTENT_BYTES_MAX} bytes", "content")
    try:
        return kind.read(content, stated)
    except ValidationError as error:
        field, message = first_problem(error, "content")
        raise _invalid(message, field) from None
    except ContentMisfit as misfit:
        raise _invalid(misfit.message, ".".join(("content", *misfit.place))) from None
    except Exception as error:
        if is_built_in(kind.name):
            raise
        # The model of a plug-in is a foreign program.
        message = f"the model of {kind.name} failed: {type(cause_of(error)).__name__}"
        raise _invalid(message, "content") from error


def _content_field(kind: QueueKind, content: BaseModel | SchemaContent, field: str) -> Any:
    """Return a field of a content, which the model of a plug-in may compute."""
    try:
        return kind.field_of(content, field)
    except Exception as error:
        message = f"the model of {kind.name} failed: {type(cause_of(error)).__name__}"
        raise _invalid(message, f"content.{field}") from error


def _priority(kind: QueueKind, request: WorkRequest, content: BaseModel | SchemaContent) -> str:
    if kind.priority is None:
        stated = request.priority or kind.default_priority
        if not kind.has_priority(stated):
            raise _invalid(f"no priority is called {stated!r}", "priority")
        return stated
    field = kind.priority
    decided = _content_field(kind, content, field)
    decided = str.__str__(decided) if isinstance(decided, str) else ""
    if not kind.has_priority(decided):
        raise _invalid(f"no priority is called {decided!r}", f"content.{field}")
    if request.priority not in (None, decided):
        raise _invalid("the content decides the priority", "priority")
    return decided


def _take_priority_of_binding(view: LedgerView, body: Document) -> None:
    """Let a binding that is on record draw as its generation in force says (§14.2)."""
    if body["queue"] == BINDING_QUEUE:
        generation = generation_in_force(view, body["content"]["binding_id"])
        if generation is not None:
            policy = read_source_binding(generation["binding_snapshot"]).resource_policy
            body["priority"] = policy.capacity_priority


def _invalid(message: str, field: str) -> WorkRefused:
    return WorkRefused("work_request_invalid", message, field)


def _request_document(view: LedgerView, request_id: str) -> Document | None:
    row: Row | None = view.tables.get(schema.outbox, request_id)
    if row is None:
        return None
    document = Request.of_row(row).document
    del document["enqueued_at"]
    return document


def _check_same(known: Document | None, body: Document) -> None:
    if known is not None and known["queue"] == BINDING_QUEUE:
        # Its binding decided it when it was asked for first, and may decide otherwise by now.
        body["priority"] = known["priority"]
    if known not in (None, body):
        raise WorkRefused(
            "work_request_conflict", "this key asked for something else", "request_key"
        )


def _check_room(view: LedgerView, bodies: Sequence[Document]) -> None:
    queues = Counter(body["queue"] for body in bodies)
    # While all queues together have room each of them has, and that count is the cheap one.
    if view.count_open_requests() + len(bodies) > OPEN_MAX:
        for queue, count in queues.items():
            if view.count_open_requests(queue) + count > OPEN_MAX:
                message = f"{OPEN_MAX} requests of {queue} are open; ask again"
                raise WorkRefused("work_requests_too_many", message)
    items = Counter((body["queue"], body["item_key"]) for body in bodies)
    for (queue, item_key), count in items.items():
        where = {"queue": queue, "item_key": item_key}
        if view.tables.count(TableQuery(schema.outbox, where)) + count > ITEM_REQUESTS_MAX:
            message = f"at most {ITEM_REQUESTS_MAX} requests for {item_key}"
            kind = QUEUE_KINDS.get(queue)
            field = "content" if kind is None else f"content.{kind.item_key}"
            raise WorkRefused("work_item_full", message, field)
