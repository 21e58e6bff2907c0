"""Answers one SELECT on the tables of a ledger, or on a run of the runtime, within bounds."""

import time
from contextlib import closing

from kernel.landscape.runtime.views import query_run
from kernel.ledger.ad_hoc_query import QueryAnswer, QueryBounds, answer_query
from workers.environment.ledger_access import LedgerPlace, open_record, open_store


def query_record(place: LedgerPlace, sql: str, bounds: QueryBounds) -> QueryAnswer:
    """Run one SELECT on the tables of a ledger.

    Raises:
        QueryRefused: `query_refused`, `query_failed`, `query_timed_out`.
        LedgerUnavailable: when there is no ledger there, or it cannot be reached.
        LedgerSchemaDiffers: when its tables have another version.
    """
    with closing(open_store(place, read_only=True)) as store:
        return answer_query(store, sql, bounds, time.monotonic)


def query_runtime_run(
    place: LedgerPlace, run_id: str, sql: str, bounds: QueryBounds
) -> QueryAnswer:
    """Run one SELECT of SQLite on the records of a run of the runtime; see `query_run`.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        QueryRefused: `query_refused`, `query_failed`, `query_timed_out`.
        LedgerUnavailable: when there is no ledger there, or it cannot be reached.
        LedgerSchemaDiffers: when its tables have another version.
    """
    with open_record(place) as view:
        return query_run(view, run_id, sql, bounds, time.monotonic)
