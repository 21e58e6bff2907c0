"""Receipts are sealed every few seconds, before a checkpoint, and when a gateway stops (§17.5)."""

from pathlib import Path

import anyio
import pytest

from kernel.landscape.record_anchors import count_unanchored_groups, earlier_runs
from kernel.landscape.record_chain import RecordChain
from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.records.receipt_seals import count_behind_the_log, last_sealed_receipt
from kernel.verify import verify
from tests.kernel.build import FakeHost, create, submit
from tests.kernel.jobs import do_jobs
from tests.kernel.landscape.runs import begin_with_token
from tests.kernel.tampering import Copy, forge_outcome, forge_record
from tests.workers.api.door import Door, eventually, running_door
from tests.workers.gateway.test_wiring import gateway_in
from tests.workers.publication.published import LogWorld
from workers.environment.checkpoint_key import create_key
from workers.gateway.loops import receipt_sealing
from workers.gateway.loops.receipt_sealing import ReceiptSealing
from workers.gateway.wiring import writing

pytestmark = [pytest.mark.anyio, pytest.mark.may_block, pytest.mark.spec("§17.5", "§17.6")]


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def sealing_of(door: Door, clock: Clock, every_s: float = 5) -> ReceiptSealing:
    return ReceiptSealing(door.ledger, writing(door.committer), every_s, clock)


def rows_of(door: Door) -> int:
    return door.ledger.read(lambda view: view.head().ec_sequence_number)


async def test_a_seal_comes_once_for_what_nothing_seals_and_never_of_itself(
    door: Door, clock: Clock
):
    sealing = sealing_of(door, clock)
    assert await sealing.seal_next() is None
    do_jobs(door.ledger, {"n": 1}, {"n": 2})
    sealed = await sealing.seal_next()
    assert (sealed.first, sealed.last) == (1, 4)
    for _ in range(3):
        clock.now_s += 100
        assert await sealing.seal_next() is None
        assert await sealing.seal_outcomes() is None
    assert rows_of(door) == 1
    with door.ledger.view() as view:
        assert verify(view).findings == ()


async def test_outcomes_come_into_a_range_once_a_minute_where_rows_seal_them(
    door: Door, clock: Clock
):
    sealing = sealing_of(door, clock)
    do_jobs(door.ledger, {"n": 1})
    submit(door.ledger, create("n", "Note"))
    assert await sealing.seal_next() is None
    clock.now_s = receipt_sealing.OUTCOMES_EVERY_S
    assert (await sealing.seal_next()).last >= 2
    do_jobs(door.ledger, {"n": 1})
    submit(door.ledger, create("m", "Note"))
    assert await sealing.seal_next() is None


@pytest.mark.spec("seed 003", "L4")
async def test_what_is_recorded_of_a_run_that_goes_on_comes_under_the_tree_once(
    door: Door, clock: Clock
):
    sealing = sealing_of(door, clock)
    recorder = Recorder(door.ledger)
    for run_id in ("run-1", "run-2"):
        begin_with_token(recorder, run_id)
        recorder.flush()
        assert door.ledger.read(count_unanchored_groups) == 1
        assert await sealing.seal_next() is not None
        assert door.ledger.read(count_unanchored_groups) == 0
        assert door.ledger.read(count_behind_the_log) == 0
    assert await sealing.seal_outcomes() is None
    assert rows_of(door) == 2
    with door.ledger.view() as view:
        assert verify(view).findings == ()


async def test_runs_from_before_there_were_groups_are_taken_in_when_it_starts(
    door: Door, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as earlier:
        earlier.setattr(RecordChain, "append", lambda *_: None)
        recorder = Recorder(door.ledger)
        begin_with_token(recorder)
        recorder.flush()
    assert door.ledger.read(earlier_runs) == ["run-1"]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sealing_of(door, clock, every_s=0.01).run)
        await eventually(lambda: rows_of(door) == 1)
        tasks.cancel_scope.cancel()
    assert door.ledger.read(earlier_runs) == []
    assert door.ledger.read(count_unanchored_groups) == 0
    with door.ledger.view() as view:
        assert verify(view).findings == ()


