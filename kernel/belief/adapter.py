"""Turns observations of a domain into eliminations: the adapter's interface, its messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Snapshot = Mapping[str, Any]
"""The belief as `BeliefSession.snapshot` returns it."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be asked or looked at next."""

    action_id: str
    prompt: str
    """What a person is asked."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdapterActionContext:
    """An action that was chosen, and the belief at that time."""

    action_id: str
    snapshot: Snapshot
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EliminateMessage:
    """One elimination, in the words of the verb ELIMINATE (seed 001, section 2.1)."""

    source_id: str
    observation_id: str
    eliminated: tuple[str, ...]
    justification: Mapping[str, Any]
    verb: Literal["ELIMINATE"] = "ELIMINATE"

    def body(self) -> dict[str, Any]:
        """Return the body of the request that sends it."""
        return {
            "source_id": self.source_id,
            "observation_id": self.observation_id,
            "eliminated": list(self.eliminated),
            "justification": dict(self.justification),
        }


class BeliefAdapter(Protocol):
    """Turns observations of a domain into eliminations; it decides nothing about the belief.

    It remembers which actions were taken, so one adapter serves one session.
    """

    def list_actions(self, snapshot: Snapshot) -> Sequence[Action]:
        """Return the actions that are left and could eliminate something, best first."""
        ...

    def apply_action(self, action_id: str, snapshot: Snapshot) -> AdapterActionContext:
        """Take an action: it is not listed again.

        Raises:
            BeliefInputError: `action_unknown`.
        """
        ...

    def observe(self, context: AdapterActionContext, raw: object) -> Sequence[EliminateMessage]:
        """Return what the outcome of an action eliminates.

        Raises:
            BeliefInputError: `outcome_not_text`, `response_unknown`, or what the domain refuses.
        """
        ...


Answer = Callable[[Action], str]
"""Answers what the outcome of an action is: an oracle, or a person."""
