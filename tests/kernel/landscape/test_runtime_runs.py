"""The runtime's own run: records that follow from the log, and its seal on it (rulings L1, L4)."""

import io
import json
from operator import itemgetter
from random import Random
from unittest.mock import Mock, patch

import pytest

from actors.commit.run_units import SealRuntimeRunUnit
from kernel.landscape.errors import LandscapeRefused, RecordRefused
from kernel.landscape.export import ImportRefused, export_run, import_run
from kernel.landscape.lineage import explain
from kernel.landscape.lineage_text import lineage_mermaid
from kernel.landscape.recent_runs import activity_since, problems_now
from kernel.landscape.record_rules import KEYS, TABLES, check_stored
from kernel.landscape.recorder import Recorder
from kernel.landscape.reports import (
    error_causes_of,
    errors_of,
    failure_of,
    graph_of,
    outcomes_of,
    performance_of,
    summary_of,
)
from kernel.landscape.run_rules import run_problems
from kernel.landscape.runtime import stretches, views, ways
from kernel.landscape.runtime.records import RuntimeRecords
from kernel.landscape.runtime.stretches import open_stretch, stretch_between, stretch_of_id
from kernel.landscape.runtime.views import run_view, runtime_runs, view_of
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.values.canonical import MAX_SAFE_INTEGER
from kernel.verify import verify
from kernel.work.outcomes import close
from tests.actors.commit.test_review_units import item, propose, review
from tests.actors.harness import bench_on
from tests.kernel.binding_world import EVENT, ask, bound, furnish, work
from tests.kernel.build import (
    accept,
    answered,
    create,
    findings,
    ledger_on,
    memory_ledger,
    unmeasured,
)
from tests.kernel.honest import write_honestly

pytestmark = pytest.mark.spec("L1")

KINDS = ("court_disposition_observation", "extraction_task", "corpus_document_membership")


@pytest.fixture
def observed(ledger):
    """An artifact with bindings that fired on it, on each database."""
    furnish(ledger, *(bound(f"b-{kind}", kind) for kind in KINDS))
    requests = ask(ledger, *(f"b-{kind}" for kind in KINDS))
    for request_id in requests:
        work(ledger, request_id)
    accept(ledger, create("later", "Note"))
    return ledger


def records(ledger, stretch=None):
    with ledger.view() as view:
        return RuntimeRecords(view, stretch or open_stretch(view)).rows


def unit_of(view, first, last):
    return SealRuntimeRunUnit.read(view, stretch_between(view, first, last))


def seal(ledger, first, last):
    with ledger.view() as view:
        unit = unit_of(view, first, last)
    with bench_on(ledger) as context:
        return unit.run(context)


def head(ledger):
    with ledger.view() as view:
        return view.head().ec_sequence_number


def test_every_record_keeps_its_rules_and_every_token_has_one_end(observed):
    made = records(observed)
    for name, rows in made.items():
        for row in rows:
            check_stored(TABLES[name], row)
        keys = [row[KEYS[name]] for row in rows]
        assert keys == sorted(set(keys))
    tokens = {row["token_id"] for row in made["tokens"]}
    ends = [row["token_id"] for row in made["token_outcomes"] if row["is_terminal"]]
    assert sorted(ends) == sorted(tokens)
    assert {row["row_id"] for row in made["tokens"]} == {row["row_id"] for row in made["rows"]}
    for link in made["token_parents"]:
        assert {link["token_id"], link["parent_token_id"]} <= tokens
    nodes = {row["node_id"] for row in made["nodes"]}
    assert {row["node_id"] for row in made["node_states"]} <= nodes
    assert {row[end] for row in made["edges"] for end in ("from_node_id", "to_node_id")} <= nodes
    log, closed = head(observed), len(ask_outcomes(observed))
    assert len(tokens) == log + closed


def ask_outcomes(ledger):
    with ledger.view() as view:
        return view.tables.scan(TableQuery(schema.outbox_outcomes))


@pytest.mark.parametrize("duration_ms", [1e300, 1.7976931348623157e308])
def test_a_duration_that_earlier_releases_did_not_limit_holds_up_no_seal(ledger, duration_ms):
    with unmeasured():
        accept(ledger, create("slow", "Note") | {"duration_ms": duration_ms})
    durations = [row["duration_us"] for row in records(ledger)["node_states"]]
    assert max(durations) == MAX_SAFE_INTEGER
    seal(ledger, 1, head(ledger))
    assert findings(ledger) == ()
    with ledger.view() as view:
        [run] = [run for run in runtime_runs(view, limit=10) if run["status"] == "completed"]
        performance = performance_of(run_view(view, run["run_id"]), run["run_id"])
    assert performance["total_processing_us"] >= MAX_SAFE_INTEGER


