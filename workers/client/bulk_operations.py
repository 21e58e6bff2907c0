"""Begins and follows bulk operations at a gateway: what is done once to all requests that fit."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from .gateway_http import GatewayHttp

Verb = Literal["cancel", "requeue", "dismiss", "prioritize"]
Document = dict[str, Any]

_PATH = "/v1/bulk-operations"


class BulkOperations:
    """Bulk operations at a gateway; every method raises `GatewayError` with its own code.

    Criteria are those of `Records.requests` and `queue`; the state follows from the verb. Documents
    are as the gateway answers them.
    """

    def __init__(self, gateway: GatewayHttp) -> None:
        self._gateway = gateway

    async def preview(self, verb: Verb, **criteria: Any) -> Document:
        """Return how many requests fit now (`count`), and the ten newest of them (`samples`)."""
        return await self._post(":preview", {"verb": verb, "filter": _criteria_fields(criteria)})

    async def begin(
        self,
        verb: Verb,
        *,
        reason: str,
        priority_to: str | None = None,
        decided_by: str = "",
        upper_sequence: int | None = None,
        idempotency_key: str | None = None,
        **criteria: Any,
    ) -> Document:
        """Begin; it goes on by itself, whatever is killed, and `get` says how far it has come.

        `priority_to` is the priority that `prioritize` gives to what waits in one queue. With the
        `upper_sequence` of a preview it is about no request that was recorded later. Under an
        `idempotency_key` it begins once.
        """
        body = {"verb": verb, "filter": _criteria_fields(criteria), "reason": reason}
        body |= _criteria_fields({"priority": priority_to, "decided_by": decided_by or None})
        body |= _criteria_fields({"upper_sequence": upper_sequence})
        body |= _criteria_fields({"idempotency_key": idempotency_key})
        return await self._post("", body)

    async def get(self, bulk_number: int) -> Document:
        """Return a bulk operation, and how far it has come."""
        document: Document = await self._gateway.ask_document("GET", f"{_PATH}/{bulk_number}")
        return document

    async def stop(self, bulk_number: int, *, decided_by: str = "") -> Document:
        """End a bulk operation where it is; what it has done stays."""
        return await self._post(f"/{bulk_number}/stop", {"decided_by": decided_by})

    async def _post(self, path: str, body: Mapping[str, Any]) -> Document:
        document: Document = await self._gateway.ask_document("POST", f"{_PATH}{path}", json=body)
        return document


def _criteria_fields(criteria: Mapping[str, Any]) -> Document:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in criteria.items()
        if value is not None
    }
