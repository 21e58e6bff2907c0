"""Which gateway owns which shards, as the record says."""

from typing import Any

from fastapi import APIRouter

from kernel.host import iso_time
from kernel.ledger.ledger import LedgerView
from kernel.ledger.shards import NOBODY, shards_of
from workers.api.services import Given

router = APIRouter(prefix="/v1", tags=["records"])


@router.get("/shards")
async def shards(services: Given) -> dict[str, Any]:
    """Return the shards of each gateway, and those that nobody owns right now."""
    return await services.read(describe_shards)


def describe_shards(view: LedgerView) -> dict[str, Any]:
    """Return who owns what at one point of the record."""
    gateways: dict[str, dict[str, Any]] = {}
    unowned = []
    known = shards_of(view)
    for one in known:
        if one.owner == NOBODY:
            unowned.append(one.shard)
            continue
        gateway = gateways.setdefault(one.owner, {"shards": [], "last_acquired_at": ""})
        gateway["shards"].append(one.shard)
        acquired_at = iso_time(one.acquired_at_us)
        gateway["last_acquired_at"] = max(gateway["last_acquired_at"], acquired_at)
    return {"of": len(known), "gateways": dict(sorted(gateways.items())), "unowned": unowned}
