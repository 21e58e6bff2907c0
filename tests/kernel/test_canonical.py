"""The canonical bytes are those of RFC 8785, whichever path wrote them."""

import enum
import json
import math
import struct

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.values.canonical import (
    CanonicalizationError,
    canonicalize,
    canonicalize_plain,
    canonicalize_readable,
    digest,
)

text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=30
)


@pytest.mark.slow
@pytest.mark.spec("RFC 8785")
@settings(max_examples=settings().max_examples * 4)
@given(values)
def test_bytes_equal_those_of_the_reference_package(value):
    assert canonicalize(value) == rfc8785.dumps(value)


plain_keys = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))
plain_values = st.recursive(
    st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | text,
    lambda inner: st.lists(inner) | st.dictionaries(plain_keys, inner),
    max_leaves=12,
)


@pytest.mark.spec("RFC 8785")
@given(st.dictionaries(plain_keys, plain_values))
def test_a_plain_document_has_the_same_bytes_by_the_shorter_way(document):
    assert canonicalize_plain(document) == rfc8785.dumps(document)


@pytest.mark.parametrize("value", [2**53, -(2**53), "\ud800", object()])
def test_what_has_no_canonical_form_is_refused_by_the_shorter_way_too(value):
    with pytest.raises(CanonicalizationError):
        canonicalize_plain({"value": value})


@settings(max_examples=settings().max_examples * 8)
@given(st.integers(0, 2**64 - 1))
def test_any_bit_pattern_of_a_double_is_printed_as_the_reference_prints_it(bits):
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    if not math.isfinite(number):
        with pytest.raises(CanonicalizationError):
            canonicalize([number])
    else:
        assert canonicalize([number]) == rfc8785.dumps([number])


near_the_limits = st.builds(
    lambda digits, power, sign: sign * digits * 10.0**power,
    st.integers(1, 2**53 + 100) | st.sampled_from((1, 15, 2**53 - 1, 2**53, 2**53 + 2)),
    st.integers(-24, 22),
    st.sampled_from((1, -1)),
)
"""Floats around the exponents at which the notation changes, and around 2^53."""

any_float = st.floats(allow_nan=False, allow_infinity=False) | near_the_limits
like_numbers = st.lists(
    st.sampled_from(("1.0", "-0.0", "1e-6", "e+16", "1e+20", ",", "]", "}", '"', "\\", ":"))
).map("".join)


@pytest.mark.slow
@pytest.mark.spec("RFC 8785")
@settings(max_examples=settings().max_examples * 2)
@given(
    st.recursive(
        any_float | like_numbers | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(like_numbers, inner),
        max_leaves=30,
    )
)
def test_floats_of_the_whole_range_are_spelled_as_the_reference_spells_them(value):
    """Beside texts that look like what is spelled anew."""
    assert canonicalize(value) == rfc8785.dumps(value)


@pytest.mark.spec("K27")
@given(st.lists(any_float, min_size=1))
def test_floats_are_readable_where_each_of_them_reads_as_itself(numbers):
    content = canonicalize(numbers)
    whole = [number for number in json.loads(content) if type(number) is int]
    if all(abs(number) < 2**53 for number in whole):
        assert canonicalize_readable(numbers) == content
    else:
        with pytest.raises(CanonicalizationError):
            canonicalize_readable(numbers)


class Share(enum.Enum):
    NONE = math.nan


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, Share.NONE])
@pytest.mark.parametrize("beside", [[None], [1, None, "null"], [{"a": [None]}, ("b", 1.5)]])
def test_what_is_not_finite_is_found_beside_null(number, beside):
    assert canonicalize(beside) == rfc8785.dumps(beside)
    for value in ([*beside, number], {"a": beside, "b": {"c": [number]}}, [beside, (number,)]):
        with pytest.raises(CanonicalizationError):
            canonicalize(value)


def test_keys_of_the_end_of_the_plane_stand_behind_those_beyond_it_at_any_depth():
    value = {
        "a": [{"\ufb33": 1.0, "\U0001f600": None, "\ue000": ({"\uffff": 1, "\U0010ffff": 2},)}]
    }
    assert canonicalize(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("depth", [254, 255, 300, 100_000])
def test_more_levels_than_the_writer_goes_are_refused(depth):
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    if depth <= 254:
        assert canonicalize(value) == b"[" * depth + b"]" * depth
    else:
        with pytest.raises(CanonicalizationError):
            canonicalize(value)


@given(values)
def test_the_bytes_parse_back_to_the_value_and_are_a_fixed_point(value):
    data = canonicalize(value)
    assert canonicalize(json.loads(data, parse_int=float)) == data


@pytest.mark.parametrize(
    "number", [0.0, -0.0, 1e21, 1e20, 1e-6, 1e-7, 5e-324, 1.7976931348623157e308, 333333333.3333333]
)
def test_numbers_at_the_edges_of_the_notation(number):
    assert canonicalize(number) == rfc8785.dumps(number)


def test_keys_are_sorted_by_utf16_code_unit():
    assert canonicalize({"\U0001f600": 1, "\ufb33": 2}) == '{"\U0001f600":1,"\ufb33":2}'.encode()


@pytest.mark.spec("K27")
@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        {"a": [float("inf")]},
        2**53,
        -(2**53),
        {"a": 2**64},
        {1: "a"},
        "\ud800",
        {"\ud800": 1},
        {"a": object()},
        b"bytes",
        {"a": {1, 2}},
    ],
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(CanonicalizationError):
        canonicalize(value)


@pytest.mark.spec("K27")
@given(values | st.floats(2**50, 1e22).map(lambda number: {"number": number}))
def test_what_is_readable_has_the_same_form_when_it_is_read_back(value):
    content = canonicalize(value)
    try:
        again = canonicalize(json.loads(content))
    except CanonicalizationError:
        with pytest.raises(CanonicalizationError):
            canonicalize_readable(value)
    else:
        assert canonicalize_readable(value) == content == again


@pytest.mark.spec("K27")
@pytest.mark.parametrize("number", [2.0**53, -(2.0**53), 1e17, 999_999_999_999_999_868_928.0])
def test_a_whole_float_that_nothing_can_read_and_write_again_is_not_readable(number):
    assert canonicalize([number]) == rfc8785.dumps([number])
    for value in (number, [number], {"a": number}, [0, number], {"a": {"b": [number]}}):
        with pytest.raises(CanonicalizationError):
            canonicalize_readable(value)


def test_a_string_full_of_digits_is_a_string():
    assert canonicalize({"a": ":1.5,12345678901234567890"}) == (
        b'{"a":":1.5,12345678901234567890"}'
    )


def test_digest_is_over_the_canonical_bytes():
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
