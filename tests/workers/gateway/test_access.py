"""What a gateway's start makes of access: a first owner's key, once, in a file of its own."""

import stat
import time
from pathlib import Path

import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from kernel.records.access.records import access_record
from kernel.transaction.kernel import Kernel
from tests.kernel.build import FakeHost, findings, memory_ledger
from workers.api.access import Door
from workers.environment.key_file import CheckpointKeyUnusable
from workers.environment.principal_limits import PrincipalLimits
from workers.environment.settings import SettingsError, load_settings
from workers.gateway import access
from workers.gateway.access import OWNER_KEY, begin_access
from workers.gateway.wiring import writing_alone
from workers.use_cases.access import DAY_US, AccessChanges, AccessTable
from workers.use_cases.denial_recording import DenialRecording
from workers.use_cases.principal_use import PrincipalUses

pytestmark = pytest.mark.anyio


def door_of(table: AccessTable) -> Door:
    ledger = memory_ledger()
    denials = DenialRecording(writing_alone(ledger, Kernel()), ledger.host.now_us)
    return Door(table, None, False, PrincipalUses(PrincipalLimits(), time.monotonic), denials)


async def test_the_first_start_makes_an_owners_key_once_for_a_year_and_shows_it_nowhere(
    tmp_path: Path,
):
    fake = FakeHost()
    ledger = memory_ledger(fake)
    door = door_of(AccessTable(ledger))
    changes = AccessChanges(writing_alone(ledger, Kernel()), ledger.host)
    with capture_logs() as logs:
        await begin_access(door, changes, tmp_path, halted=False)
        key = (tmp_path / OWNER_KEY).read_text().strip()
        await begin_access(door, changes, tmp_path, halted=False)
    assert (tmp_path / OWNER_KEY).read_text().strip() == key
    assert stat.S_IMODE((tmp_path / OWNER_KEY).stat().st_mode) == 0o600
    assert [entry["event"] for entry in logs] == ["owner_key_made"]
    assert key.split("_")[2] not in str(logs)
    caller = door.table.caller_of(key)
    assert caller is not None
    assert (caller.principal, caller.roles) == ("person:owner", ("owner",))
    [record] = ledger.read(access_record).keys
    assert record.secret_hash not in key
    fake.time_us += 365 * DAY_US - DAY_US
    assert door.table.caller_of(key) is not None
    fake.time_us += 2 * DAY_US
    assert door.table.caller_of(key) is None
    assert findings(ledger) == ()


async def test_nobody_is_owner_by_a_key_that_could_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = memory_ledger()
    changes = AccessChanges(writing_alone(ledger, Kernel()), ledger.host)

    def fail(folder: Path, _: bytes) -> None:
        raise CheckpointKeyUnusable(folder)

    monkeypatch.setattr(access, "write_private", fail)
    with pytest.raises(CheckpointKeyUnusable):
        await begin_access(door_of(AccessTable(ledger)), changes, tmp_path, halted=False)
    assert ledger.read(access_record).keys == ()


async def test_of_gateways_that_share_a_folder_one_makes_the_owner_and_its_key_stays(
    tmp_path: Path,
):
    ledger = memory_ledger()
    changes = AccessChanges(writing_alone(ledger, Kernel()), ledger.host)
    await begin_access(door_of(AccessTable(ledger)), changes, tmp_path, halted=False)
    key = (tmp_path / OWNER_KEY).read_text()
    # The other one has looked before, and comes too late.
    late = AccessTable(ledger)
    late.refresh = anyio.lowlevel.checkpoint  # type: ignore[method-assign]
    await begin_access(door_of(late), changes, tmp_path, halted=False)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [OWNER_KEY]  # noqa: ASYNC240
    assert (tmp_path / OWNER_KEY).read_text() == key


async def test_a_halted_gateway_writes_no_key(tmp_path: Path):
    ledger = memory_ledger()
    changes = AccessChanges(writing_alone(ledger, Kernel()), ledger.host)
    door = door_of(AccessTable(ledger))
    await begin_access(door, changes, tmp_path, halted=True)
    assert not (tmp_path / OWNER_KEY).exists()
    assert ledger.read(access_record).keys == ()


REMOTE = {"host": "0.0.0.0", "allow_remote": True, "allowed_hosts": "gateway.example"}  # noqa: S104


@pytest.mark.parametrize(
    ("stated", "takes"),
    [
        ({}, False),
        ({"access": "keys"}, True),
        (REMOTE, True),
        (REMOTE | {"access": "keys"}, True),
        ({"host": "::1"}, False),
    ],
)
def test_only_loopback_is_open_unless_keys_are_wanted(stated, takes):
    assert load_settings(**stated).takes_keys is takes


def test_open_access_that_other_machines_reach_is_refused():
    with pytest.raises(SettingsError) as refused:
        load_settings(**REMOTE, access="open")
    assert "access_open_remote" in str(refused.value)
