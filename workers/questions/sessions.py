"""Asks for belief sessions as the record has them: which there are, where one stands, its trail."""

from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from kernel.audit.sessions_asof import session_as_of
from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import At, Limit, Name, PageByName
from workers.questions.question import Question, QuestionRefused, existing
from workers.views.past import sessions_as_of
from workers.views.session_lists import (
    NewestSessionsDocument,
    TrailDocument,
    find_sessions,
    recorded_snapshot,
    session_state,
    session_trail,
)

EVENTS_MAX: Final = 10_000_000
SURVIVORS_MAX: Final = 1000
UNKNOWN: Final = "SESSION_NOT_FOUND"


class ListSessions(PageByName):
    """List belief sessions, the last changed first; go on while `next_after` is given.

    Each has its title, how many hypotheses are left, and whether it has ended. With `at` they are
    shown as they stood behind that row of the log. One with a
    `successor_id` is closed, and goes on as that one. A page may be empty and not the last.
    """

    paths: ClassVar = ("/v1/sessions",)
    rows: ClassVar = "sessions"

    words: Annotated[Name | None, Field(description="Part of an id or a title.")] = None
    at: At = None

    def answer(self, view: ReadableView) -> NewestSessionsDocument:
        """Return a page of sessions."""
        if self.at is not None:
            if self.words is not None:
                raise QuestionRefused(
                    "words are looked for in sessions as they are now", code="INVALID_REQUEST"
                )
            return sessions_as_of(view, self.at, after=self.after, limit=self.limit)
        return find_sessions(view, self.words, after=self.after, limit=self.limit)


class GetSession(Question):
    """Show where a belief session stands: its survivors, its obligation, the head of its trail.

    With `at` it is shown as it stood behind that row of the log.
    """

    session_id: Name
    survivors: Annotated[int, Field(ge=0, le=SURVIVORS_MAX, description="How many are listed.")] = (
        50
    )
    at: At = None

    def answer(self, view: ReadableView) -> dict[str, Any]:
        """Return the session as its trail says, held against its anchor in the log."""
        if self.at is None:
            snapshot = recorded_snapshot(view, self.session_id, self.survivors)
        else:
            belief = session_as_of(view, self.session_id, self.at)
            snapshot = None if belief is None else belief.snapshot(self.survivors)
        return existing(snapshot, "session", self.session_id, code=UNKNOWN)

    def summary(self, document: Any) -> str:
        """Return how it stands."""
        return f"{session_state(document)}: {document['n_survivors']} hypotheses survive"


class ListSessionEvents(Question):
    """List the entries of a belief session's trail in order: what struck which hypotheses, why.

    The justification of an elimination is in its `payload`.
    """

    rows: ClassVar = "events"
    rows_read: ClassVar = 20

    session_id: Name
    after: Annotated[
        int, Field(ge=0, le=EVENTS_MAX, description="Go on after so many entries.")
    ] = 0
    limit: Limit = 100

    def answer(self, view: ReadableView) -> TrailDocument:
        """Return a page of the trail."""
        trail = session_trail(view, self.session_id, self.after, self.limit)
        return existing(
            trail if trail["events"] or self.after else None,
            "session",
            self.session_id,
            code=UNKNOWN,
        )
