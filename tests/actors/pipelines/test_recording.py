"""The recorder from coroutines: many at once, one group, everything durable after a flush."""

import inspect

import anyio
import pytest

from actors.pipelines.recording import AsyncRecorder
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import SqliteStore
from tests.kernel.build import FakeHost

pytestmark = pytest.mark.anyio


async def test_coroutines_record_at_once_and_nothing_that_was_flushed_is_missing(tmp_path):
    ledger = await anyio.to_thread.run_sync(
        lambda: Ledger.create(SqliteStore(tmp_path / "ledger.db"), FakeHost().host)
    )
    recorder = AsyncRecorder(ledger)
    await recorder.begin_run({}, run_id="run-1")
    await recorder.register_node("run-1", "s", "csv", "source")

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


NAMES_OF_THE_SEED = {
    *("begin_run", "complete_run", "get_run", "list_runs", "register_node", "register_edge"),
    *("create_row", "create_token", "fork_token", "coalesce_tokens", "expand_token"),
    *("begin_node_state", "complete_node_state", "record_call", "record_routing_event"),
    *("record_token_outcome", "create_batch", "add_batch_member", "complete_batch"),
    *("record_validation_error", "record_transform_error"),
}
"""Of seed 003, but for `allocate_call_index` (decision kernel/0422)."""


async def test_every_method_of_the_recorder_is_there_by_its_name_and_does_the_same(tmp_path):
    others = {"whole"}  # A block is a function for `record`.
    names = {
        name for name, value in inspect.getmembers(Recorder, callable) if not name.startswith("_")
    }
    assert {name for name in names - others if not hasattr(AsyncRecorder, name)} == {"record_of"}
    assert names >= NAMES_OF_THE_SEED
    ledger = await anyio.to_thread.run_sync(
        lambda: Ledger.create(SqliteStore(tmp_path / "ledger.db"), FakeHost().host)
    )
    recorder = AsyncRecorder(ledger)
    await recorder.begin_run({}, run_id="run-1")
    await recorder.register_node("run-1", "s", "csv", "source")
    row = await recorder.create_row("run-1", "s", 0, {"n": 0}, keep_payload=True)
    token = await recorder.create_token("run-1", row["row_id"])
    for child in await recorder.fork_token("run-1", token, ["a", "b"]):
        await recorder.record_token_outcome("run-1", child["token_id"], "routed", sink_name="s")
    assert (await recorder.get_record("run-1", "rows", row["row_id"])) == row
    assert len((await recorder.get_records("run-1", "tokens", row_id=row["row_id"])).records) == 3
    assert (await recorder.complete_run("run-1"))["status"] == "completed"
    with pytest.raises(LandscapeRefused):
        await recorder.get_run("run-2")
    await anyio.to_thread.run_sync(ledger.close)
