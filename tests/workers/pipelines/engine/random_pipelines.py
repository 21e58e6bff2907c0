"""Pipelines that Hypothesis draws: forks in forks, joins, expansions, batches, failures, retries.

What a node does with a row follows from the row's number and the node's own, so a run that is
disturbed does the same.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st

from workers.pipelines.engine.node import NodePort
from workers.pipelines.engine.pipeline import Pipeline
from workers.pipelines.engine.sinks import SinkItem, SinkWritten
from workers.pipelines.engine.step import NodeStep, RowRefused

NODES_MAX = 9

Row = dict[str, Any]
End = tuple[NodePort, bool]
"""A way that leads nowhere yet, and whether rows were mixed on it."""


class ListSink:
    """A sink in memory that replaces what stands behind a position, as files do."""

    version = "1"

    def __init__(self) -> None:
        self.items: list[SinkItem] = []
        self.interrupt: Callable[[], None] = lambda: None

    def write(self, items: Any, position: int) -> SinkWritten:
        assert len(self.items) >= position, "something confirmed is gone"
        self.items[position:] = items[: len(items) // 2]
        self.interrupt()
        self.items[position:] = items
        self.interrupt()
        return SinkWritten(len(self.items))


@st.composite
def pipelines(draw: st.DrawFn) -> Callable[..., tuple[Pipeline, dict[str, Any]]]:
    """Draw what makes a pipeline with its sinks, anew each time: lists, or those of `new_sink`."""
    rows = draw(st.integers(0, 9))
    commit_rows = draw(st.integers(0, 4))
    kinds = st.sampled_from(tuple(_MAKERS))
    choices = draw(
        st.lists(st.tuples(kinds, st.integers(0, 9), st.integers(1, 5)), max_size=NODES_MAX)
    )
    return partial(_made, rows, commit_rows, choices)


def _made(
    rows: int,
    commit_rows: int,
    choices: list[tuple[str, int, int]],
    new_sink: Callable[[str], Any] = lambda _: ListSink(),
) -> tuple[Pipeline, dict[str, Any]]:
    pipeline = Pipeline("random", commit_rows=commit_rows)

    @pipeline.source(name="source", on_error="failures" if commit_rows % 2 else None)
    def source() -> Any:
        for number in range(rows):
            yield {"n": number, "seen": []} if number % 5 != 4 else {"n": float("nan")}

    ends: list[End] = [(NodePort("source"), False)]
    for place, (kind, which, number) in enumerate(choices):
        end = ends.pop(which % len(ends))
        ends += _MAKERS[kind](pipeline, f"n{place}", end, number, ends)
    sinks = {f"sink{place}": new_sink(f"sink{place}") for place in range(len(ends))}
    for place, (port, _) in enumerate(ends):
        name = f"sink{place}"
        pipeline.sink(sinks[name], name=name, after=port)
    if "failures" in {node.on_error for node in pipeline.nodes}:
        sinks["failures"] = new_sink("failures")
        pipeline.sink(sinks["failures"], name="failures", after=())
    return pipeline, sinks


def _seen(row: Row, name: str) -> Row:
    row["seen"] = [*row["seen"], name]  # changes what it was given, as functions do
    return row


def _map(pipeline: Pipeline, name: str, end: End, _: int, __: list[End]) -> list[End]:
    pipeline.transform(lambda row: _seen(row, name), name=name, after=end[0], version="1")
    return [(NodePort(name), end[1])]


def _expand(pipeline: Pipeline, name: str, end: End, number: int, _: list[End]) -> list[End]:
    def expand(row: Row) -> list[Row]:
        return [{"n": row["n"] + at, "seen": [name]} for at in range(1 + row["n"] % number)]

    pipeline.transform(expand, name=name, after=end[0])
    return [(NodePort(name), end[1])]


def _fail(pipeline: Pipeline, name: str, end: End, number: int, _: list[End]) -> list[End]:
    def fail(row: Row, step: NodeStep) -> Row:
        step.call("sql", {"n": row["n"]}, lambda: {"attempt": step.attempt})
        if row["n"] % 4 == 0:
            raise RowRefused("a fourth")
        if step.attempt < row["n"] % 3:
            raise ValueError("not yet")
        return _seen(row, name)

    kept = "failures" if number % 2 else None
    pipeline.transform(fail, name=name, after=end[0], attempts=2, pause_s=0, on_error=kept)
    return [(NodePort(name), end[1])]


def _gate(pipeline: Pipeline, name: str, end: End, number: int, _: list[End]) -> list[End]:
    def gate(row: Row) -> list[str]:
        return [["a"], ["b"], ["a", "b"], ["nowhere"]][(row["n"] + number) % 4]

    pipeline.gate(gate, name=name, after=end[0], on_error="failures")
    return [(NodePort(name, label), end[1]) for label in "ab"]


def _fork(pipeline: Pipeline, name: str, end: End, number: int, ends: list[End]) -> list[End]:
    _map(pipeline, name, end, number, ends)
    parts = [f"{name}-{at}" for at in range(2)]
    return [
        each
        for part in parts
        for each in _map(pipeline, part, (NodePort(name), end[1]), number, ends)
    ]


def _join(pipeline: Pipeline, name: str, end: End, number: int, ends: list[End]) -> list[End]:
    other = next((each for each in ends if not each[1] and each[0].node != end[0].node), None)
    if other is None or end[1]:
        return _map(pipeline, name, end, number, ends)
    ends.remove(other)

    def join(rows: list[Row]) -> Row:
        if sum(row["n"] for row in rows) % 7 == 6:
            raise ValueError("a sum")
        return {"n": rows[0]["n"], "seen": [row["seen"] for row in rows]}

    order = sorted((end[0], other[0]), key=lambda port: str(port.node))
    kept = "failures" if number % 2 else None
    pipeline.join(join, name=name, after=order, needs_all=number > 2, on_error=kept)
    return [(NodePort(name), False)]


def _gather(pipeline: Pipeline, name: str, end: End, number: int, _: list[End]) -> list[End]:
    def gather(rows: list[Row]) -> Row | list[Row]:
        total = sum(row["n"] for row in rows)
        if total % 5 == 4:
            raise ValueError("a total")
        made = [{"n": total + at, "seen": [row["n"] for row in rows]} for at in range(2)]
        return made if total % 2 else made[0]

    kept = "failures" if number % 2 else None
    when = (lambda rows: rows[-1]["n"] % 3 == 2) if number % 3 == 0 else None
    pipeline.aggregation(gather, name=name, after=end[0], count=number, when=when, on_error=kept)
    return [(NodePort(name), True)]


_MAKERS: dict[str, Callable[[Pipeline, str, End, int, list[End]], list[End]]] = {
    "map": _map,
    "expand": _expand,
    "fail": _fail,
    "gate": _gate,
    "fork": _fork,
    "join": _join,
    "gather": _gather,
}
