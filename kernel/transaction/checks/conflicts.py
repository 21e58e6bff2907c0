"""Resolves a write that had not seen another, by policy (V12, §2.2, §15.5, §19.2, K10).

1. Concurrent is what was committed inside the window and is neither among the causal parents nor
   named by an item of the review queue that the envelope resolves.
2. The most cautious outcome of all conflicts is done, to the envelope as a whole.
3. First is who was committed first: when an envelope was recorded is its author's word.
4. A computed authority is no opinion: it follows from the snapshot that it names.
5. What takes a lite envelope's place was written when that was; that nobody has written the same
   records since is asked when it is applied.
"""

from kernel.ledger.ledger import Document
from kernel.model.envelope import MAX_REFS
from kernel.records.comparison import RECORD_STATE
from kernel.records.conflicts.adjudications import (
    ITEM_KIND,
    RESOLVED_CODE,
    item,
    open_item_of,
    resolution_of,
)
from kernel.records.conflicts.follow_ups import (
    contradiction_envelope,
    is_mergeable,
    merge_envelope,
    merge_operation_id,
)
from kernel.records.conflicts.resolution import (
    CONFLICTS_MAX,
    Conflict,
    Outcome,
    conflicts_of,
    outcome_of,
)
from kernel.records.conflicts.writes import may_conflict
from kernel.transaction.checks.check import Passage, Refusal, Submission, Verdict
from kernel.values.host import iso_time

COMPUTED = frozenset({"recalculate_authority"})

REASONS: dict[Outcome, str] = {
    "review": ITEM_KIND,
    "first_writer": "envelope_conflict_first_writer_wins",
    "lower_authority": "envelope_conflict_lower_authority",
    "merge": "envelope_conflict_deferred_for_merge",
}
"""The reason of a refusal by the outcome that leads to it."""


def check_conflicts(submission: Submission) -> Verdict:
    """Refuse, queue, merge or accept a write that conflicts with one it had not seen."""
    envelope, transaction = submission.envelope, submission.transaction
    seen_operation_ids = set(envelope.causal_parent_operation_ids)
    for index, receipt_id in enumerate(envelope.adjudicates_receipt_ids):
        existing_ids = _item_operation_ids(
            submission, receipt_id, f"adjudicates_receipt_ids.{index}"
        )
        if isinstance(existing_ids, Refusal):
            return existing_ids
        seen_operation_ids |= existing_ids
    if envelope.semantic_intent in COMPUTED or envelope.supersedes is not None:
        return None
    if not may_conflict(transaction, envelope, seen_operation_ids):
        return None
    since = iso_time(transaction.head_now.committed_at_us - submission.conflict_window_us)
    conflicts = conflicts_of(transaction, envelope, seen_operation_ids, since)
    outcome = outcome_of(conflicts)
    concerned = [conflict for conflict in conflicts if conflict.outcome == outcome]
    if outcome == "accept":
        return None
    if outcome == "contradiction":
        return Passage(follow_ups=(contradiction_envelope(transaction, envelope, concerned),))
    if outcome == "merge":
        # Fields that only contradict are merged too: both values are kept.
        concerned = [conflict for conflict in conflicts if conflict.outcome != "accept"]
        if is_mergeable(concerned):
            return _merge_refusal(submission, concerned)
        outcome = "review"
    details = _details(conflicts, concerned)
    if outcome == "review":
        return _queueing_refusal(submission, concerned, details)
    return _refusal(outcome, concerned, details)


def _item_operation_ids(submission: Submission, receipt_id: str, field: str) -> set[str] | Refusal:
    document = item(submission.transaction, receipt_id)
    if document is None:
        message = f"the review queue has no item {receipt_id}"
        return Refusal("envelope_adjudication_unknown", field, message)
    if resolution_of(submission.transaction, receipt_id) is not None:
        return Refusal(RESOLVED_CODE, field, f"{receipt_id} was resolved before")
    return set(document.get("existing_operation_ids", ()))


def _refusal(outcome: Outcome, conflicts: list[Conflict], details: Document) -> Refusal:
    conflict = conflicts[0]
    place = "effect_kind" if conflict.field == RECORD_STATE else f"payload.{conflict.field}"
    field = f"primitive_effects.{conflict.write.effect_index}.{place}"
    existing = conflict.document()["existing_operation_id"]
    message = f"{conflict.conflict_class} with {existing}, which it had not seen"
    return Refusal(REASONS[outcome], field, message, details=details)


def _queueing_refusal(
    submission: Submission, conflicts: list[Conflict], details: Document
) -> Refusal:
    """Queue the envelope: its receipt is the item, unless an open item holds it already."""
    refusal = _refusal("review", conflicts, details)
    open_receipt_id = open_item_of(submission.transaction, submission.document)
    if open_receipt_id is not None:
        known = {**details, "adjudication_receipt_id": open_receipt_id}
        return Refusal(refusal.reason_code, refusal.field, refusal.message, details=known)
    return Refusal(
        refusal.reason_code,
        refusal.field,
        refusal.message,
        receipt_kind=ITEM_KIND,
        details={**details, "envelope": submission.document},
    )


def _merge_refusal(submission: Submission, conflicts: list[Conflict]) -> Refusal:
    """Refuse the envelope for its merge; the receipt holds what the merge leaves out."""
    envelope, transaction = submission.envelope, submission.transaction
    merged_by = merge_operation_id(envelope)
    known = transaction.log_row_of(merged_by) is not None
    document = merge_envelope(transaction, envelope, conflicts)
    refusal = _refusal("merge", conflicts, {})
    return Refusal(
        refusal.reason_code,
        refusal.field,
        f"{refusal.message}; merged by {merged_by}",
        details={
            **_details(conflicts, conflicts),
            "merge_operation_id": merged_by,
            "envelope": submission.document,
        },
        follow_ups=() if known else (document,),
    )


def _details(conflicts: list[Conflict], concerned: list[Conflict]) -> Document:
    operations = (
        name for conflict in conflicts for name in reversed(conflict.existing.operation_ids)
    )
    records = (conflict.existing.record_key for conflict in conflicts)
    return {
        "conflict_class": concerned[0].conflict_class,
        "conflicts": [conflict.document() for conflict in conflicts[:CONFLICTS_MAX]],
        "existing_operation_ids": list(dict.fromkeys(operations))[:MAX_REFS],
        "existing_record_ids": list(dict.fromkeys(records))[:MAX_REFS],
    }
