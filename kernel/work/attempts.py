"""Keeps what was tried in vain: counters, the time of the next attempt, and why each one failed.

They lie beside the record (decision kernel/0680): a report of a failure writes them in its own
transaction, and a success writes nothing. Redis holds a copy, so that a lost Redis gives no attempt
back and shortens no pause. Of a request the first and the last attempts are kept, the others
counted. If several requests are one item, as recomputes of one authority are, the oldest of them
has the attempts of all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

import orjson

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView, Request
from kernel.ledger.store.tables import Row, TableQuery, distinct_values
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.values.host import iso_time
from kernel.work.reports import (
    AttemptError,
    AttemptFailed,
    AttemptSnoozed,
    Delivery,
    SuccessfulAttempt,
    WorkerLost,
)
from kernel.work.retry_policy import (
    FailureCounts,
    RetryPolicy,
    final_reason,
    pause_ms,
)

FIRST_KEPT: Final = 3
LAST_KEPT: Final = 17
OF_OPERATION: Final = 0
"""In place of its number, of an attempt that is known by its operation."""

LOST: Final = "worker_lost"
"""The code of an attempt whose worker vanished."""

POLICY_PAGE: Final = 256
"""Requests that wait by an older policy and get the new one in a transaction."""

POLICY_FLOOR_US: Final = 15_000_000
"""A request that a new policy lets wait for less waits so long yet, so that Redis hears of it."""

SIGNATURE_ROWS: Final = 1000
"""Requests of one signature that a list looks at."""

AttemptReport = AttemptFailed | AttemptSnoozed | WorkerLost


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that failed."""

    attempt_number: int
    """Among those of its request, from 1."""

    code: str
    """The reason code; `worker_lost` where the worker vanished."""

    worker: str
    started_at: str
    took_ms: int
    error_class: str
    message: str
    traceback: str
    signature: str


@dataclass(frozen=True, slots=True)
class Failures:
    """What is counted of a request that did not succeed at once, and its attempts."""

    deliveries: int
    """Claims of it that were reported: failures, pauses that it asked for, and lost workers."""

    failures: int
    snoozes: int
    worker_ends: int
    """Workers that ended while they worked on it alone."""

    first_started_at: str
    signature: str | None
    """Of the newest attempt that failed."""

    next_attempt_at: str | None
    """When it is tried again; None once it has its outcome."""

    policy_version: str
    attempts: tuple[Attempt, ...] = ()
    """The first three and the last seventeen, where they were asked for."""

    attempts_left_out: int = 0
    """Attempts between them, which are counted and not kept."""


@dataclass(frozen=True, slots=True)
class WaitingRetry:
    """What a queue has to know of a request that failed, should it have lost it."""

    attempts: int
    worker_ends: int
    next_attempt_at_us: int


