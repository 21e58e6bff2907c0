"""Reads the text of a source as an extraction reads it, and the digest by which a change is seen.

A text is read only where its isolation holds (§10): its content stands inside markers, and its
record says that everything of it was wrapped. A run is about one text: a write to the source that
leaves its text as it was ends no run (INV-EXT-6, decision kernel/0340).
"""

from dataclasses import dataclass

from kernel.ledger.ledger import LedgerView
from kernel.model.extraction_result import EXTRACTION_TEXT_CHARS_MAX, ExtractionRefused
from kernel.model.node_kinds import FRAMING_KINDS
from kernel.values.canonical import sha256_hex
from kernel.values.untrusted import CONTENT_FLAG, METADATA_FLAG, unwrap_untrusted


@dataclass(frozen=True, slots=True)
class SourceText:
    """What an extraction reads of a source."""

    text: str
    content_kind: str
    """By it an extractor is chosen; empty where the source states none."""

    @property
    def sha256(self) -> str:
        """The digest of the text, in UTF-8."""
        return sha256_hex(self.text.encode())


def read_source(view: LedgerView, source_ref: str) -> SourceText:
    """Return the text of a source as it is now.

    Raises:
        ExtractionRefused: there is no such source, it is not isolated, or it is too large.
    """
    node = view.node(source_ref)
    if node is None or node["state"] != "active" or node["node_kind"] in FRAMING_KINDS:
        raise ExtractionRefused("extraction_source_unavailable", f"no source {source_ref}")
    payload = node["payload"]
    content = payload.get("content")
    if not isinstance(content, str):
        raise ExtractionRefused("extraction_source_unavailable", f"{source_ref} has no text")
    try:
        text = unwrap_untrusted(content)
    except ValueError:
        text = None
    if text is None or not all(payload.get(flag) is True for flag in (CONTENT_FLAG, METADATA_FLAG)):
        raise ExtractionRefused("extraction_source_not_isolated", f"{source_ref} is not isolated")
    if len(text) > EXTRACTION_TEXT_CHARS_MAX:
        raise ExtractionRefused(
            "extraction_source_too_large",
            f"{len(text)} characters; at most {EXTRACTION_TEXT_CHARS_MAX} are read",
        )
    kind = payload.get("content_kind")
    return SourceText(text, kind if isinstance(kind, str) else "")
