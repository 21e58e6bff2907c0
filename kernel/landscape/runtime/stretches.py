"""Parts the log into runs of the runtime, and says how they follow each other.

The first run begins with the first row, each further one behind the row with which the last sealed
one ended. The run that is going on stands behind that. The name of a sealed run has the hash of its
last row, so it is a run of one log alone.
"""

import re
from dataclasses import dataclass

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import TableQuery

PREFIX = "runtime:"
_BEHIND = "runtime;"
"""What sorts behind every name with the prefix."""

HASH_CHARS = 12
RUN_ROWS_MAX = 5_000
"""Rows of a run; of the one that is going on its first ones are looked at, where there are more."""

_NAME = re.compile(
    r"runtime:(?P<first>[0-9]{12})-(?:(?P<last>[0-9]{12}):(?P<hash>[0-9a-f]{12})|open)"
)


@dataclass(frozen=True, slots=True)
class RuntimeRun:
    """A run of the runtime: a stretch of the log from one row to another, both among it."""

    first: int
    last: int
    run_id: str
    is_open: bool = False
    """Whether the run is going on."""


def is_runtime(run_id: str) -> bool:
    """Tell whether a run is named as those of the runtime are."""
    return run_id.startswith(PREFIX)


def stretch_of_id(view: LedgerView, run_id: str) -> RuntimeRun | None:
    """Return the stretch of a run of this log; None where it has no such run."""
    name = _NAME.fullmatch(run_id)
    if name is None:
        return None
    if name["last"] is None:
        stretch = open_stretch(view)
        return stretch if stretch is not None and stretch.run_id == run_id else None
    first, last = int(name["first"]), int(name["last"])
    # Whoever knows the log could name a stretch of any length, and making its records takes time.
    ended = stretch_between(view, first, last) if last - first < RUN_ROWS_MAX else None
    return ended if ended is not None and ended.run_id == run_id else None


def stretch_between(view: LedgerView, first: int, last: int) -> RuntimeRun | None:
    """Return a stretch that has ended; None where the log has no such rows."""
    row = view.log_row_at(last) if 1 <= first <= last else None
    if row is None:
        return None
    return RuntimeRun(
        first, last, f"{PREFIX}{first:012d}-{last:012d}:{row['row_hash'][:HASH_CHARS]}"
    )


def last_sealed_row(view: LedgerView) -> int:
    """Return the last row of the newest sealed run, 0 before the first."""
    query = TableQuery(
        schema.landscape_seals, order_by="run_id", after=_BEHIND, descending=True, limit=1
    )
    newest = view.tables.scan(query)
    name = _NAME.fullmatch(newest[0]["run_id"]) if newest else None
    return 0 if name is None or name["last"] is None else int(name["last"])


def open_stretch(view: LedgerView) -> RuntimeRun | None:
    """Return the run that is going on; None where nothing was recorded since the last one."""
    first, head = last_sealed_row(view) + 1, view.head().ec_sequence_number
    if first > head:
        return None
    last = min(head, first + RUN_ROWS_MAX - 1)
    return RuntimeRun(first, last, f"{PREFIX}{first:012d}-open", is_open=True)


def newest_stretches(view: LedgerView, *, limit: int) -> list[RuntimeRun]:
    """Return the newest runs, the newest first: the one that is going on, sealed ones."""
    current = open_stretch(view)
    return [*([] if current is None else [current]), *sealed_runs(view, limit=limit)][:limit]


def sealed_runs(view: LedgerView, *, limit: int) -> list[RuntimeRun]:
    """Return the newest sealed runs, the newest first."""
    query = TableQuery(
        schema.landscape_seals, order_by="run_id", after=_BEHIND, descending=True, limit=limit
    )
    rows = view.tables.scan(query)
    named = (stretch_of_id(view, row["run_id"]) for row in rows)
    return [stretch for stretch in named if stretch is not None]
