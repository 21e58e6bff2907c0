"""`rotulus archive`, beside a gateway and without one."""

import json
from contextlib import asynccontextmanager, closing
from functools import partial

import pytest

from kernel.ledger import schema
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from kernel.retention.archival import Retention
from tests.kernel.archives import memory_archive
from tests.kernel.build import FakeHost, create, submit
from tests.workers.api.door import running_door
from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.test_queues import OneRecord
from workers.cli import archive, gateway_call
from workers.environment.system_host import system_host
from workers.use_cases import log_archiving

pytestmark = pytest.mark.spec("§17.7")
ROWS = 2 * SEGMENT_ROWS + 1
DONE = dict.fromkeys(archive._COUNTED, 0)  # noqa: SLF001 - what the command prints
OLD = ("archive", "run", "--older-than", "2d", "--json")


class OldRecord(OneRecord):
    """A gateway for each call, on a record of old rows with an archive."""

    def __init__(self):
        super().__init__()
        fake = FakeHost()
        self.host, self.archive = fake.host, memory_archive()
        ledger = Ledger.create(self.store, self.host)
        for number in range(ROWS):
            submit(ledger, create(f"n-{number}", "Note"))
        fake.time_us += 3 * log_archiving.US_PER_DAY

    @asynccontextmanager
    async def door(self):
        async with running_door(self.store, host=self.host) as door:
            door.services.ledger.archive = self.archive
            yield door


@pytest.fixture
def record(monkeypatch):
    record = OldRecord()
    monkeypatch.setattr(gateway_call, "GatewayClient", record.client)
    monkeypatch.setattr(log_archiving, "Retention", partial(Retention, hot_rows_min=0))
    monkeypatch.setattr(log_archiving, "STEPS_AT_ONCE", 1)
    return record


def test_a_gateway_that_runs_on_the_data_folder_archives_for_the_command(record, data_folder):
    with data_folder.lock():
        assert printed(*OLD) == DONE | {"rows_moved": 2 * SEGMENT_ROWS}
        assert printed(*OLD) == DONE
    with record.store.view() as tables:
        assert tables.count(TableQuery(schema.kernel_event_log)) == 1


def test_a_gateway_whose_archive_is_away_says_so_and_keeps_its_rows(record, data_folder):
    record.archive = Ledger.create(record.store, record.host).archive
    with data_folder.lock():
        refused = rotulus(*OLD)
    assert refused.exit_code == 1
    assert "archive_not_configured" in refused.stderr
    with record.store.view() as tables:
        assert tables.count(TableQuery(schema.kernel_event_log)) == ROWS


def test_where_nothing_runs_the_command_does_it_itself(data_folder, monkeypatch):
    with closing(Ledger.create(SqliteStore(data_folder.ledger_path), system_host())) as ledger:
        for number in range(SEGMENT_ROWS + 1):
            submit(ledger, create(f"n-{number}", "Note"))
    monkeypatch.setattr(log_archiving, "Retention", partial(Retention, hot_rows_min=0))
    arguments = ("archive", "run", "--older-than", "0d", "--json")
    assert printed(*arguments) == DONE | {"rows_moved": SEGMENT_ROWS}
    assert printed("archive", "verify", "--json")["verifies"]
    operations = printed("audit", "operations", "--limit", "500", "--json")["operations"]
    for place, is_archived in ((0, True), (-1, False)):
        described = rotulus("show", "operation", operations[place]["operation_id"])
        assert (json.loads(described.stdout)["archived_at"] is not None) == is_archived
        assert ("read from the archive" in described.stderr) == is_archived
    assert printed("verify", "--json")["verifies"]


@pytest.mark.anyio
async def test_what_is_asked_of_the_route_has_to_be_days(record):
    async with record.door() as door:
        for days in (-1, 36_501, "2", 1.5, True):
            answer = await door.http.post("/v1/archive/runs", json={"older_than_days": days})
            assert answer.status_code == 422, days
        for body in ({}, {"older_than_days": None}):
            done = (await door.http.post("/v1/archive/runs", json=body)).json()
            assert done.pop("is_complete")
            assert not any(done.values())
