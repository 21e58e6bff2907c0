"""A ledger whose effects outside are performed into a folder of the test."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from actors.commit.group_committer import Committer
from actors.sharding.held_shards import HeldShards
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import Store, TableQuery
from tests.actors.harness import running_committer
from tests.kernel.build import FakeHost, ledger_on
from tests.world import World
from workers.external_effects.performer import ExternalEffects


class EffectsWorld(World):
    """A folder, and a performer of what the ledger asks for."""

    def __init__(self, ledger: Ledger, host: FakeHost, committer: Committer, root: Path) -> None:
        super().__init__(ledger, host)
        self.committer = committer
        self.root = root
        self._random = itertools.count(1)
        self.effects = self.new_effects()

    def new_effects(self, held_shards: HeldShards | None = None) -> ExternalEffects:
        """What a restarted process has, or one of several gateways."""
        return ExternalEffects(
            self.ledger, self.committer, self.root, self._bytes, self.now_s, held_shards
        )

    def _bytes(self, count: int) -> bytes:
        return next(self._random).to_bytes(count, "big")

    async def perform(self, *documents: dict[str, Any]) -> int:
        self.accept(*documents)
        return await self.effects.perform_due()

    def receipts(self, kind: str = "external_effect_performed") -> list[dict[str, Any]]:
        return super().receipts(kind)

    def failures(self) -> list[str]:
        return [receipt["error_code"] for receipt in self.receipts("external_effect_failed")]

    def outcomes(self) -> list[str]:
        with self.ledger.view() as view:
            rows = view.tables.scan(TableQuery(schema.outbox_outcomes))
        return sorted(row["outcome"] for row in rows)

    def events(self) -> list[dict[str, Any]]:
        lines = (self.root / "events" / "materializations.jsonl").read_bytes().splitlines()
        return [orjson.loads(line) for line in lines]

    def files(self) -> list[str]:
        """Every file below the folder; the drafts' folder is empty between effects."""
        files = (path for path in self.root.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.root)) for path in files)


@asynccontextmanager
async def running_world(root: Path, store: Store | None = None) -> AsyncIterator[EffectsWorld]:
    Path.mkdir(root, exist_ok=True)
    ledger, host = ledger_on(store or MemoryStore())
    async with running_committer(ledger) as committer:
        yield EffectsWorld(ledger, host, committer, root)
