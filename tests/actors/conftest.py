"""What every test of the actors is given."""

from collections.abc import Iterator

import pytest
import structlog

from tests.actors.harness import STORES, kind_of_store


@pytest.fixture(autouse=True)
def captured_log() -> Iterator[list]:
    """Keep the log's events instead of rendering them; the default renderer reads source files."""
    with structlog.testing.capture_logs() as events:
        yield events


@pytest.fixture(params=STORES)
def each_kind_of_store(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test once with a store that locks the head first, and once with one that does late."""
    token = kind_of_store.set(request.param)
    yield
    kind_of_store.reset(token)
