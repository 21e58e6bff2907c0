"""Grades a run by how far it can be done again: in full, from the record, or only be checked.

The grade follows from what the nodes say of themselves when the run ends. A purge of payloads takes
away what a replay would read; nothing raises a grade.
"""

from kernel.landscape.record_rules import TABLES, check_stored
from kernel.ledger.landscape_tables import GRADES
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery

FULL, REPLAY, ATTRIBUTABLE = GRADES

_REPEATED = frozenset({"deterministic", "seeded"})
"""What gives the same again; what is read, written or called outside may be another then."""


def grade_of_run(view: LedgerView, run_id: str) -> str:
    """Return the grade by a run's nodes."""
    nodes = view.tables.scan(TableQuery(TABLES["nodes"], {"run_id": run_id}))
    determinisms = {check_stored(TABLES["nodes"], row)["determinism"] for row in nodes}
    return FULL if determinisms <= _REPEATED else REPLAY


def grade_now(run: Row) -> str | None:
    """Return the grade of a run as its payloads are now, None while it runs."""
    grade: str | None = run["reproducibility_grade"]
    if grade == REPLAY and run["payloads_purged_at_us"] is not None:
        return ATTRIBUTABLE
    return grade
