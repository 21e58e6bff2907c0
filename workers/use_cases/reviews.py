"""Carries out what reviewers decide: each item as an operation of its own on the record.

The result of one item changes nothing for the others, and is said of each. A decision that others
made meanwhile is said, and not written over.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog

from actors.commit.quarantine_units import LiftQuarantineUnit
from actors.commit.review_units import (
    BatchReviewUnit,
    DecideAsSeenUnit,
    DismissOutcomeUnit,
    TakeItemUnit,
)
from actors.commit.units import Unit
from actors.orchestrator.intents import Adjudicate
from kernel.audit.open_reviews import ReviewKind
from kernel.model.envelope import ItemDecision
from kernel.model.result import RejectedResult
from kernel.records.legal_holds import Grounds
from kernel.records.reviews.batch import BatchReview
from kernel.records.reviews.evidence import STORES
from kernel.values.canonical import digest
from kernel.values.errors import KernelError

Decision = Literal["confirm", "reject"]

DECISIONS: dict[ReviewKind, tuple[Decision, ...]] = {
    "relationship": ("confirm", "reject"),
    "observation": ("confirm", "reject"),
    "membership": ("confirm", "reject"),
    "outcome": ("reject",),
    "conflict": ("confirm", "reject"),
    "migration": ("confirm", "reject"),
    "quarantine": ("confirm",),
}
"""What may be decided about each kind here.

A quarantine is lifted. What a conflict or migration holds back is taken, or settled, as outcomes
are.
"""

TAKEN: frozenset[ReviewKind] = frozenset({"conflict", "migration"})


BATCH_ID_CHARS = 32


@dataclass(frozen=True, slots=True)
class SeenItem:
    """An item as its reviewer has seen it."""

    record_id: str
    seen_operation_id: str = ""
    """The operation that wrote it; of evidence."""

    supplied: Mapping[str, Any] = field(default_factory=dict)
    """What its reviewer states of what it lacks; of what migration holds."""


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """What somebody decides about items of one kind, and why."""

    kind: ReviewKind
    decision: Decision
    items: tuple[SeenItem, ...]
    decided_by: str
    reason: str

    @property
    def batch_id(self) -> str:
        """A name of this very decision, under which memberships are reviewed once."""
        items = [[item.record_id, item.seen_operation_id] for item in self.items]
        return digest([self.decision, items, self.decided_by, self.reason])[:BATCH_ID_CHARS]


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of one item."""

    record_id: str
    operation_id: str | None = None
    code: str | None = None
    problem: str | None = None
    """Why nothing was written of it."""


Write = Callable[[Unit], Awaitable[Any]]

_log = structlog.get_logger(__name__)


async def decide(write: Write, decision: ReviewDecision) -> list[ItemResult]:
    """Do what was decided, and return what became of each item; it is durable then."""
    if decision.kind == "membership":
        results = await _batch(write, decision)
    else:
        results = [await _item(write, decision, item) for item in decision.items]
    _log.info(
        "review_decided",
        kind=decision.kind,
        decision=decision.decision,
        items=len(results),
        failed=sum(result.problem is not None for result in results),
        decided_by=decision.decided_by,
    )
    return results


async def _item(write: Write, decision: ReviewDecision, item: SeenItem) -> ItemResult:
    try:
        answer = await write(_unit(decision, item))
    except KernelError as error:
        return ItemResult(item.record_id, code=error.code, problem=str(error))
    if isinstance(answer, RejectedResult):
        rejection = answer.rejection
        return ItemResult(
            item.record_id, answer.operation_id, rejection.reason_code, rejection.message
        )
    if answer is False:
        problem = "it was lifted before"
        return ItemResult(item.record_id, code="review_decided_meanwhile", problem=problem)
    return ItemResult(item.record_id, getattr(answer, "operation_id", None))


def _unit(decision: ReviewDecision, item: SeenItem) -> Unit:
    if decision.kind == "quarantine":
        grounds = Grounds(decision.reason, decision.decided_by)
        return LiftQuarantineUnit(item.record_id, grounds)
    if decision.kind in TAKEN and decision.decision == "confirm":
        said = ItemDecision(decided_by=decision.decided_by, grounds=decision.reason)
        return TakeItemUnit(item.record_id, said, item.supplied)
    if decision.kind not in STORES:
        return DismissOutcomeUnit(item.record_id, decision.reason, decision.decided_by)
    intent = Adjudicate(
        intent_key=digest([item.record_id, item.seen_operation_id, decision.decision]),
        kind=decision.kind,
        record_id=item.record_id,
        decision=decision.decision,
        adjudicated_by=decision.decided_by,
        grounds=decision.reason,
    )
    return DecideAsSeenUnit(intent, item.seen_operation_id)


async def _batch(write: Write, decision: ReviewDecision) -> list[ItemResult]:
    """Review memberships as one batch, of which each item is an operation."""
    items = [
        {"item_membership_id": item.record_id, "disposition": decision.decision}
        for item in decision.items
    ]
    batch = BatchReview.model_validate(
        {
            "batch_review_id": decision.batch_id,
            "source_batch_id": "reviews-page",
            "item_operations": items,
            "reviewed_by": decision.decided_by,
            "grounds": decision.reason,
        }
    )
    record = await write(BatchReviewUnit(batch))
    failures = {each["item_membership_id"]: each for each in record.get("failure_summary", ())}
    results = []
    for each in record["item_operations"]:
        name = each["item_membership_id"]
        failure = failures.get(name, {})
        code, problem = failure.get("failure_reason_code"), failure.get("failure_message")
        results.append(ItemResult(name, each["operation_id"], code, problem))
    return results
