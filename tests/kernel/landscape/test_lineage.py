"""What happened to a token, whatever one asks about (seed 003, Lineage Query System)."""

import sqlite3
from contextlib import closing
from functools import partial

import pytest

from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.grades import grade_now
from kernel.landscape.lineage import explain, lineage_of
from kernel.landscape.lineage_text import explanation_text, graph_mermaid, lineage_mermaid
from kernel.landscape.payloads import purge_payloads
from kernel.landscape.record_rules import KEYS, TABLES
from kernel.landscape.recorder import Recorder
from kernel.landscape.reports import run_of_id
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import whole_run


@pytest.fixture
def run(recorder):
    recorded = whole_run(recorder)
    recorder.complete_run("run-1")
    return recorded


def explained(ledger, record_id, **options):
    return ledger.read(lambda view: explain(view, record_id, **options))


@pytest.mark.spec("seed 003, Lineage Query System")
def test_a_token_is_explained_from_its_source_to_its_outcome(ledger, run):
    lineage = ledger.read(lambda view: lineage_of(view, "run-1", run["token"]["token_id"]))
    assert lineage.source_data == {"text": "Motion GRANTED"}
    assert [state["node_id"] for state in lineage.states] == ["parse", "classify"]
    assert [(call["call_type"], call["call_index"]) for call in lineage.calls] == [
        *(("filesystem", 0), ("llm", 0), ("llm", 1)),
    ]
    requests = [lineage.payloads.get(call["request_ref"]) for call in lineage.calls]
    assert requests == [None, {"ask": "granted"}, {"ask": "denied"}]
    assert lineage.payloads[lineage.calls[2]["response_ref"]] == {"answer": "denied"}
    assert lineage.outcome["outcome"] == "forked"
    branches = {branch["token_id"] for branch in run["branches"]}
    assert {link["token_id"] for link in lineage.children} > branches
    branch = ledger.read(lambda view: lineage_of(view, "run-1", run["branches"][0]["token_id"]))
    assert [link["parent_token_id"] for link in branch.parents] == [run["token"]["token_id"]]
    assert [event["mode"] for event in branch.routing_events] == ["move"]
    [edge] = branch.edges
    assert (edge["from_node_id"], edge["label"], edge["to_node_id"]) == ("gate", "sure", "sure")
    assert [*branch.payloads.values()] == [{"because": 0.75}]
    assert branch.outcome["outcome"] == "coalesced"


def test_a_forked_row_has_an_answer_for_each_of_its_ways(ledger, run):
    everything = explained(ledger, run["row"]["row_id"])
    assert everything.kind == "rows"
    assert len(everything.lineages) == 8
    to_sink = explained(ledger, run["row"]["row_id"], sink="sure")
    assert [lineage.token["token_id"] for lineage in to_sink.lineages] == [run["out"]["token_id"]]
    assert to_sink.lineages[0].artifacts[0]["path_or_uri"] == "out.csv"
    assert explained(ledger, run["row"]["row_id"], sink="nowhere").lineages == ()


@pytest.mark.parametrize("name", [*TABLES])
def test_every_id_of_a_run_is_explained_as_what_it_is(ledger, run, name):
    [row, *_] = ledger.read(lambda view: view.tables.scan(TableQuery(TABLES[name], limit=1)))
    explanation = explained(ledger, row[KEYS[name]])
    assert (explanation.kind, explanation.record) == (name, row)
    assert "run run-1: completed" in explanation_text(explanation)
    assert lineage_mermaid(explanation).startswith("flowchart LR\n")


def test_what_nothing_is_called_is_refused(ledger, run):
    for options in ({}, {"run_id": "run-1"}, {"run_id": "run-2"}):
        with pytest.raises(LandscapeRefused) as refused:
            explained(ledger, "nobody", **options)
        assert refused.value.code == "landscape_unknown"


@pytest.mark.spec("seed 003, Tier 1 Principle")
@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("node_states", {"status": "gone"}, "status is none of"),
        ("node_states", {"output_hash": None}, "completed requires output_hash"),
        ("rows", {"source_data_hash": "ab"}, "is no SHA-256"),
        ("token_outcomes", {"is_terminal": 0}, "is_terminal is 0"),
        ("runs", {"settings_json": "{"}, "settings_json no canonical data"),
    ],
)
def test_a_damaged_record_stops_the_answer_and_is_named(ledger, run, name, change, rule):
    token_id = run["token"]["token_id"]
    table, key = TABLES[name], KEYS[name]
    with ledger.store.transaction() as tables:
        where = {"run_id": "run-1"} | ({} if name in ("rows", "runs") else {"token_id": token_id})
        row = tables.scan(TableQuery(table, where))[0]
        record_key = ("run-1",) if name == "runs" else ("run-1", row[key])
        tables.update(table, record_key, change)
    with pytest.raises(RecordDamaged, match=rule) as damaged:
        explained(ledger, token_id)
    assert damaged.value.table == table.name
    assert damaged.value.key == "/".join(record_key)


