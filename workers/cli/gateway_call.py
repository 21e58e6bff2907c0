"""Asks a gateway one thing for a command."""

from typing import Any

from workers.cli.common import run
from workers.clients.gateway import GatewayClient


def ask_gateway(url: object, path: str, body: Any = None, **query: Any) -> Any:
    """Post a body, or get where there is none, and return the answer's JSON."""

    async def ask() -> Any:
        async with GatewayClient(str(url)) as client:
            return await (client.get(path, **query) if body is None else client.post(path, body))

    return run(ask)
