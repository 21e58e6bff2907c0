"""The answers of an audit as JSON documents, the same for both doors."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from kernel.audit.adjudications import AdjudicationPage
from kernel.audit.costs import CostPage, CostTotal
from kernel.audit.lineage import Ancestry, AuthorityGrounds
from kernel.audit.manifests import ManifestPage
from kernel.audit.operations import Page
from kernel.audit.preview import RollbackPreview
from kernel.ledger.ledger import LedgerView
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.plan import plan_operation


def page_document(page: Page) -> dict[str, Any]:
    """Return a page; sequences are strings."""
    return _listed("operations", page.entries, page.next_after)


def ancestry_document(ancestry: Ancestry) -> dict[str, Any]:
    """Return the ancestors of an operation."""
    return page_document(ancestry.page) | {
        "roots": list(ancestry.roots),
        "missing": list(ancestry.missing),
        "complete": ancestry.complete,
    }


def adjudications_document(page: AdjudicationPage) -> dict[str, Any]:
    """Return a page of the review queue."""
    return _listed("items", page.items, page.next_after)


def costs_document(page: CostPage) -> dict[str, Any]:
    """Return a page of what operations cost."""
    return _listed("entries", page.entries, page.next_after)


def totals_document(totals: Sequence[CostTotal], next_after: int | None) -> dict[str, Any]:
    """Return sums of what operations cost."""
    return _listed("totals", totals, next_after)


def grounds_document(grounds: AuthorityGrounds) -> dict[str, Any]:
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


def manifests_document(page: ManifestPage) -> dict[str, Any]:
    """Return a page of an event's manifests."""
    return _listed("manifests", page.manifests, page.next_after)


def preview_document(preview: RollbackPreview, refused_by: str | None) -> dict[str, Any]:
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


def inverse_refused_by(view: LedgerView, operation_id: str) -> str | None:
    """Return the code by which an operation's inverse would be refused now, if it would be."""
    try:
        plan_operation(view, operation_id)
    except RollbackRefused as refused:
        return refused.code
    return None


def _listed(name: str, entries: Iterable[Any], next_after: int | None) -> dict[str, Any]:
    after = None if next_after is None else str(next_after)
    return {name: [entry.document() for entry in entries], "next_after": after}
