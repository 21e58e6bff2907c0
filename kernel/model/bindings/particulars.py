"""Defines what a fire states of an artifact beside its fields, and its words (§13.5).

Fields come from the record. A worker reads and hands in what only the text says, each with the
stretch of the text that says it; whoever writes it holds the stretches against the text.
"""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from kernel.model.numbers import Length, Offset, Share
from kernel.model.relationship_types import RelationshipType

FieldName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]

CASE_FIELDS_MAX = 16
STRETCHES_MAX = 32


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Stretch(_Model):
    """A stretch of the artifact's text, in Unicode code points of the text before wrapping."""

    offset: Offset
    length: Length


class RelatedFiling(_Model):
    """A filing that the artifact may be about."""

    relationship_type: RelationshipType
    target_artifact_ref: Name
    identity_confidence: Share
    evidence: Name


class Particulars(_Model):
    """What the text of an artifact says, as far as its target kind needs it."""

    disposition: Name | None = None
    related_filing: RelatedFiling | None = None
    case_metadata: Annotated[
        dict[FieldName, Annotated[str, StringConstraints(min_length=1, max_length=1024)]],
        Field(max_length=CASE_FIELDS_MAX),
    ] = {}
    stretches: Annotated[tuple[Stretch, ...], Field(max_length=STRETCHES_MAX, fail_fast=True)] = ()
    """Where the text says it."""

    @model_validator(mode="after")
    def _is_proved(self) -> Self:
        if (self.disposition is not None or self.case_metadata) and not self.stretches:
            raise ValueError("what the text says names the stretches that say it")
        return self


NONE_STATED = Particulars()
