"""Tells a gateway of damaged records that a process met which reads beside it (L3).

A reader leaves no receipt: the gateway looks at the record, and puts it on the record. If none
answers, the process has logged it, and who reads it next meets it again.
"""

from collections.abc import Sequence
from dataclasses import asdict

import structlog

from kernel.ledger.damage import Damage
from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient

_log = structlog.get_logger(__name__)


async def report_damage(gateway: GatewayClient, met: Sequence[Damage]) -> bool:
    """Report damaged records; tell whether the gateway has taken all of them."""
    try:
        for damage in met:
            await gateway.post("/v1/quarantines", asdict(damage))
    except GatewayError as error:
        _log.error("damage_not_reported", error=str(error))
        return False
    return True
