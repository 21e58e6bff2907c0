"""A pipeline's data has one canonical form, and of that form the data is had again."""

import base64
import enum
import hashlib
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from kernel.landscape.canonical_types import (
    DEPTH_MAX,
    TAGS,
    Canonical,
    DataRefused,
    canonical_json,
    restore_value,
    stable_hash,
    typed_data,
)
from kernel.values.canonical import canonicalize

pytestmark = pytest.mark.spec("003 Serialization Pipeline", "L2")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
keys = texts | st.sampled_from(sorted(TAGS))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(10**6), 10**6).map(float)
    | texts
    | st.binary(max_size=8)
)
data = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3)
        | st.tuples(keys, inner).map(lambda pair: {pair[0]: pair[1]})
    ),
    max_leaves=12,
)


def typed(value):
    """The value with the type of everything in it, so that 1, 1.0 and True are three values."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [typed(inner) for inner in value]
    return type(value), repr(value)


@given(data)
def test_what_was_written_comes_back_as_it_was_and_is_written_again_alike(value):
    content = typed_data(value)
    assert typed(restore_value(content)) == typed(value)
    assert typed_data(restore_value(content)) == content


@given(data, data)
def test_values_have_the_same_bytes_only_if_they_are_the_same(value, other):
    assert (typed_data(value) == typed_data(other)) == (typed(value) == typed(other))


@given(data)
def test_what_the_library_writes_has_the_bytes_of_what_is_normalized(value):
    # A tuple goes the general way.
    assert typed_data((value,)) == b"[%s]" % typed_data([value])[1:-1]


def normalized(value):
    """The value as the type table of the specification states it for any library."""
    if isinstance(value, dict):
        return {key: normalized(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [normalized(inner) for inner in value]
    if isinstance(value, bytes):
        return {"__bytes__": base64.b64encode(value).decode()}
    is_large = type(value) is int and abs(value) > 2**53 - 1
    return str(value) if is_large else value


@given(data)
def test_a_hash_is_what_another_library_computes(value):
    expected = rfc8785.dumps(normalized(value))
    assert canonical_json(value) == expected
    assert stable_hash(value) == hashlib.sha256(expected).hexdigest()
    assert Canonical(typed_data(value)).digest == stable_hash(value)


@pytest.mark.parametrize(
    "plain",
    [
        *({"price": 10.0}, {"a": -0.0}, {"a": [1e21, 1e-7, 0.1, 1e20]}, [1.0, 1, True, None]),
        *({"b": 1, "a": {"d": 4.0, "c": "é"}}, "text", 1.5, 10.0, [], {}, {"\ufb33": 1, "😀": 2}),
    ],
)
def test_plain_data_has_the_hash_of_its_canonical_json(plain):
    assert stable_hash(plain) == hashlib.sha256(rfc8785.dumps(plain)).hexdigest()


def test_ten_and_ten_point_nought_hash_alike_and_are_kept_apart():
    assert stable_hash({"n": 10}) == stable_hash({"n": 10.0})
    assert typed_data({"n": 10}) != typed_data({"n": 10.0})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts | st.just(0.1),
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=12,
)


@given(json_values)
def test_what_json_says_by_itself_has_the_bytes_of_rfc_8785(value):
    assert typed_data(value) == canonicalize(value)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


PARIS = timezone(timedelta(hours=2))
WRITTEN = {
    "a time with its zone": (datetime(2026, 2, 9, 12, tzinfo=PARIS), '"2026-02-09T10:00:00+00:00"'),
    "a time without a zone": (
        datetime(2026, 2, 9, 12, 0, 0, 5),  # noqa: DTZ001 - that is what is tested
        '"2026-02-09T12:00:00.000005+00:00"',
    ),
    "a decimal as it is spelled": (Decimal("42.50"), '"42.50"'),
    "a large decimal": (Decimal("1E+100"), '"1E+100"'),
    "a uuid": (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
    "a tuple": ((1, "a"), '[1,"a"]'),
    "a member of an enumeration": ([Colour.RED, Level.LOW], '["red",1]'),
    "a text of a type of its own": ({Name("k"): Name("v")}, '{"k":"v"}'),
    "bytes": (b"\x00\xff", '{"__bytes__":"AP8="}'),
    "an object that looks like bytes": (
        {"__bytes__": "AP8="},
        '{"__object__":{"__bytes__":"AP8="}}',
    ),
    "an object that looks like such a one": (
        {"__object__": {"__bytes__": "AP8="}},
        '{"__object__":{"__object__":{"__object__":{"__bytes__":"AP8="}}}}',
    ),
    "a tag beside another key": ({"__bytes__": 1, "a": 2}, '{"__bytes__":1,"a":2}'),
    "a whole float": ([1.0], '[{"__float__":"1.0"}]'),
    "whole floats beside texts that look like some": (
        {"a": "1.0,", "b": [-2.0, '"3.0]', 0.5], "c": None},
        '{"a":"1.0,","b":[{"__float__":"-2.0"},"\\"3.0]",0.5],"c":null}',
    ),
    "minus zero": (-0.0, '{"__float__":"-0.0"}'),
    "a float that prints as an integer": ({"x": 1e20}, '{"x":{"__float__":"1e+20"}}'),
    "a fraction": ([0.1, 1.5e-7], "[0.1,1.5e-7]"),
    "an integer beyond 2^53": (2**53, '{"__integer__":"9007199254740992"}'),
    "keys in the order of utf-16": ({"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}'),
    "an empty object": ({}, "{}"),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_each_type_is_written_as_the_table_says(case):
    value, text = WRITTEN[case]
    assert typed_data(value).decode() == text


nested = st.recursive(
    st.just(None),
    lambda inner: st.lists(inner, min_size=1) | st.dictionaries(texts, inner, min_size=1),
)
NOT_FINITE = [
    *(math.nan, math.inf, -math.inf, enum.Enum("Share", {"NONE": math.nan}).NONE),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("-Infinity")),
]


def put_into(shape, value):
    """The shape with the value in the place of its first leaf."""
    if isinstance(shape, list):
        return [put_into(shape[0], value), *shape[1:]]
    if isinstance(shape, dict):
        first = next(iter(shape))
        return {**shape, first: put_into(shape[first], value)}
    return value


@given(nested, st.sampled_from(NOT_FINITE))
def test_what_is_not_finite_is_refused_at_any_depth(shape, value):
    with pytest.raises(DataRefused) as refusal:
        typed_data(put_into(shape, value))
    assert refusal.value.code == "data_not_finite"


REFUSED = {
    "a set": ({"a": [{1}]}, "data_type_unknown", "a.0"),
    "a date": ([date(2026, 2, 9)], "data_type_unknown", "0"),
    "a span of time": ({"a": timedelta(1)}, "data_type_unknown", "a"),
    "a complex number": (1j, "data_type_unknown", ""),
    "bytes that change": (bytearray(b"x"), "data_type_unknown", ""),
    "any object": ([object()], "data_type_unknown", "0"),
    "a key that is no text": ({"a": {1: 2}}, "data_type_unknown", "a"),
    "half of a character": (["\ud800"], "data_not_canonical", ""),
    "a time before the first": (
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
        "data_not_finite",
        "",
    ),
    "an integer without end": ([1 << 100_000], "data_too_large", "0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_table_does_not_name_is_refused_with_its_place(case):
    value, code, field = REFUSED[case]
    with pytest.raises(DataRefused) as refusal:
        typed_data(value)
    assert (refusal.value.code, refusal.value.field) == (code, field)


@pytest.mark.parametrize("bottom", [1, None, b"x"])
def test_depth_has_a_limit_whatever_lies_at_the_bottom(bottom):
    value = bottom
    for _ in range(DEPTH_MAX):
        value = [value]
    assert typed(restore_value(typed_data(value))) == typed(value)
    with pytest.raises(DataRefused) as refusal:
        typed_data([value])
    assert refusal.value.code == "data_too_deep"


def test_what_holds_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(DataRefused):
        typed_data(value)


def test_size_has_a_limit(monkeypatch):
    monkeypatch.setattr("kernel.landscape.canonical_types.DATA_BYTES_MAX", 10)
    assert stable_hash("12345678")
    with pytest.raises(DataRefused) as refusal:
        typed_data("123456789")
    assert refusal.value.code == "data_too_large"


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"nonsense", b"[1, 2]", b"1.0", b'{"b":1,"a":2}', b"9007199254740993"),
        *(b'{"__bytes__":5}', b'{"__bytes__":"A"}', b'{"__float__":"1"}', b'{"__float__":"nan"}'),
        *(b'{"__integer__":"7"}', b'{"__integer__":"x"}', b'{"__object__":{"a":1}}'),
        *(b'{"__object__":7}', b'{"__float__":"0.5"}', b"[" * 300 + b"]" * 300),
    ],
)
def test_bytes_that_nothing_writes_are_not_read(content):
    with pytest.raises(ValueError, match="no canonical data"):
        restore_value(content)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(content):
    try:
        value = restore_value(content)
    except ValueError:
        return
    assert typed_data(value) == content


def test_numbers_and_arrays_of_numpy_are_those_of_python():
    numpy = pytest.importorskip("numpy")
    value = {
        "scalars": [numpy.int64(7), numpy.float64(0.5), numpy.float32(2), numpy.bool_(True)],
        "array": numpy.array([[1, 2], [3, 4]]),
        "objects": numpy.array([b"x", None], dtype=object),
        "texts": numpy.array(["a"]),
    }
    plain = {"scalars": [7, 0.5, 2.0, True], "array": [[1, 2], [3, 4]]}
    plain |= {"objects": [b"x", None], "texts": ["a"]}
    assert typed_data(value) == typed_data(plain)
    for refused in (
        numpy.array([0.5, math.nan]),
        numpy.float32("inf"),
        numpy.datetime64("2026-02-09"),
        numpy.array([1j]),
        numpy.longdouble(1),
    ):
        with pytest.raises(DataRefused):
            typed_data({"a": [refused]})


def test_times_and_missing_values_of_pandas_are_texts_and_null():
    pandas = pytest.importorskip("pandas")
    value = [
        pandas.Timestamp("2026-02-09T12:00:00.000000005"),
        pandas.Timestamp("2026-02-09T12:00", tz="Europe/Paris"),
        pandas.NaT,
        pandas.NA,
    ]
    written = ["2026-02-09T12:00:00.000000005+00:00", "2026-02-09T11:00:00+00:00", None, None]
    assert typed_data(value) == typed_data(written)
    for refused in (pandas.Timedelta(1), pandas.Series([1]), pandas.DataFrame({"a": [1]})):
        with pytest.raises(DataRefused):
            typed_data(refused)
