"""Makes an authority of its inputs (K13).

The authority is the posterior mean of a Beta distribution with the prior Beta(1, 1). An input of
authority ``a`` and weight ``w`` adds ``w * a`` to alpha and ``w * (1 - a)`` to beta; the weights
are core 4, supporting 2, tangential 1. Sums are exact (``math.fsum``), so the same inputs give the
same bits in any order. Inputs are read once and none is kept.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType

from kernel.model.authority_strategy import AuthorityInput, AuthorityStrategy
from kernel.values.errors import AuthorityInvalid

WEIGHTS: Mapping[str, float] = MappingProxyType({"core": 4.0, "supporting": 2.0, "tangential": 1.0})


def authority_in_range(value: object, place: str) -> float:
    """Return a number from 0 to 1 as a float.

    Raises:
        AuthorityInvalid: `authority_out_of_range` for anything else, NaN among it.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= 1):  # type: ignore[operator]
        raise AuthorityInvalid(f"{place} is {ascii(value)[:40]}, not a number from 0 to 1")
    return float(value)  # type: ignore[arg-type]


def compute_authority(
    strategy: AuthorityStrategy, inputs: Iterable[AuthorityInput], override: object
) -> float:
    """Return a strategy's result, after checking that it is an authority.

    Raises:
        AuthorityInvalid: `authority_out_of_range`, or `authority_sum_overflow`.
    """
    stated = None if override is None else authority_in_range(override, "override_authority")
    try:
        value = strategy.compute(inputs, stated)
    except OverflowError:
        message = "the sum over the inputs is beyond every number"
        raise AuthorityInvalid(message, code="authority_sum_overflow") from None
    return authority_in_range(value, "the authority")


class BetaPosteriorMean:
    """The default strategy: prior Beta(1, 1), weights core 4, supporting 2, tangential 1."""

    def compute(self, inputs: Iterable[AuthorityInput], override: float | None = None) -> float:
        """Return alpha / (alpha + beta), 0.5 where there are no inputs."""
        if override is not None:
            return override
        counts = dict.fromkeys(WEIGHTS, 0)

        def weigh() -> Iterator[float]:
            for authority_input in inputs:
                counts[authority_input.edge_essentiality] += 1
                yield (
                    WEIGHTS[authority_input.edge_essentiality]
                    * authority_input.captured_at_authority
                )

        alpha = math.fsum(chain((1.0,), weigh()))
        # Whole numbers, so exact in any order as well.
        total = 2.0 + sum(WEIGHTS[name] * count for name, count in counts.items())
        return min(1.0, max(0.0, alpha / total))
