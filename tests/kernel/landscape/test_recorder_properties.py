"""Whatever a pipeline does in whatever order: one end for each token, lineage without holes."""

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.landscape.digest import RunDigest, digest_of
from kernel.landscape.errors import LandscapeRefused, RecordRefused
from kernel.landscape.export import export_run, import_run
from kernel.landscape.lineage import lineage_of
from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import begin

NODES = ("parse", "classify", "gate", "gather")
numbers = itertools.count()
EXAMPLES = max(8, settings().max_examples // 12)


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    """Where runs are recorded, and where they are taken in; each example has a run of its own."""
    folder = tmp_path_factory.mktemp("properties")
    stores = [SqliteStore(folder / name) for name in ("ledger.db", "other.db")]
    ledgers = [Ledger.create(store, FakeHost().host) for store in stores]
    yield ledgers
    for ledger in ledgers:
        ledger.close()


@dataclass
class Pipeline:
    """A recorder, and what a run of it should come to."""

    recorder: Recorder
    run_id: str
    edges: dict[str, str]
    rows: int = 0
    tokens: dict[str, Any] = field(default_factory=dict)
    on_their_way: list[str] = field(default_factory=list)
    parents: dict[str, list[str]] = field(default_factory=dict)
    visits: Counter = field(default_factory=Counter)
    states: list[str] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    before: RunDigest | None = None

    def some(self, pick: int, count: int = 1) -> list[Any]:
        """Take tokens that are on their way, as many as there are."""
        way = self.on_their_way
        taken = [way.pop(pick % len(way)) for _ in range(min(count, len(way)))]
        return [self.tokens[token_id] for token_id in taken]

    def made(self, token: Any, *parents: Any) -> None:
        self.tokens[token["token_id"]] = token
        self.on_their_way.append(token["token_id"])
        self.parents[token["token_id"]] = [parent["token_id"] for parent in parents]

    def row(self, pick: int) -> None:
        row = self.recorder.create_row(
            self.run_id, "source", self.rows, {"n": pick, "x": 1.0}, keep_payload=pick % 2 == 0
        )
        self.rows += 1
        self.made(self.recorder.create_token(self.run_id, row["row_id"]))

    def fork(self, pick: int) -> None:
        for token in self.some(pick):
            branches = [f"b{number}" for number in range(pick % 3 + 1)]
            for child in self.recorder.fork_token(self.run_id, token, branches):
                self.made(child, token)

    def expand(self, pick: int) -> None:
        for token in self.some(pick):
            for child in self.recorder.expand_token(self.run_id, token, pick % 3 + 1):
                self.made(child, token)

    def join(self, pick: int) -> None:
        for first in self.some(pick):
            of_row = [
                self.tokens[token_id]
                for token_id in self.on_their_way
                if self.tokens[token_id]["row_id"] == first["row_id"]
            ]
            tokens = [first, *of_row[: pick % 3]]
            for token in tokens[1:]:
                self.on_their_way.remove(token["token_id"])
            self.made(self.recorder.coalesce_tokens(self.run_id, tokens), *tokens)

    def batch(self, pick: int) -> None:
        tokens = self.some(pick, pick % 4 + 1)
        if not tokens:
            return
        recorder, run_id = self.recorder, self.run_id
        for attempt in range(pick % 3 + 1):
            if attempt:
                recorder.update_batch(run_id, self.batches[-1], "failed", trigger_type="count")
            batch_id = recorder.create_batch(run_id, "gather", attempt=attempt)["batch_id"]
            self.batches.append(batch_id)
            for place, token in enumerate(tokens):
                recorder.add_batch_member(run_id, batch_id, token["token_id"], place)
        if pick % 2:
            for token in tokens:
                recorder.record_token_outcome(
                    run_id, token["token_id"], "buffered", batch_id=batch_id
                )
        recorder.update_batch(run_id, batch_id, "completed", trigger_type="end_of_source")
        self.made(recorder.consume_batch(run_id, batch_id, tokens), *tokens)

    def visit(self, pick: int) -> None:
        """Let a node work on a token: it fails and is tried again, calls and routes."""
        recorder, run_id = self.recorder, self.run_id
        for token in self.some(pick):
            token_id, node = token["token_id"], NODES[pick % len(NODES)]
            self.on_their_way.append(token_id)
            step = self.visits[token_id]
            attempt = self.visits[token_id, node]
            self.visits[token_id] += 1
            self.visits[token_id, node] += 1
            state = recorder.begin_node_state(
                run_id, token_id, node, step, {"n": pick}, attempt=attempt
            )
            state_id = state["state_id"]
            if pick % 2:
                recorder.record_call(run_id, "llm", "success", {}, state_id=state_id, response=1)
            if pick % 5 == 0:
                fields = {"status": "failed", "error": {"why": pick}}
            else:
                fields = {"status": "completed", "output": {"n": pick + 1}}
                recorder.record_routing_event(run_id, state_id, self.edges["sure"], "move", pick)
            recorder.complete_node_state(run_id, state_id, duration_us=pick, **fields)
            self.states.append(state_id)

    def end(self, pick: int) -> None:
        for token in self.some(pick):
            outcome, fields = (
                ("completed", {"sink_name": "sure"}),
                ("routed", {"sink_name": "unsure"}),
                ("quarantined", {"error_hash": "ab" * 32}),
                ("failed", {"error_hash": "cd" * 32}),
            )[pick % 4]
            self.recorder.record_token_outcome(self.run_id, token["token_id"], outcome, **fields)

    def flush(self, _: int) -> None:
        self.recorder.flush()


ACTIONS = ("row", "fork", "expand", "join", "batch", "visit", "end", "flush")
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 60)), max_size=24)


