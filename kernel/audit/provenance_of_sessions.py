"""Explains why a hypothesis of a belief session stands or was struck: eliminations and words.

A session that was succeeded is told together with the one that goes on, and with the words that
undid its ground; the newest of the line says what stands.
"""

from collections.abc import Iterable

from kernel.audit.provenance import Named, Step, words_at
from kernel.belief.anchors import anchor_of
from kernel.belief.events import BeliefEvent
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.values.spans import Span

EVENTS_MAX = 2000
"""First entries of a session's trail that are searched for what struck a hypothesis."""

ELIMINATIONS_MAX = 100
"""Eliminations that one step names."""

STRUCK_SHOWN_MAX = 20

SUCCESSORS_MAX = 100
"""Sessions of a line that are followed to the newest."""

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
    newest = _newest(view, session_id)
    stands = () if newest == session_id else (Named("survivor", f"{newest}/{hypothesis}"),)
    line = _links_of_session(view, events[0])
    return Step(
        named,
        says,
        (*_names_of_eliminations(by or struck), *stands, *line, Named("session", session_id)),
    )


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
    struck = _names_of_eliminations(event for event in events if event.delta["eliminated"])
    line = _links_of_session(view, events[0])
    return Step(named, says, (*struck, *line, *_anchoring_operation(view, named.record_id)))


def elimination_step(view: LedgerView, named: Named) -> Step | None:
    """Return what an entry of a trail struck, and on which words of which source."""
    rows = view.tables.scan(
        TableQuery(schema.belief_events, {"event_id": named.record_id}, limit=1)
    )
    if not rows:
        return None
    event = BeliefEvent.from_bytes(rows[0]["event_bytes"])
    is_closing = event.verb == "SUCCEED_SESSION"
    stated = event.payload.get("cause" if is_closing else "justification")
    justification: Document = stated if isinstance(stated, dict) else {}
    says: Document = {"verb": event.verb, "at": event.ts, "event_hash": event.event_hash}
    if is_closing:
        undone = justification.get("undone")
        says |= {
            "successor_id": event.payload["successor_id"],
            "carried": len(event.payload["carried"]),
            "undone": undone[:STRUCK_SHOWN_MAX] if isinstance(undone, list) else None,
            "reason": event.payload["reason"],
        }
    else:
        says["struck"] = event.delta["eliminated"][:STRUCK_SHOWN_MAX]
    says |= {name: justification[name] for name in _JUSTIFIED if name in justification}
    span = span_of_justification(justification)
    words = () if span is None else (words_at(view, span),)
    sources = []
    if span is not None and view.node(span.source_ref) is not None:
        sources = [Named("source", span.source_ref)]
    # Anchors of a session's chain come one after the other; the newest anchors all of it.
    sessions = [event.session_id, *([event.payload["successor_id"]] if is_closing else [])]
    return Step(named, says, (*sources, *(Named("session", name) for name in sessions)), words)


def _events(view: LedgerView, session_id: str) -> list[BeliefEvent]:
    stored = view.belief_events(session_id, limit=EVENTS_MAX)
    return [BeliefEvent.from_bytes(content) for content in stored]


def _session_says(view: LedgerView, session_id: str) -> Document:
    row = view.belief_session(session_id) or {}
    says = {name: row.get(name) for name in ("title", "n_universe", "n_survivors", "n_events")}
    newest = _newest(view, session_id)
    if newest == session_id:
        return {"session_id": session_id, **says}
    standing = view.belief_session(newest) or {}
    return {
        "session_id": session_id,
        **says,
        "state_of_session": "closed",
        "stands_in": newest,
        "n_survivors_there": standing.get("n_survivors"),
    }


def _closing(view: LedgerView, session_id: str) -> BeliefEvent | None:
    """Return the event that closed a session, None of one that is open or not there."""
    row = view.belief_session(session_id)
    last = [] if row is None else view.belief_events(session_id, first=row["n_events"] - 1, limit=1)
    event = BeliefEvent.from_bytes(last[0]) if last else None
    return event if event is not None and event.verb == "SUCCEED_SESSION" else None


def _newest(view: LedgerView, session_id: str) -> str:
    """Return the session in which a session's line stands, itself where it is open."""
    for _ in range(SUCCESSORS_MAX):
        closing = _closing(view, session_id)
        if closing is None:
            break
        session_id = closing.payload["successor_id"]
    return session_id


def _links_of_session(view: LedgerView, declared: BeliefEvent) -> tuple[Named, ...]:
    """Name the events that close a session, and the one that it succeeds."""
    closing = _closing(view, declared.session_id)
    before = declared.payload.get("succeeds")
    ids = [] if closing is None else [closing.event_id]
    if isinstance(before, dict):
        ids.append(before["event_id"])
    return tuple(Named("elimination", event_id) for event_id in ids)


def _names_of_eliminations(events: Iterable[BeliefEvent]) -> tuple[Named, ...]:
    named = [Named("elimination", event.event_id) for event in events]
    return tuple(named[:ELIMINATIONS_MAX])


def span_of_justification(justification: Document) -> Span | None:
    """Return the stretch that a justification points to, where it has such fields."""
    ref = justification.get("source_node_id")
    offset, length = justification.get("offset"), justification.get("length")
    if not isinstance(ref, str) or not isinstance(offset, int) or not isinstance(length, int):
        return None
    return Span(ref, offset, offset + length) if offset >= 0 and length > 0 else None


def _anchoring_operation(view: LedgerView, session_id: str) -> tuple[Named, ...]:
    anchor = anchor_of(view, session_id)
    row = None if anchor is None else view.log_row_at(anchor["ec_sequence_number"])
    return () if row is None else (Named("operation", row["operation_id"]),)
