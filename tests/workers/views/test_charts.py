"""Charts: a point for each step, a gap where nobody counted, and bytes that may be damaged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.ledger.chart_blocks import MINUTES, SECONDS, ChartBlock, ChartResolution, put_blocks
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.store.memory import MemoryStore
from kernel.values.host import iso_time
from tests.kernel.build import FakeHost
from workers.views import charts as module
from workers.views.chart_samples import GAP, MEASURES, PackedBlock, SampleBlock, combine
from workers.views.charts import POINTS_MAX, SPANS_S, ChartsDocument, charts, step_of

NOON_S = 1_800_000_000 - 1_800_000_000 % 86_400 + 43_200
US = 1_000_000


def seconds_block(began_s: int, **of_queue: list[int]) -> SampleBlock:
    series = {(measure, "q"): samples for measure, samples in of_queue.items()}
    return SampleBlock(SECONDS, began_s, NOON_S - 60, "1.2.3", series)


def ledger_of(*blocks: SampleBlock, part: int = 0) -> Ledger:
    ledger = Ledger.create(MemoryStore(), FakeHost())
    add(ledger, *blocks, part=part)
    return ledger


def add(ledger: Ledger, *blocks: SampleBlock, part: int = 0) -> None:
    with ledger.transaction() as transaction:
        put_blocks(
            transaction,
            [
                ChartBlock(each.resolution.sample_s, part, each.began_s, each.to_bytes())
                for each in blocks
            ],
        )


def asked(ledger: Ledger, span_s: int, now_s: int = NOON_S, **about: str) -> ChartsDocument:
    with ledger.view() as view:
        since_us, until_us = (now_s - span_s) * US, now_s * US
        # What is newest is shown when it has been written.
        now_us = until_us + (SECONDS.block_s + 1) * US
        return charts(view, now_us, since_us=since_us, until_us=until_us, **about)


def points(document: ChartsDocument, measure: str) -> list[int | None]:
    [series] = [each for each in document["series"] if each["measure"] == measure]
    return series["points"]


def test_a_minute_shows_each_second_and_a_gap_is_no_zero():
    began_s = NOON_S - 30
    done = [GAP, 0, 3, *[1] * 12]
    document = asked(ledger_of(seconds_block(began_s, done=done)), 60)
    assert document["step_s"] == 1
    assert points(document, "done") == [*[None] * 31, 0, 3, *[1] * 12, *[None] * 15]


def test_an_hour_has_a_point_for_each_fifteen_seconds():
    began_s = NOON_S - 30
    block = seconds_block(began_s, done=[GAP, *range(14)], ready=[*range(15)], age=[GAP] * 15)
    document = asked(ledger_of(block), 3600)
    assert document["step_s"] == 15
    assert points(document, "done") == [*[None] * 238, sum(range(14)), None]
    assert points(document, "ready") == [*[None] * 238, 14, None]
    assert points(document, "age") == [None] * 240


def test_what_several_gateways_counted_is_one_point():
    began_s = NOON_S - 15
    ledger = ledger_of(seconds_block(began_s, done=[2] * 15, ready=[7] * 15))
    add(ledger, seconds_block(began_s, done=[1] * 15), part=9)
    document = asked(ledger, 3600)
    assert points(document, "done")[-1] == 45
    assert points(document, "ready")[-1] == 7


def test_a_day_is_made_of_minutes_and_a_step_that_has_not_ended_is_left_out():
    block = SampleBlock(MINUTES, MINUTES.start_of(NOON_S))
    for minute in range(7):
        block.put(block.began_s + 60 * minute, {("done", "q"): 10})
    document = asked(ledger_of(block), SPANS_S["day"], now_s=NOON_S + 7 * 60)
    assert document["step_s"] == 360
    assert points(document, "done")[-1] == 60
    assert document["until"] == iso_time((NOON_S + 360) * US)


def test_one_queue_or_one_measure_may_be_asked_for():
    block = seconds_block(NOON_S - 15, done=[1] * 15, ready=[2] * 15)
    block.put(NOON_S - 15, {("done", "other"): 5, ("commits", ""): 9})
    ledger = ledger_of(block)
    of_queue = asked(ledger, 60, queue="q")["series"]
    assert {(each["measure"], each["queue"]) for each in of_queue} == {
        ("done", "q"),
        ("ready", "q"),
    }
    of_measure = asked(ledger, 60, measure="done")["series"]
    assert [each["queue"] for each in of_measure] == ["other", "q"]
    assert points(asked(ledger, 60), "commits")[45] == 9


def test_a_gateway_that_begins_is_a_mark():
    [mark] = asked(ledger_of(seconds_block(NOON_S - 30, done=[1] * 15)), 3600)["marks"]
    assert mark["what"] == "a gateway of version 1.2.3 began"
    assert asked(ledger_of(seconds_block(NOON_S - 30, done=[1] * 15)), 30)["marks"] == []


@pytest.mark.parametrize("span_s", [1, 59, 240, 241, 3600, 3601, 86_400, 30 * 86_400])
def test_no_chart_has_more_than_some_hundreds_of_points(span_s: int):
    assert 1 <= -(-span_s // step_of(span_s)) <= POINTS_MAX


@pytest.mark.parametrize(
    ("span_s", "points_max", "blocks_max"),
    [
        *((SPANS_S["hour"], 30, 3), (SPANS_S["hour"], 60, 3), (SPANS_S["hour"], POINTS_MAX, 242)),
        *((SPANS_S["day"], 30, 3), (SPANS_S["day"], 60, 3), (SPANS_S["day"], POINTS_MAX, 26)),
        *((SPANS_S["month"], 30, 32), (SPANS_S["month"], POINTS_MAX, 32)),
    ],
)
def test_a_chart_reads_few_blocks_however_long_its_span(
    span_s: int, points_max: int, blocks_max: int, monkeypatch: pytest.MonkeyPatch
):
    asked_for: list[int] = []

    def counting(
        _: LedgerView, resolution: ChartResolution, first_s: int, end_s: int
    ) -> list[ChartBlock]:
        asked_for.append(-(-(end_s - first_s) // resolution.block_s) + 1)
        return []

    monkeypatch.setattr(module, "blocks_between", counting)
    with Ledger.create(MemoryStore(), FakeHost()).view() as view:
        now_us = NOON_S * US
        since_us = now_us - span_s * US
        charts(view, now_us, since_us=since_us, until_us=now_us, points_max=points_max)
    assert asked_for[0] <= blocks_max


@given(
    st.sampled_from(list(MEASURES)),
    st.lists(st.lists(st.integers(GAP, 9), min_size=1, max_size=4), min_size=1, max_size=4),
)
def test_a_point_of_points_is_the_point_of_all_samples(measure: str, parts: list[list[int]]):
    whole = combine(measure, [sample for part in parts for sample in part])
    if MEASURES[measure].comes_to != "mean":
        assert combine(measure, [combine(measure, part) for part in parts]) == whole
    assert (whole == GAP) == all(sample == GAP for part in parts for sample in part)


@settings(max_examples=60)
@given(st.binary(max_size=40), st.integers(0, 200), st.integers(0, 255))
def test_bytes_that_are_damaged_are_a_gap_or_numbers(junk: bytes, at: int, flip: int):
    sound = bytearray(seconds_block(NOON_S, done=[1] * 15, ready=[2] * 15).to_bytes())
    sound[at % len(sound)] ^= flip
    for packed in (bytes(sound), junk, bytes(sound)[: at % len(sound)]):
        for resolution in (SECONDS, ChartResolution(1, 14, 3)):
            block = PackedBlock(resolution, NOON_S, packed)
            for key in block.series:
                assert len(block.samples(key)) == resolution.samples


def test_a_damaged_block_is_drawn_as_a_gap():
    ledger = ledger_of(seconds_block(NOON_S - 15, done=[1] * 15))
    with ledger.transaction() as transaction:
        put_blocks(transaction, [ChartBlock(1, 0, NOON_S - 30, b"\x00 nothing of ours")])
    assert points(asked(ledger, 3600), "done")[-2:] == [None, 15]
