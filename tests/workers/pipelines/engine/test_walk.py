"""What happens to a row on its way: attempts, forks, joins, expansions, limits."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from kernel.landscape.canonical_types import Canonical, restore_value, typed_data
from workers.pipelines.engine.events import (
    Arrived,
    Expanded,
    Failed,
    Forked,
    Merged,
    Visited,
    documents_of,
    events_of,
)
from workers.pipelines.engine.node_attempts import TOKENS_MAX
from workers.pipelines.engine.pipeline import Pipeline
from workers.pipelines.engine.step import CALLS_MAX, ModelReply, NodeStep, RowRefused, WalkTools
from workers.pipelines.engine.walk import RowWalk


class Paused:
    """Notes the pauses of a walk, and answers as a model."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.tools = WalkTools(lambda: 0, self.pauses.append, self.answer)

    def answer(self, question: str, text: str, _: Any) -> ModelReply:
        answer = '{"label": "sure"}' if text == "known" else '{"label": "perhaps"}'
        return ModelReply(answer, {"prompt": [question, text]}, {"text": answer})


def started(function: Any = list, **options: Any) -> Pipeline:
    pipeline = Pipeline("test")
    pipeline.source(function, name="source", **options)
    return pipeline


def kept(_: Any, __: str) -> None:
    return None


def walked(pipeline: Pipeline, row: Any, paused: Paused | None = None) -> list[Any]:
    tools = (paused or Paused()).tools
    walk = RowWalk(pipeline.graph, tools, "run", "run.0")
    events = walk.of_row(Canonical(typed_data(row)))
    # What a worker sends is what happened.
    assert events_of(documents_of(events)) == events
    return events


