"""Runs of extractions under any reports in any order: the machine of §16.3 and what it promises."""

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.commit.work_units import RestartExtractionUnit
from kernel.ledger.ledger import Document, LedgerView
from kernel.records.extraction import REPLACEABLE, TRANSITIONS, attempts_of, steps_into
from kernel.records.running_extractions import runs_of_changed_sources
from kernel.verify import verify
from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.dead_letters import requeue
from kernel.work.errors import WorkRefused
from kernel.work.extractions.failures import FAILURES
from kernel.work.extractions.reading import describe_run, describe_source
from tests.actors.commit.test_extraction_units import CHANGED, TEXT, Extractions
from tests.kernel.deciding import deciding
from tests.kernel.extractions import result, task, value

STATES = ("running", "succeeded", "degraded", "blocked", "abandoned", "cancelled")
RESULTS = [
    result(),
    result(value(TEXT, "Ann Acme")),
    result(value(TEXT, "Ann Acme"), judge="not_stated"),
    result(value(TEXT, "Bell", "judge"), party="not_readable"),
    result(value(TEXT, "Bell") | {"words": "Bob"}),
    {"nonsense": [1]},
]

places = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(["run-1", "run-2"]), st.integers(0, 2)),
    st.tuples(st.just("begin"), places),
    st.tuples(st.just("begin"), places),
    st.tuples(
        st.just("finish"), places, st.sampled_from(RESULTS), st.sampled_from([TEXT, CHANGED])
    ),
    st.tuples(st.just("finish"), places, st.sampled_from(RESULTS), st.just(TEXT)),
    st.tuples(st.just("fail"), places, st.sampled_from([*sorted(FAILURES), "what nobody knows"])),
    st.tuples(st.just("give_up"), places),
    st.tuples(st.just("cancel"), places),
    st.tuples(st.just("requeue"), places),
    st.tuples(st.just("change"), st.sampled_from([TEXT, CHANGED])),
    st.tuples(st.just("restart")),
)


class Machine(Extractions):
    """The world of the units, driven by steps."""

    def __init__(self) -> None:
        super().__init__()
        self.known: list[str] = []

    def take(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        getattr(self, f"take_{name}")(*arguments)
        for request in self.open():
            if request.request_id not in self.known:
                self.known.append(request.request_id)

    def take_ask(self, run: str, key: int) -> None:
        self.ask(task(run, key=f"{run}/{key}"))

    def take_change(self, text: str) -> None:
        self.change_source(text)

    def take_restart(self) -> None:
        with self.ledger.view() as view:
            marked = runs_of_changed_sources(view, after="", limit=100)
        for run in marked:
            assert self.do(RestartExtractionUnit(run))[0] == "completed"
            assert self.last(run)["current_state"] == "cancelled"

    def take_begin(self, place: int) -> None:
        self.of(place, self.begin)

    def take_finish(self, place: int, document: Document, text: str) -> None:
        self.of(place, lambda request: self.hand_in(request, document, text))

    def take_fail(self, place: int, code: str) -> None:
        self.of(place, lambda request: self.fail(request, code))

    def take_give_up(self, place: int) -> None:
        self.of(place, self.give_up)

    def take_cancel(self, place: int) -> None:
        self.of(place, lambda request: self.cancel(request, "not wanted"))

    def take_requeue(self, place: int) -> None:
        def again(request: str) -> None:
            # One that is no dead letter is refused.
            with suppress(WorkRefused), self.ledger.transaction() as transaction:
                requeue(transaction, EXTRACTION_QUEUE, [request], "ada", deciding(transaction))

        self.of(place, again)

    def of(self, place: int, do: Any) -> None:
        if self.known:
            do(self.known[place % len(self.known)])


def runs_of(view: LedgerView) -> set[str]:
    steps = (step for state in STATES for step in steps_into(view, state, after="", limit=500))
    return {step["extraction_run_id"] for step in steps}


def check_run(view: LedgerView, run: str, waiting: set[str]) -> set[str]:
    """Hold a run to §16.3, §16.4 and INV-EXT-2 to 6; returns its claims."""
    steps = attempts_of(view, run, limit=500)
    assert [step["attempt_number"] for step in steps] == list(range(1, len(steps) + 1))
    assert steps[0]["prior_state"] == "pending"
    for before, after in pairwise(steps):
        assert after["prior_state"] == before["current_state"]
        assert after["parent_operation_id"] == before["operation_id"]
        assert before["current_state"] not in ("succeeded", "abandoned", "cancelled")
    claims: set[str] = set()
    for step in steps:
        state = step["current_state"]
        assert (step["prior_state"], state) in TRANSITIONS
        assert ("block_reason" in step) == (state == "blocked")
        assert ("extraction_completeness" in step) == (state in ("succeeded", "degraded"))
        claims |= set(step.get("claim_refs", ()))
    if steps[-1]["current_state"] == "running":
        assert run in waiting
    replaced = steps[0].get("replaces_extraction_run_id")
    if replaced is not None:
        assert attempts_of(view, replaced, limit=500)[-1]["current_state"] in REPLACEABLE
    described = describe_run(view, run)
    assert described is not None
    assert described["state"] == steps[-1]["current_state"]
    return claims


@pytest.mark.spec("§16.3", "§16.4", "INV-EXT-2", "INV-EXT-3", "INV-EXT-4", "INV-EXT-6")
@given(st.lists(STEPS, min_size=1, max_size=25))
def test_whatever_is_reported_a_run_follows_its_table_and_every_claim_is_of_one(steps):
    machine = Machine()
    machine.take(("ask", "run-1", 0))
    for step in steps:
        machine.take(step)
    waiting = {request.item_key for request in machine.open()}
    with machine.ledger.view() as view:
        stated: set[str] = set()
        for run in runs_of(view):
            claims = check_run(view, run, waiting)
            assert not claims & stated
            stated |= claims
        nodes = view.nodes_of_kind("VersionedClaim", after=None, limit=1000)
        assert {node["node_id"] for node in nodes} == stated
        describe_source(view, "doc-1")
        assert verify(view).findings == ()
