"""Defines the provider of hypotheses, and what a response of one eliminates."""

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from kernel.belief.errors import BeliefInputError
from kernel.values.foreign_code import call_foreign

MAX_REPORTED_IDS = 100
"""How many unknown ids an error names."""


class HypothesisSpace(Protocol):
    """A closed set of hypotheses; it answers the same for the life of the object."""

    def id(self) -> str:
        """Return the name of the hypothesis space."""
        ...

    def version(self) -> str:
        """Return the version of the hypothesis space."""
        ...

    def hypothesis_ids(self) -> Iterable[str]:
        """Return every hypothesis."""
        ...


@runtime_checkable
class HypothesisProvider(HypothesisSpace, Protocol):
    """A hypothesis space with the probes that eliminate in it (seed 000, section 1)."""

    def probe_ids(self) -> Iterable[str]:
        """Return every probe, in the order in which they are best tried."""
        ...

    def apply_probe(self, probe_id: str, response: str) -> Mapping[str, bool]:
        """Say of each hypothesis whether the response eliminates it; one that is left out is not.

        Raises:
            BeliefInputError: when there is no such probe, or it has no such response.
        """
        ...


def eliminations_by(
    provider: HypothesisProvider, universe: frozenset[str], probe_id: str, response: str
) -> list[str]:
    """Return what a response eliminates, sorted, after the whole answer was checked.

    Raises:
        BeliefInputError: `probe_unknown`, `response_unknown`, or whatever the provider refuses;
            `provider_answer_invalid` for an answer that is no mapping of ids to true or false;
            `provider_hypothesis_unknown` for an id outside the universe.
    """
    # A provider is foreign code and may break its interface.
    answer: object = call_foreign(provider.apply_probe, probe_id, response)
    if not isinstance(answer, Mapping) or not all(
        isinstance(name, str) and isinstance(struck, bool) for name, struck in answer.items()
    ):
        raise BeliefInputError(
            "provider_answer_invalid",
            f"provider {provider.id()}: the answer to {probe_id} maps no ids to true or false",
        )
    unknown = sorted(set(answer) - universe)
    if unknown:
        raise BeliefInputError(
            "provider_hypothesis_unknown",
            f"provider {provider.id()}: {probe_id} names {unknown[:MAX_REPORTED_IDS]}",
        )
    return sorted(name for name, struck in answer.items() if struck)
