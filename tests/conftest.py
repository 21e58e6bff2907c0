"""Fixtures and the Hypothesis profile that every test may ask for.

HYPOTHESIS_PROFILE=nightly looks twenty times as long as the default, `ci`. Properties that ask for
a share of the profile's examples (`settings().max_examples // 4`) grow with it.
"""

import os
from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster
from hypothesis import HealthCheck, settings

# A shared machine may be slow at any moment; a slow example says nothing about the code.
settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

_WATCHED = ("time.", "sqlite3.", "socket.", "ssl.")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which our code holds the event loop up with a blocking call."""
    if request.node.get_closest_marker("anyio") is None:
        yield
        return
    # What a test itself does on its loop is its own affair, and files are read at a start.
    watched = BlockBuster(["actors", "queues", "workers"])
    functions = [one for name, one in watched.functions.items() if name.startswith(_WATCHED)]
    for function in functions:
        function.activate()
    try:
        yield
    finally:
        for function in functions:
            function.deactivate()
