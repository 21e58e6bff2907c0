"""Gives refusals a receipt each up to a number, and counts the others (§17.6).

A refusal leaves a durable receipt (K5), so a caller with nothing but refusals to offer would fill
the record. Of each session, check and reason code the first ones have a receipt each, and after
that one a minute; the others are counted, and a receipt says how many there were, the first and the
last. All sessions together have such a limit as well, because a caller gets sessions for little
(decision kernel/0175).

A run is named by its session and not by its envelopes: one byte makes another digest, and a caller
writes the actor as it likes. Counts are in memory until a receipt states them: a process that ends
loses those of a minute at most, and the first receipts say that there were some.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from threading import Lock

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import TableQuery
from kernel.model.receipt import Receipt
from kernel.values.canonical import digest
from kernel.values.host import iso_time

EACH_RECEIPTS = 32
"""Receipts that a session has at once for one reason; then one for every `EACH_S`."""

EACH_S = 60
ALL_RECEIPTS = 2048
"""Receipts that all sessions together have at once; then one for every `ALL_S`."""

ALL_S = 1
REASONS_MAX = 1024
"""Sessions and reasons in memory at once; a forgotten one begins anew."""

RUNS_MAX = 128
"""Runs with a count of their own; beyond, the runs of one reason share a count."""

REFUSED = "envelope_validation_failed"
"""The kind of a refusal's receipt; its field `refusals` says how many it stands for."""

_US = 1_000_000
_MESSAGE_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True)
class RefusalReason:
    """The session, check and code of refusals that are counted together."""

    session_id: str
    """Empty where the envelope names none, or where several are counted together."""

    check: str
    reason_code: str


@dataclass(frozen=True, slots=True)
class RefusalRun:
    """Refusals without a receipt of their own."""

    reason: RefusalReason
    count: int
    first_us: int
    last_us: int
    last_operation_id: str | None
    last_message: str

    def join(self, later: "RefusalRun") -> "RefusalRun":
        """Return both as one."""
        return replace(later, count=self.count + later.count, first_us=self.first_us)


class _Bucket:
    """A token bucket; one token returns each period."""

    def __init__(self, size: int, token_s: int, now_us: int) -> None:
        self._size, self._token_us = size, token_s * _US
        self._empty_until_us = now_us - size * self._token_us

    def take(self, now_us: int) -> bool:
        least_us = now_us - self._size * self._token_us
        taken_us = max(self._empty_until_us, least_us) + self._token_us
        if taken_us > now_us:
            return False
        self._empty_until_us = taken_us
        return True


class RefusalRuns:
    """Which refusals have a receipt of their own in this process; the others are counted."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._buckets: OrderedDict[RefusalReason, _Bucket] = OrderedDict()
        self._all: _Bucket | None = None
        self._runs: dict[RefusalReason, RefusalRun] = {}

    def has_receipt(
        self, reason: RefusalReason, now_us: int, operation_id: str | None, message: str
    ) -> bool:
        """Tell whether a refusal shall have a receipt of its own, and count it where not."""
        with self._lock:
            if self._take(reason, now_us):
                return True
            self._join(RefusalRun(reason, 1, now_us, now_us, operation_id, message))
            return False

    def take(self) -> list[RefusalRun]:
        """Return the runs that were counted, and start new counts."""
        with self._lock:
            runs, self._runs = self._runs, {}
        return list(runs.values())

    def put_back(self, runs: Iterable[RefusalRun]) -> None:
        """Add runs that could not be recorded to the counts again."""
        with self._lock:
            later, self._runs = self._runs, {}
            for run in (*runs, *later.values()):
                self._join(run)

    def _take(self, reason: RefusalReason, now_us: int) -> bool:
        bucket = self._buckets.pop(reason, None) or _Bucket(EACH_RECEIPTS, EACH_S, now_us)
        self._buckets[reason] = bucket
        if len(self._buckets) > REASONS_MAX:
            self._buckets.popitem(last=False)
        self._all = self._all or _Bucket(ALL_RECEIPTS, ALL_S, now_us)
        return bucket.take(now_us) and self._all.take(now_us)

    def _join(self, run: RefusalRun) -> None:
        reason = run.reason
        if reason not in self._runs and len(self._runs) >= RUNS_MAX:
            reason = replace(reason, session_id="")
            run = replace(run, reason=reason)
        before = self._runs.get(reason)
        self._runs[reason] = run if before is None else before.join(run)


def record_runs(transaction: LedgerTransaction, runs: Iterable[RefusalRun]) -> None:
    """Leave a durable receipt of each run, none of one that is on the record already."""
    for run in runs:
        reason = run.reason
        identity = [reason.session_id, reason.check, reason.reason_code, run.first_us, run.count]
        receipt_id = f"receipt:refusals:{digest(identity)}"
        if transaction.tables.scan(
            TableQuery(schema.receipts, {"receipt_id": receipt_id}, limit=1)
        ):
            continue
        body: Document = {
            "check": reason.check,
            "reason_code": reason.reason_code,
            "field": "",
            "message": run.last_message[:_MESSAGE_CHARS_MAX],
            "refusals": run.count,
            "first_refused_at": iso_time(run.first_us),
            "last_refused_at": iso_time(run.last_us),
        }
        if reason.session_id:
            body["session_id"] = reason.session_id
        if run.last_operation_id is not None:
            body["last_operation_id"] = run.last_operation_id
        transaction.next_commit_time_us()
        append_receipt(transaction, receipt_id, Receipt(REFUSED, body), None)
