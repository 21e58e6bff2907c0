"""One SELECT on the records of a run of the runtime, which are in no table of the ledger."""

from collections.abc import Callable

from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_rules import TABLES
from kernel.landscape.runtime.records import RuntimeRecords
from kernel.landscape.runtime.stretches import stretch_named
from kernel.ledger.ad_hoc_query import QueryAnswer, QueryBounds
from kernel.ledger.ledger import LedgerView
from kernel.ledger.record_query import query_records


def query_run(
    view: LedgerView, run_id: str, sql: str, bounds: QueryBounds, now_s: Callable[[], float]
) -> QueryAnswer:
    """Make the records of a run and run one SELECT of SQLite on them.

    The statement sees the tables `landscape_…` with this run alone. Making them is linear in the
    rows of the run's stretch of the log and is not part of the time that the statement has.

    Raises:
        LandscapeRefused: `landscape_unknown` of what is no run of the runtime on this log.
        QueryRefused: `query_refused`, `query_failed`, `query_timed_out`.
    """
    stretch = stretch_named(view, run_id)
    if stretch is None:
        message = (
            f"{run_id} is no run of the runtime on this log; the records of a pipeline's run are"
            " in the tables, WHERE run_id = '…'"
        )
        raise LandscapeRefused(message, code="landscape_unknown")
    view.quarantines().expect_none_over(stretch.first, stretch.last)
    made = RuntimeRecords(view, stretch).rows
    records = {TABLES[name]: made[name] for name in TABLES}
    return query_records(records, sql, bounds, now_s)
