"""The recorder from coroutines: many at once, one group, everything durable after a flush."""

import anyio
import pytest

from actors.pipelines.recording import AsyncRecorder
from kernel.landscape.record_rules import TABLES
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import SqliteStore
from tests.kernel.build import FakeHost

pytestmark = pytest.mark.anyio


async def test_coroutines_record_at_once_and_nothing_that_was_flushed_is_missing(tmp_path):
    ledger = await anyio.to_thread.run_sync(
        lambda: Ledger.create(SqliteStore(tmp_path / "ledger.db"), FakeHost().host)
    )
    recorder = AsyncRecorder(ledger)
    await recorder.record(lambda sync: sync.begin_run({}, run_id="run-1"))

    async def row(number):
        await recorder.record(lambda sync: sync.create_row("run-1", "s", number, {"n": number}))
        await recorder.flush()

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(row, number)
    rows = await anyio.to_thread.run_sync(
        ledger.read, lambda view: view.tables.select(TABLES["rows"], {"run_id": "run-1"})
    )
    assert sorted(row["row_index"] for row in rows) == [*range(20)]
    await anyio.to_thread.run_sync(ledger.close)