def of_kind(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_what_a_function_does_to_its_row_changes_no_other_branch_and_nothing_recorded():
    pipeline = started()

    def first(row: Any) -> Any:
        row["list"].append(1)
        return row

    def second(row: Any) -> Any:
        row["list"].append(2)
        return row

    pipeline.transform(first)
    pipeline.transform(second, after="first")
    pipeline.sink(kept, name="s", after="second")
    pipeline.sink(kept, name="t", after="first")
    events = walked(pipeline, {"list": []})
    outputs = {event.node: restore_value(event.output) for event in of_kind(events, Visited)}
    assert outputs == {"first": {"list": [1]}, "second": {"list": [1, 2]}}
    arrived = {event.node: restore_value(event.data) for event in of_kind(events, Arrived)}
    assert arrived == {"s": {"list": [1, 2]}, "t": {"list": [1]}}


def test_a_row_is_tried_again_with_longer_pauses_as_it_was_and_then_kept_with_its_error():
    pipeline, paused = started(), Paused()

    def fail(row: Any) -> Any:
        row["touched"] = row.get("touched", 0) + 1
        raise ValueError(f"touched {row['touched']} times")

    pipeline.transform(fail, attempts=3, pause_s=2, on_error="failed")
    pipeline.sink(kept, name="s")
    pipeline.sink(kept, name="failed")
    events = walked(pipeline, {"n": 1}, paused)
    assert [event.attempt for event in of_kind(events, Visited)] == [0, 1, 2]
    assert paused.pauses == [2, 4]
    [arrived] = of_kind(events, Arrived)
    assert (arrived.node, arrived.how) == ("failed", "quarantined")
    error = {"type": "ValueError", "message": "touched 1 times"}
    assert restore_value(arrived.data) == {"node": "fail", "row": {"n": 1}, "error": error}


def test_a_row_that_is_refused_is_not_tried_again():
    pipeline, paused = started(), Paused()

    @pipeline.transform(attempts=5)
    def refuse(_: Any) -> Any:
        raise RowRefused("never")

    pipeline.sink(kept, name="s")
    events = walked(pipeline, {}, paused)
    assert [type(event) for event in events] == [Visited, Failed]
    assert paused.pauses == []


@pytest.mark.parametrize("returned", [None, [], float("nan"), {"x": {1}}, iter(()), [{1}]])
def test_what_is_no_row_fails_its_node(returned):
    pipeline = started()
    pipeline.transform(lambda _: returned, name="a")
    pipeline.sink(kept, name="s")
    events = walked(pipeline, {})
    assert [type(event) for event in events] == [Visited, Failed]


@pytest.mark.parametrize("label", [None, "c", [], ["a", "a"], 1, {}])
def test_a_gate_that_names_no_way_of_its_own_fails(label):
    pipeline = started()
    gate = pipeline.gate(lambda _: label, name="gate")
    pipeline.sink(kept, name="s", after=gate["a"])
    events = walked(pipeline, {})
    assert [type(event) for event in events] == [Visited, Failed]
    assert "its ways are a" in restore_value(events[-1].error)["message"]


def test_expanded_rows_are_joined_each_with_its_own():
    pipeline = started()
    pipeline.transform(lambda row: [{"n": n} for n in range(row["n"])], name="many")
    pipeline.transform(lambda row: row, name="left", after="many")
    pipeline.transform(lambda row: row, name="right", after="many")
    pipeline.join(
        lambda rows: {"both": [row["n"] for row in rows]}, name="j", after=["right", "left"]
    )
    pipeline.sink(kept, name="s")
    events = walked(pipeline, {"n": 3})
    assert len(of_kind(events, Expanded)) == 1
    assert len(of_kind(events, Forked)) == 3
    assert len(of_kind(events, Merged)) == 3
    arrived = [restore_value(event.data)["both"] for event in of_kind(events, Arrived)]
    assert arrived == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize("needs_all", [True, False])
def test_a_join_without_one_of_its_branches_fails_unless_it_may(needs_all):
    pipeline = started()
    gate = pipeline.gate(lambda _: ["a", "c"], name="gate")
    pipeline.transform(lambda row: row, name="a", after=gate["a"])
    pipeline.transform(lambda row: row, name="b", after=gate["b"])
    pipeline.join(
        lambda rows: {"count": len(rows)}, name="j", after=["a", "b"], needs_all=needs_all
    )
    pipeline.sink(kept, name="s")
    pipeline.sink(kept, name="t", after=gate["c"])
    events = walked(pipeline, {})
    arrived = {event.node: restore_value(event.data) for event in of_kind(events, Arrived)}
    assert arrived == ({"t": {}} if needs_all else {"t": {}, "s": {"count": 1}})
    assert len(of_kind(events, Failed)) == needs_all


class Typed(BaseModel):
    at: datetime
    n: int


def test_a_schema_gives_rows_their_types_and_sends_what_is_not_valid_to_the_sink_for_it():
    pipeline = started(schema=Typed, on_error="invalid")
    pipeline.transform(lambda row: {"year": row["at"].year, "n": row["n"]}, name="a")
    pipeline.sink(kept, name="s")
    pipeline.sink(kept, name="invalid")
    [_, arrived] = walked(pipeline, {"at": "2026-01-02T03:04:05", "n": "7"})
    assert restore_value(arrived.data) == {"year": 2026, "n": 7}
    [failed, kept_row] = walked(pipeline, {"at": "yesterday", "n": 1})
    assert (failed.node, kept_row.node) == ("source", "invalid")


class Answer(BaseModel):
    label: Literal["sure", "unsure"]


def test_a_model_is_asked_on_record_and_its_answer_is_held_against_its_type():
    pipeline = started()

    def classify(row: Any, step: NodeStep) -> Any:
        return {"label": step.ask_model("what?", row["text"], Answer).label}

    pipeline.transform(classify)
    pipeline.sink(kept, name="s")
    [visited, _] = walked(pipeline, {"text": "known"})
    [call] = visited.calls
    assert restore_value(call.response) == {"text": '{"label": "sure"}'}
    assert restore_value(visited.output) == {"label": "sure"}
    [visited, failed] = walked(pipeline, {"text": "unknown"})
    assert len(visited.calls) == 1
    assert restore_value(failed.error)["type"] == "ValidationError"


def test_a_call_that_raises_is_on_record_with_its_error():
    pipeline = started()

    def look_up(row: Any, step: NodeStep) -> Any:
        return step.call("http", {"get": row["url"]}, lambda: 1 // 0)

    pipeline.transform(look_up)
    pipeline.sink(kept, name="s")
    [visited, _] = walked(pipeline, {"url": "/"})
    assert restore_value(visited.calls[0].error)["type"] == "ZeroDivisionError"
    assert visited.calls[0].response is None


def test_a_node_makes_so_many_calls_for_a_row_and_no_more():
    pipeline = started()

    def call(row: Any, step: NodeStep) -> Any:
        for _ in range(row["calls"]):
            step.call("http", {}, dict)
        return row

    pipeline.transform(call, name="call")
    pipeline.sink(kept, name="s")
    assert [event.node for event in walked(pipeline, {"calls": CALLS_MAX})] == ["call", "s"]
    [visited, *_] = walked(pipeline, {"calls": CALLS_MAX + 1})
    assert restore_value(visited.error)["message"] == "more than 1000 calls"


def test_a_row_that_becomes_too_many_is_given_up_as_a_whole():
    pipeline = started()
    pipeline.transform(lambda _: [{}] * (TOKENS_MAX // 2), name="many")
    pipeline.transform(lambda _: [{}] * 3, name="more")
    pipeline.sink(kept, name="s")
    [failed] = walked(pipeline, {})
    assert (failed.token, failed.node) == (0, "more")


def test_each_attempt_that_fails_is_noted_with_its_error():
    noted: list[tuple[str, str]] = []
    paused = Paused()
    paused.tools = replace(
        paused.tools, note_failure=lambda node, error: noted.append((node, str(error)))
    )
    pipeline = started()

    def odd(_: Any) -> Any:
        raise ValueError("odd")

    pipeline.transform(odd, name="odd", after="source", attempts=2, pause_s=0)
    pipeline.sink(kept, name="out", after="odd")
    walked(pipeline, {"n": 1}, paused)
    assert noted == [("odd", "odd"), ("odd", "odd")]
