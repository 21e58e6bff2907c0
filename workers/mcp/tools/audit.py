"""Tools of the audit: which operations, what caused them, what undoing takes (§19, Q1 to Q5)."""

from typing import Annotated

from pydantic import Field

from kernel.audit.adjudications import AdjudicationState, adjudications
from kernel.audit.costs import cost_entries, cost_totals
from kernel.audit.lineage import authority_grounds, causal_ancestors
from kernel.audit.open_reviews import ReviewKind, is_place, open_reviews
from kernel.audit.operations import AuditFilter, find_operations
from kernel.audit.preview import preview_rollback
from kernel.model.receipt import MIGRATION_KIND
from workers.mcp.answers import page, shortened, whole_page
from workers.mcp.fields import (
    NAME_CHARS_MAX,
    AfterName,
    AfterSequence,
    Limit,
    Name,
    OptionalName,
    Sequence,
    Time,
)
from workers.mcp.tool import Document, Tool, ToolContext, ToolRefused, existing
from workers.views.audit import (
    adjudications_document,
    ancestry_document,
    costs_document,
    grounds_document,
    inverse_refused_by,
    page_document,
    preview_document,
    totals_document,
)
from workers.views.moments import us_of

SUMMED_UP_MAX = 10_000
NAMES_SHOWN_MAX = 20


class FindOperations(Tool):
    """Find operations by what they wrote, meant or may undo, in sequence; conditions add up.

    Audit queries Q1 to Q3. A page may be empty and not the last: only `next` = null ends.
    """

    entity: Annotated[
        Name | None,
        Field(
            description="Operations that wrote this record: a node, an edge, a session, any key."
        ),
    ] = None
    declared: bool = Field(
        default=False, description="Also those whose scope names `entity`; slow, reads envelopes."
    )
    semantic_intent: Annotated[Name | None, Field(description="Verb, such as create.")] = None
    effect_kind: OptionalName = None
    reversibility: Annotated[
        Name | None, Field(description="Of one effect, such as irreversible_external_effect.")
    ] = None
    actor: Annotated[Name | None, Field(description="user, system, agent or migration.")] = None
    session_id: OptionalName = None
    since: Time = None
    until: Time = None
    from_sequence: Sequence | None = None
    to_sequence: Sequence | None = None
    after: AfterSequence = 0
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of operations."""
        conditions = self.model_dump(exclude={"since", "until", "after", "limit"})
        criteria = AuditFilter(**conditions, from_us=us_of(self.since), before_us=us_of(self.until))
        listed = await context.read(
            lambda view: find_operations(view, criteria, after=self.after, limit=self.limit)
        )
        document = page_document(listed)
        return page(
            "operations",
            document["operations"],
            lambda row: row["ec_sequence_number"],
            document["next_after"],
            lambda count: f"{count} operations on this page",
        )


class GetAncestors(Tool):
    """Trace what caused an operation, back to where the chain begins; itself last (Q4)."""

    operation_id: Name
    after: AfterSequence = 0
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of ancestors, with the roots of all."""
        ancestry = existing(
            await context.read(
                lambda view: causal_ancestors(
                    view, self.operation_id, after=self.after, limit=self.limit
                )
            ),
            self.operation_id,
        )
        document = ancestry_document(ancestry)
        shown = page(
            "operations",
            document["operations"],
            lambda row: row["ec_sequence_number"],
            document["next_after"],
            lambda count: f"{count} of its ancestors; {len(document['roots'])} roots",
        )
        names = {name: document[name] for name in ("roots", "missing", "complete")}
        return {**shown, **shortened(names, NAME_CHARS_MAX, NAMES_SHOWN_MAX)}


class PreviewRollback(Tool):
    """Show what undoing an operation would take, and why it would be refused now (Q5).

    Nothing is undone.
    """

    operation_id: Name

    async def answer(self, context: ToolContext) -> Document:
        """Return the preview."""
        preview, refused_by = await context.read(
            lambda view: (
                preview_rollback(view, self.operation_id),
                inverse_refused_by(view, self.operation_id),
            )
        )
        document = preview_document(existing(preview, self.operation_id), refused_by)
        verdict = f"refused now: {refused_by}" if refused_by else "admitted now"
        tier = f"tier {document['lowest_tier']}, {len(document['effects'])} effects"
        return {"summary": f"its inverse is {verdict}; {tier}", **document}


class ExplainAuthority(Tool):
    """Show what informed an understanding's authority, the core inputs first."""

    node_id: Annotated[Name, Field(description="Id of an understanding.")]

    async def answer(self, context: ToolContext) -> Document:
        """Return the inputs, each with the version that was read."""
        grounds = existing(
            await context.read(lambda view: authority_grounds(view, self.node_id)), self.node_id
        )
        document = grounds_document(grounds)
        stale = document["stale_since"]
        state = f"stale since {stale}" if stale else f"computed at {document['computed_at']}"
        count = len(document["inputs"])
        return {
            "summary": f"authority {document['cu_authority']} of {count} inputs, {state}",
            **document,
        }


class ListAdjudications(Tool):
    """List conflicts that wait for a person, or who settled which.

    With `migration` those lite operations of version 1.5 that could not be migrated.
    """

    state: AdjudicationState = "open"
    migration: bool = False
    after: AfterSequence = 0
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of the queue."""
        kind = {"kind": MIGRATION_KIND} if self.migration else {}
        document = adjudications_document(
            await context.read(
                lambda view: adjudications(
                    view, self.state, after=self.after, limit=self.limit, **kind
                )
            )
        )
        return whole_page("items", document, lambda count: f"{count} items that are {self.state}")


class ListReviews(Tool):
    """List evidence that a person has to confirm or reject, and outcomes to look at, and why."""

    kind: ReviewKind
    after: AfterName = ""
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of what waits."""
        after = self.after
        if not is_place(self.kind, after):
            raise ToolRefused("outcomes go on after a number", code="INVALID_REQUEST")
        listed = await context.read(
            lambda view: open_reviews(view, self.kind, after=after, limit=self.limit)
        )
        document = listed.document()
        if self.kind == "outcome":
            return whole_page("items", document, lambda count: f"{count} outcomes wait")
        return page(
            "items",
            document["items"],
            lambda item: item["record_id"],
            document["next_after"],
            lambda count: f"{count} on this page wait for a person: {self.kind}",
        )


class ListCosts(Tool):
    """List what operations were estimated to cost, what was measured, and to whom it counts."""

    since: Time = None
    until: Time = None
    after: AfterSequence = 0
    limit: Limit = 20

    async def answer(self, context: ToolContext) -> Document:
        """Return a page of entries."""
        document = costs_document(
            await context.read(
                lambda view: cost_entries(
                    view,
                    after=self.after,
                    limit=self.limit,
                    from_us=us_of(self.since),
                    before_us=us_of(self.until),
                )
            )
        )
        return whole_page("entries", document, lambda count: f"{count} entries on this page")


class SumCosts(Tool):
    """Sum up what operations cost, by intent and actor, over at most 10,000 operations a page."""

    since: Time = None
    until: Time = None
    after: AfterSequence = 0

    async def answer(self, context: ToolContext) -> Document:
        """Return the sums."""
        listed = await context.read(
            lambda view: cost_totals(
                view,
                after=self.after,
                limit=SUMMED_UP_MAX,
                from_us=us_of(self.since),
                before_us=us_of(self.until),
            )
        )
        document = totals_document(listed.totals, listed.next_after, listed.left_out)
        return whole_page("totals", document, lambda count: f"{count} sums by intent and actor")
