"""Turns what is reviewed into operations (§13.6, §14.4)."""

from types import MappingProxyType

from actors.errors import IntentInvalid
from actors.orchestrator.intents import Adjudicate, RecordBatchReview, ReviewMembership
from actors.orchestrator.resolved_operation import ResolvedOperation, make_effect
from kernel.algebra.verbs import BATCH_REVIEW
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.receipt import receipt_effect
from kernel.records.memberships import membership_id, membership_of
from kernel.records.reviews.batch import (
    DISPOSITIONS,
    RECORD_RECEIPT,
    membership_write,
    operation_id_of,
)
from kernel.records.reviews.evidence import STORES, evidence_record, sources_of_record
from kernel.values.spans import sources_in

RULING = "ruling_disposition_write"


def resolve_review(intent: ReviewMembership, view: LedgerView) -> ResolvedOperation:
    """One membership goes where its disposition takes it; its effect names the batch."""
    corpus_id, node_id, payload = membership_write(intent.item)
    payload["batch_review_ref"] = intent.batch_review_id
    membership = membership_id(corpus_id, node_id)
    before = membership_of(view, membership)
    causes = {} if before is None else {before["updated_by_operation_id"]: before["updated_at"]}
    return ResolvedOperation(
        DISPOSITIONS[intent.item.disposition].verb,
        (make_effect("membership_write", node_id, payload),),
        (node_id,),
        read_set=(node_id,),
        write_set=(membership,),
        neighbours=(membership,),
        causes=MappingProxyType(causes),
    )


def resolve_batch_review(intent: RecordBatchReview, _: LedgerView) -> ResolvedOperation:
    """The one receipt that the operation states groups the operations of the items.

    Of many causes an envelope names a few, and the receipt every one; so the operation names the
    batch alone of which this one is a retry.
    """
    record = intent.record
    operation_id, prior = operation_id_of(record.batch_review_id), record.prior_batch_review_ref
    effect = receipt_effect(RECORD_RECEIPT, record.model_dump(mode="json", exclude_none=True))
    extra = {
        "operation_id": operation_id,
        "causal_parent_operation_ids": [] if prior is None else [operation_id_of(prior)],
    }
    return ResolvedOperation(
        BATCH_REVIEW,
        (effect,),
        (operation_id,),
        visibility=("work_product_internal",),
        extra=MappingProxyType(extra),
    )


def resolve_adjudication(intent: Adjudicate, view: LedgerView) -> ResolvedOperation:
    """Evidence becomes what was decided, by an operation that names its grounds and its sources.

    A confirmed observation that says what it is about becomes a ruling, in the same operation.
    """
    record = evidence_record(view, intent.kind, intent.record_id)
    if record is None:
        raise IntentInvalid(f"no {intent.kind} {intent.record_id}", "record_id")
    # One that was decided on is V2's to answer, or V6's to refuse.
    store, is_confirmed = STORES[intent.kind], intent.decision == "confirm"
    by_rule = intent.evidence is not None
    adjudication: Document = {
        "adjudicated_by": intent.adjudicated_by,
        "grounds": intent.grounds,
        "basis": "auto_confirmation" if by_rule else "user_confirmation",
    }
    if by_rule:
        adjudication["evidence"] = intent.evidence
    decided: Document = {
        "lifecycle_state": store.confirmed if is_confirmed else store.rejected,
        "adjudication": adjudication,
    }
    if intent.normalized_label is not None:
        decided["normalized_label"] = intent.normalized_label
    sources = tuple(ref for ref in sources_of_record(view, record) if view.node(ref) is not None)
    if is_confirmed and sources and not sources_in(record["payload"]):
        decided["source_refs"] = list(sources)
    effects = [make_effect(store.effect_kind, intent.record_id, record["payload"] | decided)]
    targets = [intent.record_id]
    if is_confirmed and intent.scope_targets:
        if intent.kind != "observation":
            raise IntentInvalid("only an observation becomes a ruling", "scope_targets")
        targets.append(f"ruling:{intent.record_id}")
        effects.append(
            make_effect(RULING, targets[-1], _ruling(intent, record["payload"], decided))
        )
    return ResolvedOperation(
        RULING if len(effects) > 1 else store.effect_kind,
        tuple(effects),
        (targets[0],),
        source_refs=sources,
        read_set=sources,
        write_set=tuple(targets),
        neighbours=tuple(targets[1:]),
        causes=MappingProxyType({record["updated_by_operation_id"]: record["updated_at"]}),
    )


def _ruling(intent: Adjudicate, observed: Document, decided: Document) -> Document:
    date, seen = "ruling_date", "docket_entry_date"
    parts = ("utc", "originating_tz", "originating_calendar_date")
    drawn: Document = {
        name: observed[name]
        for name in ("source_spans", "source_refs", "source_ref")
        if name in observed
    }
    return {
        **drawn,
        **{f"{date}_{part}": observed[f"{seen}_{part}"] for part in parts},
        "dispositions": [{"disposition": observed["disposition"]}],
        "scope_targets": list(intent.scope_targets),
        "primary_source_citation": {"court_disposition_observation_id": intent.record_id},
        **{name: decided[name] for name in ("adjudication", "normalized_label") if name in decided},
    }
