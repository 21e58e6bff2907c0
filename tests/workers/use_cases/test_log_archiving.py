"""A gateway archives old rows by itself, a few segments at a time, while others write (§17.7)."""

from dataclasses import replace

import pytest

from kernel.ledger import schema
from kernel.ledger.archive import ArchiveUnavailable
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.ledger import Ledger
from kernel.ledger.quarantine import VIOLATION
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.replay.judgement import replay_one
from kernel.retention.log_archival import GRACE_US, archive_status
from kernel.values.errors import LedgerCorrupt
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from tests.kernel.archives import memory_archive
from tests.kernel.build import (
    FakeHost,
    adapt,
    create,
    receipts_of_kind,
    submit,
    submit_answered,
)
from tests.kernel.tampering import Copy
from tests.workers.api.door import running_door
from workers.environment.settings import Settings
from workers.use_cases import log_archiving
from workers.use_cases.log_archiving import (
    US_PER_DAY,
    ArchivalDone,
    RetentionPolicy,
    archive_some,
    archive_steps,
    retention_policy,
)

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§17.7")]
DAYS = 2
ROWS = 2 * SEGMENT_ROWS + 7


@pytest.fixture
def old(tmp_path):
    """A ledger of old rows, and its host."""
    host = FakeHost()
    ledger = Ledger.create(SqliteStore(tmp_path / "l.db"), host.host, memory_archive())
    for number in range(ROWS):
        submit(ledger, create(f"n-{number}", "Note", summary="word " * 20))
    host.time_us += (DAYS + 1) * US_PER_DAY
    yield ledger, host
    ledger.close()


async def test_rows_move_envelopes_follow_after_their_grace_and_the_record_verifies(
    old, monkeypatch
):
    monkeypatch.setattr(log_archiving, "STEPS_AT_ONCE", 1)
    ledger, host = old
    async with running_door(ledger.store, host=host.host) as door:

        async def some(days=DAYS):
            retention = replace(RetentionPolicy(days).of(ledger), hot_rows_min=0)
            return await archive_some(ledger, door.services.write, retention)

        assert await some(None) == ArchivalDone()
        assert await some(1000) == ArchivalDone()
        assert await some() == ArchivalDone(SEGMENT_ROWS, 0, is_complete=False)
        await door.declare()
        assert await some() == ArchivalDone(SEGMENT_ROWS, 0, is_complete=False)
        assert await some() == ArchivalDone()
        host.time_us += 2 * GRACE_US
        collected = [await some() for _ in range(3)]
        assert [done.envelopes_collected for done in collected] == [SEGMENT_ROWS, SEGMENT_ROWS, 0]
    with ledger.view() as view:
        status = archive_status(view)
        assert (status.segments, status.segments_to_collect) == (2, 0)
        assert verify(view).ok


@pytest.mark.spec("§17.5")
async def test_a_damaged_row_is_quarantined_where_it_is_to_be_archived_and_stays(old, tmp_path):
    ledger, host = old
    copy = Copy(tmp_path / "l.db")
    row = copy.rows(schema.kernel_event_log)[8]
    copy.set(schema.kernel_event_log, row, row_bytes=row["row_bytes"] + b" ")
    copy.close()
    retention = replace(RetentionPolicy(DAYS).of(ledger), hot_rows_min=0)
    async with running_door(ledger.store, host=host.host) as door:
        with pytest.raises(LedgerCorrupt, match="row 9 "):
            await archive_some(ledger, door.services.write, retention)
        assert ledger.read(lambda view: view.quarantines().ranges) == ((9, 9),)
        # Who asks again goes on with what else there is to do.
        assert await archive_some(ledger, door.services.write, retention) == ArchivalDone()
    with ledger.view() as view:
        assert archive_status(view).segments == 0
        assert view.tables.count(TableQuery(schema.receipts, {"receipt_kind": VIOLATION})) == 1


