"""A gateway that serves over HTTP from the loop of the test, and a client of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import httpx

from tests import loopback
from workers.environment.settings import Settings
from workers.gateway.process import serve_gateway

READY_S = 30
UNTIL_S = 90
T = TypeVar("T")


@asynccontextmanager
async def served_gateway(settings: Settings, redis_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Serve for the time of a block, which begins when the gateway answers."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_gateway, settings, redis_url)
        async with loopback.client(base_url=f"http://127.0.0.1:{settings.port}") as client:
            await until_it_answers(client)
            yield client
        tasks.cancel_scope.cancel()


async def until(read: Callable[[], Awaitable[T]]) -> T:
    """Return what is read once there is something."""
    with anyio.fail_after(UNTIL_S):
        while not (answer := await read()):
            await anyio.sleep(0.1)
    return answer


async def until_it_answers(client: httpx.AsyncClient) -> None:
    with anyio.fail_after(READY_S):
        while not await _answers(client):
            await anyio.sleep(0.02)


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/healthz")).is_success
    except httpx.TransportError:
        return False
