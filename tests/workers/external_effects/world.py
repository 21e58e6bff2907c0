"""A ledger whose effects outside are performed into a folder of the test."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from actors.commit.group_committer import Committer
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.tables import Store
from kernel.verify import verify
from tests.actors.harness import running_committer
from tests.kernel.build import code_of, ledger_on, memory_ledger, submit
from workers.external_effects.performer import ExternalEffects


class World:
    """A ledger, a folder, and a performer whose clock the test moves."""

    def __init__(self, ledger: Ledger, committer: Committer, root: Path) -> None:
        self.ledger = ledger
        self.committer = committer
        self.root = root
        self.now_s = 1000.0
        self._random = itertools.count(1)
        self.effects = self.new_effects()

    def new_effects(self) -> ExternalEffects:
        """What a restarted process has."""
        return ExternalEffects(
            self.ledger, self.committer, self.root, self._bytes, lambda: self.now_s
        )

    def _bytes(self, count: int) -> bytes:
        return next(self._random).to_bytes(count, "big")

    def submit(self, *documents: dict[str, Any]) -> None:
        for document in documents:
            result = submit(self.ledger, document)
            assert code_of(result) is None, result

    async def perform(self, *documents: dict[str, Any]) -> int:
        self.submit(*documents)
        return await self.effects.perform_due()

    def receipts(self, kind: str = "external_effect_performed") -> list[dict[str, Any]]:
        with self.ledger.view() as view:
            rows = view.tables.select(schema.receipts, {"receipt_kind": kind})
        return [orjson.loads(row["receipt_bytes"]) for row in rows]

    def failures(self) -> list[str]:
        return [receipt["error_code"] for receipt in self.receipts("external_effect_failed")]

    def outcomes(self) -> list[str]:
        with self.ledger.view() as view:
            rows = view.tables.select(schema.outbox_outcomes)
        return sorted(row["outcome"] for row in rows)

    def open(self) -> int:
        with self.ledger.view() as view:
            return len(view.open_requests())

    def events(self) -> list[dict[str, Any]]:
        lines = (self.root / "events" / "materializations.jsonl").read_bytes().splitlines()
        return [orjson.loads(line) for line in lines]

    def files(self) -> list[str]:
        """Every file below the folder; the drafts' folder is empty between effects."""
        files = (path for path in self.root.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.root)) for path in files)

    def check(self) -> None:
        with self.ledger.view() as view:
            assert verify(view).findings == ()


@asynccontextmanager
async def running_world(root: Path, store: Store | None = None) -> AsyncIterator[World]:
    Path.mkdir(root, exist_ok=True)
    ledger = memory_ledger() if store is None else ledger_on(store)[0]
    async with running_committer(ledger) as committer:
        yield World(ledger, committer, root)
