"""Why a hypothesis of a belief session stands, or was struck: its eliminations and their words."""

from collections.abc import Iterable

from kernel.audit.provenance import Named, Step
from kernel.audit.provenance_words import words_at
from kernel.belief.events import BeliefEvent
from kernel.belief_anchors import anchor_of
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.spans import Span

EVENTS_MAX = 2000
"""First entries of a session's trail that are searched for what struck a hypothesis."""

ELIMINATIONS_MAX = 100
"""Eliminations that one step names."""

STRUCK_SHOWN_MAX = 20

_JUSTIFIED = ("rule", "reason")


def survivor_step(view: LedgerView, named: Named, session_id: str, hypothesis: str) -> Step | None:
    """Return why a hypothesis stands: what struck the others; or what struck it.

    None where the session was not declared over it.
    """
    events = _events(view, session_id)
    if not events or hypothesis not in events[0].payload["hypotheses"]:
        return None
    struck = [event for event in events if event.delta["eliminated"]]
    by = [event for event in struck if hypothesis in event.delta["eliminated"]]
    says = _session_says(view, session_id) | {
        "hypothesis": hypothesis,
        "state": "struck" if by else "survives",
    }
    return Step(named, says, (*_named(by or struck), Named("session", session_id)))


def session_step(view: LedgerView, named: Named) -> Step | None:
    """Return where a session stands, what has struck its hypotheses, and its newest anchor."""
    events = _events(view, named.record_id)
    if not events:
        return None
    says = _session_says(view, named.record_id)
    metadata = events[0].payload.get("metadata")
    says |= {
        name: value
        for name, value in (metadata.items() if isinstance(metadata, dict) else ())
        if isinstance(value, str)
    }
    struck = _named(event for event in events if event.delta["eliminated"])
    return Step(named, says, (*struck, *_anchored_by(view, named.record_id)))


def elimination_step(view: LedgerView, named: Named) -> Step | None:
    """Return what an entry of a trail struck, and on which words of which source."""
    rows = view.tables.select(schema.belief_events, {"event_id": named.record_id}, limit=1)
    if not rows:
        return None
    event = BeliefEvent.from_bytes(rows[0]["event_bytes"])
    stated = event.payload.get("justification")
    justification: Document = stated if isinstance(stated, dict) else {}
    says: Document = {
        "verb": event.verb,
        "struck": event.delta["eliminated"][:STRUCK_SHOWN_MAX],
        "at": event.ts,
        "event_hash": event.event_hash,
    }
    says |= {name: justification[name] for name in _JUSTIFIED if name in justification}
    span = _span_of(justification)
    words = () if span is None else (words_at(view, span),)
    sources = []
    if span is not None and view.node(span.source_ref) is not None:
        sources = [Named("source", span.source_ref)]
    # Anchors of a session's chain come one after the other; the newest anchors all of it.
    return Step(named, says, (*sources, Named("session", event.session_id)), words)


def _events(view: LedgerView, session_id: str) -> list[BeliefEvent]:
    stored = view.belief_events(session_id, limit=EVENTS_MAX)
    return [BeliefEvent.from_bytes(content) for content in stored]


def _session_says(view: LedgerView, session_id: str) -> Document:
    row = view.belief_session(session_id) or {}
    says = {name: row.get(name) for name in ("title", "n_universe", "n_survivors", "n_events")}
    return {"session_id": session_id, **says}


def _named(events: Iterable[BeliefEvent]) -> tuple[Named, ...]:
    named = [Named("elimination", event.event_id) for event in events]
    return tuple(named[:ELIMINATIONS_MAX])


def _span_of(justification: Document) -> Span | None:
    """Return the stretch that a justification points to, where it has such fields."""
    ref = justification.get("source_node_id")
    offset, length = justification.get("offset"), justification.get("length")
    if not isinstance(ref, str) or not isinstance(offset, int) or not isinstance(length, int):
        return None
    return Span(ref, offset, offset + length) if offset >= 0 and length > 0 else None


def _anchored_by(view: LedgerView, session_id: str) -> tuple[Named, ...]:
    anchor = anchor_of(view, session_id)
    row = None if anchor is None else view.log_row_at(anchor["ec_sequence_number"])
    return () if row is None else (Named("operation", row["operation_id"]),)
