"""Dispatches an artifact that a binding selects to its target kind, by a table (§13.5).

`INV-K-TARGET-1`: a target kind has one effect kind, and a fire writes that and nothing else; only
`corpus_document_membership` makes a member of a corpus. `INV-K-OUTCOME-1`: what it writes is
evidence, in the first state that its store has. The record where a fire would write decides whether
it fires (`STANDINGS`).

An outcome follows from the binding's snapshot and from an `EvaluatedOn`, which says everything that
was read of the record. So it can be computed again from what a manifest holds, byte for byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from kernel.model.bindings import outcomes
from kernel.model.bindings.evaluation import evaluate
from kernel.model.bindings.outcomes import BindingOutcomeRecord, Name, reason_of
from kernel.model.bindings.source_binding import BindingTargetKind, SourceBinding
from kernel.model.numbers import PositiveCount
from kernel.values.canonical import digest


@dataclass(frozen=True, slots=True)
class Target:
    """What a fire of one target kind is."""

    effect_kind: str
    """The one effect kind of its operation."""

    verb: str
    """The verb of its operation. A fire without one of its own is its record alone."""

    evidence: tuple[tuple[str, str], ...] = ()
    """Fields of the effect's payload that say that it is evidence, and nothing decided."""

    states: tuple[str, ...] = ()
    """Fields of the artifact that it states, by selector kind; a binding waits until they are known
    (decision kernel/0310)."""


CASE_FIELDS: Final = ("case_ref", "court_id", "legal_profile_kind")
"""Fields of an artifact that are its case's."""


TARGETS: Final[Mapping[BindingTargetKind, Target]] = MappingProxyType(
    {
        "corpus_document_membership": Target(
            "membership_write", "corpus_membership_add", (("to_state", "candidate"),)
        ),
        "case_metadata_update": Target("node_write", "metadata_field_set", states=CASE_FIELDS),
        "relationship_candidate": Target(
            "filing_relationship_write",
            "filing_relationship_write",
            (("lifecycle_state", "candidate"),),
        ),
        "court_disposition_observation": Target(
            "court_disposition_observation_write",
            "court_disposition_observation_write",
            (("lifecycle_state", "observed"),),
        ),
        "extraction_task": Target("receipt_only", "binding_fire_record"),
    }
)
"""The table of §13.5."""

ABSENT: Final = "absent"
UNSTATED: Final = "unstated"
"""The artifact does not say what the target has to state."""

SAME, DIFFERENT, LOCKED = "same", "different", "locked"
UNIT_UNKNOWN: Final = "filing_unit_unknown"

STANDINGS: Final[Mapping[BindingTargetKind, Mapping[str, str]]] = MappingProxyType(
    {
        "corpus_document_membership": {
            ABSENT: outcomes.FIRED,
            "candidate": outcomes.EXISTS,
            "confirmed": outcomes.EXISTS,
            "rejected": outcomes.TAKEN_BACK,
            "soft_deleted": outcomes.TAKEN_BACK,
            "policy_blocked": outcomes.POLICY_BLOCKED,
        },
        "case_metadata_update": {
            UNSTATED: outcomes.INCOMPLETE,
            ABSENT: outcomes.CASE_UNKNOWN,
            SAME: outcomes.EXISTS,
            DIFFERENT: outcomes.FIRED,
            LOCKED: outcomes.FIELD_LOCKED,
            "quarantined": outcomes.POLICY_BLOCKED,
            "disabled": outcomes.POLICY_BLOCKED,
            "retracted": outcomes.TAKEN_BACK,
            "soft_deleted": outcomes.TAKEN_BACK,
        },
        "relationship_candidate": {
            UNSTATED: outcomes.INCOMPLETE,
            UNIT_UNKNOWN: outcomes.FILING_UNIT_UNKNOWN,
            ABSENT: outcomes.FIRED,
            "candidate": outcomes.EXISTS,
            "confirmed": outcomes.EXISTS,
            "rejected": outcomes.TAKEN_BACK,
            "retracted": outcomes.TAKEN_BACK,
        },
        "court_disposition_observation": {
            UNSTATED: outcomes.INCOMPLETE,
            ABSENT: outcomes.FIRED,
            SAME: outcomes.EXISTS,
            DIFFERENT: outcomes.FIRED,
            "confirmed": outcomes.CONFIRMED,
            "superseded": outcomes.TAKEN_BACK,
            "withdrawn": outcomes.TAKEN_BACK,
            "retracted": outcomes.TAKEN_BACK,
        },
        "extraction_task": {
            UNSTATED: outcomes.INCOMPLETE,
            ABSENT: outcomes.FIRED,
            "pending": outcomes.EXISTS,
            "running": outcomes.EXISTS,
            "succeeded": outcomes.EXISTS,
            "degraded": outcomes.EXISTS,
            "blocked": outcomes.EXTRACTION_FAILED,
            "abandoned": outcomes.EXTRACTION_FAILED,
            "cancelled": outcomes.TAKEN_BACK,
        },
    }
)
"""By target kind and by what stands where the fire would write: why it fires, or does not."""

