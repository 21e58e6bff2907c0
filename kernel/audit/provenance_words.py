"""The words of sources from which something on the record was drawn."""

from kernel.audit.provenance import Words
from kernel.ledger.ledger import LedgerView
from kernel.records.texts import text_at
from kernel.values.spans import Span

WORDS_CHARS_MAX = 4000
"""Characters of a stretch that one answer repeats; its length says how many there are."""


def words_at(view: LedgerView, span: Span) -> Words:
    """Return the words of a stretch; without an end, of all that follows."""
    text = text_at(view, span.source_ref)
    if text is None or (span.end is not None and span.end > len(text)):
        length = 0 if span.end is None else span.end - span.start
        return Words(span.source_ref, span.start, length, None)
    words = text[span.start : span.end]
    return Words(span.source_ref, span.start, len(words), words[:WORDS_CHARS_MAX])


def words_of_source(view: LedgerView, ref: str) -> tuple[Words, ...]:
    """Return the whole text of a source; nothing where it has none."""
    words = words_at(view, Span(ref))
    return () if words.text is None else (words,)
