"""Describes a session on one page: where it stands, its trail, its operations, its gateway."""

from dataclasses import dataclass

from actors.commit.thought_units import MerkleRootDocument
from actors.errors import ThoughtNotTaken
from actors.sharding.assignment import shard_of
from kernel.audit.operations import AuditFilter
from kernel.ledger.shards import shards_of
from kernel.records.access.readable_view import ReadableView
from workers.views.audit import OperationPageDocument, newest_operations_page
from workers.views.session_course import SessionCourse, session_course
from workers.views.session_lists import (
    SessionSummaryDocument,
    TrailDocument,
    session_summary,
    session_trail,
)
from workers.views.thoughts import ThoughtsDocument, root_view, thoughts_document

OPERATIONS_SHOWN = 20
THOUGHTS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class SessionThoughts:
    """The first thoughts of a session, where it stands, and its seal."""

    page: ThoughtsDocument
    root: MerkleRootDocument


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as the record has it."""

    summary: SessionSummaryDocument | None
    """None where it declared no hypotheses."""

    trail: TrailDocument
    first: int
    """The number of entries before those of the trail that are shown."""

    operations: OperationPageDocument
    owner: str | None
    """The gateway that owns it, empty where nobody does; None where gateways share nothing."""

    course: SessionCourse | None
    thoughts: SessionThoughts | None
    """None where the session has no thoughts."""


def session_view(
    view: ReadableView, session_id: str, *, before: int | None, limit: int, step: int | None = None
) -> SessionView | None:
    """Return a session with the entries of its trail up to the number `before`, or the newest.

    Its hypotheses are shown after `step`, or as they stand. None where the record knows neither
    hypotheses nor operations nor thoughts of it.
    """
    summary = session_summary(view, session_id)
    of_session = AuditFilter(session_id=session_id)
    operations = newest_operations_page(view, of_session, None, OPERATIONS_SHOWN)
    thoughts = _thoughts(view, session_id)
    if summary is None and thoughts is None and not operations["operations"]:
        return None
    entries = 0 if summary is None else summary["n_events"]
    last = entries if before is None else min(before, entries)
    first = max(0, last - limit)
    trail = session_trail(view, session_id, first, last - first)
    shards = shards_of(view)
    owner = shards[shard_of(session_id, len(shards))].owner if shards else None
    course = session_course(view, session_id, step)
    return SessionView(summary, trail, first, operations, owner, course, thoughts)


def _thoughts(view: ReadableView, session_id: str) -> SessionThoughts | None:
    try:
        page = thoughts_document(view, session_id, after=0, limit=THOUGHTS_SHOWN)
    except ThoughtNotTaken:
        return None
    return SessionThoughts(page, root_view(view, session_id))