@pytest.mark.spec("§17.5")
def test_so_is_one_that_a_command_archives(old, tmp_path):
    ledger, _ = old
    retention = replace(RetentionPolicy(DAYS).of(ledger), hot_rows_min=0)
    copy = Copy(tmp_path / "l.db")
    blob_ref = copy.rows(schema.kernel_event_log)[299]["envelope_payload_blob_ref"]
    [blob] = [row for row in copy.rows(schema.blobs) if row["blob_ref"] == blob_ref]
    copy.set(schema.blobs, blob, content=b"{}")
    copy.close()
    steps = archive_steps(ledger, retention)
    assert next(steps).rows_moved == SEGMENT_ROWS
    with pytest.raises(LedgerCorrupt, match="of row 300 "):
        next(steps)
    assert ledger.read(lambda view: view.quarantines().ranges) == ((300, 300),)


@pytest.mark.spec("§6.5")
async def test_answers_of_retired_models_go_after_the_horizon_and_their_grace():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host, memory_archive())
    submit(ledger, create("n", "Note"))
    stating = adapt("n", summary="x")
    submit_answered(ledger, stating, b"an answer")
    for number in range(SEGMENT_ROWS):
        submit(ledger, create(f"n-{number}", "Note"))
    policy = RetentionPolicy(DAYS, audit_horizon_days=10, models=ActiveModels({}))

    async with running_door(ledger.store, host=host.host) as door:

        async def done(days, **changes):
            host.time_us += days * US_PER_DAY
            retention = replace(policy, **changes).of(ledger)
            some = await archive_some(
                ledger, door.services.write, replace(retention, hot_rows_min=0)
            )
            assert some.is_complete
            return some.rows_moved, some.operations_released, some.answers_collected

        assert await done(11, kernel_retention_days=None) == (0, 0, 0)
        assert await done(0, audit_horizon_days=None) == (SEGMENT_ROWS, 0, 0)
        assert await done(0) == (0, 1, 0)
        in_use = ActiveModels({"claude-opus-4-7": "claude-opus-4-7"})
        assert await done(8, models=in_use) == (0, 0, 0)
        assert await done(0) == (0, 0, 1)
        assert await done(30) == (0, 0, 0)
    [archived] = receipts_of_kind(ledger, "operation_archived")
    assert archived["operation_id"] == stating["operation_id"]
    with ledger.view() as view:
        assert verify(view).ok
        replayed = replay_one(view, stating["operation_id"], "record_only", in_use)
    assert replayed.block_reason == "recorded_output_unavailable"


@pytest.mark.spec("§6.5", "§17.6")
async def test_by_default_an_answer_is_kept_for_seven_years(tmp_path):
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host, memory_archive())
    submit(ledger, create("n", "Note"))
    submit_answered(ledger, adapt("n", summary="x"), b"an answer")
    for number in range(SEGMENT_ROWS):
        submit(ledger, create(f"n-{number}", "Note"))
    policy = retention_policy(Settings(data_dir=tmp_path))
    assert policy.kernel_retention_days == 90

    async with running_door(ledger.store, host=host.host) as door:

        async def done(days):
            host.time_us += days * US_PER_DAY
            retention = replace(policy.of(ledger), hot_rows_min=0)
            some = await archive_some(ledger, door.services.write, retention)
            return some.rows_moved, some.operations_released, some.answers_collected

        assert await done(91) == (SEGMENT_ROWS, 0, 0)
        assert await done(7 * 365 - 91) == (0, 0, 0)
        assert await done(3) == (0, 1, 0)
        assert await done(6) == (0, 0, 0)
        assert await done(2) == (0, 0, 1)


async def test_where_no_place_is_named_only_who_asks_by_name_is_refused(tmp_path):
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    for number in range(SEGMENT_ROWS):
        submit(ledger, create(f"n-{number}", "Note"))
    host.time_us += 1000 * US_PER_DAY
    policy = retention_policy(Settings(data_dir=tmp_path))
    assert list(archive_steps(ledger, replace(policy.of(ledger), hot_rows_min=0))) == []
    with pytest.raises(ArchiveUnavailable) as caught:
        list(archive_steps(ledger, replace(policy.of(ledger, days=90), hot_rows_min=0)))
    assert caught.value.code == "archive_not_configured"
