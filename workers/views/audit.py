"""Describes the answers of an audit as JSON documents, the same for both doors."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from kernel.audit.adjudications import AdjudicationDocument, AdjudicationPage
from kernel.audit.costs import CostEntryDocument, CostPage, CostTotal, CostTotalDocument
from kernel.audit.lineage import Ancestry, AuthorityGrounds
from kernel.audit.manifests import ManifestDocument, ManifestPage
from kernel.audit.newest_operations import newest_operations
from kernel.audit.operations import AuditFilter, OperationEntryDocument, Page
from kernel.audit.preview import EffectPreview, RollbackPreview
from kernel.ledger.quarantine import RangeQuarantined
from kernel.model.dumped import DumpOf
from kernel.records.access.readable_view import ReadableView
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.plan import plan_operation
from kernel.verify.undoings import UndoingDifference


class OperationPageDocument(TypedDict):
    """A page of operations."""

    operations: list[OperationEntryDocument]
    next_after: str | None
    """Where the next page begins; null when there is no more."""


class AncestryDocument(OperationPageDocument):
    """What caused an operation, the operation itself last."""

    roots: list[str]
    missing: list[str]
    complete: bool


class AdjudicationPageDocument(TypedDict):
    """A page of the review queue."""

    items: list[AdjudicationDocument]
    next_after: str | None


class CostPageDocument(TypedDict):
    """A page of what operations cost."""

    entries: list[CostEntryDocument]
    next_after: str | None


class CostTotalsDocument(TypedDict):
    """Sums of what operations cost."""

    totals: list[CostTotalDocument]
    next_after: str | None
    left_out: NotRequired[int]
    """Operations of quarantined rows, which are in no sum; not there where there are none."""


class ManifestPageDocument(TypedDict):
    """A page of the manifests of a source event."""

    manifests: list[ManifestDocument]
    next_after: str | None


class AuthorityGroundsDocument(TypedDict):
    """What informed an understanding's authority."""

    node_id: str
    cu_authority: float | None
    computed_at: str | None
    stale_since: str | None
    inputs: list[dict[str, Any]]
    operation: OperationEntryDocument | None
    request_ids: list[str]


class RollbackPreviewDocument(TypedDict):
    """What undoing an operation would take, and why its inverse would be refused now."""

    operation: OperationEntryDocument
    executable: bool
    refused_by: str | None
    lowest_tier: int
    needs_user_confirmation: bool
    counts: dict[str, int]
    superseded: bool
    effects: list[Annotated[dict[str, Any], DumpOf(EffectPreview)]]
    not_automatic: list[str]


def page_document(page: Page) -> OperationPageDocument:
    """Return a page; sequences are strings."""
    return {
        "operations": [entry.document() for entry in page.entries],
        "next_after": _text(page.next_after),
    }


def newest_operations_page(
    view: ReadableView, criteria: AuditFilter, before: int | None, limit: int
) -> OperationPageDocument:
    """Return a page of the operations that a filter admits, newest first."""
    return page_document(newest_operations(view, criteria, before=before, limit=limit))


def ancestry_document(ancestry: Ancestry) -> AncestryDocument:
    """Return the ancestors of an operation."""
    return {
        **page_document(ancestry.page),
        "roots": list(ancestry.roots),
        "missing": list(ancestry.missing),
        "complete": ancestry.complete,
    }


def adjudications_document(page: AdjudicationPage) -> AdjudicationPageDocument:
    """Return a page of the review queue."""
    return {
        "items": [item.document() for item in page.items],
        "next_after": _text(page.next_after),
    }


class UndoingDifferenceDocument(TypedDict):
    """A record that an undoing left otherwise than the operations in effect come to."""

    ec_sequence_number: str
    operation_id: str
    store: str
    record_key: str
    lost: list[str]
    brought_back: list[str]


def undoing_document(undoing: UndoingDifference) -> UndoingDifferenceDocument:
    """Return whose writes a record has lost by an undoing, and whose it has back."""
    return {
        "ec_sequence_number": str(undoing.ec_sequence_number),
        "operation_id": undoing.operation_id,
        "store": undoing.store,
        "record_key": undoing.record_key,
        "lost": list(undoing.lost),
        "brought_back": list(undoing.brought_back),
    }


def costs_document(page: CostPage) -> CostPageDocument:
    """Return a page of what operations cost."""
    return {
        "entries": [entry.document() for entry in page.entries],
        "next_after": _text(page.next_after),
    }


def totals_document(
    totals: Sequence[CostTotal], next_after: int | None, left_out: int = 0
) -> CostTotalsDocument:
    """Return sums of what operations cost, and how many of them are in no sum."""
    document: CostTotalsDocument = {
        "totals": [total.document() for total in totals],
        "next_after": _text(next_after),
    }
    if left_out:
        document["left_out"] = left_out
    return document


def grounds_document(grounds: AuthorityGrounds) -> AuthorityGroundsDocument:
    """Return what informed an authority."""
    return {
        "node_id": grounds.node_id,
        "cu_authority": grounds.cu_authority,
        "computed_at": grounds.computed_at,
        "stale_since": grounds.stale_since,
        "inputs": list(grounds.inputs),
        "operation": None if grounds.operation is None else grounds.operation.document(),
        "request_ids": list(grounds.request_ids),
    }


def manifests_document(page: ManifestPage) -> ManifestPageDocument:
    """Return a page of an event's manifests."""
    return {
        "manifests": [manifest.document() for manifest in page.manifests],
        "next_after": _text(page.next_after),
    }


def preview_document(preview: RollbackPreview, refused_by: str | None) -> RollbackPreviewDocument:
    """Return what undoing would take, and the code by which its inverse would be refused now."""
    return {
        "operation": preview.operation.document(),
        "executable": refused_by is None,
        "refused_by": refused_by,
        "lowest_tier": preview.lowest_tier,
        "needs_user_confirmation": preview.needs_user_confirmation,
        "counts": preview.counts,
        "superseded": preview.superseded,
        "effects": [asdict(effect) for effect in preview.effects],
        "not_automatic": [effect.effect_id for effect in preview.not_automatic],
    }


def inverse_refused_by(view: ReadableView, operation_id: str) -> str | None:
    """Return the code by which an operation's inverse would be refused now, if it would be."""
    try:
        plan_operation(view, operation_id)
    except (RollbackRefused, RangeQuarantined) as refused:
        return refused.code
    return None


def _text(next_after: int | None) -> str | None:
    return None if next_after is None else str(next_after)
