"""What a gateway says of itself and of what needs somebody (`views/attention.py`)."""

from typing import Any

from queues.client.errors import GatewayError
from workers.clients.gateway import GatewayClient
from workers.views.attention import PARTS


async def read_state(client: GatewayClient) -> dict[str, Any]:
    """Return the state of a gateway by its parts; a part may be an error.

    Raises:
        GatewayError: it does not answer.
    """
    state: dict[str, Any] = {"readiness": await client.readiness()}
    for name, path in PARTS.items():
        try:
            state[name] = await client.get(path)
        except GatewayError as error:
            state[name] = {"error": str(error)}
    return state
