"""Lists the runs of late, the runtime's own among them, and which need attention.

Stored runs are counted by the database. Of the runtime's runs a sealed one is counted by its seal,
and only the one that is going on is made (`kernel/landscape/runtime`), of its first rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kernel.landscape.record_counts import count_of, counts_by
from kernel.landscape.record_rules import TABLES, check_stored
from kernel.landscape.reports import newest_runs, run_document
from kernel.landscape.runtime.records import run_record
from kernel.landscape.runtime.stretches import RUN_ROWS_MAX, RuntimeRun, newest_stretches
from kernel.landscape.runtime.views import counts_of
from kernel.landscape.seals import seal_of
from kernel.ledger import schema
from kernel.ledger.landscape_tables import OUTCOMES, TERMINAL_OUTCOMES
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.values.host import iso_time

Document = dict[str, Any]

STUCK_AFTER_US = 3_600_000_000
"""For how long a run, an operation or a state may be open before it is reported."""

MANY_ERRORS = 10
HIGH_ERROR_SHARE = 0.2
"""Of the tokens that have ended: from here on, or beyond `MANY_ERRORS`, the rate is high."""

RUNS_LOOKED_AT = 100

RUNTIME_LOOKED_AT = 20
"""Of the runtime's own runs, the newest."""

GIVEN_UP_COUNTED_MAX = 1000
RECENT_SHOWN = 5

ERRORS_LOOKED_AT = 20
"""Of the newest runs, those of which errors are counted at a glance."""

FAILED_KNOWN_US = 7 * 86_400_000_000
"""For how long a run that failed is a problem of now."""

_COUNTED = ("rows", "tokens")


@dataclass(frozen=True, slots=True)
class RunTrouble:
    """What is wrong with a run, at a glance."""

    kind: Literal["run_failed", "run_stuck", "run_troubled"]
    run_id: str
    message: str
    since: str


def activity_since(view: LedgerView, since_us: int) -> Document:
    """Return the runs that began since a time, and those of the runtime that went on then."""
    runs = [
        run_document(view, run) | {name: count_of(view, run["run_id"], name) for name in _COUNTED}
        for run in newest_runs(view, limit=RUNS_LOOKED_AT, since_us=since_us)
    ]
    runs += (
        run_document(view, run) | counts_of(view, run["run_id"], _COUNTED)
        for run, _ in _runtime(view)
        if run["completed_at_us"] is None or run["completed_at_us"] >= since_us
    )
    runs.sort(key=_newest_first)
    return {
        "since_us": since_us,
        "total_runs": len(runs),
        "status_summary": dict(Counter(run["status"] for run in runs)),
        "runs": runs,
    }


def problems_now(view: LedgerView, now_us: int) -> Document:
    """Return what needs attention among the newest runs, the runtime's among them."""
    runs, runtime = newest_runs(view, limit=RUNS_LOOKED_AT), [*_runtime(view)]
    problems = [problem for run in runs for problem in _problems(view, run, now_us)]
    problems += (
        problem for _, stretch in runtime for problem in _problems_of_stretch(view, stretch)
    )
    severities = {problem["severity"] for problem in problems}
    status = "CRITICAL" if "CRITICAL" in severities else "WARNING" if severities else "OK"
    of_run = [problem["run_id"] for problem in problems]
    newest = sorted([*runs[:RECENT_SHOWN], *(run for run, _ in runtime)], key=_newest_first)
    return {
        "status": status,
        "problems": problems,
        "recent_runs": [run_document(view, run) for run in newest[:RECENT_SHOWN]],
        "next_steps": [f"failure_context {run_id}" for run_id in dict.fromkeys(of_run)][:3],
    }


def problems_of_runs(view: LedgerView, now_us: int) -> list[RunTrouble]:
    """Return what is wrong with the newest stored runs; what it counts is bounded.

    Raises:
        RecordDamaged: a run breaks a rule.
    """
    runs = newest_runs(view, limit=RUNS_LOOKED_AT)
    ids = [run["run_id"] for run in runs]
    query = TableQuery(schema.landscape_seals, any_of=("run_id", ids), columns=("run_id",))
    sealed = {run_id for (run_id,) in view.tables.scan(query)}
    problems = []
    for place, run in enumerate(runs):
        run_id, started_us, ended_us = run["run_id"], run["started_at_us"], run["completed_at_us"]
        if run["status"] == "running":
            if now_us - started_us > STUCK_AFTER_US:
                message = "is running for more than an hour"
                problems.append(RunTrouble("run_stuck", run_id, message, iso_time(started_us)))
        elif run["status"] == "failed":
            if now_us - ended_us <= FAILED_KNOWN_US:
                problems.append(RunTrouble("run_failed", run_id, "failed", iso_time(ended_us)))
        elif run_id not in sealed:
            message = "has ended and has no seal"
            problems.append(RunTrouble("run_troubled", run_id, message, iso_time(ended_us)))
        if place < ERRORS_LOOKED_AT and _has_many_errors(view, run_id):
            message = f"has more than {MANY_ERRORS} errors"
            problems.append(RunTrouble("run_troubled", run_id, message, iso_time(started_us)))
    return problems


