"""Tools of belief sessions: which there are, where one stands, how it came there."""

from typing import Annotated

from pydantic import Field

from workers.mcp.answers import page
from workers.mcp.fields import AfterName, Limit, Name
from workers.mcp.tool import Document, Tool, ToolContext, ToolRefused
from workers.views.session_lists import (
    newest_sessions,
    recorded_snapshot,
    session_state,
    session_trail,
    sessions_after,
)

EVENTS_MAX = 10_000_000


class ListSessions(Tool):
    """List belief sessions: the title of each, how many hypotheses are left, whether it has ended.

    A session with a `successor_id` is closed, and goes on as that one.
    """

    after: AfterName = ""
    limit: Limit = 20
    newest: bool = Field(
        default=False, description="Those that changed last, newest first; no next page."
    )

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of sessions."""
        if self.newest:
            sessions = await context.read(lambda view: newest_sessions(view, self.limit))
            following = None
        else:
            document = await context.read(lambda view: sessions_after(view, self.after, self.limit))
            sessions, following = document["sessions"], document["next_after"]
        shown = page(
            "sessions",
            sessions,
            lambda session: session["session_id"],
            following,
            lambda count: f"{count} belief sessions on this page",
        )
        return shown | ({"next": None} if self.newest else {})


class GetSession(Tool):
    """Show where a belief session stands: its survivors, its obligation, the head of its trail."""

    session_id: Name
    survivors: Annotated[int, Field(ge=0, le=1000, description="How many are listed.")] = 50

    async def answer(self, context: ToolContext) -> Document:
        """Return the session as its trail says, held against its anchor in the log."""
        snapshot = await context.read(
            lambda view: recorded_snapshot(view, self.session_id, self.survivors)
        )
        if snapshot is None:
            message = f"no belief session is called {self.session_id!r}"
            raise ToolRefused(message, code="SESSION_NOT_FOUND")
        count = snapshot["n_survivors"]
        return {"summary": f"{session_state(snapshot)}: {count} hypotheses survive", **snapshot}


class ListSessionEvents(Tool):
    """List the entries of a belief session's trail in order: what struck which hypotheses, why.

    The justification of an elimination is in its `payload`.
    """

    session_id: Name
    after: Annotated[
        int, Field(ge=0, le=EVENTS_MAX, description="`next.after` of the page before.")
    ] = 0
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of the trail."""
        trail = await context.read(
            lambda view: session_trail(view, self.session_id, self.after, self.limit)
        )
        if not trail["events"] and not self.after:
            message = f"no belief session is called {self.session_id!r}"
            raise ToolRefused(message, code="SESSION_NOT_FOUND")
        places = {event["event_id"]: place for place, event in enumerate(trail["events"], 1)}
        return page(
            "events",
            trail["events"],
            lambda event: self.after + places[event["event_id"]],
            trail["next_after"],
            lambda count: f"{count} entries behind the first {self.after}",
        )
