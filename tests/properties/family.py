"""How long a property family of the specification looks (§3.8.2)."""

import os

from hypothesis import settings

_PROFILE = os.environ.get("HYPOTHESIS_PROFILE")

NIGHTLY = _PROFILE == "nightly"


def _examples(count: int) -> settings:
    return settings(
        max_examples={"nightly": 10_000, "mutants": 50, "fast": 50}.get(_PROFILE or "", count)
    )


FAMILY = _examples(1_000)
"""1,000 examples for a property of each family, 10,000 with HYPOTHESIS_PROFILE=nightly, 50 against
mutants and in `make test-fast`."""

BESIDE = _examples(100)
"""A tenth of that for the other properties of a family, otherwise the same."""
