"""What a pipeline may be declared as (seed 003, ruling L1)."""

from typing import Any

import pytest

from actors.errors import PipelineInvalid
from workers.pipelines.engine.graph import NODES_MAX
from workers.pipelines.engine.node import BATCH_ROWS_MAX
from workers.pipelines.engine.pipeline import Pipeline


def row_of(row: Any) -> Any:
    return row


def kept(_: Any, __: str) -> None:
    return None


def started() -> Pipeline:
    pipeline = Pipeline("test")
    pipeline.source(list, name="source")
    return pipeline


def without_a_sink(p: Pipeline) -> None:
    p.transform(row_of, name="a")


def with_an_end_that_leads_nowhere(p: Pipeline) -> None:
    p.transform(row_of, name="a")
    p.transform(row_of, name="b", after="source")
    p.sink(kept, name="s", after="a")


def with_two_sources(p: Pipeline) -> None:
    p.source(list, name="other")
    p.sink(kept, name="s")


def with_two_of_one_name(p: Pipeline) -> None:
    p.transform(row_of, name="a")
    p.transform(row_of, name="a")
    p.sink(kept, name="s")


def that_follows_what_is_below(p: Pipeline) -> None:
    p.transform(row_of, name="a", after="b")
    p.transform(row_of, name="b", after="a")
    p.sink(kept, name="s")


def with_a_gate_whose_way_is_not_named(p: Pipeline) -> None:
    p.gate(row_of, name="g")
    p.sink(kept, name="s", after="g")


def with_a_label_of_what_is_no_gate(p: Pipeline) -> None:
    a = p.transform(row_of, name="a")
    p.sink(kept, name="s", after=a["x"])


def with_two_ways_of_one_label(p: Pipeline) -> None:
    g = p.gate(row_of, name="g")
    p.sink(kept, name="s", after=g["x"])
    p.sink(kept, name="t", after=g["x"])


def with_an_error_sink_that_is_none(p: Pipeline) -> None:
    p.transform(row_of, name="a", on_error="nobody")
    p.sink(kept, name="s")


def with_a_sink_to_which_nothing_leads(p: Pipeline) -> None:
    p.sink(kept, name="s")
    p.sink(kept, name="t")


def with_a_node_behind_a_sink(p: Pipeline) -> None:
    s = p.sink(kept, name="s")
    p.transform(row_of, name="a", after=s)
    p.sink(kept, name="t")


def with_a_join_of_one(p: Pipeline) -> None:
    p.transform(row_of, name="a")
    p.join(row_of, name="j", after="a")
    p.sink(kept, name="s")


def with_a_join_of_mixed_rows(p: Pipeline) -> None:
    p.transform(row_of, name="a")
    p.aggregation(row_of, name="b", after="a", count=2)
    p.transform(row_of, name="c", after="a")
    p.join(row_of, name="j", after=["b", "c"])
    p.sink(kept, name="s")


def with_an_unknown_option(p: Pipeline) -> None:
    p.transform(row_of, name="a", often=True)


def with_too_many_attempts(p: Pipeline) -> None:
    p.transform(row_of, name="a", attempts=21)


def with_too_many_nodes(p: Pipeline) -> None:
    for number in range(NODES_MAX):
        p.transform(row_of, name=f"n{number}")
    p.sink(kept, name="s")


def with_a_batch_of_too_many(p: Pipeline) -> None:
    p.aggregation(row_of, name="b", count=BATCH_ROWS_MAX + 1)


def with_a_coroutine(p: Pipeline) -> None:
    async def later(row: Any) -> Any:
        return row

    p.transform(later)


def with_a_sink_of_one_argument(p: Pipeline) -> None:
    p.sink(row_of, name="s")


DECLARED = (
    (without_a_sink, "no sink"),
    (with_an_end_that_leads_nowhere, "nothing follows b"),
    (with_two_sources, "the source"),
    (with_two_of_one_name, "one name"),
    (that_follows_what_is_below, "not above"),
    (with_a_gate_whose_way_is_not_named, 'after=g["LABEL"]'),
    (with_a_label_of_what_is_no_gate, "after=a"),
    (with_two_ways_of_one_label, "two ways out of g"),
    (with_an_error_sink_that_is_none, "names no sink"),
    (with_a_sink_to_which_nothing_leads, "no way leads to t"),
    (with_a_node_behind_a_sink, "nothing follows the sink s"),
    (with_a_join_of_one, "one node alone"),
    (with_a_join_of_mixed_rows, "the aggregation b"),
    (with_an_unknown_option, "often"),
    (with_too_many_attempts, "attempts is 21"),
    (with_too_many_nodes, "202 nodes"),
    (with_a_batch_of_too_many, "count is 10001"),
    (with_a_coroutine, "no plain function"),
    (with_a_sink_of_one_argument, "a row and the id"),
)


@pytest.mark.parametrize(("declare", "problem"), DECLARED)
def test_a_pipeline_that_cannot_run_is_refused_with_what_is_wrong(declare, problem):
    pipeline = started()
    with pytest.raises(PipelineInvalid) as refused:
        _ = (declare(pipeline), pipeline.graph)
    assert problem in str(refused.value)


def test_a_node_follows_the_one_before_but_a_sink_for_failures_follows_nothing():
    pipeline = started()
    pipeline.transform(row_of, name="a", on_error="failed")
    pipeline.sink(kept, name="failed")
    pipeline.sink(kept, name="s", after="a")
    edges = [(edge.from_node, edge.to_node, edge.label) for edge in pipeline.graph.edges]
    assert edges == [
        ("source", "a", "continue"),
        ("a", "s", "continue"),
        ("a", "failed", "error"),
    ]


def test_a_join_belongs_to_the_fork_that_is_nearest_above_all_its_ways():
    pipeline = started()
    pipeline.transform(row_of, name="a")
    pipeline.transform(row_of, name="b", after="a")
    pipeline.transform(row_of, name="c", after="a")
    pipeline.transform(row_of, name="d", after="b")
    pipeline.transform(row_of, name="e", after="b")
    pipeline.join(row_of, name="inner", after=["d", "e"])
    pipeline.join(row_of, name="outer", after=["inner", "c"])
    pipeline.sink(kept, name="s")
    assert pipeline.graph.forks == {"inner": "b", "outer": "a"}


def test_a_function_that_is_another_makes_another_graph():
    first, second = started(), started()
    first.transform(lambda row: row, name="a")
    second.transform(lambda row: {**row}, name="a")
    for pipeline in (first, second):
        pipeline.sink(kept, name="s")
    assert first.graph.topology != second.graph.topology