BindingStanding = Literal["in_force", "unknown", "generation_unknown", "disabled", "superseded"]

_NOT_IN_FORCE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "unknown": outcomes.BINDING_UNKNOWN,
        "generation_unknown": outcomes.GENERATION_UNKNOWN,
        "disabled": outcomes.DISABLED,
        "superseded": outcomes.SUPERSEDED,
    }
)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Refused(_Model):
    """The refusal of a fire's operation: by which check, and with which code."""

    check: Name
    reason_code: Name


class EvaluatedOn(_Model):
    """Everything that an evaluation read of the record, its snapshot apart."""

    binding: BindingStanding
    binding_generation_id: Name | None = None
    """The generation that was evaluated; None where the binding has none."""

    artifact_ref: Name | None = None
    """The artifact; None where none is on record."""

    artifact_version: PositiveCount | None = None
    artifact_digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Of the fields by which it was judged."""

    particulars_digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Of what the text was read to say beside them; None where nothing was handed in."""

    standing: Name | None = None
    """What stood where the fire would write; None where it was not looked at."""

    target_ref: Annotated[str, StringConstraints(min_length=1, max_length=1100)] | None = None
    refused: Refused | None = None
    """Why the operation of the fire was refused, where it was."""


def artifact_digest(fields: Mapping[str, str]) -> str:
    """Return the digest of the fields by which an artifact is judged."""
    return digest(dict(fields))


def reason_for(
    binding: SourceBinding | None, fields: Mapping[str, str], read: EvaluatedOn
) -> tuple[str, str | None]:
    """Return why an evaluation ends, and the check that refused where one did.

    `binding` is the snapshot that was evaluated, None where there is none.
    """
    if read.binding != "in_force" or binding is None:
        return _NOT_IN_FORCE.get(read.binding, outcomes.GENERATION_UNKNOWN), None
    if read.artifact_ref is None:
        return outcomes.ARTIFACT_UNKNOWN, None
    if not evaluate(binding.selectors, fields).matched:
        return outcomes.NO_MATCH, None
    reason = STANDINGS[binding.target_kind][read.standing or ABSENT]
    if reason == outcomes.FIRED and read.refused is not None:
        return read.refused.reason_code, read.refused.check
    return reason, None


def outcome_for(
    identity: "Identity",
    binding: SourceBinding | None,
    fields: Mapping[str, str],
    read: EvaluatedOn,
) -> BindingOutcomeRecord:
    """Return the outcome of an evaluation: a function of what is handed in, and of nothing else.

    Raises:
        ValueError: when the operation was refused by a check after which it is tried again.
    """
    code, check = reason_for(binding, fields, read)
    reason = reason_of(code, check)
    if reason is None:
        raise ValueError(f"{code} of {check} is no outcome")
    names_target = code in (outcomes.FIRED, outcomes.EXISTS, outcomes.CONFIRMED)
    return BindingOutcomeRecord(
        outcome_id=identity.outcome_id,
        source_event_id=identity.source_event_id,
        binding_id=identity.binding_id,
        target_kind=identity.target_kind if binding is None else binding.target_kind,
        outcome_state=reason.outcome_state,
        outcome_target_ref=read.target_ref if names_target else None,
        outcome_reason_code=code,
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """Which evaluation an outcome is of."""

    outcome_id: str
    source_event_id: str
    binding_id: str
    target_kind: BindingTargetKind
    """The kind that the request states, for a binding that the record does not have."""
