"""The port of whatever reads fields from a source's text, and how it is called (§16)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import orjson

from actors.errors import ModelError
from kernel.model.extraction_result import (
    ExtractionRefused,
    ExtractionResult,
    check_extraction,
    read_extraction,
)
from kernel.model.model_output import CapturedOutput
from kernel.work.extraction_sources import SourceText

EXTRACTION_S_MAX = 60.0
RESULT_BYTES_MAX = 256 * 1024
"""The largest result that is handed in, as JSON: it stands in one operation and its claims."""


@dataclass(frozen=True, slots=True)
class SourceToRead:
    """A source that an extractor is given, and what is wanted of it."""

    source_ref: str
    source: SourceText
    fields: tuple[str, ...] = ()
    """The wanted fields, for an extractor that has none of its own; empty for its choice."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What an extractor answered."""

    answer: ExtractionResult | Mapping[str, Any]
    """A result, or the document as somebody else wrote it."""

    outputs: tuple[CapturedOutput, ...] = ()
    """What a model said on the way."""


@dataclass(frozen=True, slots=True)
class CheckedExtraction:
    """A result that its text proves."""

    result: ExtractionResult
    outputs: tuple[CapturedOutput, ...] = ()


class Extractor(Protocol):
    """Reads a text; it writes nothing, so it may be asked again for the same text."""

    @property
    def limit_s(self) -> float:
        """The seconds after which it is cancelled."""

    async def extract(self, source: SourceToRead) -> Extracted:
        """Return what the text says; cancelled after `limit_s`.

        An extractor that hands on what somebody else wrote returns the document as it came: only
        `checked_extraction` makes a result of it.

        Raises:
            ExtractionRefused: it cannot read this source, with the code that says why.
            ModelError: the model that it asks did not answer as it should.
        """


async def checked_extraction(extractor: Extractor, source: SourceToRead) -> CheckedExtraction:
    """Have a text read, and return the result if the text proves it.

    Raises:
        ExtractionRefused: the extractor refused, raised, took too long, or answered too much or
            what the text does not prove. Nothing was written anywhere.
    """
    answered: Extracted | None = None
    with anyio.move_on_after(extractor.limit_s):
        try:
            answered = await extractor.extract(source)
        except ExtractionRefused:
            raise
        except ModelError as error:
            raise ExtractionRefused(error.code, str(error)) from error  # type: ignore[arg-type]
        except Exception as error:
            # An extractor is a foreign program: whatever it raises is its failure and not ours.
            raise ExtractionRefused("extractor_failed", type(error).__name__) from error
    if answered is None:
        raise ExtractionRefused(
            "extractor_timed_out", f"no answer within {extractor.limit_s:g} seconds"
        )
    return CheckedExtraction(_checked(answered, source.source.text), answered.outputs)


def _checked(answered: Extracted, text: str) -> ExtractionResult:
    answer = answered.answer
    if isinstance(answer, ExtractionResult):
        check_extraction(answer, text)
        result = answer
    else:
        result = read_extraction(answer, text)
    size = len(orjson.dumps(result.model_dump(mode="json")))
    if size > RESULT_BYTES_MAX:
        message = f"a result of {size} bytes; at most {RESULT_BYTES_MAX} are taken"
        raise ExtractionRefused("extraction_result_too_large", message)
    return result