def piped(ledger: Ledger, taken: list[tuple[str, int]], group_records: int) -> Pipeline:
    recorder, run_id = Recorder(ledger, group_records=group_records), f"run-{next(numbers)}"
    pipeline = Pipeline(recorder, run_id, begin(recorder, run_id))
    pipeline.row(0)
    for action, pick in taken:
        getattr(pipeline, action)(pick)
    return pipeline


@pytest.mark.spec("seed 003, No Silent Drops", "seed 003, Complete Traceability")
@settings(max_examples=EXAMPLES, deadline=None)
@given(taken=steps, group_records=st.sampled_from([7, 64, 1024]))
def test_every_token_ends_once_and_leads_back_to_its_source(ledgers, taken, group_records):
    ledger, other = ledgers
    pipeline = piped(ledger, taken, group_records)
    run_id = pipeline.run_id
    while pipeline.on_their_way:
        pipeline.end(len(pipeline.on_their_way))
    assert pipeline.recorder.complete_run(run_id)["status"] == "completed"
    with ledger.view() as view:
        outcomes = view.tables.scan(TableQuery(TABLES["token_outcomes"], {"run_id": run_id}))
        terminal = Counter(row["token_id"] for row in outcomes if row["is_terminal"])
        assert terminal == Counter([*pipeline.tokens])
        links = view.tables.scan(TableQuery(TABLES["token_parents"], {"run_id": run_id}))
        parents = {token_id: [] for token_id in pipeline.tokens}
        for link in sorted(links, key=lambda link: (link["token_id"], link["ordinal"])):
            parents[link["token_id"]].append(link["parent_token_id"])
        assert parents == pipeline.parents
        for token_id in pipeline.tokens:
            lineage = lineage_of(view, run_id, token_id)
            above = {link["parent_token_id"] for link in lineage.parents} | {token_id}
            assert any(not pipeline.parents[ancestor] for ancestor in above)
        lines = list(export_run(view, run_id))
        digest = digest_of(view, run_id)
    assert import_run(other, lines)["run_digest"] == digest.run_digest
    assert other.read(lambda view: digest_of(view, run_id)) == digest
    assert other.read(lambda view: list(export_run(view, run_id))) == lines


def fork_again(run: Pipeline, ended: Any) -> None:
    run.recorder.fork_token(run.run_id, ended, ["a", "b"])


def end_again(run: Pipeline, ended: Any) -> None:
    run.recorder.record_token_outcome(run.run_id, ended["token_id"], "routed", sink_name="s")


def two_rows(run: Pipeline) -> tuple[Any, Any]:
    """Return a new token of each of two rows."""
    run.row(1)
    run.row(1)
    run.recorder.flush()
    run.before = run.recorder.ledger.read(lambda view: digest_of(view, run.run_id))
    first, second = (run.tokens[token_id] for token_id in run.on_their_way[-2:])
    return first, second


def join_with_what_ended(run: Pipeline, ended: Any) -> None:
    of_its_row = run.recorder.create_token(run.run_id, ended["row_id"])
    run.recorder.flush()
    run.before = run.recorder.ledger.read(lambda view: digest_of(view, run.run_id))
    run.recorder.coalesce_tokens(run.run_id, [of_its_row, ended])


