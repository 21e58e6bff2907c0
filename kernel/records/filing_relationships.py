"""Keeps typed relationships between filings; one whose other end is not known expires (§4.3.14).

A candidate is evidence that two filings are related, and becomes a relationship when somebody
confirms it, or is rejected; a relationship never becomes a candidate again. On which grounds is
judged by V6 (INV-K-OUTCOME-1).
"""

from typing import Literal, Self

from pydantic import model_validator

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import KernelEffect
from kernel.model.numbers import Share
from kernel.model.relationship_types import RelationshipType
from kernel.records.dates import Instant
from kernel.records.record import Applied, Operation
from kernel.records.typed import Name, Payload, TypedStore, target_of, validate_payload
from kernel.values.errors import EffectInapplicable


class FilingRelationship(Payload):
    """An edge from one filing to another, or to one that is not matched yet."""

    relationship_type: RelationshipType
    source_filing_unit_id: Name
    target_filing_unit_id: Name | None = None
    unmatched_expires_at: Instant | None = None
    lifecycle_state: Literal["candidate", "confirmed", "rejected"] = "confirmed"
    identity_confidence: Share | None = None
    """How sure it is that the target is the filing that is meant (§13.6)."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if (self.target_filing_unit_id is None) == (self.unmatched_expires_at is None):
            raise ValueError("either matched to a filing, or unmatched until it expires")
        if self.target_filing_unit_id == self.source_filing_unit_id:
            raise ValueError("a filing is not related to itself")
        return self


RELATIONSHIPS = TypedStore(
    schema.filing_relationships,
    FilingRelationship,
    frozenset({"filing_relationship_retract"}),
    {
        "source_filing_unit_id": schema.filing_units,
        "target_filing_unit_id": schema.filing_units,
    },
)


def relationship_state(record: Document | None) -> str | None:
    """Return the state of a relationship's record: candidate, confirmed, or retracted."""
    if record is None:
        return None
    if record["state"] != "active":
        return str(record["state"])
    return str(record["payload"].get("lifecycle_state", "confirmed"))


def relationships_of(
    view: LedgerView, end: Literal["source", "target"], filing_unit_id: str, *, limit: int
) -> list[Document]:
    """Return the relationships of a filing at one of their ends, by their ids."""
    where = {f"{end}_filing_unit_id": filing_unit_id}
    rows = view.tables.scan(TableQuery(RELATIONSHIPS.table, where, limit=limit))
    keys = (row["filing_relationship_id"] for row in rows)
    records = (view.record(RELATIONSHIPS.table, key) for key in keys)
    return [record for record in records if record is not None]


def apply_filing_relationship(effect: KernelEffect, operation: Operation) -> Applied:
    """Record a relationship or a candidate for one, or retract it."""
    if effect.effect_kind not in RELATIONSHIPS.retract_kinds:
        payload = validate_payload(FilingRelationship, effect.payload)
        before = operation.transaction.record(RELATIONSHIPS.table, target_of(effect))
        if relationship_state(before) == "confirmed" and payload.lifecycle_state == "candidate":
            raise EffectInapplicable(
                "confirmed cannot become candidate",
                code="filing_relationship_transition_disallowed",
                field="payload.lifecycle_state",
            )
    return RELATIONSHIPS.apply(effect, operation)
