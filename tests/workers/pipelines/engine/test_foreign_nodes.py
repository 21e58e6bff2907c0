"""A row or a run fails however a function of a user's pipeline ends, and says by what."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from actors.errors import PipelineStopped
from kernel.landscape.canonical_types import restore_value
from kernel.landscape.record_rules import TABLES
from kernel.ledger.store.tables import TableQuery
from kernel.values.foreign_code import call_foreign
from tests.foreign_ends import ENDS, nobody_at_the_keyboard, released_at_the_end, stands_still
from tests.kernel.build import memory_ledger
from tests.workers.pipelines.engine.random_pipelines import ListSink
from tests.workers.pipelines.engine.running import RUN, go_on, status
from workers.environment import foreign_threads
from workers.environment.foreign_threads import call_within
from workers.pipelines.engine.pipeline import Pipeline
from workers.pipelines.engine.step import NodeStep, error_content

End = Callable[..., Any]
ROWS = 200
HANG_S = 0.1
"""Of a function that does not return."""

NODES: dict[str, Callable[[End], Pipeline]] = {}
"""Pipelines of which one node ends so for the row 1 of three, by the kind of that node."""


def node(make: Callable[[End], Pipeline]) -> Callable[[End], Pipeline]:
    NODES[make.__name__.strip("_")] = make
    return make


def begun() -> Pipeline:
    pipeline = Pipeline("odd")
    pipeline.source(lambda: ({"n": number} for number in range(3)), name="source")
    return pipeline


def ended(pipeline: Pipeline, after: Any = "odd") -> Pipeline:
    pipeline.sink(ListSink(), name="out", after=after)
    return pipeline


@node
def _schema(end: End) -> Pipeline:
    class Row(BaseModel):
        n: int

        @model_validator(mode="after")
        def check(self) -> "Row":
            return end() if self.n == 1 else self

    pipeline = Pipeline("odd")
    rows = ({"n": number} for number in range(3))
    pipeline.source(lambda: rows, name="odd", schema=Row)
    return ended(pipeline)


@node
def _transform(end: End) -> Pipeline:
    pipeline = begun()
    pipeline.transform(
        lambda row: end() if row["n"] == 1 else row, name="odd", attempts=2, pause_s=0
    )
    return ended(pipeline)


@node
def _generator(end: End) -> Pipeline:
    def several(row: dict[str, Any]) -> Iterator[Any]:
        yield end() if row["n"] == 1 else row

    pipeline = begun()
    pipeline.transform(several, name="odd")
    return ended(pipeline)


@node
def _call(end: End) -> Pipeline:
    def asks(row: dict[str, Any], step: NodeStep) -> Any:
        step.call("http", row, lambda: end() if row["n"] == 1 else row)
        return row

    pipeline = begun()
    pipeline.transform(asks, name="odd")
    return ended(pipeline)


@node
def _gate(end: End) -> Pipeline:
    pipeline = begun()
    gate = pipeline.gate(lambda row: end() if row["n"] == 1 else "on", name="odd")
    return ended(pipeline, gate["on"])


@node
def _aggregation(end: End) -> Pipeline:
    pipeline = begun()
    pipeline.aggregation(lambda rows: end() if rows[0]["n"] == 1 else rows[0], name="odd", count=1)
    return ended(pipeline)


@node
def _when(end: End) -> Pipeline:
    def is_due(rows: list[Any]) -> bool:
        return bool(end() if rows[0]["n"] == 1 else True)

    pipeline = begun()
    pipeline.aggregation(lambda rows: rows[0], name="odd", when=is_due)
    return ended(pipeline)


def failures(view: Any) -> list[Any]:
    return [
        restore_value(row["error_json"].encode())
        for row in view.tables.scan(TableQuery(TABLES["node_states"], {"run_id": RUN}))
        if row["status"] == "failed"
    ]


@pytest.mark.parametrize("name", [*ENDS, "another type"])
@pytest.mark.parametrize("kind", NODES)
def test_however_a_node_ends_its_row_has_failed_and_the_others_go_on(kind: str, name: str):
    ledger = memory_ledger()
    pipeline = NODES[kind](ENDS.get(name, object))
    with nobody_at_the_keyboard():
        go_on(ledger, pipeline, resume=False)
    assert ledger.read(status) == "completed"
    with ledger.view() as view:
        outcomes = view.tables.scan(TableQuery(TABLES["token_outcomes"], {"run_id": RUN}))
        ends = Counter(row["outcome"] for row in outcomes if row["is_terminal"])
        errors = failures(view)
    if kind == "when" and name == "another type":
        assert ends["failed"] == 0, "anything is true or false"
        return
    failed = "quarantined" if kind == "schema" else "failed"
    assert (ends[failed], ends["completed"] + ends["routed"]) == (1, 2)
    if name in ENDS and kind != "schema":
        with nobody_at_the_keyboard(), pytest.raises(Exception) as caught:  # noqa: PT011
            call_foreign(ENDS[name])
        expected = error_content(caught.value)
        kinds = {error["type"] for error in errors}
        if (kind, name) == ("generator", "StopIteration"):
            assert kinds == {"RuntimeError"}, "Python makes one of it"
        else:
            assert kinds == {restore_value(expected)["type"]}
        assert len(errors) == (2 if kind == "transform" else 1), "each attempt is on record"


@pytest.mark.parametrize("kind", NODES)
def test_a_node_that_does_not_return_fails_its_row_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, kind: str
):
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])
    ledger = memory_ledger()
    with released_at_the_end():
        call = partial(call_within, HANG_S)
        go_on(ledger, NODES[kind](stands_still), resume=False, call=call)
    assert ledger.read(status) == "completed"
    with ledger.view() as view:
        outcomes = view.tables.scan(TableQuery(TABLES["token_outcomes"], {"run_id": RUN}))
        ends = Counter(row["outcome"] for row in outcomes if row["is_terminal"])
        kinds = [error["type"] for error in failures(view)]
    failed = "quarantined" if kind == "schema" else "failed"
    assert (ends[failed], ends["completed"] + ends["routed"]) == (1, 2)
    attempts = {"schema": 0, "transform": 2}.get(kind, 1)
    assert kinds == ["ForeignCodeHangs"] * attempts


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in ("sink", "source", "row") for name in ENDS),
        # Any data is a row.
        *(("sink", "another type"), ("source", "another type")),
    ],
)
def test_however_a_source_or_a_sink_ends_its_run_has_failed_and_may_be_resumed(
    kind: str, name: str
):
    run_that_fails_in(kind, ENDS.get(name, lambda *_: 7))


@pytest.mark.parametrize("kind", ["sink", "source", "row"])
def test_a_source_or_a_sink_that_does_not_return_fails_its_run_which_may_be_resumed(
    monkeypatch: pytest.MonkeyPatch, kind: str
):
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])
    with released_at_the_end():
        run_that_fails_in(kind, stands_still, partial(call_within, HANG_S))


def run_that_fails_in(kind: str, end: End, call: Callable[..., Any] = call_foreign) -> None:
    ends = [end]

    def rows() -> Any:
        if kind == "source" and ends:
            return ends.pop()()
        return following()

    def following() -> Iterator[Any]:
        for number in range(ROWS):
            if kind == "row" and number == ROWS - 1 and ends:
                ends.pop()()
            yield {"n": number}

    class Odd(ListSink):
        def write(self, items: Any, position: int) -> Any:
            if kind == "sink" and ends:
                return ends.pop()(items, position)
            return super().write(items, position)

    def made() -> Pipeline:
        pipeline = Pipeline("odd")
        pipeline.source(rows, name="source")
        pipeline.sink(sink, name="out", after="source")
        return pipeline

    ledger, sink = memory_ledger(), Odd()
    with nobody_at_the_keyboard():
        with pytest.raises(PipelineStopped):
            go_on(ledger, made(), resume=False, call=call)
        has_begun = ledger.read(status) is not None
        assert ledger.read(status) == (None if kind == "source" else "failed")
        go_on(ledger, made(), resume=has_begun)
    assert ledger.read(status) == "completed"
    assert [item.row["n"] for item in sink.items] == [*range(ROWS)]
