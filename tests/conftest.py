"""Fixtures that every test may ask for."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