class ShuffledTables:
    """Tables that return rows which no order tells apart in an order of their own."""

    def __init__(self, tables, random):
        self._tables = tables
        self._random = random

    def __getattr__(self, name):
        return getattr(self._tables, name)

    def scan(self, query):
        rows = self._tables.scan(query)
        self._random.shuffle(rows)
        if query.any_of is not None:
            return rows
        by_key = [column.name for column in query.table.primary_key]
        return sorted(rows, key=itemgetter(*([query.order_by] if query.order_by else by_key)))


def test_the_records_of_a_run_do_not_depend_on_the_order_in_which_a_database_returns_rows(
    monkeypatch,
):
    monkeypatch.setattr(ways, "ROWS_AT_ONCE", 3)
    ledger, host = ledger_on(MemoryStore())
    write_honestly(ledger, host)
    with ledger.view() as view:
        stretch = open_stretch(view)
        expected = RuntimeRecords(view, stretch).rows
        for seed in range(20):
            shuffled = LedgerView(ShuffledTables(view.tables, Random(seed)), view.archive)
            assert RuntimeRecords(shuffled, stretch).rows == expected


def test_an_observation_is_a_token_whose_row_is_its_docket_entry(observed):
    with observed.view() as view:
        [observation] = view.tables.scan(TableQuery(schema.court_disposition_observations))
        record = view.record(schema.court_disposition_observations, observation["observation_id"])
        stretch = open_stretch(view)
        made = view_of(view, stretch)
        operation_id = record["updated_by_operation_id"]
        [lineage] = explain(made, operation_id, run_id=stretch.run_id).lineages
        created = view.node(EVENT)["created_by_operation_id"]
        assert [state["node_id"] for state in lineage.states] == ["firing", "commit"]
        assert lineage.outcome["outcome"] in ("completed", "forked")
        [request_id] = [link["parent_token_id"] for link in lineage.parents[:1]]
        [evaluated] = explain(made, request_id, run_id=stretch.run_id).lineages
        assert [state["node_id"] for state in evaluated.states] == ["binding_evaluation"]
        assert evaluated.outcome["outcome"] == "forked"
        [entry] = explain(made, created, run_id=stretch.run_id).lineages
        assert entry.outcome["outcome"] == "forked"
        assert entry.source_row["row_id"] == created
        assert summary_of(made, stretch.run_id)["counts"]["tokens"] == len(
            RuntimeRecords(view, stretch).rows["tokens"]
        )
        assert graph_of(made, stretch.run_id)["node_count"] == 8
        assert outcomes_of(made, stretch.run_id)["summary"]["non_terminal_tokens"] == 0


def test_a_model_call_is_a_call_and_a_reviewed_batch_a_batch():
    ledger = memory_ledger()
    accept(ledger, answered(create("n-1", "Note", visibility_class="public_open")))
    propose(ledger, "a", "b")
    answer = review(ledger, item("a"), item("b"), item("gone"))
    made = records(ledger)
    [call] = made["calls"]
    assert (call["call_type"], call["request_hash"]) == ("llm", "ab" * 32)
    assert len(call["response_hash"]) == 64
    [batch] = made["batches"]
    reviewed = [each["operation_id"] for each in answer["item_operations"][:2]]
    assert [row["token_id"] for row in made["batch_members"]] == reviewed
    assert batch["aggregation_node_id"] == "review"
    assert "review" in {row["node_id"] for row in made["nodes"]}


def test_what_was_given_up_and_what_was_cancelled_has_its_end(ledger):
    furnish(ledger, bound("b", "extraction_task"), bound("c", "extraction_task"))
    lost, unwanted = ask(ledger, "b", "c")
    with ledger.transaction() as transaction:
        close(transaction, lost, "dead_letter", reason="broken")
        close(transaction, unwanted, "cancelled", reason="not wanted")
    made = records(ledger)
    ends = {row["token_id"]: row for row in made["token_outcomes"]}
    assert ends[lost]["outcome"] == "failed"
    assert (ends[unwanted]["outcome"], ends[unwanted]["sink_name"]) == ("routed", "cancelled")
    failed = [row for row in made["node_states"] if row["status"] == "failed"]
    assert {row["token_id"] for row in failed} == {lost, unwanted}


