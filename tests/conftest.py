"""Fixtures and the Hypothesis profile that every test may ask for.

HYPOTHESIS_PROFILE=nightly looks twenty times as long as the default, `ci`. Properties that ask for
a share of the profile's examples (`settings().max_examples // 4`) grow with it.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

# A shared machine may be slow at any moment; a slow example says nothing about the code.
settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