@dataclass(frozen=True, slots=True)
class RetryPause:
    """How long a request waits for its next attempt."""

    pause_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Why a request is not tried any more."""

    reason: str


Verdict = RetryPause | GiveUp


def record_attempt(
    transaction: LedgerTransaction, request: Request, report: AttemptReport
) -> Verdict:
    """Record what became of a claim of an open request, and decide what follows.

    The same claim reported once more changes nothing.
    """
    now_us = transaction.host.now_us()
    row = _count_delivery(transaction, request, report.delivery)
    if row is None:
        [stands] = waiting_retries(transaction, [request]).values()
        return RetryPause(max(0, stands.next_attempt_at_us - now_us) // 1000)
    pause = _COUNT[type(report)](row, report)
    row["next_attempt_at_us"] = now_us + 1000 * pause
    row["policy_version"] = report.policy.version
    reason = _reason(row, report)
    row["waits"] = int(reason is None and isinstance(report, AttemptFailed))
    if isinstance(report, AttemptFailed):
        _keep_attempt(transaction, row, report.delivery, report.error.model_dump())
    elif isinstance(report, WorkerLost):
        _keep_attempt(transaction, row, report.delivery, {"code": LOST, "signature": LOST})
    transaction.tables.put(schema.request_failures, row)
    return RetryPause(pause) if reason is None else GiveUp(reason)


def record_failure(
    transaction: LedgerTransaction, request: Request, delivery: Delivery, error: AttemptError
) -> None:
    """Record why a claim of a request failed whose own rules decide what follows."""
    row = _count_delivery(transaction, request, delivery)
    if row is not None:
        row["failures"] += 1
        row["error_signature"] = error.signature
        _keep_attempt(transaction, row, delivery, error.model_dump())
        transaction.tables.put(schema.request_failures, row)


def waiting_retries(view: LedgerView, requests: Sequence[Request]) -> dict[str, WaitingRetry]:
    """Return what is known of those requests that did not succeed at once, by their ids."""
    ids = [request.request_id for request in requests]
    rows = view.tables.scan(TableQuery(schema.request_failures, any_of=("request_id", ids)))
    return {
        row["request_id"]: WaitingRetry(
            row["failures"] + row["worker_ends"], row["worker_ends"], row["next_attempt_at_us"]
        )
        for row in rows
    }


def snoozes_of(view: LedgerView, request_ids: Iterable[str]) -> dict[str, int]:
    """Return how often those requests asked for a pause that ever did not succeed."""
    rows = view.tables.scan(
        TableQuery(schema.request_failures, any_of=("request_id", [*request_ids]))
    )
    return {row["request_id"]: row["snoozes"] for row in rows}


def failures_of(view: LedgerView, request_id: str, *, attempts: bool = False) -> Failures | None:
    """Return what was counted of a request, None where nothing of it failed."""
    row = view.tables.get(schema.request_failures, request_id)
    if row is None:
        return None
    kept = tuple(map(_attempt, _attempt_rows(view, request_id))) if attempts else ()
    is_open = view.open_request(request_id) is not None
    return Failures(
        **{name: row[name] for name in ("deliveries", "failures", "snoozes", "worker_ends")},
        first_started_at=iso_time(row["first_started_at_us"]),
        signature=row["error_signature"],
        next_attempt_at=iso_time(row["next_attempt_at_us"]) if is_open else None,
        policy_version=row["policy_version"],
        attempts=kept,
        attempts_left_out=row["attempts"] - len(kept) if attempts else 0,
    )


@dataclass(frozen=True, slots=True)
class SignatureSummary:
    """The requests whose newest failure has a signature."""

    signature: str
    requests: int
    """How many; where `is_all` is false, at least so many."""

    open: int
    """How many of those are tried again."""

    is_all: bool
    newest_request_id: str
    newest_queue: str
    newest_attempt: Attempt | None
    """The newest attempt of the newest of them; None where it was moved away."""


@dataclass(frozen=True, slots=True)
class SignaturePage:
    """Signatures in their order."""

    signatures: tuple[SignatureSummary, ...]
    next_after: str | None
    """Where the next page begins; None after the last."""


def list_signatures(
    view: LedgerView, queue: str | None, *, after: str, limit: int
) -> SignaturePage:
    """Return why requests of a queue, or of all, failed, each signature once, in their order.

    Of each signature, `SIGNATURE_ROWS` requests are looked at; a page may be empty and not the last
    where a queue is named.
    """
    page: list[SignatureSummary] = []
    for _ in range(limit):
        query = TableQuery(
            schema.request_failures, order_by="error_signature", after=after, limit=1
        )
        following = view.tables.scan(query)
        if not following:
            return SignaturePage(tuple(page), None)
        after = following[0]["error_signature"]
        summary = _summary_of(view, queue, after)
        page += [] if summary is None else [summary]
    return SignaturePage(tuple(page), after)


def _summary_of(view: LedgerView, queue: str | None, signature: str) -> SignatureSummary | None:
    equal = {"error_signature": signature}
    of_queues = TableQuery(schema.request_failures, equal, columns=("queue",))
    queues = [queue] if queue is not None else distinct_values(view.tables, of_queues)
    rows: list[Row] = []
    for name in queues:
        query = TableQuery(
            schema.request_failures,
            {**equal, "queue": name},
            order_by="request_sequence",
            descending=True,
            limit=SIGNATURE_ROWS,
        )
        rows += view.tables.scan(query)
    if not rows:
        return None
    rows = nlargest(SIGNATURE_ROWS, rows, key=itemgetter("request_sequence"))
    ids = [row["request_id"] for row in rows]
    closed = view.tables.scan(TableQuery(schema.outbox_outcomes, any_of=("request_id", ids)))
    newest = rows[0]
    attempt = view.tables.get(schema.request_attempts, newest["request_id"], newest["attempts"])
    return SignatureSummary(
        signature,
        len(rows),
        len(rows) - len(closed),
        len(rows) < SIGNATURE_ROWS,
        newest["request_id"],
        newest["queue"],
        None if attempt is None else _attempt(attempt),
    )


def follow_policy(
    transaction: LedgerTransaction, queue: str, policy: RetryPolicy
) -> list[tuple[str, str]]:
    """Let requests that wait by another policy wait by this one: `POLICY_PAGE` of them at most.

    Returns those that have failed too often for it, each with the code of its last attempt; the
    caller gives them up. Where nothing waits by another policy, nothing is written.
    """
    version, given_up = policy.version, []
    for row in _waiting_by_another(transaction, queue, version):
        request = transaction.open_request(row["request_id"])
        row |= {"policy_version": version}
        if request is None:
            transaction.tables.put(schema.request_failures, row | {"waits": 0})
            continue
        last = _attempt_of(transaction, row)
        unit = int(sha256_hex(row["request_id"].encode())[:8], 16) / 2**32
        failed_at_us = row["first_started_at_us"] if last is None else _ended_us(last)
        due_us = failed_at_us + 1000 * pause_ms(policy, row["failures"], unit)
        reason = _final_reason(policy, row, due_us - row["first_started_at_us"])
        if reason is not None and queue != AUTHORITY_QUEUE:
            row["waits"] = 0
            given_up.append((request.request_id, reason if last is None else str(last["code"])))
        row["next_attempt_at_us"] = max(due_us, transaction.host.now_us() + POLICY_FLOOR_US)
        transaction.tables.put(schema.request_failures, row)
    return given_up


def waits_by_another(view: LedgerView, queue: str, policy: RetryPolicy) -> bool:
    """Tell whether a request of a queue waits by another policy than this one."""
    return bool(_waiting_by_another(view, queue, policy.version, limit=1))


def _waiting_by_another(
    view: LedgerView, queue: str, version: str, limit: int = POLICY_PAGE
) -> list[Row]:
    """Return rows that wait by a policy whose version sorts before or after this one."""
    rows: list[Row] = []
    for descending in (False, True):
        query = TableQuery(
            schema.request_failures,
            {"queue": queue, "waits": 1},
            order_by="policy_version",
            after=version,
            descending=descending,
            limit=limit - len(rows),
        )
        rows += view.tables.scan(query) if len(rows) < limit else []
    return [dict(row) for row in rows]


def _count_delivery(
    transaction: LedgerTransaction, request: Request, delivery: Delivery
) -> Row | None:
    """Return the row of a request with one more delivery, None where that claim was reported."""
    row = transaction.tables.get(schema.request_failures, request.request_id)
    if row is None:
        counts = ("deliveries", "failures", "snoozes", "worker_ends", "attempts", "waits")
        row = {
            "request_id": request.request_id,
            "queue": request.queue,
            "request_sequence": request.request_sequence,
            **dict.fromkeys((*counts, "next_attempt_at_us"), 0),
            "first_started_at_us": delivery.started_at_us,
            "error_signature": None,
            "last_claim": "",
            "policy_version": "",
        }
    if row["last_claim"] == delivery.claim:
        return None
    return {**row, "last_claim": delivery.claim, "deliveries": row["deliveries"] + 1}


def _count_failure(row: Row, report: AttemptFailed) -> int:
    row["failures"] += 1
    row["error_signature"] = report.error.signature
    return pause_ms(report.policy, row["failures"], report.random_unit)


def _count_snooze(row: Row, report: AttemptSnoozed) -> int:
    row["snoozes"] += 1
    return report.pause_ms


def _count_lost_worker(row: Row, report: WorkerLost) -> int:
    row["worker_ends"] = max(row["worker_ends"], report.worker_ends)
    row["error_signature"] = LOST
    return 0


_COUNT: Final[Mapping[type, Callable[[Row, Any], int]]] = MappingProxyType(
    {
        AttemptFailed: _count_failure,
        AttemptSnoozed: _count_snooze,
        WorkerLost: _count_lost_worker,
    }
)
"""Counts what a report tells of, and returns the pause that follows it."""


def _reason(row: Row, report: AttemptReport) -> str | None:
    """Return why a request is given up after a report, None where it is not.

    After a failure the reason is that failure, whether it was the last one by number or by time.
    """
    if not isinstance(report, AttemptFailed):
        return _final_reason(report.policy, row, 0)
    elapsed_us = row["next_attempt_at_us"] - row["first_started_at_us"]
    is_final = report.final or _final_reason(report.policy, row, elapsed_us) is not None
    return report.error.code if is_final else None


def _final_reason(policy: RetryPolicy, row: Row, elapsed_us: int) -> str | None:
    counts = FailureCounts(row["failures"], row["snoozes"], row["worker_ends"])
    return final_reason(policy, counts, elapsed_us // 1000)


def _keep_attempt(
    transaction: LedgerTransaction, row: Row, delivery: Delivery, error: Document
) -> None:
    row["attempts"] += 1
    document = {
        "worker": delivery.worker,
        "started_at_us": delivery.started_at_us,
        "took_ms": max(0, delivery.ended_at_us - delivery.started_at_us) // 1000,
        **error,
    }
    request_id, number = row["request_id"], row["attempts"]
    kept = {"request_id": request_id, "attempt_number": number}
    kept["attempt_bytes"] = canonicalize(document)
    transaction.tables.put(schema.request_attempts, kept)
    if number > FIRST_KEPT + LAST_KEPT:
        transaction.tables.delete(schema.request_attempts, request_id, number - LAST_KEPT)


def keep_success(
    transaction: LedgerTransaction, operation_id: str, attempt: SuccessfulAttempt
) -> None:
    """Keep the attempt by which an operation did the work of requests that no receipt closes.

    See decision kernel/0695.
    """
    row = {"request_id": operation_id, "attempt_number": OF_OPERATION}
    row["attempt_bytes"] = canonicalize(attempt.model_dump(exclude_none=True))
    transaction.tables.put(schema.request_attempts, row)


def success_of(view: LedgerView, operation_id: str) -> Document:
    """Return what is known of the attempt by which an operation did its work."""
    row = view.tables.get(schema.request_attempts, operation_id, OF_OPERATION)
    return {} if row is None else dict(orjson.loads(row["attempt_bytes"]))


def _attempt_rows(view: LedgerView, request_id: str) -> list[Row]:
    query = TableQuery(
        schema.request_attempts, {"request_id": request_id}, order_by="attempt_number"
    )
    return view.tables.scan(query)


def _attempt_of(view: LedgerView, row: Row) -> dict[str, Any] | None:
    """Return the newest attempt of a request."""
    newest = view.tables.get(schema.request_attempts, row["request_id"], row["attempts"])
    return None if newest is None else orjson.loads(newest["attempt_bytes"])


def _ended_us(attempt: dict[str, Any]) -> int:
    return int(attempt["started_at_us"] + 1000 * attempt["took_ms"])


def _attempt(row: Row) -> Attempt:
    document = orjson.loads(row["attempt_bytes"])
    texts = ("code", "worker", "error_class", "message", "traceback", "signature")
    return Attempt(
        attempt_number=row["attempt_number"],
        started_at=iso_time(document["started_at_us"]),
        took_ms=document["took_ms"],
        **{name: document.get(name, "") for name in texts},
    )
