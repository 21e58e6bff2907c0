"""Auditing over HTTP: which operations, what caused them, what undoing them would take."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from kernel.audit.adjudications import AdjudicationState, adjudications
from kernel.audit.costs import cost_entries, cost_totals
from kernel.audit.lineage import authority_grounds, causal_ancestors
from kernel.audit.manifests import ManifestUnknown, manifests_of
from kernel.audit.newest_operations import newest_operations
from kernel.audit.operations import AuditError, AuditFilter, Page, find_operations
from kernel.audit.preview import preview_rollback
from kernel.ledger.ledger import LedgerView
from kernel.model.numbers import SEQUENCE_MAX
from kernel.model.receipt import MIGRATION_KIND
from workers.api.errors import ApiError
from workers.api.json_routes import json_router
from workers.api.routes.records import PAGE_MAX, TEXT_MAX, RecordId
from workers.api.services import Given
from workers.views.audit import (
    AdjudicationPageDocument,
    AncestryDocument,
    AuthorityGroundsDocument,
    CostPageDocument,
    CostTotalsDocument,
    ManifestPageDocument,
    OperationPageDocument,
    RollbackPreviewDocument,
    adjudications_document,
    ancestry_document,
    costs_document,
    grounds_document,
    inverse_refused_by,
    manifests_document,
    page_document,
    preview_document,
    totals_document,
)
from workers.views.moments import in_utc, us_of

SUMMED_UP_MAX = 10_000
"""Operations whose costs one request sums up."""

router = json_router(prefix="/v1/audit", tags=["audit"])

Order = Literal["oldest", "newest"]
Text = Annotated[str | None, Field(min_length=1, max_length=TEXT_MAX)]
Sequence = Annotated[int, Field(ge=0, le=SEQUENCE_MAX)]
After = Annotated[int, Query(ge=0, le=SEQUENCE_MAX)]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
SummedUp = Annotated[int, Query(ge=1, le=SUMMED_UP_MAX)]


def _no_number(value: object) -> object:
    """Refuse seconds since an epoch, which a parser takes for a time and the document does not."""
    if isinstance(value, str) and "T" not in value.upper():
        raise ValueError("a time is written as 2026-01-31T12:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_no_number), AfterValidator(in_utc)]
Time = Annotated[Moment | None, Query()]


class Filters(BaseModel):
    """Which operations are meant; see `AuditFilter`."""

    model_config = ConfigDict(extra="forbid")

    entity: Text = None
    declared: bool = False
    semantic_intent: Text = None
    effect_kind: Text = None
    reversibility: Text = None
    actor: Text = None
    session_id: Text = None
    since: Moment | None = None
    until: Moment | None = None
    from_sequence: Sequence | None = None
    to_sequence: Sequence | None = None
    order: Order = "oldest"
    after: Sequence = 0
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = 100

    def criteria(self) -> AuditFilter:
        """Return the filter that the parameters give."""
        conditions = self.model_dump(exclude={"since", "until", "order", "after", "limit"})
        return AuditFilter(**conditions, from_us=us_of(self.since), before_us=us_of(self.until))


@router.get("/operations")
async def operations(
    filters: Annotated[Filters, Query()], services: Given
) -> OperationPageDocument:
    """Return a page of the operations that a filter means; go on while `next_after` is given.

    With `order=newest` the newest come first, and `after` names the sequence before which to go on.
    """
    criteria, after, limit = filters.criteria(), filters.after, filters.limit

    def read(view: LedgerView) -> Page:
        if filters.order == "newest":
            return newest_operations(view, criteria, before=after or None, limit=limit)
        return find_operations(view, criteria, after=after, limit=limit)

    return page_document(await services.read(read))


@router.get("/ancestors/{operation_id:path}")
async def ancestors(
    operation_id: RecordId, services: Given, after: After = 0, limit: Limit = 100
) -> AncestryDocument:
    """Return what caused an operation, back to where the chain begins."""
    ancestry = await services.read(
        lambda view: causal_ancestors(view, operation_id, after=after, limit=limit)
    )
    if ancestry is None:
        raise ApiError("not_found", "no such operation is on the log")
    return ancestry_document(ancestry)


@router.get("/rollback-preview/{operation_id:path}")
async def rollback_preview(operation_id: RecordId, services: Given) -> RollbackPreviewDocument:
    """Return what undoing an operation would take; nothing is undone."""
    try:
        preview, refused_by = await services.read(
            lambda view: (
                preview_rollback(view, operation_id),
                inverse_refused_by(view, operation_id),
            )
        )
    except AuditError as error:
        raise ApiError(error.code, str(error)) from None
    if preview is None:
        raise ApiError("not_found", "no such operation is on the log")
    return preview_document(preview, refused_by)


@router.get("/authority/{node_id:path}")
async def authority(node_id: RecordId, services: Given) -> AuthorityGroundsDocument:
    """Return what informed an understanding's authority."""
    grounds = await services.read(lambda view: authority_grounds(view, node_id))
    if grounds is None:
        raise ApiError("not_found", "no such understanding")
    return grounds_document(grounds)


@router.get("/manifests/{source_event_id:path}")
async def manifests(
    source_event_id: RecordId, services: Given, after: After = 0, limit: Limit = 100
) -> ManifestPageDocument:
    """Return a page of the manifests of a source event, one for each evaluation cycle."""
    try:
        page = await services.read(
            lambda view: manifests_of(view, source_event_id, after=after, limit=limit)
        )
    except ManifestUnknown as error:
        raise ApiError(error.code, str(error)) from None
    return manifests_document(page)


@router.get("/adjudications")
async def review_queue(
    services: Given, state: AdjudicationState = "open", after: After = 0, limit: Limit = 100
) -> AdjudicationPageDocument:
    """Return a page of the conflicts that wait for a person, or of those that were settled."""
    page = await services.read(lambda view: adjudications(view, state, after=after, limit=limit))
    return adjudications_document(page)


@router.get("/migration-reviews")
async def migration_reviews(
    services: Given, state: AdjudicationState = "open", after: After = 0, limit: Limit = 100
) -> AdjudicationPageDocument:
    """Return a page of the lite operations that migration could not map, or of those settled."""
    page = await services.read(
        lambda view: adjudications(view, state, kind=MIGRATION_KIND, after=after, limit=limit)
    )
    return adjudications_document(page)


@router.get("/costs")
async def costs(
    services: Given,
    after: After = 0,
    limit: Limit = 100,
    since: Time = None,
    until: Time = None,
) -> CostPageDocument:
    """Return a page of what operations cost, and to whom it is attributed."""
    time = {"from_us": us_of(since), "before_us": us_of(until)}
    page = await services.read(lambda view: cost_entries(view, after=after, limit=limit, **time))
    return costs_document(page)


@router.get("/costs/totals")
async def totals(
    services: Given,
    after: After = 0,
    limit: SummedUp = SUMMED_UP_MAX,
    since: Time = None,
    until: Time = None,
) -> CostTotalsDocument:
    """Return what operations cost together, by intent and actor; go on while `next_after` is."""
    time = {"from_us": us_of(since), "before_us": us_of(until)}
    page = await services.read(lambda view: cost_totals(view, after=after, limit=limit, **time))
    return totals_document(page.totals, page.next_after, page.left_out)
