"""The rules for docket entries as an extractor."""

from kernel.model.extraction_result import ExtractionResult
from workers.dockets.fields import extract_fields


class DocketEntryExtractor:
    """Reads the text of a docket entry; an `Extractor` that asks nobody."""

    async def extract(self, text: str) -> ExtractionResult:
        """Return the fields that the text states."""
        return extract_fields(text)
