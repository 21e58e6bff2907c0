"""A gateway archives old rows by itself, a few segments at a time, while others write (§17.7)."""

from dataclasses import replace

import pytest

from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite import SqliteStore
from kernel.log_archival import GRACE_US, archive_status
from kernel.verify import verify
from tests.kernel.archives import memory_archive
from tests.kernel.build import FakeHost, create, submit
from tests.workers.api.door import running_door
from workers.use_cases import log_archiving
from workers.use_cases.log_archiving import US_PER_DAY, ArchivalDone, archive_some, retention_of

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
            retention = replace(retention_of(days, None, ledger.host.now_us()), hot_rows_min=0)
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