def _has_many_errors(view: LedgerView, run_id: str) -> bool:
    """Tell whether more than `MANY_ERRORS` are recorded; no more of them are counted."""
    return any(
        view.tables.count(TableQuery(TABLES[name], {"run_id": run_id}, limit=MANY_ERRORS + 1))
        > MANY_ERRORS
        for name in ("validation_errors", "transform_errors")
    )


def _newest_first(run: Row) -> tuple[int, str]:
    return -run["started_at_us"], run["run_id"]


def _runtime(view: LedgerView) -> Iterator[tuple[Row, RuntimeRun]]:
    for stretch in newest_stretches(view, limit=RUNTIME_LOOKED_AT):
        yield run_record(view, stretch), stretch


def _problems(view: LedgerView, run: Row, now_us: int) -> Iterable[Document]:
    run_id = run["run_id"]
    if run["status"] == "failed":
        yield _problem("CRITICAL", "failed_run", run_id, "the run failed")
    if run["status"] == "running" and now_us - run["started_at_us"] > STUCK_AFTER_US:
        yield _problem("WARNING", "stuck_run", run_id, "running for more than an hour")
    if run["status"] != "running" and seal_of(view, run_id) is None:
        yield _problem("WARNING", "run_not_sealed", run_id, "it has ended and has no seal")
    of_run = {"run_id": run_id}
    errors = count_of(view, run_id, "validation_errors")
    if errors > MANY_ERRORS:
        yield _problem("WARNING", "high_error_rate", run_id, f"{errors} validation errors")
    ends = counts_by(view, run_id, "token_outcomes", "outcome", OUTCOMES)
    quarantined = ends["quarantined"]
    failed = ends["failed"] + quarantined
    ended = sum(ends[outcome] for outcome in TERMINAL_OUTCOMES)
    if failed > MANY_ERRORS or (failed and failed >= HIGH_ERROR_SHARE * ended):
        message = f"{failed} of {ended} tokens ended as failed or quarantined"
        yield _problem("WARNING", "high_error_rate", run_id, message)
    if quarantined:
        yield _problem("INFO", "quarantined_rows", run_id, f"{quarantined} rows are quarantined")
    for row in view.tables.scan(TableQuery(TABLES["operations"], of_run | {"status": "open"})):
        check_stored(TABLES["operations"], row)
        if now_us - row["started_at_us"] > STUCK_AFTER_US:
            message = f"operation {row['operation_id']} is open for more than an hour"
            yield _problem("WARNING", "stuck_operation", run_id, message)


def _problems_of_stretch(view: LedgerView, stretch: RuntimeRun) -> Iterable[Document]:
    """Yield what is wrong with a run of the runtime; it lasts as long as the log goes on."""
    query = TableQuery(
        schema.outbox_outcomes,
        {"outcome": "dead_letter"},
        order_by="closed_sequence",
        after=stretch.first - 1,
        limit=GIVEN_UP_COUNTED_MAX,
    )
    dead = view.tables.scan(query)
    given_up = sum(row["closed_sequence"] <= stretch.last for row in dead)
    if given_up:
        at_least = "at least " if given_up == GIVEN_UP_COUNTED_MAX else ""
        message = f"requests given up: {at_least}{given_up}"
        yield _problem("WARNING", "failed_tokens", stretch.run_id, message)
    damaged = view.quarantines().over(stretch.first, stretch.last)
    if damaged is not None:
        message = f"{damaged} of the log quarantined, so it has no records"
        yield _problem("WARNING", "run_quarantined", stretch.run_id, message)
    rows = view.head().ec_sequence_number - stretch.first + 1
    if stretch.is_open and rows > RUN_ROWS_MAX:
        message = f"no seal follows its {rows} rows, and its first {RUN_ROWS_MAX} are shown"
        yield _problem("INFO", "run_not_sealed", stretch.run_id, message)


def _problem(severity: str, kind: str, run_id: str, message: str) -> Document:
    return {"severity": severity, "type": kind, "run_id": run_id, "message": message}
