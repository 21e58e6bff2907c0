"""The port of whatever reads fields from a source's text, and how it is called (§16)."""

from collections.abc import Mapping
from typing import Any, Protocol

import anyio

from kernel.model.extraction_result import (
    EXTRACTION_TEXT_CHARS_MAX,
    ExtractionRefused,
    ExtractionResult,
    check_extraction,
    read_extraction,
)

EXTRACTION_S_MAX = 60.0


class Extractor(Protocol):
    """Reads a text; it writes nothing, so it may be asked again for the same text."""

    async def extract(self, text: str) -> ExtractionResult | Mapping[str, Any]:
        """Return what the text says; cancelled after `EXTRACTION_S_MAX`.

        An extractor that hands on what somebody else wrote returns the document as it came: only
        `checked_extraction` makes a result of it.
        """


async def checked_extraction(extractor: Extractor, text: str) -> ExtractionResult:
    """Have a text read, and return the result if the text proves it.

    Raises:
        ExtractionRefused: the text is too large, or the extractor raised, took too long, or
            answered what the text does not prove. Nothing was written anywhere.
    """
    if len(text) > EXTRACTION_TEXT_CHARS_MAX:
        raise ExtractionRefused(
            "extraction_source_too_large",
            f"{len(text)} characters; at most {EXTRACTION_TEXT_CHARS_MAX} are read",
        )
    answer: ExtractionResult | Mapping[str, Any] | None = None
    with anyio.move_on_after(EXTRACTION_S_MAX):
        try:
            answer = await extractor.extract(text)
        except Exception as error:
            # An extractor is a foreign program: whatever it raises is its failure and not ours.
            raise ExtractionRefused("extractor_failed", type(error).__name__) from error
    if answer is None:
        raise ExtractionRefused(
            "extractor_timed_out", f"no answer within {EXTRACTION_S_MAX:.0f} seconds"
        )
    if isinstance(answer, ExtractionResult):
        check_extraction(answer, text)
        return answer
    return read_extraction(answer, text)
