"""Fixtures of pytest for tests of jobs; what they need is imported where they are used."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rotulus.testing import MovedClock, Queues


@pytest.fixture
def rotulus_queues() -> "Iterator[Queues]":
    """Queues in memory that take what jobs are asked for in this test."""
    from rotulus.testing import Queues  # noqa: PLC0415 - see above

    with Queues().taking() as queues:
        yield queues


@pytest.fixture
def rotulus_clock(rotulus_queues: "Queues") -> "MovedClock":
    """The clock of these queues, which the test moves."""
    return rotulus_queues.clock
