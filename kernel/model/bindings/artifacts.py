"""Defines a SourceArtifact as bindings see it: its event, its phase, its fields (§13.3).

All of it is read from the artifact's node and from nothing else. The event is named by what it
brought, so the same version of an artifact is the same event whoever writes it, however often, and
whatever is undone in between (decision kernel/0280). `completed_phases` of the node's payload holds
what each phase came to, with the event that it was about: what was found in an earlier version of
the artifact says nothing about this one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final

from kernel.model.bindings.selectors import PHASES, SELECTOR_KINDS, VALUE_MAX, Phase
from kernel.model.node_kinds import SOURCE_ARTIFACT
from kernel.values.canonical import digest
from kernel.values.errors import FieldRefused

COMPLETED_PHASES: Final = "completed_phases"
SOURCE_EVENT_ID: Final = "source_event_id"

VERSION_FIELDS: Final = (
    *("source_kind", "source_id", "source_path"),
    *("content_kind", "content", "metadata"),
)
"""The fields of an artifact that make its version; what is written beside them is no event."""

PHASE_FIELDS: Final[Mapping[Phase, tuple[str, ...]]] = MappingProxyType(
    {
        phase: tuple(kind for kind, of_phase in SELECTOR_KINDS.items() if of_phase == phase)
        for phase in PHASES
    }
)
"""The fields that each phase finds, by which selectors judge."""

_INTAKE, *_LATER = PHASES


class PhaseRefused(FieldRefused):
    """The completion of a phase that the artifact does not admit."""


@dataclass(frozen=True, slots=True)
class ActiveArtifact:
    """An active SourceArtifact."""

    artifact_ref: str
    source_event_id: str
    """The event that brought the version that stands."""

    phase: Phase
    """The last phase that it has passed."""

    fields: Mapping[str, str]
    """The values that are known by now, by selector kind."""

    def has_passed(self, phase: Phase) -> bool:
        """Tell whether what a phase finds is known."""
        return PHASES.index(phase) <= PHASES.index(self.phase)

    def inputs_digest(self, kinds: Iterable[str]) -> str:
        """Return the digest of the values of some kinds, by which a change of them is noticed."""
        return digest([[kind, self.fields.get(kind)] for kind in sorted(kinds)])


def read_artifact(node: Mapping[str, Any] | None) -> ActiveArtifact | None:
    """Return the artifact of a node, None where the node is none or does not stand."""
    if node is None or node["node_kind"] != SOURCE_ARTIFACT or node["state"] != "active":
        return None
    payload = node["payload"]
    event_id = source_event_id(node["node_id"], payload)
    completed = _outcomes_of_phases(payload, event_id)
    stated = {kind: payload.get(kind) for kind in PHASE_FIELDS[_INTAKE]}
    for fields in completed.values():
        stated |= fields
    known = {kind: value for kind, value in stated.items() if isinstance(value, str)}
    return ActiveArtifact(
        node["node_id"], event_id, [_INTAKE, *completed][-1], MappingProxyType(known)
    )


def source_event_id(artifact_ref: str, payload: Mapping[str, Any]) -> str:
    """Return the id of the event that brings an artifact in the version that a payload states."""
    version = {name: payload[name] for name in VERSION_FIELDS if name in payload}
    return f"source_event:{digest([artifact_ref, version])}"


def completion(
    artifact: ActiveArtifact, payload: Mapping[str, Any], phase: Phase, fields: Mapping[str, str]
) -> dict[str, Any]:
    """Return `completed_phases` once a phase came to these fields; `check_completed` judges it."""
    completed = _outcomes_of_phases(payload, artifact.source_event_id)
    stated: dict[str, Any] = {SOURCE_EVENT_ID: artifact.source_event_id}
    return stated | completed | {phase: dict(fields)}


def check_completed(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
    """Check `completed_phases` of the node that is going to stand against the node before.

    Raises:
        PhaseRefused: `artifact_phase_invalid` for what is no phase, `artifact_event_superseded` for
            phases of another version than this one, `artifact_phase_not_next` out of order,
            `artifact_phase_completed` where they came to the same before.
    """
    stated = after["payload"][COMPLETED_PHASES]
    event_id = source_event_id(after["node_id"], after["payload"])
    if not isinstance(stated, dict):
        raise PhaseRefused("artifact_phase_invalid", "", "completed_phases is an object")
    if stated.get(SOURCE_EVENT_ID) != event_id:
        raise PhaseRefused(
            "artifact_event_superseded",
            SOURCE_EVENT_ID,
            f"the version that stands was brought by {event_id}",
        )
    if before is not None and before["payload"].get(COMPLETED_PHASES) == stated:
        message = "the phase is completed and came to the same"
        raise PhaseRefused("artifact_phase_completed", "", message)
    phases = [phase for phase in stated if phase != SOURCE_EVENT_ID]
    standing = _outcomes_of_phases({} if before is None else before["payload"], event_id)
    reached = [phase for phase in _LATER if phase in phases]
    if reached != _LATER[: len(phases)] or not 0 <= len(phases) - len(standing) <= 1:
        message = f"{len(standing)} phases are completed; complete them in order, one at a time"
        raise PhaseRefused("artifact_phase_not_next", "", message)
    for phase in reached:
        _check_fields(phase, stated[phase])


def _check_fields(phase: Phase, fields: object) -> None:
    if not isinstance(fields, dict):
        raise PhaseRefused("artifact_phase_invalid", phase, "a phase came to an object of fields")
    for kind, value in fields.items():
        if kind not in PHASE_FIELDS[phase]:
            message = f"{phase} finds {', '.join(PHASE_FIELDS[phase])}, and nothing else"
            raise PhaseRefused("artifact_phase_invalid", f"{phase}.{ascii(kind)[:80]}", message)
        if not isinstance(value, str) or not 0 < len(value) <= VALUE_MAX:
            message = f"a value is a text of 1 to {VALUE_MAX} characters"
            raise PhaseRefused("artifact_phase_invalid", f"{phase}.{kind}", message)


def _outcomes_of_phases(payload: Mapping[str, Any], event_id: str) -> dict[Phase, dict[str, str]]:
    """Return what the phases of the event came to, in their order, as far as they are completed."""
    stated = payload.get(COMPLETED_PHASES)
    if not isinstance(stated, dict) or stated.get(SOURCE_EVENT_ID) != event_id:
        return {}
    return {phase: stated[phase] for phase in takewhile(stated.__contains__, _LATER)}
