"""A performer on a ledger in memory, and a log that is kept instead of rendered."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from tests.workers.external_effects.effects_world import EffectsWorld, running_world


@pytest.fixture
async def world(tmp_path: Path, anyio_backend: str) -> AsyncIterator[EffectsWorld]:
    async with running_world(tmp_path / "data") as world:
        yield world


@pytest.fixture(autouse=True)
def captured_log() -> Iterator[list]:
    with structlog.testing.capture_logs() as events:
        yield events
