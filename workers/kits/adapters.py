"""Turns the outcome of a probe into an elimination with its justification.

Every outcome becomes one elimination, even an empty one, so that the trail shows what was asked.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kernel.belief.adapter import (
    Action,
    AdapterActionContext,
    BeliefAdapter,
    EliminateMessage,
    Snapshot,
)
from kernel.belief.errors import BeliefInputError
from kernel.belief.provider import HypothesisProvider, eliminations_by
from kernel.values.foreign_code import call_foreign
from workers.kits.kit import Kit, Probe


class RemainingActions:
    """Which actions are left, in order: what every adapter here remembers."""

    def __init__(self, action_ids: Iterable[str]) -> None:
        self._action_ids = dict.fromkeys(action_ids)

    @property
    def left(self) -> list[str]:
        """The actions that were not taken."""
        return list(self._action_ids)

    def take(self, action_id: str, snapshot: Snapshot) -> AdapterActionContext:
        """Take an action.

        Raises:
            BeliefInputError: `action_unknown` when it is not left.
        """
        if action_id not in self._action_ids:
            raise BeliefInputError("action_unknown", f"{action_id!r} is not an action that is left")
        del self._action_ids[action_id]
        return AdapterActionContext(action_id, snapshot)


class _KitAdapter:
    """What the adapters of kits share: the kit's order, no action twice, none without effect."""

    source_id = ""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._remaining = RemainingActions(kit.probes)

    def list_actions(self, snapshot: Snapshot) -> list[Action]:
        """Return the probes that are left and have an outcome that would remove a survivor."""
        survivors = set(snapshot["survivors"])
        probes = (self._kit.probes[name] for name in self._remaining.left)
        return [
            Action(probe.probe_id, probe.prompt, {"outcomes": list(probe.removes)})
            for probe in probes
            if any(not survivors.isdisjoint(row) for row in probe.removes.values())
        ]

    def apply_action(self, action_id: str, snapshot: Snapshot) -> AdapterActionContext:
        """Take an action; see `RemainingActions.take`."""
        return self._remaining.take(action_id, snapshot)

    def observe(self, context: AdapterActionContext, raw: object) -> list[EliminateMessage]:
        """Return one elimination, which may be empty; the outcome is trimmed and lower-cased.

        Raises:
            BeliefInputError: `outcome_not_text`, `probe_unknown`, `response_unknown`.
        """
        outcome = _outcome(raw)
        probe = self._kit.probe(context.action_id)
        row = self._kit.removed_hypotheses(probe.probe_id, outcome)
        return [
            EliminateMessage(
                self.source_id,
                f"{probe.probe_id}:{outcome}",
                self._eliminations(row, context.snapshot),
                self._justification(probe, outcome),
            )
        ]

    def _eliminations(self, row: tuple[str, ...], snapshot: Snapshot) -> tuple[str, ...]:
        raise NotImplementedError

    def _justification(self, probe: Probe, outcome: str) -> dict[str, Any]:
        raise NotImplementedError


class TwentyQAdapter(_KitAdapter):
    """Twenty Questions: an answer removes the survivors that it does not keep."""

    source_id = "adapter://twenty_questions"

    def _eliminations(self, row: tuple[str, ...], snapshot: Snapshot) -> tuple[str, ...]:
        return tuple(sorted(set(row).intersection(snapshot["survivors"])))

    def _justification(self, probe: Probe, outcome: str) -> dict[str, Any]:
        return {"action_id": probe.probe_id, "question": probe.prompt, "outcome": outcome}


class ITBenchAdapter(_KitAdapter):
    """ITBench: a finding removes the row of its table, whatever still survives of it."""

    source_id = "adapter://itbench"

    def _eliminations(self, row: tuple[str, ...], snapshot: Snapshot) -> tuple[str, ...]:
        del snapshot
        return row

    def _justification(self, probe: Probe, outcome: str) -> dict[str, Any]:
        return {"probe": probe.probe_id, "outcome": outcome}


class ProviderAdapter:
    """Any hypothesis provider: its probes are the actions, responses are taken as they come."""

    def __init__(self, provider: HypothesisProvider) -> None:
        self._provider = provider
        self._universe = call_foreign(lambda: frozenset(provider.hypothesis_ids()))
        self._remaining = RemainingActions(call_foreign(lambda: list(provider.probe_ids())))

    def list_actions(self, snapshot: Snapshot) -> list[Action]:
        """Return the probes that are left."""
        del snapshot
        return [Action(name, name) for name in self._remaining.left]

    def apply_action(self, action_id: str, snapshot: Snapshot) -> AdapterActionContext:
        """Take an action; see `RemainingActions.take`."""
        return self._remaining.take(action_id, snapshot)

    def observe(self, context: AdapterActionContext, raw: object) -> Sequence[EliminateMessage]:
        """Return one elimination, which may be empty; see `eliminations_by` for what is refused."""
        if not isinstance(raw, str):
            raise BeliefInputError("outcome_not_text", "an outcome is a text")
        probe_id = context.action_id
        struck = eliminations_by(self._provider, self._universe, probe_id, raw)
        return [
            EliminateMessage(
                f"provider://{self._provider.id()}",
                f"{probe_id}:{raw}",
                tuple(struck),
                {"probe": probe_id, "outcome": raw},
            )
        ]


def adapter_of(provider: HypothesisProvider) -> BeliefAdapter:
    """Return the adapter that fits a provider."""
    if not isinstance(provider, Kit):
        return ProviderAdapter(provider)
    return (
        TwentyQAdapter(provider)
        if provider.kind == "twenty_questions"
        else ITBenchAdapter(provider)
    )


def _outcome(raw: object) -> str:
    if not isinstance(raw, str):
        raise BeliefInputError("outcome_not_text", "an outcome is a text")
    return raw.strip().lower()
