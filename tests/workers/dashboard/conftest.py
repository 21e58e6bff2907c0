"""Gateways that the tests of every page look at."""

from collections.abc import Iterator

import pytest

from kernel.work import queue_kinds
from tests.workers.dashboard import trouble
from tests.workers.dashboard.served_gateways import ServedGateway, served_gateway


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    """A gateway with trouble of every kind."""
    rows = queue_kinds._kinds  # noqa: SLF001 - its queues stay with it
    before = dict(rows)
    folder = tmp_path_factory.mktemp("troubled")
    with served_gateway(
        folder, trouble.furnish, trouble.prepare, died_alike=[trouble.DEATH]
    ) as served:
        yield served
    rows.clear()
    rows.update(before)


@pytest.fixture(scope="module")
def peaceful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    """A gateway that nobody has asked for anything."""
    with served_gateway(tmp_path_factory.mktemp("peaceful"), trouble.peace) as served:
        yield served