async def test_the_loop_seals_until_it_is_cancelled(door: Door, clock: Clock):
    sealing = sealing_of(door, clock, every_s=0.01)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sealing.run)
        for number in range(2):
            do_jobs(door.ledger, {"n": number})
            await eventually(lambda: door.ledger.read(count_behind_the_log) == 0)
        tasks.cancel_scope.cancel()
    assert door.ledger.read(last_sealed_receipt) == 5


async def test_of_two_gateways_one_seals_and_the_other_finds_nothing(door: Door, clock: Clock):
    first, other = sealing_of(door, clock), sealing_of(door, clock)
    do_jobs(door.ledger, {"n": 1})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.seal_next)
        tasks.start_soon(other.seal_next)
    assert rows_of(door) == 1


async def test_a_checkpoint_commits_to_what_stood_behind_the_last_row(tmp_path: Path, clock: Clock):
    world = LogWorld.made(tmp_path / "world")
    async with running_door(world.ledger.store, host=FakeHost().host) as door:
        sealing = sealing_of(door, clock)
        publishing = world.publishing(every_s=2, clock_s=clock, seal=sealing.seal_outcomes)
        do_jobs(door.ledger, {"n": 1}, {"n": 2}, {"n": 3})
        assert await publishing.publish_due()
        assert world.published().stated.size == 1
        clock.now_s = 10.0
        assert not await publishing.publish_due(), "a seal alone is nothing new"
        do_jobs(door.ledger, {"n": 4})
        clock.now_s = 20.0
        assert await publishing.publish_due(), "receipts are, without any row"
        assert world.published().stated.size == 2
    world.close()


async def test_a_gateway_that_stops_seals_and_signs_what_it_answered(tmp_path: Path):
    """Nothing else is on the record: three jobs of a plug-in, and then whoever owns the file."""
    key, out, path = tmp_path / "log.key", tmp_path / "out", tmp_path / "ledger.db"
    create_key(key, "example.com/log")
    ledger = Ledger.create(SqliteStore(path), FakeHost().host)
    gateway = gateway_in(
        tmp_path / "data", ledger, checkpoint_key=key, checkpoint_folder=out, receipts_seal_s=3600
    )

    async def serve() -> None:
        await eventually((out / "checkpoint").exists)
        do_jobs(ledger, {"width": 40}, {"width": 80}, {"width": 120})
        assert ledger.read(count_behind_the_log) == 6
        recorder = Recorder(ledger)
        begin_with_token(recorder)
        recorder.flush()
        await gateway.leave()

    await gateway.sharing.begin()
    await gateway.run(serve())
    with ledger.view() as view:
        size, root = view.head().ec_sequence_number, view.log_tree().root()
        assert count_behind_the_log(view) == 0
        assert verify(view).findings == ()
    await gateway.aclose()
    stated = SignedCheckpoint.of_bytes((out / "checkpoint").read_bytes()).stated
    assert (stated.size, stated.root) == (size, root)
    assert size > 0
    copy = Copy(path)
    forge_record(copy, TABLES["tokens"], "t", step_in_pipeline=7)
    assert ("landscape_record_groups", "link_broken") in found_in(copy)
    copy = Copy(path)
    forge_outcome(copy, 9999)
    assert ("kernel_event_log", "link_broken") in found_in(copy)


def found_in(copy: Copy) -> set[tuple[str, str]]:
    return {(finding.table, finding.rule) for finding in copy.verify().findings}


async def test_a_backlog_is_sealed_in_ranges_without_waiting(clock: Clock, monkeypatch):
    monkeypatch.setattr("kernel.records.receipt_seals.RANGE_MAX", 4)
    monkeypatch.setattr(receipt_sealing, "RANGE_MAX", 4)
    async with running_door(MemoryStore(), host=FakeHost().host) as door:
        do_jobs(door.ledger, *({"n": number} for number in range(10)))
        sealing = sealing_of(door, clock, every_s=0.2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sealing.run)
            await eventually(lambda: door.ledger.read(last_sealed_receipt) >= 20)
            tasks.cancel_scope.cancel()
