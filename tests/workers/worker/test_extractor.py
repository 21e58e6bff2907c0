"""What an extractor may answer: the rules for dockets, a model's document, and what is refused."""

from typing import Any

import anyio
import pytest

from kernel.model.extraction_result import ExtractionRefused, ExtractionResult
from kernel.values.foreign_code import traceback_of
from kernel.work.extraction_sources import SourceText
from tests.foreign_ends import (
    ASYNC_ENDS,
    ASYNC_HANGS,
    ENDS,
    nobody_at_the_keyboard,
    released_at_the_end,
    until_nothing_is_left_behind,
)
from workers.environment import foreign_calls, foreign_threads
from workers.worker.handlers.extractor import Extracted, SourceToRead, extract_and_check
from workers.worker.handlers.extractors import DocketEntryExtractor, Extractors

TEXT = "Order Granting Motion to Dismiss (Related Doc # 12 )"


def source(text: str = TEXT) -> SourceToRead:
    return SourceToRead("doc-1", SourceText(text, "ecf_entry_text"))


class Answering:
    """An extractor that answers as it was told to."""

    limit_s = 20.0

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def extract(self, _: SourceToRead) -> Extracted:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "hangs":
            await anyio.sleep_forever()
        return Extracted(self.answer)


def document(words: str = "12") -> dict[str, Any]:
    start = TEXT.index("12")
    value = {"field": "relates_to", "value": "12", "start": start, "end": start + 2, "words": words}
    completeness = {"succeeded_fields": ["relates_to"], "failed_fields": []}
    return {"extractor": "model", "values": [value], "extraction_completeness": completeness}


def many() -> ExtractionResult:
    """A result of the right form, of more than a megabyte."""
    text = "x" * 4096
    value = {"field": "words", "value": "x" * 1024, "start": 0, "end": 4096, "words": text}
    completeness = {"succeeded_fields": ["words"]}
    return ExtractionResult.model_validate(
        {"extractor": "e", "values": [value] * 300, "extraction_completeness": completeness},
        strict=False,
    )


async def refusal(answer: Any, text: str = TEXT) -> str:
    with pytest.raises(ExtractionRefused) as caught:
        await extract_and_check(Answering(answer), source(text))
    return caught.value.code


async def test_the_rules_for_docket_entries_are_an_extractor():
    result = (await extract_and_check(DocketEntryExtractor(), source())).result
    assert {value.field: value.value for value in result.values} == {
        "document_number": "12",
        "relates_to": "12",
        "motion": "dismiss",
        "disposition": "granted",
    }
    assert result.state == "succeeded"


async def test_a_document_that_the_text_proves_becomes_a_result():
    checked = await extract_and_check(Answering(document()), source())
    assert [value.words for value in checked.result.values] == ["12"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (document(words="13"), "extraction_span_invented"),
        (document() | {"values": [document()["values"][0]] * 600}, "extraction_result_invalid"),
        ({"text": "x" * 5_000_000}, "extraction_result_invalid"),
        ("x" * 5_000_000, "extraction_result_invalid"),
        (ValueError("a defect of the extractor"), "extractor_failed"),
    ],
)
async def test_an_answer_that_proves_nothing_is_refused(answer, code):
    assert await refusal(answer) == code


async def test_a_result_of_megabytes_is_refused_although_its_text_proves_it():
    assert await refusal(many(), "x" * 4096) == "extraction_result_too_large"


async def test_an_extractor_that_hangs_is_cancelled(monkeypatch):
    monkeypatch.setattr(Answering, "limit_s", 0.01)
    assert await refusal("hangs") == "extractor_timed_out"


def test_an_extractor_is_found_by_the_kind_of_content():
    extractors = Extractors()
    assert extractors.serving("ecf_entry_text") == "docket_entry_rules"
    assert extractors.serving("anything else") == "model"
    for name, code in (("model", "model_not_configured"), ("nobody's", "extractor_unknown")):
        with pytest.raises(ExtractionRefused) as caught:
            extractors.get(name)
        assert caught.value.code == code


@pytest.mark.parametrize("name", ASYNC_ENDS)
async def test_however_an_extractor_ends_it_has_failed_with_its_traceback(name: str):
    class Odd:
        limit_s = 20.0
        extract = staticmethod(ASYNC_ENDS[name])

    with nobody_at_the_keyboard(), pytest.raises(ExtractionRefused) as refused:
        await extract_and_check(Odd(), source())
    assert refused.value.code == "extractor_failed"
    assert refused.value.__cause__ is not None
    assert "Traceback" in traceback_of(refused.value.__cause__)


@pytest.mark.parametrize("name", ENDS)
async def test_however_the_limit_or_the_answer_of_an_extractor_ends_it_has_failed(name: str):
    class NoLimit:
        limit_s = property(ENDS[name])

        async def extract(self, _: SourceToRead) -> Extracted:
            raise AssertionError

    class OddAnswer(dict[str, Any]):
        items = __iter__ = __len__ = __getitem__ = ENDS[name]  # type: ignore[assignment]

    for extractor in (NoLimit(), Answering(OddAnswer(a=1))):
        with nobody_at_the_keyboard(), pytest.raises(ExtractionRefused) as caught:
            await extract_and_check(extractor, source())
        assert caught.value.code in ("extractor_failed", "extraction_result_invalid")


@pytest.mark.parametrize("answer", [None, 7, "text", [], {}])
async def test_what_is_no_answer_of_an_extractor_is_its_failure(answer: Any):
    class Odd(Answering):
        async def extract(self, _: SourceToRead) -> Any:
            return answer

    with pytest.raises(ExtractionRefused, match="TypeError") as caught:
        await extract_and_check(Odd(None), source())
    assert caught.value.code == "extractor_failed"


@pytest.mark.parametrize("name", ASYNC_HANGS)
async def test_an_extractor_that_does_not_return_is_refused_with_its_place(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(foreign_calls, "END_S", 0.02)
    monkeypatch.setattr(foreign_threads, "LEFT_BEHIND", [])

    class Odd:
        limit_s = 0.02
        extract = staticmethod(ASYNC_HANGS[name])

    with released_at_the_end(), pytest.raises(ExtractionRefused) as caught:
        await extract_and_check(Odd(), source())
    await until_nothing_is_left_behind()
    assert caught.value.code == "extractor_timed_out"
    assert caught.value.__cause__ is not None
    assert f"in {ASYNC_HANGS[name].__name__}" in traceback_of(caught.value.__cause__)


async def test_an_extraction_that_is_cancelled_is_cancelled():
    with anyio.move_on_after(0.01) as limit:
        await extract_and_check(Answering("hangs"), source())
    assert limit.cancelled_caught