def join_two_rows(run: Pipeline, _: Any) -> None:
    run.recorder.coalesce_tokens(run.run_id, two_rows(run))


def fork_the_token_of_another_row(run: Pipeline, _: Any) -> None:
    first, second = two_rows(run)
    run.recorder.fork_token(run.run_id, {**first, "row_id": second["row_id"]}, ["a", "b"])


def expand_the_token_of_another_row(run: Pipeline, _: Any) -> None:
    first, second = two_rows(run)
    run.recorder.expand_token(run.run_id, {**first, "row_id": second["row_id"]}, 2)


def fork_into_one_branch_twice(run: Pipeline, _: Any) -> None:
    run.recorder.fork_token(run.run_id, two_rows(run)[0], ["a", "b", "a"])


def state_a_child_without_its_parent(run: Pipeline, _: Any) -> None:
    row_id = two_rows(run)[0]["row_id"]
    run.recorder.record_of(run.run_id, "tokens", row_id=row_id, fork_group_id="f", branch_name="a")


def finish_again(run: Pipeline, _: Any) -> None:
    run.recorder.complete_node_state(run.run_id, run.states[-1], "failed", duration_us=1)


def take_a_row_twice(run: Pipeline, _: Any) -> None:
    run.recorder.create_row(run.run_id, "source", 0, {})


def visit_with_nobody(run: Pipeline, _: Any) -> None:
    run.recorder.begin_node_state(run.run_id, "nobody", "parse", 0, {})


def visit_nowhere(run: Pipeline, ended: Any) -> None:
    run.recorder.begin_node_state(run.run_id, ended["token_id"], "nowhere", 99, {})


def call_for_nobody(run: Pipeline, _: Any) -> None:
    run.recorder.record_call(run.run_id, "sql", "success", {}, state_id="nobody", response=1)


def call_of_two(run: Pipeline, _: Any) -> None:
    parents = {"state_id": run.states[-1], "operation_id": "x"}
    run.recorder.record_call(run.run_id, "sql", "success", {}, response=1, **parents)


def route_along_no_edge(run: Pipeline, _: Any) -> None:
    run.recorder.record_routing_events(run.run_id, run.states[-1], [("nowhere", "move")])


def go_on_with_a_batch_that_is_over(run: Pipeline, _: Any) -> None:
    run.recorder.update_batch(run.run_id, run.batches[0], "executing")


def end_the_run_too_early(run: Pipeline, _: Any) -> None:
    run.row(1)
    run.recorder.flush()
    run.before = run.recorder.ledger.read(lambda view: digest_of(view, run.run_id))
    run.recorder.complete_run(run.run_id)


def speak_of_another_run(run: Pipeline, ended: Any) -> None:
    run.recorder.create_token("no-run", ended["row_id"])


ILLEGAL = (
    *(fork_again, end_again, join_with_what_ended, finish_again, take_a_row_twice),
    *(visit_with_nobody, visit_nowhere, call_for_nobody, call_of_two, route_along_no_edge),
    *(go_on_with_a_batch_that_is_over, end_the_run_too_early, speak_of_another_run),
    *(join_two_rows, fork_the_token_of_another_row, expand_the_token_of_another_row),
    *(fork_into_one_branch_twice, state_a_child_without_its_parent),
)


@pytest.mark.spec("seed 003, Atomic Operations")
@pytest.mark.parametrize("illegal", ILLEGAL, ids=lambda illegal: illegal.__name__)
@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(taken=steps, group_records=st.sampled_from([7, 64, 1024]))
def test_what_a_run_does_not_admit_is_refused_and_changes_nothing(
    ledgers, taken, illegal, group_records
):
    ledger = ledgers[0]
    run = piped(ledger, [*taken, ("row", 1), ("visit", 1), ("batch", 1)], group_records)
    [ended] = run.some(0)
    run.recorder.record_token_outcome(run.run_id, ended["token_id"], "completed", sink_name="s")
    run.recorder.flush()
    run.before = ledger.read(lambda view: digest_of(view, run.run_id))

    def refused() -> None:
        illegal(run, ended)
        run.recorder.flush()

    with pytest.raises((LandscapeRefused, RecordRefused)):
        refused()
    run.recorder.flush()
    assert ledger.read(lambda view: digest_of(view, run.run_id)) == run.before
    # The recorder goes on as if nothing had been asked.
    run.row(2)
    run.recorder.flush()