@pytest.mark.parametrize("is_sealed", [False, True])
def test_what_was_given_up_is_in_every_report_of_what_went_wrong(ledger, is_sealed):
    furnish(ledger, bound("b", "extraction_task"), bound("c", "extraction_task"))
    lost, unwanted = ask(ledger, "b", "c")
    with ledger.transaction() as transaction:
        close(transaction, lost, "dead_letter", reason="broken")
        close(transaction, unwanted, "cancelled", reason="not wanted")
    if is_sealed:
        seal(ledger, 1, head(ledger))
        # It has no row of what came to be before, and nothing of its problems.
        accept(ledger, create("later", "Note"))
    with ledger.view() as view:
        *_, run = runtime_runs(view, limit=5)
        run_id = run["run_id"]
        made = run_view(view, run_id)
        failed = {
            state["token_id"]: state["error"]
            for state in errors_of(made, run_id, kind="state", limit=9)["state_errors"]
        }
        assert failed == {lost: {"outcome": "dead_letter"}, unwanted: {"outcome": "cancelled"}}
        failure = failure_of(made, run_id, limit=1)
        [state] = failure["failed_node_states"]
        assert failure["next_steps"] == [f"explain {state['token_id']}"]
        by_node = error_causes_of(made, run_id)["state_errors"]["by_node"]
        assert {(cause["error"], cause["count"]) for cause in by_node} == {
            ('{"outcome":"cancelled"}', 1),
            ('{"outcome":"dead_letter"}', 1),
        }
        diagnosis = problems_now(view, 1 << 60)
        [problem] = diagnosis["problems"]
        assert (problem["run_id"], problem["type"]) == (run_id, "failed_tokens")
        assert problem["message"] == "requests given up: 1"
        assert diagnosis["status"] == "WARNING"
        assert diagnosis["next_steps"] == [f"failure_context {run_id}"]
        recent = {each["run_id"]: each for each in activity_since(view, 0)["runs"]}
        assert recent.keys() == {each["run_id"] for each in runtime_runs(view, limit=5)}
        assert recent[run_id]["tokens"] == made.tables.count(TableQuery(TABLES["tokens"]))
        assert recent[run_id]["status"] == ("completed" if is_sealed else "running")
        later = activity_since(view, 1 << 60)["runs"]
        assert [each["status"] for each in later] == ["running"]


@pytest.mark.spec("L4")
def test_a_sealed_run_is_made_again_by_verification_and_read_like_any_other(observed):
    document = seal(observed, 1, head(observed) - 1)
    run_id = document["run_id"]
    accept(observed, create("behind", "Note"))
    with observed.view() as view:
        assert verify(view).findings == ()
        assert [run["status"] for run in runtime_runs(view, limit=5)] == ["running", "completed"]
        made = run_view(view, run_id)
        lines = [*export_run(made, run_id, b"key")]
        assert stretch_of_id(view, run_id).last == head(observed) - 3
        assert summary_of(made, run_id)["status"] == "completed"
    assert json.loads(lines[-1])["run_digest"] == document["run_digest"]
    # Another ledger has runs of its own runtime, and no name of theirs is given away.
    with pytest.raises(ImportRefused, match="names of the runtime's own runs"):
        import_run(memory_ledger(), io.BytesIO(b"".join(lines)), b"key")


@pytest.mark.spec("L4")
def test_runs_follow_each_other_without_a_gap_or_an_overlap(observed):
    first = seal(observed, 1, 5)
    assert first["run_id"].startswith("runtime:000000000001-000000000005:")
    assert seal(observed, 1, 5) is None
    assert seal(observed, 7, 9) is None
    second = seal(observed, 6, 9)
    assert second["run_id"].startswith("runtime:000000000006-000000000009:")
    with observed.view() as view:
        assert open_stretch(view).first == 10
        parts = [stretch_of_id(view, each["run_id"]) for each in (first, second)]
        tokens = [
            row["token_id"]
            for part in (*parts, open_stretch(view))
            for row in RuntimeRecords(view, part).rows["tokens"]
        ]
        assert len(tokens) == len(set(tokens))
        assert len(tokens) == head(observed) + len(ask_outcomes(observed))
        assert verify(view).findings == ()


