"""Registers the queues of this worker's plug-ins, by which every gateway checks contents.

The statement of a worker when it begins takes the place of what was stated before. It repeats it
once in a while, so that a queue whose registration made room for another one while no worker served
it is registered again; that takes nobody's place, or two versions of a worker would take turns.
"""

from collections.abc import Mapping
from typing import Any, Final

import anyio
import structlog

from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient
from workers.plugins import QueuePlugin
from workers.plugins.registration import registration_of

PATH: Final = "/internal/queues"
REPEAT_S: Final = 30.0
AGAIN_S: Final = 0.5
"""Pause before a gateway that is away is asked again."""

_log = structlog.get_logger(__name__)


async def keep_registered(plugins: Mapping[str, QueuePlugin], gateway: GatewayClient) -> None:
    """Register queues, and repeat it until cancelled; what is refused is logged."""
    stated = _registrations(plugins)
    begun: set[str] = set()
    while stated:
        pause_s = REPEAT_S
        for queue, document in stated.items():
            try:
                await gateway.post(PATH, {"queues": [document], "is_new": queue not in begun})
                begun.add(queue)
            except GatewayError as error:
                pause_s = REPEAT_S if error.status == 422 else AGAIN_S
                _log.warning("queue_not_registered", queue=queue, code=error.code, why=str(error))
        await anyio.sleep(pause_s)


def _registrations(plugins: Mapping[str, QueuePlugin]) -> dict[str, dict[str, Any]]:
    documents: dict[str, dict[str, Any]] = {}
    for name, plugin in plugins.items():
        try:
            documents[name] = registration_of(plugin).document()
        except ValueError as error:
            _log.warning("gateways_need_plugin", queue=name, why=str(error))
    return documents
