"""Reads the texts that spans point into, and how long they are (§9, §12.3).

A source's text is its payload's `content` or, where it has none, its `text`, read back from its
isolation markers. It is counted in Unicode code points.
"""

from collections.abc import Mapping
from typing import Any

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.model.node_kinds import FRAMING_KINDS
from kernel.values.spans import span_named_by
from kernel.values.untrusted import text_of

_RECORDED_IN = (
    schema.filing_unit_text_versions,
    schema.filing_unit_versions,
    schema.filing_units,
)
_FIELDS = ("content", "text")


def text_at(view: LedgerView, ref: str) -> str | None:
    """Return the text of a source that is on the record; None where there is no such text."""
    return None if "\x00" in ref else _text_in(_payload_at(view, ref))


def _text_in(payload: Mapping[str, Any] | None) -> str | None:
    stated = (payload.get(name) for name in _FIELDS) if payload is not None else iter(())
    text = next((text for text in stated if isinstance(text, str)), None)
    return None if text is None else text_of(text)


def _payload_at(view: LedgerView, ref: str) -> Mapping[str, Any] | None:
    node = view.node(ref)
    if node is not None:
        # What frames is no evidence (EC3 of §7.7).
        return {} if node["node_kind"] in FRAMING_KINDS else node["payload"]
    for table in _RECORDED_IN:
        record = view.record(table, ref)
        if record is not None:
            return dict(record["payload"])
    return None


class Texts:
    """The lengths of sources' texts, read once each for one envelope."""

    def __init__(self, view: LedgerView, drafts: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the payloads of nodes as the envelope has left them so far."""
        self._view = view
        self._drafts = drafts
        self._lengths: dict[str, int | None] = {}

    def length(self, ref: str) -> int | None:
        """Return how many characters a source has, None where there is no such text."""
        if ref not in self._lengths:
            self._lengths[ref] = self._length(ref)
        return self._lengths[ref]

    def _length(self, ref: str) -> int | None:
        if "\x00" in ref:
            # No store holds such a name, and not every store can be asked for it.
            return None
        payload = self._drafts[ref] if ref in self._drafts else _payload_at(self._view, ref)
        if payload is not None:
            text = _text_in(payload)
            return None if text is None else len(text)
        span = span_named_by(ref)
        if span is None or span.end is None:
            return None
        whole = self.length(span.source_ref)
        return None if whole is None or span.end > whole else span.end - span.start
