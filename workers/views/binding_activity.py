"""Tells what a binding made of the newest events: what it fired on, and why it did not fire.

The newest manifests are looked at, a bounded number of them: each says of every binding that was
evaluated in its cycle what that came to. So this is no history; the manifests of an event are.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from typing_extensions import TypedDict

from kernel.audit.manifests import newest_manifests
from kernel.ledger.ledger import Document
from kernel.model.bindings.outcomes import (
    CANCELLED,
    CASE_UNKNOWN,
    CONFIRMED,
    DISABLED,
    EXISTS,
    EXTRACTION_FAILED,
    FIELD_LOCKED,
    FILING_UNIT_UNKNOWN,
    FIRED,
    GIVEN_UP,
    INCOMPLETE,
    NO_MATCH,
    POLICY_BLOCKED,
    SUPERSEDED,
    SUSPENDED,
    TAKEN_BACK,
)
from kernel.records.access.readable_view import ReadableView
from workers.views.bindings import BindingDocument, describe_binding

MANIFESTS_LOOKED_AT_MAX = 200
OUTCOMES_SHOWN_MAX = 40

WHY: Mapping[str, str] = MappingProxyType(
    {
        FIRED: "it fired",
        NO_MATCH: "its selectors do not admit the document",
        EXISTS: "what it would write is there already",
        POLICY_BLOCKED: "a policy forbids it",
        FIELD_LOCKED: "somebody has locked a field that it would write",
        TAKEN_BACK: "a person has taken back what it would write",
        CONFIRMED: "a person has confirmed something else",
        INCOMPLETE: "the document does not say all that it writes",
        CASE_UNKNOWN: "the case that the document names is not on the record",
        FILING_UNIT_UNKNOWN: "a filing that it would relate is not on the record",
        EXTRACTION_FAILED: "the extraction failed",
        DISABLED: "it was disabled meanwhile",
        SUPERSEDED: "another generation of it is in force",
        GIVEN_UP: "its evaluation failed until it was given up",
        CANCELLED: "its evaluation was cancelled",
        SUSPENDED: "capacity is short, so it is evaluated later",
    }
)
"""By its code, why a binding fired or did not, in words."""


class BindingReasonDocument(TypedDict):
    """How often a binding came to something, and why."""

    why: str
    times: int


class BindingFateDocument(TypedDict):
    """What a binding made of an event."""

    source_event_id: str
    cycle: int
    at: str
    artifact_ref: str | None
    fields: dict[str, str]
    state: str
    code: str
    why: str
    target_ref: str | None
    operation_id: str | None


class BindingActivityDocument(TypedDict):
    """What a binding made of the newest events; the newest come first."""

    binding_id: str
    manifests_looked_at: int
    reasons: list[BindingReasonDocument]
    fired: list[BindingFateDocument]
    not_fired: list[BindingFateDocument]


@dataclass(frozen=True, slots=True)
class BindingOutcomeView:
    """What a binding made of an event, in which cycle, and the operation that wrote it."""

    source_event_id: str
    cycle: int
    at: str
    artifact_ref: str | None
    fields: tuple[tuple[str, str], ...]
    """What the document states, which selectors are held against."""

    state: str
    code: str
    target_ref: str | None
    operation_id: str | None

    @property
    def is_fired(self) -> bool:
        """Whether it fired."""
        return self.code == FIRED

    @property
    def why(self) -> str:
        """Why it fired or did not, in words where there are any for the code."""
        return WHY.get(self.code, self.code)

    def document(self) -> BindingFateDocument:
        """Return the outcome as JSON has it."""
        return {
            "source_event_id": self.source_event_id,
            "cycle": self.cycle,
            "at": self.at,
            "artifact_ref": self.artifact_ref,
            "fields": dict(self.fields),
            "state": self.state,
            "code": self.code,
            "why": self.why,
            "target_ref": self.target_ref,
            "operation_id": self.operation_id,
        }


@dataclass(frozen=True, slots=True)
class BindingView:
    """A binding, and what it made of the newest events."""

    binding: BindingDocument
    fired: tuple[BindingOutcomeView, ...]
    not_fired: tuple[BindingOutcomeView, ...]
    reasons: tuple[tuple[str, int], ...]
    """How often each reason came up in the manifests that were looked at, the most frequent first,
    in words."""

    manifests_looked_at: int

    def document(self) -> BindingActivityDocument:
        """Return what the binding did as JSON has it."""
        return {
            "binding_id": self.binding["binding_id"],
            "manifests_looked_at": self.manifests_looked_at,
            "reasons": [{"why": why, "times": times} for why, times in self.reasons],
            "fired": [outcome.document() for outcome in self.fired],
            "not_fired": [outcome.document() for outcome in self.not_fired],
        }


def binding_view(view: ReadableView, binding_id: str) -> BindingView | None:
    """Return a binding and what it did lately; None where no binding has the id."""
    binding = describe_binding(view, binding_id)
    if binding is None:
        return None
    manifests = newest_manifests(view, limit=MANIFESTS_LOOKED_AT_MAX)
    outcomes = [each for body in manifests for each in outcomes_of(body) if each[0] == binding_id]
    views = [outcome for _, outcome in outcomes]
    fired = [outcome for outcome in views if outcome.is_fired]
    others = [outcome for outcome in views if not outcome.is_fired]
    return BindingView(
        binding,
        tuple(fired[:OUTCOMES_SHOWN_MAX]),
        tuple(others[:OUTCOMES_SHOWN_MAX]),
        tuple(Counter(outcome.why for outcome in views).most_common()),
        len(manifests),
    )


def outcomes_of(body: Document) -> list[tuple[str, BindingOutcomeView]]:
    """Return what each binding of a manifest came to, with the binding's id."""
    evaluations = {each["outcome_id"]: each for each in body["evaluations"]}
    fields = {each["artifact_ref"]: each["fields"] for each in body["artifacts"]}
    outcomes = []
    for outcome in body["binding_outcomes"]:
        evaluation = evaluations.get(outcome["outcome_id"], {})
        artifact = (evaluation.get("evaluated_on") or {}).get("artifact_ref")
        stated = fields.get(artifact) or {}
        outcomes.append(
            (
                outcome["binding_id"],
                BindingOutcomeView(
                    body["source_event_id"],
                    body["cycle"],
                    body["evaluated_at"],
                    artifact,
                    tuple((name, str(value)) for name, value in sorted(stated.items())),
                    outcome["outcome_state"],
                    outcome["outcome_reason_code"],
                    outcome.get("outcome_target_ref"),
                    evaluation.get("operation_id"),
                ),
            )
        )
    return outcomes
