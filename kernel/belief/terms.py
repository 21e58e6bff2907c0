"""Defines the terms on which a session is declared, and the answers of its verbs."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from kernel.belief.events import BeliefEvent
from kernel.belief.limits import MAX_STABILITY_WINDOW, check_text, check_whole, invalid


@dataclass(frozen=True, slots=True)
class OntologyBundle:
    """The versions that a session's hypotheses refer to; carried, never fetched or checked."""

    hypothesis_space_id: str
    hypothesis_version: str
    causal_graph_ref: str
    causal_graph_version: str

    def __post_init__(self) -> None:
        for item in fields(self):
            check_text(f"ontology.{item.name}", getattr(self, item.name), min_chars=0)

    def to_dict(self) -> dict[str, str]:
        """Return the four fields as a JSON object."""
        return {
            "hypothesis_space_id": self.hypothesis_space_id,
            "hypothesis_version": self.hypothesis_version,
            "causal_graph_ref": self.causal_graph_ref,
            "causal_graph_version": self.causal_graph_version,
        }


TombstonePlace = Literal["ledger", "tee", "plugin"]


@dataclass(frozen=True, slots=True)
class SessionPolicy:
    """The choices that hold for a session's whole life."""

    validate_hypotheses: bool = False
    """Refuse an elimination that names an unknown id, instead of ignoring that id."""
    allow_force: bool = False
    """Let ``{"force": true}`` end a session that has not come down to one survivor."""
    stability_window: int = 0
    """How many equal conclusions in a row termination needs; 0 for none."""
    elimination_store: TombstonePlace = "ledger"
    """Where tombstones are kept beside the audit, which is always on the ledger."""

    def __post_init__(self) -> None:
        for name in ("validate_hypotheses", "allow_force"):
            if not isinstance(getattr(self, name), bool):
                raise invalid(f"policy.{name}", "must be true or false")
        check_whole("policy.stability_window", self.stability_window, most=MAX_STABILITY_WINDOW)

        if self.elimination_store not in get_args(TombstonePlace):
            raise invalid("policy.elimination_store", "must be ledger, tee or plugin")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object; the store only where it is not the ledger."""
        document = asdict(self)
        if self.elimination_store == "ledger":
            del document["elimination_store"]
        return document


DEFAULT_POLICY = SessionPolicy()


@dataclass(frozen=True, slots=True)
class EliminationResult:
    """What an elimination did when it was first received."""

    applied: list[str]
    """Removed by it, sorted."""
    ignored: list[str]
    """Named by it and not among the survivors of the time, sorted."""
    event_id: str
    """The event that recorded it."""
    event: BeliefEvent | None
    """The event that this call made; None when the call repeated an earlier one."""


@dataclass(frozen=True, slots=True)
class SuccessionResult:
    """What became of a session that was succeeded."""

    successor_id: str
    carried: list[tuple[str, str]]
    """(source_id, observation_id) of each elimination that still holds, in their order."""
    event_id: str
    """The event that closed the session."""
    event: BeliefEvent | None
    """The event that this call made; None when the call repeated an earlier one."""


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The session that another one succeeds, and the event that closed it."""

    session_id: str
    event_id: str
    event_hash: str

    def __post_init__(self) -> None:
        for item in fields(self):
            check_text(f"succeeds.{item.name}", getattr(self, item.name))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a request that may be turned down; both answers are on the record."""

    approved: bool
    reason: str
    event: BeliefEvent