@pytest.mark.parametrize("is_followed", [False, True])
def test_what_is_recorded_between_reading_and_sealing_is_not_left_out(observed, is_followed):
    last = head(observed)
    with observed.view() as view:
        unit = unit_of(view, 1, last)
    [request_id] = ask(observed, "b-extraction_task", source_event_id="docket-entry:d#0")
    with observed.transaction() as transaction:
        close(transaction, request_id, "cancelled", reason="meanwhile")
    if is_followed:
        # What was closed stands behind the run's last row, and a further row behind that.
        accept(observed, create("n-meanwhile", "Note"))
    with bench_on(observed) as context:
        assert unit.run(context) is None
    assert seal(observed, 1, last) is not None
    with observed.view() as view:
        assert verify(view).findings == ()


@pytest.mark.spec("L4")
def test_verification_names_the_table_of_a_sealed_run_that_comes_out_otherwise(observed):
    seal(observed, 1, head(observed) - 1)
    with observed.store.transaction() as tables:
        row = tables.scan(TableQuery(schema.landscape_seals))[0]
        tables.put(schema.landscape_seals, {**row, "table_digests": b"{}", "run_digest": "0" * 64})
    with observed.view() as view:
        named = {(finding.table, finding.rule) for finding in verify(view).findings}
    assert ("landscape_tokens", "digest_differs") in named


def test_no_name_makes_a_run_longer_than_one_is(observed, monkeypatch):
    last = head(observed)
    with observed.view() as view:
        names = {rows: stretch_between(view, last - rows + 1, last).run_id for rows in (3, 4)}
        monkeypatch.setattr(stretches, "RUN_ROWS_MAX", 3)
        assert stretch_of_id(view, names[3]).first == last - 2
        assert stretch_of_id(view, names[4]) is None


def test_names_of_the_runtimes_runs_are_its_own(ledger):
    with pytest.raises(RecordRefused, match="runtime"):
        Recorder(ledger).begin_run({}, run_id="runtime:mine")
    with ledger.view() as view:
        for name in ("runtime:", "runtime:000000000001-open", "runtime:x" * 20):
            with pytest.raises(LandscapeRefused):
                run_view(view, name)
        assert runtime_runs(view, limit=5) == []


def test_a_drawing_of_a_row_leads_from_it_to_its_outcome_and_never_to_itself(observed):
    document = seal(observed, 1, head(observed) - 1)
    with observed.view() as view:
        made = run_view(view, document["run_id"])
        rows = made.tables.scan(TableQuery(TABLES["rows"]))
        assert rows
        for row in rows:
            explanation = explain(made, row["row_id"], run_id=document["run_id"])
            drawn = lineage_mermaid(explanation)
            steps = [line.split(" --> ") for line in drawn.splitlines() if " --> " in line]
            assert steps
            assert all(origin.strip() != target for origin, target in steps)
            for lineage in explanation.lineages:
                assert lineage.outcome["outcome"].upper() in drawn


def problems(ledger, change=lambda _: None):
    with ledger.view() as view:
        stretch = open_stretch(view)
        rows = RuntimeRecords(view, stretch).rows
        change(rows)
        with patch.object(views, "RuntimeRecords", return_value=Mock(rows=rows)):
            tables = view_of(view, stretch).tables
        run = tables.get(TABLES["runs"], stretch.run_id)
        return [str(each) for each in run_problems(tables, run | {"status": "completed"})]


def test_records_that_the_runtime_makes_keep_the_rules_that_records_of_every_run_keep(observed):
    assert problems(observed) == []


def test_a_recompute_joins_requests_of_several_rows_and_nothing_else_crosses_rows():
    ledger, host = ledger_on(MemoryStore())
    write_honestly(ledger, host)
    made = records(ledger)
    row_of = {row["token_id"]: row["row_id"] for row in made["tokens"]}
    crossing = {
        link["token_id"]
        for link in made["token_parents"]
        if row_of[link["token_id"]] != row_of[link["parent_token_id"]]
    }
    joins = {row["token_id"] for row in made["tokens"] if row["join_group_id"] is not None}
    assert crossing, "the log has such a recompute"
    assert crossing <= joins
    assert problems(ledger) == []

    def cross(rows):
        for row in rows["tokens"]:
            row["join_group_id"] = None

    refused = problems(ledger, cross)
    assert len(refused) == len(crossing)
    assert all("and its parent" in each for each in refused)
