"""The readers of what Redis says: any value at all is read within its bounds, or is foreign."""

from typing import get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.fleet.worker_heartbeats import WorkerBeat, read_beat
from queues.queue.items import NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, Claim, Lineage, LiveState
from queues.queue.priorities import PRIORITIES
from queues.queue.script_replies import claims_of, live_of
from queues.redis.decoding import (
    WHOLE_MAX,
    Field,
    Foreign,
    content,
    fields,
    json_object,
    many,
    matching,
    moment,
    one_of,
    pairs,
    records,
    row,
    text,
    whole,
)
from queues.redis.dropped import DROPPED

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary(max_size=40)
    | st.text(max_size=20)
    | st.sampled_from([b"nan", b"inf", b"-1", b"1e400", b"0x10", b"9" * 400, "\ud800", b"\xff"])
)
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=5), max_leaves=20)
FIELDS = b"state rank deadline enqueued attempt payload error causes signature died c:a c:b".split()
RECORDS = st.lists(
    st.tuples(st.sampled_from(FIELDS) | st.binary(max_size=9), st.binary(max_size=20)), max_size=14
).map(lambda pairs: [part for pair in pairs for part in pair])
NUMBERS = st.sampled_from([b"0", b"1", b"3", b"5", b"99", b"999", b"1000", b"-1", b"9" * 16, b""])
PACKED = st.lists(NUMBERS, min_size=5, max_size=6).map(b" ".join)
PACKED = st.tuples(PACKED, st.binary(max_size=20)).map(lambda parts: b"1 " + b"\n".join(parts))
ROWS = st.lists(ANYTHING | RECORDS | PACKED, min_size=2, max_size=5)

READERS = {
    "whole": whole(-5, 10**6),
    "moment": moment,
    "text": text(8),
    "content": content(8),
    "one_of": one_of("a", "b"),
    "matching": matching("[0-9a-f]{4}"),
    "many": many(text(8), 3),
    "row": row(text(8), whole(), pairs),
    "json_object": json_object,
    "pairs": pairs,
    "claim": claims_of("token", PRIORITIES),
    "live": live_of(PRIORITIES),
    "beat": read_beat,
}


@pytest.mark.parametrize("name", READERS)
@given(ANYTHING | ROWS)
def test_a_reader_returns_or_says_that_the_value_is_foreign(name, value):
    try:
        READERS[name](value)
    except Foreign:
        return


@given(ANYTHING)
def test_a_whole_number_lies_within_its_bounds(value):
    try:
        assert -5 <= whole(-5, 10**6)(value) <= 10**6
    except Foreign:
        return


@pytest.mark.parametrize("digits", ["9" * 17, "9" * 5000, "-", "", "--1", "\u0661"])
def test_digits_of_no_whole_number_are_foreign(digits):
    for value in (digits, digits.encode()):
        with pytest.raises(Foreign):
            whole()(value)


@given(st.integers(-WHOLE_MAX, WHOLE_MAX))
def test_a_whole_number_is_read_as_a_number_and_as_digits(number):
    assert whole()(number) == whole()(b"%d" % number) == whole()(str(number)) == number


SOUND = {
    b"state": b"ready",
    b"rank": b"1",
    b"deadline": b"5",
    b"enqueued": b"4",
    b"attempt": b"0",
    b"payload": b"{}",
    b"causes": b"1",
    b"c:why": b"1\0op\0",
}


def packed(cause: bytes, lineage: bytes, payload: bytes, rank: bytes = b"3") -> bytes:
    return b"1 %s 5 4 %d %d\n" % (rank, len(cause), len(lineage)) + cause + lineage + payload


@given(st.text(min_size=1, max_size=9), st.text(max_size=9), st.binary(max_size=20))
def test_a_packed_item_is_read_as_it_was_packed(cause, operation_id, payload):
    operation_id = operation_id.replace("\0", "")
    lineage = Lineage(operation_id, "")
    record = packed(cause.encode(), f"\0{operation_id}\0".encode(), payload)
    assert claims_of("t", PRIORITIES)((b"u-1", record)) == Claim(
        *("u-1", payload, PRIORITIES[3].name, (cause,), (lineage,), 1, 4, 5, "t", 1)
    )


@pytest.mark.parametrize(
    "record",
    [
        b"",
        packed(b"c", b"", b"")[:-1],
        packed(b"c", b"", b"", b"5"),
        packed(b"c" * (NAME_BYTES_MAX + 1), b"", b""),
        packed(b"c", b"\0\xff\0", b""),
        packed(b"\xff", b"", b""),
        packed(b"c", b"", b"x" * (PAYLOAD_BYTES_MAX + 1)),
        packed(b"c", b"", b"").replace(b"1", b"2", 1),
    ],
)
def test_what_nearly_is_a_packed_item_is_foreign(record):
    with pytest.raises(Foreign):
        claims_of("t", PRIORITIES)((b"u-1", record))


@given(st.dictionaries(st.binary(min_size=3, max_size=9), st.binary(max_size=20), max_size=4))
def test_fields_that_are_not_known_change_nothing(unknown):
    unknown = {k: v for k, v in unknown.items() if k[:2] != b"c:" and k not in FIELDS}
    flat = [part for pair in {**unknown, **SOUND}.items() for part in pair]
    live = live_of(PRIORITIES)([b"u-1", 0, flat, b""])
    assert live == live_of(PRIORITIES)(
        [b"u-1", 0, [p for pair in SOUND.items() for p in pair], b""]
    )
    assert live.state in get_args(LiveState)


@pytest.mark.parametrize("name", [name for name in SOUND if name not in (b"attempt", b"c:why")])
@given(st.sampled_from([None, b"\xff", b"nan", b"-1e9", b"9" * 40, b"x" * 70_000]))
def test_a_field_that_is_missing_or_no_value_of_its_kind_makes_an_item_foreign(name, value):
    record = {**SOUND, name: value} if value is not None else {**SOUND}
    if value is None:
        del record[name]
    if name == b"payload" and value is not None and len(value) < 65_536:
        return
    with pytest.raises(Foreign):
        live_of(PRIORITIES)([b"u-1", 0, [p for pair in record.items() for p in pair], b""])


@given(st.dictionaries(st.text(max_size=8), st.integers(0, 9) | st.text(max_size=5), max_size=4))
def test_a_heartbeat_of_another_version_is_read(unknown):
    record = orjson.dumps({**unknown, "worker_id": "w-1", "queues": ["authority-recompute"]})
    try:
        beat = read_beat([b"w-1", 7, record])
    except Foreign:
        assert unknown.keys() & set(WorkerBeat.__dataclass_fields__), (
            "only what is known can be wrong"
        )
        return
    assert (beat.worker_id, beat.seen_at_ms) == ("w-1", 7)


def test_what_is_foreign_is_left_out_counted_and_handed_back():
    before, foreign = DROPPED["number"], []
    assert records("number", [1, b"2", b"x", None], whole(), foreign) == [1, 2]
    assert foreign == [b"x", None]
    assert DROPPED["number"] == before + 2


def test_a_default_stands_for_what_is_absent_and_not_for_what_is_wrong():
    read = fields({"a": Field(whole(), 7), "b": Field(whole(), name="c")})
    assert read({"b": 1, "other": "x"}) == {"a": 7, "c": 1}
    for wrong in ({"a": "x", "b": 1}, {}):
        with pytest.raises(Foreign):
            read(wrong)
