"""A run of the runtime whose rows and envelopes were moved to the archive is what it was."""

import pytest

from kernel.landscape.export import export_run
from kernel.landscape.lineage import explain
from kernel.landscape.recent_runs import activity_since, problems_now
from kernel.landscape.reports import errors_of, graph_of, outcomes_of, summary_of
from kernel.landscape.runtime.records import RuntimeRecords
from kernel.landscape.runtime.stretches import stretch_of_id
from kernel.landscape.runtime.views import run_view, runtime_runs
from kernel.ledger import schema
from kernel.ledger.archive import Archive
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.retention.model_retention import (
    GRACE_US,
    collect_answers,
    due_answers,
    read_past_segment,
    release_segment,
)
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from tests.kernel.archives import archive_next, collect_next, memory_archive
from tests.kernel.build import accept, create, ledger_on
from tests.kernel.honest import write_honestly
from tests.kernel.landscape.test_runtime_runs import head, seal

pytestmark = pytest.mark.spec("L4", "§17.7")


def read(ledger, run_id):
    """Return all that is read of a run."""
    with ledger.view() as view:
        made = run_view(view, run_id)
        rows = RuntimeRecords(view, stretch_of_id(view, run_id)).rows
        tokens = [row["token_id"] for row in rows["tokens"]]
        reports = [report(made, run_id) for report in (summary_of, graph_of, outcomes_of)]
        return (
            rows,
            reports,
            errors_of(made, run_id, kind="state", limit=99),
            [explain(made, token, run_id=run_id).lineages for token in tokens[::20]],
            [*export_run(made, run_id, b"key")],
            runtime_runs(view, limit=5),
            activity_since(view, 0)["runs"],
            problems_now(view, 1 << 60)["problems"],
        )


def test_a_sealed_run_is_verified_and_read_after_its_stretch_was_archived():
    ledger, host = ledger_on(MemoryStore())
    ledger.archive = memory_archive()
    write_honestly(ledger, host)
    while head(ledger) < SEGMENT_ROWS * 2:
        accept(ledger, create(f"filler-{head(ledger)}", "Note"))
    document = seal(ledger, 1, SEGMENT_ROWS + 3)
    for number in range(SEGMENT_ROWS * 2 + 1 - head(ledger)):
        accept(ledger, create(f"behind-{number}", "Note"))
    run_id = document["run_id"]
    before = read(ledger, run_id)
    with ledger.store.view() as tables:
        envelopes = tables.count(TableQuery(schema.blobs))
    while archive_next(ledger):
        assert collect_next(ledger, host)
    with ledger.store.view() as tables:
        assert tables.count(TableQuery(schema.kernel_event_log)) < SEGMENT_ROWS
        assert tables.count(TableQuery(schema.blobs)) < envelopes - SEGMENT_ROWS
    ledger.archive = Archive(ledger.archive.files)  # without what a process keeps
    assert read(ledger, run_id) == before
    for index in range(2):
        with ledger.view() as view:
            past = read_past_segment(view, index)
        with ledger.transaction() as transaction:
            release_segment(transaction, past)
    host.time_us += 2 * GRACE_US
    with ledger.transaction() as transaction:
        due = due_answers(transaction, ActiveModels({}), host.time_us)
        assert collect_answers(transaction, due)
    assert read(ledger, run_id) == before
    with ledger.view() as view:
        assert verify(view).findings == ()
    # A run may be sealed although its rows left the database before.
    second = seal(ledger, SEGMENT_ROWS + 4, SEGMENT_ROWS * 2 - 1)
    with ledger.view() as view:
        assert verify(view).findings == ()
        assert runtime_runs(view, limit=5)[1]["run_id"] == second["run_id"]
