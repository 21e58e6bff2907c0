"""The result of an extraction against the text that it was read from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.model.extraction_result import (
    EXTRACTION_TEXT_CHARS_MAX,
    VALUES_MAX,
    WORDS_CHARS_MAX,
    ExtractionRefused,
    check_extraction,
    read_extraction,
)

TEXT = "Order granting 12 Motion to Dismiss"


def value(start: int = 15, end: int = 17, words: str = "12", **fields: Any) -> dict[str, Any]:
    return {
        "field": "relates_to",
        "value": "12",
        "role": None,
        "start": start,
        "end": end,
        "words": words,
        **fields,
    }


def answer(
    *values: dict[str, Any],
    succeeded: tuple[str, ...] = ("relates_to",),
    failed: tuple[tuple[str, str], ...] = (),
    **fields: Any,
) -> dict[str, Any]:
    return {
        "extractor": "a model",
        "values": list(values),
        "extraction_completeness": {
            "succeeded_fields": list(succeeded),
            "failed_fields": [{"field": name, "reason": reason} for name, reason in failed],
        },
        **fields,
    }


def refusal(document: Any, text: str = TEXT) -> tuple[str, str]:
    with pytest.raises(ExtractionRefused) as caught:
        read_extraction(document, text)
    return caught.value.code, caught.value.field


@pytest.mark.spec("INV-EXT-3")
def test_a_result_that_its_text_proves_is_taken_and_says_how_its_run_ends():
    whole = read_extraction(answer(value()), TEXT)
    assert whole.state == "succeeded"
    partial = read_extraction(answer(value(), failed=(("judge", "not_stated"),)), TEXT)
    assert partial.state == "degraded"


@pytest.mark.parametrize(("start", "end"), [(17, 15), (15, 15), (30, 36), (0, 10**12)])
def test_a_span_outside_of_the_text_is_refused(start, end):
    assert refusal(answer(value(start, end))) == ("extraction_span_outside_text", "values.0")


@pytest.mark.parametrize("words", ["13", "1", "12 ", "\u0661\u0662"])
def test_words_that_the_text_does_not_say_there_are_refused(words):
    code = ("extraction_span_invented", "values.1.words")
    assert refusal(answer(value(), value(words=words))) == code


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (answer(value(start=-1)), "values.0.start"),
        (answer(value(field="Relates To")), "values.0.field"),
        (answer(value(words="x" * (WORDS_CHARS_MAX + 1))), "values.0.words"),
        (answer(value(value="x" * 2_000)), "values.0.value"),
        (answer(value(note="more")), "values.0.note"),
        (answer(*[value()] * (VALUES_MAX + 1)), "values"),
        (answer(failed=(("judge", "tired"),)), "extraction_completeness.failed_fields.0.reason"),
        (answer(schema_version=2), "schema_version"),
        ({}, "extractor"),
        (["a list"], ""),
        ("a text", ""),
    ],
)
def test_an_answer_of_another_form_or_beyond_a_limit_is_refused(document, field):
    assert refusal(document) == ("extraction_result_invalid", field)


@pytest.mark.parametrize(
    "document",
    [
        answer(value(), succeeded=()),
        answer(value(), succeeded=("relates_to", "judge")),
        answer(value(), failed=(("relates_to", "not_stated"),)),
        answer(value(), succeeded=(), failed=(("relates_to", "not_stated"),)),
        answer(value(), succeeded=("relates_to", "relates_to")),
        answer(succeeded=(), failed=(("judge", "not_stated"), ("judge", "not_stated"))),
    ],
)
@pytest.mark.spec("INV-EXT-3")
def test_a_completeness_that_the_values_contradict_is_refused(document):
    code = ("extraction_completeness_contradicted", "extraction_completeness")
    assert refusal(document) == code


@pytest.mark.parametrize("reason", ["limit_reached", "not_readable"])
@pytest.mark.spec("INV-EXT-3")
def test_a_field_may_fail_with_some_of_its_values(reason):
    result = read_extraction(answer(value(), succeeded=(), failed=(("relates_to", reason),)), TEXT)
    assert result.state == "degraded"


def test_a_text_beyond_its_limit_is_refused():
    text = TEXT + " " * EXTRACTION_TEXT_CHARS_MAX
    assert refusal(answer(value()), text) == ("extraction_source_too_large", "")


@given(st.text(min_size=1, max_size=40), st.integers(0, 50), st.integers(0, 50), st.data())
def test_a_value_is_taken_if_and_only_if_the_text_says_its_words_there(text, start, end, data):
    words = data.draw(st.sampled_from([text[start:end] or "?", "?", text]))
    document = answer(value(start, end, words))
    proved = start < end <= len(text) and text[start:end] == words
    if proved:
        check_extraction(read_extraction(document, text), text)
    else:
        with pytest.raises(ExtractionRefused):
            read_extraction(document, text)
