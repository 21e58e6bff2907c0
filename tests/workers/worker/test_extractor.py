"""What an extractor may answer: the rules for dockets, a model's document, and what is refused."""

from typing import Any

import anyio
import pytest

from kernel.model.extraction_result import EXTRACTION_TEXT_CHARS_MAX, ExtractionRefused
from workers.dockets.extractor import DocketEntryExtractor
from workers.worker.handlers import extractor as port
from workers.worker.handlers.extractor import checked_extraction

TEXT = "Order Granting Motion to Dismiss (Related Doc # 12 )"


class Answering:
    """An extractor that answers as it was told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def extract(self, text: str) -> Any:  # noqa: ARG002
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "hangs":
            await anyio.sleep_forever()
        return self.answer


def document(words: str = "12") -> dict[str, Any]:
    start = TEXT.index("12")
    value = {"field": "relates_to", "value": "12", "start": start, "end": start + 2, "words": words}
    completeness = {"succeeded_fields": ["relates_to"], "failed_fields": []}
    return {"extractor": "model", "values": [value], "extraction_completeness": completeness}


async def refusal(answer: Any, text: str = TEXT) -> str:
    with pytest.raises(ExtractionRefused) as caught:
        await checked_extraction(Answering(answer), text)
    return caught.value.code


async def test_the_rules_for_docket_entries_are_an_extractor():
    result = await checked_extraction(DocketEntryExtractor(), TEXT)
    assert {value.field: value.value for value in result.values} == {
        "document_number": "12",
        "relates_to": "12",
        "motion": "dismiss",
        "disposition": "granted",
    }
    assert result.state == "succeeded"


async def test_a_document_that_the_text_proves_becomes_a_result():
    result = await checked_extraction(Answering(document()), TEXT)
    assert [value.words for value in result.values] == ["12"]


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


async def test_an_extractor_that_hangs_is_cancelled(monkeypatch):
    monkeypatch.setattr(port, "EXTRACTION_S_MAX", 0.01)
    assert await refusal("hangs") == "extractor_timed_out"


async def test_a_text_beyond_its_limit_is_not_read_at_all():
    text = "x" * (EXTRACTION_TEXT_CHARS_MAX + 1)
    assert await refusal(ValueError("was asked"), text) == "extraction_source_too_large"
