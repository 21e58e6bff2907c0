"""Answers the probes of a kit by the truth that it is played for: oracles."""

from collections.abc import Mapping
from functools import partial

from kernel.belief.adapter import Action, Answer
from kernel.belief.errors import BeliefInputError
from workers.kits.kit import Kit


class TwentyQOracle:
    """Answers for a secret hypothesis: yes where the kit keeps it on a yes."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def answer(self, secret: str, action: Action) -> str:
        """Return `yes` or `no`.

        Raises:
            BeliefInputError: `secret_unknown`, `probe_unknown`.
        """
        self._check(secret)
        return "no" if secret in self._kit.removed_hypotheses(action.action_id, "yes") else "yes"

    def knowing(self, secret: str) -> Answer:
        """Return the answers for one secret.

        Raises:
            BeliefInputError: `secret_unknown`.
        """
        self._check(secret)
        return partial(self.answer, secret)

    def _check(self, secret: str) -> None:
        if secret not in self._kit.hypotheses:
            known = ", ".join(self._kit.hypotheses)
            raise BeliefInputError("secret_unknown", f"{secret!r} is not in {known}")


class ITBenchOracle:
    """Answers from a scenario: the outcome of each probe.

    Raises:
        BeliefInputError: `probe_unknown` or `response_unknown`, for a scenario that names what
            the kit does not have.
    """

    def __init__(self, kit: Kit, scenario: Mapping[str, str]) -> None:
        for probe_id, outcome in scenario.items():
            kit.removed_hypotheses(probe_id, outcome)
        self._scenario = dict(scenario)

    def answer(self, action: Action) -> str:
        """Return the outcome of a probe.

        Raises:
            BeliefInputError: `scenario_invalid` when the scenario does not say.
        """
        if action.action_id not in self._scenario:
            raise BeliefInputError(
                "scenario_invalid", f"the scenario says nothing of {action.action_id}"
            )
        return self._scenario[action.action_id]
