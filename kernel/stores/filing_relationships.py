"""Typed relationships between filings; one whose other end is not known expires (§4.3.14)."""

from typing import Literal, Self

from pydantic import model_validator

from kernel.ledger import schema
from kernel.stores.dates import Instant
from kernel.stores.typed import Name, Payload, TypedStore

RelationshipType = Literal[
    "responds_to",
    "replies_to",
    "opposes",
    "supports",
    "amends",
    "supersedes",
    "exhibit_to",
    "rules_on",
]


class FilingRelationship(Payload):
    """An edge from one filing to another, or to one that is not matched yet."""

    relationship_type: RelationshipType
    source_filing_unit_id: Name
    target_filing_unit_id: Name | None = None
    unmatched_expires_at: Instant | None = None

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
