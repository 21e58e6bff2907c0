"""Rules that the records of a run keep together: completeness and lineage (seed 003)."""

from io import BytesIO

import pytest

from kernel.landscape.canonical_types import typed_data
from kernel.landscape.errors import LandscapeRefused, RecordDamaged, RecordRefused
from kernel.landscape.export import ImportRefused, export_run, import_run
from kernel.landscape.lineage import lineage_of
from kernel.landscape.record_rules import TABLES
from kernel.ledger.store.tables import TableQuery
from kernel.verify import verify
from tests.kernel.build import memory_ledger
from tests.kernel.landscape.runs import begin, begin_with_token, whole_run
from tests.kernel.landscape.test_resume import checkpoint_of


def end(recorder, token_id):
    recorder.record_token_outcome("run-1", token_id, "completed", sink_name="sure")


def leave_rows_without_a_token(recorder):
    for number in range(1, 4):
        recorder.create_row("run-1", "source", number, {"n": number}, row_id=f"r{number}")
    end(recorder, "t")


def leave_a_token_on_its_way(recorder):
    row = recorder.create_row("run-1", "source", 1, {"n": 1})
    recorder.create_token("run-1", row["row_id"])
    end(recorder, "t")


def leave_a_state_open(recorder):
    recorder.begin_node_state("run-1", "t", "parse", 1, {"n": 1})
    end(recorder, "t")


def leave_a_state_pending(recorder):
    state = recorder.begin_node_state("run-1", "t", "parse", 1, {"n": 1})
    recorder.complete_node_state("run-1", state["state_id"], "pending", duration_us=1)
    end(recorder, "t")


def leave_an_operation_open(recorder):
    recorder.begin_operation("run-1", "sure", "sink_write")
    end(recorder, "t")


def leave_a_batch_open(recorder):
    batch = recorder.create_batch("run-1", "gather")
    recorder.update_batch("run-1", batch["batch_id"], "executing")
    end(recorder, "t")


INCOMPLETE = {
    leave_rows_without_a_token: "3 of 4 rows have no token: r1, r2, r3",
    leave_a_token_on_its_way: "2 tokens and 1 terminal outcomes: 1 are on their way",
    leave_a_state_open: "1 of its node_states is open",
    leave_a_state_pending: "1 of its node_states is pending",
    leave_an_operation_open: "1 of its operations is open",
    leave_a_batch_open: "1 of its batches is executing",
}


@pytest.mark.spec("seed 003, No Silent Drops")
@pytest.mark.parametrize("leave", INCOMPLETE, ids=lambda leave: leave.__name__)
def test_a_run_is_completed_when_all_that_it_was_given_has_come_out(ledger, recorder, leave):
    begin_with_token(recorder)
    leave(recorder)
    with pytest.raises(LandscapeRefused) as refused:
        recorder.complete_run("run-1")
    assert (refused.value.code, str(refused.value)) == ("landscape_incomplete", INCOMPLETE[leave])
    # Whoever writes past the recorder that it is completed is found by verification.
    with ledger.store.transaction() as tables:
        ended = {"status": "completed", "completed_at_us": 1}
        tables.update(TABLES["runs"], ("run-1",), ended)
    [problem] = [each for each in problems_by_verify(ledger) if each[0] == "landscape_runs"]
    assert problem == ("landscape_runs", f"it is completed, and {INCOMPLETE[leave]}")


def test_a_run_that_is_stopped_may_leave_things_open(recorder):
    begin_with_token(recorder)
    leave_rows_without_a_token(recorder)
    assert recorder.complete_run("run-1", "interrupted")["status"] == "interrupted"


def problems_by_verify(ledger):
    with ledger.view() as view:
        findings = verify(view).findings
    return [(each.table, each.message) for each in findings if each.rule == "link_broken"]


@pytest.mark.spec("seed 003, Batches")
@pytest.mark.parametrize("status", ["executing", "draft", "open"])
def test_what_is_over_is_not_said_to_go_on(recorder, status):
    begin(recorder)
    batch = recorder.create_batch("run-1", "gather")
    operation = recorder.begin_operation("run-1", "sure", "sink_write")
    with pytest.raises(RecordRefused, match="what is over"):
        recorder.complete_batch("run-1", batch["batch_id"], status)
    with pytest.raises(RecordRefused, match="what is over"):
        recorder.complete_operation("run-1", operation["operation_id"], status, duration_us=1)


def give_the_parent_another_row(tables, run):
    tables.update(TABLES["tokens"], ("run-1", run["token"]["token_id"]), {"row_id": "other"})
    return run["branches"][0]["token_id"], "landscape_tokens"


