"""How long a property family of the specification looks (§3.8.2)."""

import os

from hypothesis import settings

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"

FAMILY = settings(max_examples=10_000 if NIGHTLY else 1_000)
"""1,000 examples for each family, 10,000 with HYPOTHESIS_PROFILE=nightly."""
