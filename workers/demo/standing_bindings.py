"""Creates the standing bindings of dockets at a gateway; those that are there stay as they are."""

from collections import Counter
from dataclasses import dataclass, field

from workers.client.typed.gateway import GatewayClient
from workers.dockets.standing_bindings import standing_bindings


@dataclass(slots=True)
class CreatedBindings:
    """What became of the set."""

    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Bindings that the gateway refused, by reason code."""


async def create_standing_bindings(gateway: GatewayClient) -> CreatedBindings:
    """Create what is missing; one that somebody has changed or disabled is left alone.

    Raises:
        GatewayError: nobody answered for too long.
    """
    answer = await gateway.post("/v1/bindings", {"intents": standing_bindings()})
    created = CreatedBindings()
    for result in answer["results"]:
        if result["validation_result"] == "accepted" and not result["duplicate"]:
            created.accepted += 1
        elif result.get("reason_code") not in (None, "node_already_exists"):
            created.refused[result["reason_code"]] += 1
    return created