@pytest.mark.spec("seed 003, Tier 1 Principle")
def test_a_record_that_names_one_that_is_gone_stops_the_answer(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(SqliteStore(path), FakeHost().host)
    token_id = whole_run(recorder := Recorder(ledger))["token"]["token_id"]
    recorder.complete_run("run-1")
    with closing(sqlite3.connect(path)) as database, database:
        # Whoever writes past the program is not held to foreign keys.
        database.execute("DELETE FROM landscape_rows")
    with pytest.raises(RecordDamaged, match="which is not in landscape_rows") as damaged:
        explained(ledger, token_id)
    assert (damaged.value.table, damaged.value.key) == ("landscape_tokens", f"run-1/{token_id}")
    ledger.close()


def test_a_purged_payload_is_told_from_one_that_never_was(ledger, run):
    purge_payloads(ledger, before_us=1 << 60)
    lineage = ledger.read(lambda view: lineage_of(view, "run-1", run["token"]["token_id"]))
    assert (lineage.source_data_state, lineage.source_data) == ("purged", None)


@pytest.mark.spec("seed 003, Reproducibility Grades")
def test_what_a_call_was_answered_is_on_record_until_its_payload_goes(ledger, run):
    question = partial(lineage_of, run_id="run-1", token_id=run["token"]["token_id"])
    before = ledger.read(question)
    answers = [before.payloads.get(call["response_ref"]) for call in before.calls]
    assert answers == [None, {"answer": "granted"}, {"answer": "denied"}]
    purge_payloads(ledger, before_us=1 << 60)
    after = ledger.read(question)
    assert after.payloads == {}
    assert [call["response_hash"] for call in after.calls] == [
        call["response_hash"] for call in before.calls
    ]


@pytest.mark.spec("seed 003, Reproducibility Grades")
def test_a_purge_says_why_a_payload_stays_and_lowers_no_grade_but_that_of_a_replay(ledger, run):
    recorder = Recorder(ledger)
    for run_id, end in (("running", None), ("broken", "failed"), ("full", "completed")):
        recorder.begin_run({}, run_id=run_id)
        recorder.register_node(run_id, "s", "s", "source")
        row = recorder.create_row(run_id, "s", 0, {"n": 1}, keep_payload=end != "completed")
        token = recorder.create_token(run_id, row["row_id"])
        recorder.record_token_outcome(run_id, token["token_id"], "completed", sink_name="s")
        recorder.flush()
        if end is not None:
            recorder.complete_run(run_id, end)
    ended_us = ledger.read(lambda view: run_of_id(view, "run-1"))["completed_at_us"]
    nothing = purge_payloads(ledger, before_us=ended_us)
    assert (nothing.runs, nothing.kept["run-1"]) == ((), "not_expired")
    purged = purge_payloads(ledger, before_us=1 << 60)
    assert purged.runs == ("run-1",)
    assert purged.kept == {"running": "running", "broken": "failed", "full": "nothing_kept"}
    again = purge_payloads(ledger, before_us=1 << 60)
    assert (again.runs, again.kept["run-1"]) == ((), "nothing_kept")
    grades = {
        run_id: grade_now(ledger.read(lambda view, run_id=run_id: run_of_id(view, run_id)))
        for run_id in ("run-1", "running", "broken", "full")
    }
    assert grades == {
        "run-1": "attributable_only",
        "running": None,
        "broken": "full_reproducible",
        "full": "full_reproducible",
    }


def test_a_changed_payload_is_damage(ledger, run):
    with ledger.store.transaction() as tables:
        key = ("run-1", run["row"]["source_data_ref"])
        tables.update(schema_payloads(), key, {"content": b"{}"})
    with pytest.raises(RecordDamaged, match="another hash"):
        explained(ledger, run["token"]["token_id"])


def schema_payloads():
    return TABLES["runs"].metadata.tables["landscape_payloads"]


def test_a_name_of_the_pipeline_is_no_mermaid():
    nodes = [{"node_id": 'a"]; click', "node_type": "source"}]
    assert '"]; click' not in graph_mermaid(nodes, [])
