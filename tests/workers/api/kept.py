"""A gateway on a loop of its own, for properties: Hypothesis finds, posts and shrinks in one go."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import Store
from kernel.verify import verify
from tests.kernel.build import FakeHost, everything
from tests.workers.api.door import (
    SESSION,
    Door,
    claim,
    error_of,
    rows,
    running_door,
    source,
    understanding,
)

NO_NEWS = frozenset({"receipts", "chain_head"})
"""Tables that a refusal may write."""


@dataclass(frozen=True)
class KeptDoor:
    """A door that is asked from a thread without a loop."""

    door: Door
    portal: BlockingPortal

    @property
    def ledger(self) -> Ledger:
        return self.door.ledger

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send one request; the body goes as it is given."""

        async def ask() -> httpx.Response:
            return await self.door.http.request(method, path, **options)

        return self.portal.call(ask)

    def receipts(self) -> int:
        return len(rows(self.ledger, schema.receipts))

    def verify(self) -> None:
        """Find nothing wrong with the record."""
        with self.ledger.view() as view:
            verification = verify(view)
        assert verification.ok, verification.findings


@contextmanager
def kept_door(store: Store | None = None) -> Iterator[KeptDoor]:
    """Keep a gateway with a little on its record; what was posted must leave the record whole."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running_door(store, host=FakeHost().host)) as door,
    ):
        kept = KeptDoor(door, portal)
        portal.call(_furnish, door)
        yield kept
        kept.verify()


async def _furnish(door: Door) -> None:
    assert (await door.declare(SESSION, "a", "b")).status_code == 201
    results = await door.operate(
        source("s-1"), understanding("u-1", "s-1"), claim("c-1", "s-1", "u-1")
    )
    assert all("ec_sequence_number" in result for result in results), results


def typed(response: httpx.Response) -> str | None:
    """The code of a refusal, None for a success; nothing else is an answer."""
    if response.is_success:
        return None
    refused = 400 <= response.status_code < 500 or response.status_code == 503
    assert refused, (response.status_code, response.text)
    code = response.json()["error"]["code"]
    assert isinstance(code, str)
    assert code
    error_of(response, response.status_code, code)
    return code


def rows_of(ledger: Ledger) -> dict[str, list[Any]]:
    """Every table but those that a refusal may write."""
    return {name: rows for name, rows in everything(ledger).items() if name not in NO_NEWS}
