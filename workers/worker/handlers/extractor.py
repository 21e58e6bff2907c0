"""Declares the port of whatever reads fields from a source's text, and how it is called (§16)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

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
from kernel.values.foreign_code import call_foreign, cause_of
from kernel.work.extraction_sources import SourceText
from workers.environment.foreign_calls import await_foreign
from workers.environment.foreign_threads import ForeignCodeHangs

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
        `extract_and_check` makes a result of it.

        Raises:
            ExtractionRefused: it cannot read this source, with the code that says why.
            ModelError: the model that it asks did not answer as it should.
        """


class BuiltInExtractor:
    """An extractor of this distribution, which is called as it is."""


async def extract_and_check(extractor: Extractor, source: SourceToRead) -> CheckedExtraction:
    """Have a text read, and return the result if the text proves it.

    Raises:
        ExtractionRefused: the extractor refused, raised, took too long, or answered too much or
            what the text does not prove. Nothing was written anywhere.
    """
    answered: Any = None
    try:
        limit_s = call_foreign(lambda: float(extractor.limit_s))
        is_ours = isinstance(extractor, BuiltInExtractor)
        with anyio.move_on_after(limit_s if is_ours else None) as limit:
            if is_ours:
                answered = await extractor.extract(source)
            else:
                name = f"the extractor for {source.source_ref}"
                answered = await await_foreign(name, extractor.extract, source, limit_s=limit_s)
    except ExtractionRefused:
        raise
    except ForeignCodeHangs as error:
        raise ExtractionRefused("extractor_timed_out", str(error)) from error
    except ModelError as error:
        raise ExtractionRefused(error.code, str(error)) from error  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - whatever it raises is its failure and not ours
        _fail(error)
    if limit.cancelled_caught:
        raise ExtractionRefused("extractor_timed_out", f"no answer within {limit_s:g} seconds")
    if not isinstance(answered, Extracted):
        _fail(TypeError(f"it returned a {type(answered).__name__}, no Extracted"))
    try:
        result = call_foreign(_check_result, answered, source.source.text)
    except ExtractionRefused:
        raise
    except Exception as error:  # noqa: BLE001 - an answer may be a program, too
        _fail(error)
    return CheckedExtraction(result, answered.outputs)


def _fail(error: Exception) -> NoReturn:
    raise ExtractionRefused("extractor_failed", type(cause_of(error)).__name__) from error


def _check_result(answered: Extracted, text: str) -> ExtractionResult:
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
