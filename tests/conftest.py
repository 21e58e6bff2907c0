"""Sets up what holds for every test: the Hypothesis profile, no blocking call, logging of its own.

The default, `ci`, draws the same examples in every run. HYPOTHESIS_PROFILE=nightly draws others
each time, eighty times as many; it prints how a failure is had again, and `--hypothesis-seed N`
repeats a run. Properties that ask for a share of the profile's examples
(`settings().max_examples // 4`) grow with it.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from blockbuster import BlockBuster
from hypothesis import HealthCheck, settings

from tests.cpu_budget import CpuBudget
from tests.wall_clock import hold_at_night

pytest_plugins = ["tests.fixtures"]

# A shared machine may be slow at any moment; a slow example says nothing about the code.
_either = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _either, derandomize=True, database=None, max_examples=25)
settings.register_profile("nightly", _either, max_examples=2000, print_blob=True)
settings.register_profile("fast", _either, derandomize=True, database=None, max_examples=10)
settings.register_profile("mutants", _either, derandomize=True, database=None, max_examples=20)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(_PROFILE)

AT_NIGHT = {
    "kernel/bindings": ("postgres", ()),
    "kernel/landscape": ("postgres", ("test_lineage.py", "test_recorder.py")),
    "queues": ("redis-7", ("test_lease_model.py", "test_queue_cluster.py", "test_queue_model.py")),
    "queues/gateways": ("redis-7", ()),
}
"""By folder: on which of their servers its tests run at night alone, but for those of some files,
which prove by day that the server answers like the others."""

# Until the tests are collected; what is imported for them stays to the end.
gc.disable()

_TESTS = Path(__file__).parent
NIGHTLY_TIMEOUT_S = 3600
"""How long a test may take that looks at eighty times as many examples."""

# What a test itself does on its loop is its own affair, and files are read at a start.
_BLOCKING = [
    function
    for name, function in BlockBuster(["actors", "queues", "workers"]).functions.items()
    if name.startswith(("time.", "sqlite3.", "socket.", "ssl."))
]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if _PROFILE == "nightly" and config.getoption("timeout") is None:
        config.option.timeout = NIGHTLY_TIMEOUT_S
    config.pluginmanager.register(CpuBudget(config), "cpu_budget")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long and is proved by day on a share of it, but for the night."""
    for item in items:
        if hasattr(getattr(item, "module", None), hold_at_night.__name__):
            item.add_marker(pytest.mark.timed)
        if _is_for_the_night(item):
            item.add_marker(pytest.mark.nightly)
    if _PROFILE == "nightly":
        return
    at_night = [item for item in items if item.get_closest_marker("nightly") is not None]
    if at_night:
        config.hook.pytest_deselected(items=at_night)
        items[:] = [item for item in items if item.get_closest_marker("nightly") is None]


def _is_for_the_night(item: pytest.Item) -> bool:
    folder = item.path.parent.relative_to(_TESTS).as_posix()
    if folder not in AT_NIGHT:
        return False
    server, by_day = AT_NIGHT[folder]
    parameters = getattr(item, "callspec", None)
    return (
        item.path.name not in by_day
        and parameters is not None
        and f"-{server}-" in f"-{parameters.id}-"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what is collected here out of every collection of garbage: it stays to the end."""
    try:
        return (yield)
    finally:
        gc.freeze()
        # Most of what a test makes is freed without a collection: 7 % of the CPU time.
        gc.set_threshold(100_000, 50, 100)
        gc.enable()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def logging_of_its_own() -> Iterator[None]:
    """Let no test log as a command has it that another test ran in this process."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which our code holds the event loop up with a blocking call.

    A test whose gateways are processes, with loops of their own, is marked `may_block`.
    """
    marker = request.node.get_closest_marker
    if marker("anyio") is None or marker("may_block") is not None:
        yield
        return
    for function in _BLOCKING:
        function.activate()
    try:
        yield
    finally:
        for function in _BLOCKING:
            function.deactivate()
