"""Picks the extractor that serves a source, by tables of content kinds.

The claims of an extractor have one authority (K13). That of the rules is the share of their values
that were right when thirty entries were read by hand (`workers/dockets/REFERENCE.md`). Nobody has
measured a model here, so its claims have the mean of the prior.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import anyio.to_thread

from actors.synthesis.field_extraction import FieldExtraction
from kernel.model.extraction_result import ExtractionRefused, ExtractionResult
from workers.worker.handlers.extractor import (
    EXTRACTION_S_MAX,
    BuiltInExtractor,
    Extracted,
    Extractor,
    SourceToRead,
)

DOCKET_ENTRY_RULES: Final = "docket_entry_rules"
MODEL: Final = "model"

EXTRACTOR_OF: Mapping[str, str] = MappingProxyType({"ecf_entry_text": DOCKET_ENTRY_RULES})
"""By content kind; of others `MODEL`."""

UNMEASURED: Final = 0.5
CLAIM_AUTHORITY: Mapping[str, float] = MappingProxyType(
    {DOCKET_ENTRY_RULES: 0.97, MODEL: UNMEASURED}
)
ASKING_MODEL = frozenset({MODEL})


class DocketEntryExtractor(BuiltInExtractor):
    """The rules for docket entries; it asks nobody."""

    limit_s = EXTRACTION_S_MAX

    async def extract(self, source: SourceToRead) -> Extracted:
        """Return the fields that the text states; a thread reads, so that others go on."""
        result = await anyio.to_thread.run_sync(
            _read_entry, source.source.text, abandon_on_cancel=True
        )
        return Extracted(result)


def _read_entry(text: str) -> ExtractionResult:
    # A worker that meets no docket does not load the rules.
    from workers.dockets.fields import extract_fields  # noqa: PLC0415 - the reason above

    return extract_fields(text)


class ModelExtractor(BuiltInExtractor):
    """Asks the configured model."""

    def __init__(self, asking: FieldExtraction, call_timeout_s: float) -> None:
        self._asking = asking
        self.limit_s = call_timeout_s + EXTRACTION_S_MAX

    async def extract(self, source: SourceToRead) -> Extracted:
        """Return what the model reads, as it wrote it."""
        read = await self._asking.read(source.source_ref, source.fields)
        return Extracted(read.document, read.outputs)


@dataclass(frozen=True, slots=True)
class ExtractorKind:
    """An extractor, and the authority of what it reads."""

    extractor: Extractor
    claim_authority: float


class Extractors:
    """The extractors of one worker."""

    def __init__(
        self,
        model: Extractor | None = None,
        others: Mapping[str, Extractor] = MappingProxyType({}),
    ) -> None:
        """`model` asks the configured model, None where none is configured.

        `others` may say which kinds of contents they serve (`content_kinds`) and which authority
        what they read has (`claim_authority`).
        """
        self._serving = dict(EXTRACTOR_OF)
        for name, extractor in others.items():
            self._serving |= dict.fromkeys(getattr(extractor, "content_kinds", ()), name)
        known: dict[str, Extractor] = {DOCKET_ENTRY_RULES: DocketEntryExtractor(), **others}
        self._known = known if model is None else known | {MODEL: model}
        self._authority = {
            name: CLAIM_AUTHORITY.get(name, getattr(extractor, "claim_authority", UNMEASURED))
            for name, extractor in self._known.items()
        }

    def serving(self, content_kind: str) -> str:
        """Return the name of the extractor that serves a kind of content."""
        return self._serving.get(content_kind, MODEL)

    def asks_model(self, name: str) -> bool:
        """Tell whether an extractor waits for a model, so that others run beside it."""
        return name in ASKING_MODEL

    def lacks_model(self, name: str) -> bool:
        """Tell whether an extractor needs a model and this worker has none."""
        return name in ASKING_MODEL and name not in self._known

    def get(self, name: str) -> ExtractorKind:
        """Return an extractor by its name.

        Raises:
            ExtractionRefused: `model_not_configured`, or `extractor_unknown`.
        """
        if self.lacks_model(name):
            raise ExtractionRefused("model_not_configured", "this worker has no model")
        extractor = self._known.get(name)
        if extractor is None:
            raise ExtractionRefused("extractor_unknown", f"no extractor is called {name!r}")
        return ExtractorKind(extractor, self._authority[name])