def take_the_parent_away(tables, run):
    query = TableQuery(
        TABLES["token_parents"], {"run_id": "run-1", "token_id": run["branches"][1]["token_id"]}
    )
    [link] = tables.scan(query)
    tables.delete(TABLES["token_parents"], "run-1", link["link_id"])
    return run["branches"][1]["token_id"], "landscape_tokens"


def name_both_branches_alike(tables, run):
    key = ("run-1", run["branches"][1]["token_id"])
    tables.update(TABLES["tokens"], key, {"branch_name": "sure"})
    return run["token"]["token_id"], "landscape_token_outcomes"


def expect_a_further_branch(tables, run):
    where = {"run_id": "run-1", "token_id": run["token"]["token_id"]}
    [outcome] = tables.scan(TableQuery(TABLES["token_outcomes"], where))
    expected = typed_data(["sure", "unsure", "other"]).decode()
    key = ("run-1", outcome["outcome_id"])
    tables.update(TABLES["token_outcomes"], key, {"expected_branches_json": expected})
    return run["token"]["token_id"], "landscape_token_outcomes"


def expect_a_further_part(tables, run):
    where = {"run_id": "run-1", "outcome": "expanded"}
    [outcome] = tables.scan(TableQuery(TABLES["token_outcomes"], where))
    expected = typed_data({"count": 4}).decode()
    key = ("run-1", outcome["outcome_id"])
    tables.update(TABLES["token_outcomes"], key, {"expected_branches_json": expected})
    return outcome["token_id"], "landscape_token_outcomes"


BREAKS = [
    *(give_the_parent_another_row, take_the_parent_away, name_both_branches_alike),
    *(expect_a_further_branch, expect_a_further_part),
]


@pytest.mark.spec("seed 003, Complete Traceability")
@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_who_reads_a_broken_lineage_stops_and_verification_names_it(ledger, recorder, broken):
    run = whole_run(recorder)
    recorder.create_row("run-1", "source", 1, {"n": 1}, row_id="other")
    recorder.flush()
    assert problems_by_verify(ledger) == []
    with ledger.store.transaction() as tables:
        token_id, table = broken(tables, run)
    with pytest.raises(RecordDamaged) as explained:
        ledger.read(lambda view: lineage_of(view, "run-1", token_id))
    assert explained.value.table == table
    with pytest.raises(RecordDamaged):
        checkpoint_of(ledger)
    assert table in {each for each, _ in problems_by_verify(ledger)}


@pytest.mark.spec("seed 003, Complete Traceability")
@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_a_run_with_a_broken_lineage_is_not_taken_in(ledger, recorder, broken):
    run = whole_run(recorder)
    recorder.create_row("run-1", "source", 1, {"n": 1}, row_id="other")
    recorder.complete_run("run-1", "interrupted")
    with ledger.store.transaction() as tables:
        broken(tables, run)
    lines = ledger.read(lambda view: list(export_run(view, "run-1")))
    other = memory_ledger()
    with pytest.raises(ImportRefused) as refused:
        import_run(other, lines)
    assert refused.value.code == "landscape_import_invalid"
    assert other.read(lambda view: view.tables.count(TableQuery(TABLES["runs"]))) == 0


@pytest.mark.parametrize("source", [list, lambda lines: BytesIO(b"".join(lines))])
@pytest.mark.parametrize("behind", [b'{"record_type":"rows"}\n', b"[]\n", b"x"])
def test_nothing_stands_behind_the_manifest_of_an_import(ledger, recorder, behind, source):
    whole_run(recorder)
    recorder.complete_run("run-1")
    lines = ledger.read(lambda view: list(export_run(view, "run-1")))
    other = memory_ledger()
    with pytest.raises(ImportRefused, match="behind the manifest"):
        import_run(other, source([*lines, behind]))
    assert other.read(lambda view: view.tables.count(TableQuery(TABLES["runs"]))) == 0
    import_run(other, source([*lines, b"\n", b" \n"]))


@pytest.mark.spec("L1")
def test_no_import_takes_a_name_of_the_runtimes_own_runs(ledger, recorder):
    whole_run(recorder, "run-1")
    recorder.complete_run("run-1")
    lines = ledger.read(lambda view: list(export_run(view, "run-1")))
    renamed = [line.replace(b"run-1", b"runtime:1-9") for line in lines]
    with pytest.raises(ImportRefused, match="runtime's own runs"):
        import_run(memory_ledger(), renamed)
