"""Answers that a ledger which went back is known to have lost, as JSON."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from kernel.records.access.readable_view import ReadableView
from kernel.records.head_acceptance import newest_acceptance, standing_findings


class HeadDocument(TypedDict):
    """Where the chains stood; every number is a string."""

    ec_sequence_number: str
    row_hash: str
    receipt_sequence: str
    receipt_hash: str
    request_sequence: str
    committed_at_us: str


class LostAnswer(TypedDict):
    """Something that was answered and is on the record no longer."""

    kind: str
    name: str
    sequence: str
    session_id: NotRequired[str]


class FoundDocument(TypedDict):
    """What one gateway has found: the head that it knew, the one that was there, what it knows."""

    finding_id: str
    gateway: str
    found_at: str
    known: HeadDocument
    found: HeadDocument
    common: HeadDocument | None
    is_all: bool


class AcceptanceDocument(TypedDict):
    """Who went on from the ledger that is there, when and why."""

    accepted_at: str
    accepted: HeadDocument
    reason: str
    authority: str
    decided_by_operation_id: str
    evidence: list[dict[str, str]]


class LostDocument(TypedDict):
    """What is known to be lost, page by page; `next_after` is null on the last one."""

    stands: bool
    """Whether nobody has accepted the ledger that is there."""

    findings: list[FoundDocument]
    acceptance: AcceptanceDocument | None
    lost: list[LostAnswer]
    next_after: int | None


_FOUND = ("finding_id", "gateway", "known", "found", "common", "is_all")
_ACCEPTED = ("accepted", "reason", "authority", "decided_by_operation_id", "evidence")


def losses_document(view: ReadableView, *, after: int, limit: int) -> LostDocument:
    """Return what stands, or what was accepted last."""
    stands = view.finding_stands()
    acceptance: dict[str, Any] | None = None
    receipts: Iterable[dict[str, Any]] = standing_findings(view)
    if not stands:
        acceptance, receipts = newest_acceptance(view)
    by_id: dict[str, dict[str, Any]] = {}
    lost: list[dict[str, Any]] = []
    for receipt in receipts:
        known = {name: receipt[name] for name in _FOUND}
        by_id.setdefault(receipt["finding_id"], {**known, "found_at": receipt["emitted_at"]})
        lost += receipt["lost"]
    page = [*islice(lost, after, after + limit)]
    is_last = after + limit >= len(lost)
    said = None
    if acceptance is not None:
        said = {name: acceptance[name] for name in _ACCEPTED}
        said["accepted_at"] = acceptance["emitted_at"]
    return {
        "stands": stands,
        "findings": cast("list[FoundDocument]", [*by_id.values()]),
        "acceptance": cast("AcceptanceDocument | None", said),
        "lost": cast("list[LostAnswer]", page),
        "next_after": None if is_last else after + limit,
    }
