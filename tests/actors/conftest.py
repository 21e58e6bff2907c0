"""What every test of the actors is given."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def captured_log() -> Iterator[list]:
    """Keep the log's events instead of rendering them; the default renderer reads source files."""
    with structlog.testing.capture_logs() as events:
        yield events
