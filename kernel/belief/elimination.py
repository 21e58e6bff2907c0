"""Decides which hypotheses are left (CMBSCore), and when a caller may leave an obligation or end.

1. Survivors only ever shrink. An id that is not there is ignored, so the core trusts its adapter.
2. INV-3: a probe id counts once in the life of the core; a repeat is refused without a trace.
3. INV-5a: entropy is log2 of the number of survivors, 0.0 for one or none; it gates nothing.
4. INV-6: an obligation is left once enough hypotheses were removed since it was entered; every
   obligation that is open counts every removal.
5. INV-2: with a stability window of N, termination needs the last N conclusions to be equal.
6. Termination is a mark, not a lock: what must stop afterwards is the session's business.

The core records what was established, never what somebody is about to do, and chooses no probe.
Arguments are taken as they come, without validation. Nothing here costs more than the ids that
a call names, however large the universe was; only the copies that the properties hand out do.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self


@dataclass
class ProbeResult:
    """Whether a probe's result was taken in."""

    accepted: bool
    error: str | None = None


@dataclass
class ObligationExitResult:
    """Whether the obligation was left; an error only where there was none to leave."""

    permitted: bool
    error: str | None = None


@dataclass
class TerminationResult:
    """Whether the core is now terminated."""

    permitted: bool
    error: str | None = None


@dataclass
class EliminationEvent:
    """The ids that one probe really removed."""

    probe_id: str
    observable_id: str
    eliminated: set[str]


class CMBSCore:
    """The belief state of one session: a set that shrinks, and the gates around it."""

    def __init__(self, hypothesis_ids: Iterable[str], stability_window: int = 0) -> None:
        # A dictionary for its keys: the garbage collector does not track a dictionary of texts.
        self._survivors: dict[str, None] = {hypothesis_id: None for hypothesis_id in hypothesis_ids}  # noqa: C420
        # Not by `fromkeys`: of a million ids it takes a while, and no other thread runs meanwhile.
        self._consumed_probes: set[str] = set()
        self._obligations: dict[str, int] = {}
        self._obligation_elimination_counts: dict[str, int] = {}
        self._elimination_history: list[EliminationEvent] = []
        self._conclusion_history: list[str] = []
        self._stability_window = stability_window
        self._terminated = False

    @property
    def survivors(self) -> set[str]:
        """A copy of the ids that are left."""
        return set(self._survivors)

    @property
    def entropy(self) -> float:
        """Bits needed to tell the survivors apart; 0.0 for one or none."""
        count = len(self._survivors)
        return math.log2(count) if count > 1 else 0.0

    @property
    def is_terminated(self) -> bool:
        """True from the first granted termination on."""
        return self._terminated

    def submit_probe_result(
        self, probe_id: str, observable_id: str, eliminated: Iterable[str]
    ) -> ProbeResult:
        """Remove the named ids that survive, once per probe id.

        A repeated probe id is refused with the error ``duplicate probe``. The ids are read before
        the probe counts, so a call that fails on them can be made again.
        """
        if probe_id in self._consumed_probes:
            return ProbeResult(accepted=False, error="duplicate probe")
        removed = {
            hypothesis_id for hypothesis_id in eliminated if hypothesis_id in self._survivors
        }
        self._consumed_probes.add(probe_id)
        for hypothesis_id in removed:
            del self._survivors[hypothesis_id]
        if removed:
            self._elimination_history.append(EliminationEvent(probe_id, observable_id, removed))
            for obligation_id in self._obligation_elimination_counts:
                self._obligation_elimination_counts[obligation_id] += len(removed)
        return ProbeResult(accepted=True)

    def enter_obligation(self, obligation_id: str, min_eliminations: int = 1) -> None:
        """Open an obligation; one that is open already starts again from zero."""
        self._obligations[obligation_id] = min_eliminations
        self._obligation_elimination_counts[obligation_id] = 0

    def is_obligation_active(self, obligation_id: str) -> bool:
        """Say whether the obligation is open."""
        return obligation_id in self._obligations

    def may_exit(self, obligation_id: str) -> bool:
        """Say what a request to leave would answer, and change nothing (INV-6)."""
        if obligation_id not in self._obligations:
            return False
        removed = self._obligation_elimination_counts[obligation_id]
        return removed >= self._obligations[obligation_id]

    def request_obligation_exit(self, obligation_id: str) -> ObligationExitResult:
        """Close the obligation if enough was removed since it was entered."""
        if not self.is_obligation_active(obligation_id):
            return ObligationExitResult(permitted=False, error="obligation not active")
        if not self.may_exit(obligation_id):
            return ObligationExitResult(permitted=False)
        del self._obligations[obligation_id]
        del self._obligation_elimination_counts[obligation_id]
        return ObligationExitResult(permitted=True)

    def declare_conclusion(self, conclusion_id: str) -> None:
        """Add a conclusion to the history, whatever else holds."""
        self._conclusion_history.append(conclusion_id)

    def may_terminate(self) -> bool:
        """Say what a request to terminate would answer, and change nothing (INV-2)."""
        window = self._stability_window
        if window == 0:
            return True
        recent = self._conclusion_history[-window:]
        return len(self._conclusion_history) >= window and len(set(recent)) == 1

    def request_termination(self) -> TerminationResult:
        """Mark the core as terminated if its conclusions are stable."""
        if not self.may_terminate():
            return TerminationResult(permitted=False)
        self._terminated = True
        return TerminationResult(permitted=True)

    def gates(self) -> dict[str, Any]:
        """Return the part of the state that no universe makes large: what gates are judged by."""
        return {
            "stability_window": self._stability_window,
            "conclusion_history": list(self._conclusion_history),
            "terminated": self._terminated,
            "obligations": dict(self._obligations),
            "obligation_elimination_counts": dict(self._obligation_elimination_counts),
        }

    def release(self) -> None:
        """Give the memory back, an id at a time; nothing is to be asked of the core afterwards."""
        for event in self._elimination_history:
            while event.eliminated:
                event.eliminated.pop()
        while self._survivors:
            self._survivors.popitem()

    def serialize(self) -> dict[str, Any]:
        """Return the whole state as JSON values, sets as sorted lists."""
        return {
            "survivors": sorted(self._survivors),
            "consumed_probes": sorted(self._consumed_probes),
            **self.gates(),
            "elimination_history": [
                {
                    "probe_id": event.probe_id,
                    "observable_id": event.observable_id,
                    "eliminated": sorted(event.eliminated),
                }
                for event in self._elimination_history
            ],
        }

    @classmethod
    def deserialize(cls, state: dict[str, Any]) -> Self:
        """Rebuild a core from what ``serialize`` returned.

        Raises:
            KeyError: when a part of the state is missing.
        """
        core = cls(state["survivors"], state["stability_window"])
        core._consumed_probes = set(state["consumed_probes"])
        core._conclusion_history = list(state["conclusion_history"])
        core._terminated = state["terminated"]
        core._obligations = dict(state["obligations"])
        core._obligation_elimination_counts = dict(state["obligation_elimination_counts"])
        core._elimination_history = [
            EliminationEvent(event["probe_id"], event["observable_id"], set(event["eliminated"]))
            for event in state["elimination_history"]
        ]
        return core
