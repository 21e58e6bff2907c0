"""Asks a gateway one thing for a command."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from workers.cli.common import run
from workers.cli.places import note_asked
from workers.client.access_key import has_key
from workers.client.typed.gateway import GatewayClient
from workers.environment.output import say
from workers.environment.system_host import account_name

PATIENCE_S = 10.0
"""How long a command asks again where nobody answers; a shard has another gateway by then."""


def patient_client(url: object, patience_s: float | None = None) -> GatewayClient:
    """Return a client that asks again for `PATIENCE_S`, or as long, and says so the first time."""
    note_asked(url)
    patience_s = PATIENCE_S if patience_s is None else patience_s
    return GatewayClient(
        str(url), give_up_after_s=patience_s, sleep=announcing_sleep(url, patience_s)
    )


def announcing_sleep(url: object, patience_s: float) -> Callable[[float], Awaitable[None]]:
    """Return a sleep that says the first time what it waits for."""
    said: list[object] = []

    async def sleep(pause_s: float) -> None:
        if not said:
            said.append(url)
            say(f"waiting for the gateway at {url}, {patience_s:.0f} s at most")
        await anyio.sleep(pause_s)

    return sleep


def ask_gateway(url: object, path: str, body: Any = None, **query: Any) -> Any:
    """Post a body, or get where there is none, and return the answer's JSON."""

    async def ask() -> Any:
        async with patient_client(url) as client:
            return await (client.get(path, **query) if body is None else client.post(path, body))

    return run(ask)


def decider(stated: str) -> str:
    """Return who decides: as stated, else the account's name, nobody where a key says who it is."""
    return stated or ("" if has_key() else account_name())
