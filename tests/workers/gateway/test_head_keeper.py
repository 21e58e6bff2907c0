"""A gateway notices that its ledger went back, halts, and begins anew once that is accepted."""

import shutil
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from fakeredis import FakeAsyncRedis

from kernel.ledger.head_watch import LedgerWentBack
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.shards import create_ledger_id
from kernel.ledger.sqlite.store import SqliteStore
from kernel.records.head_acceptance import standing_findings
from tests.kernel.build import FakeHost, create, submit
from tests.workers.api.door import error_of, http_client
from workers.environment.ledger_clock import LedgerClock
from workers.environment.settings import Settings
from workers.gateway.head_keeper import HeadKeeper
from workers.gateway.wiring import build_gateway

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§17")]

GROUNDS = {"reason": "the disk was lost", "authority": "ada"}


def opened(folder: Path) -> Ledger:
    return Ledger.create(SqliteStore(folder / "ledger.db"), FakeHost().host)


def answered_and_put_back(folder: Path, keeper: HeadKeeper) -> list[str]:
    """Put operations on a ledger, and its file back from before the last two; return those."""
    path = folder / "ledger.db"
    ledger = opened(folder)
    with ledger.transaction() as transaction:
        create_ledger_id(transaction)
    assert not keeper.settle(ledger)
    submit(ledger, create("kept", "Note"))
    ledger.close()
    shutil.copyfile(path, folder / "backup.db")
    lost = [submit(ledger, create(name, "Note")).operation_id for name in ("lost-1", "lost-2")]
    keeper.keep(ledger)
    keeper.close(ledger)
    shutil.copyfile(folder / "backup.db", path)
    return lost


def keeper_of(folder: Path, key: Path | None = None) -> HeadKeeper:
    return HeadKeeper("gateway-1", folder, key)


@pytest.mark.parametrize("left", ["folder", "key"])
def test_a_file_that_was_put_back_while_nothing_ran_is_noticed(tmp_path: Path, left: str):
    folder, keys = tmp_path / "data", tmp_path / "keys"
    folder.mkdir()
    keys.mkdir()
    key = keys / "log.key"
    lost = answered_and_put_back(folder, keeper_of(folder, key))
    if left == "key":
        # A backup of the whole folder has the file of the folder from before.
        (folder / "known-head.json").unlink()
    ledger = opened(folder)
    assert keeper_of(folder, key).settle(ledger)
    [finding] = ledger.read(lambda view: [*standing_findings(view)])
    assert finding["is_all"]
    assert [each["name"] for each in finding["lost"] if each["kind"] == "operation"] == lost
    ledger.close()


def test_a_folder_with_another_ledger_has_no_hint(tmp_path: Path):
    answered_and_put_back(tmp_path, keeper_of(tmp_path))
    (tmp_path / "ledger.db").unlink()
    ledger = opened(tmp_path)
    ledger.host.random_bytes(1)
    with ledger.transaction() as transaction:
        create_ledger_id(transaction)
    assert not keeper_of(tmp_path).settle(ledger)
    ledger.close()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"ledger_id": "x"}'])
def test_a_hint_that_cannot_be_read_is_none(tmp_path: Path, content: str):
    (tmp_path / "known-head.json").write_text(content)
    ledger = opened(tmp_path)
    assert not keeper_of(tmp_path).settle(ledger)
    ledger.close()


def test_a_finding_is_written_once_however_often_a_gateway_is_killed(tmp_path: Path):
    answered_and_put_back(tmp_path, keeper_of(tmp_path))
    for _ in range(3):
        ledger = opened(tmp_path)
        assert keeper_of(tmp_path).settle(ledger)
        assert len(ledger.read(lambda view: [*standing_findings(view)])) == 1
        ledger.close()


def test_a_halted_gateway_keeps_what_it_knew_for_whatever_is_put_in_the_place_of_its_ledger(
    tmp_path: Path,
):
    """Twice it is led to a ledger that lacks answers, and then to the right one."""
    keeper, ledger = keeper_of(tmp_path), opened(tmp_path)
    with ledger.transaction() as transaction:
        create_ledger_id(transaction)
    ledger.close()
    lacking = [tmp_path / "lacking-1", tmp_path / "lacking-2"]
    for folder in lacking:
        folder.mkdir()
        shutil.copy(tmp_path / "ledger.db", folder)
    assert not keeper.settle(ledger)
    answered = submit(ledger, create("answered", "Note")).operation_id
    end_halted(ledger, keeper)
    for folder in lacking:
        there = opened(folder)
        assert keeper.settle(there)
        [finding] = there.read(lambda view: [*standing_findings(view)])
        assert finding["is_all"]
        assert [each["name"] for each in finding["lost"]] == [answered]
        end_halted(there, keeper)
    ledger = opened(tmp_path)
    assert not keeper.settle(ledger)
    assert not keeper_of(tmp_path).settle(ledger)
    ledger.close()


def end_halted(ledger: Ledger, keeper: HeadKeeper) -> None:
    assert ledger.watch_of_head is not None
    with suppress(LedgerWentBack):
        ledger.watch_of_head.halt("behind")
    keeper.keep(ledger)
    ledger.close()


async def test_a_gateway_that_stands_halted_goes_on_once_that_is_accepted(tmp_path: Path):
    keeper = keeper_of(tmp_path)
    ledger, halted = await anyio.to_thread.run_sync(put_back_and_settled, tmp_path, keeper)
    assert halted
    gateway = build_gateway(
        Settings(data_dir=tmp_path, shards=4),
        ledger,
        FakeAsyncRedis(),
        "gateway-1",
        LedgerClock(),
        halted=halted,
        close=keeper.close,
    )
    ended, answers = anyio.Event(), []

    async def serve() -> None:
        async with http_client(gateway.app) as http:
            answers.append(await http.get("/readyz"))
            answers.append(await http.get("/v1/queues"))
            metrics = (await http.get("/metrics")).text
            assert "rotulus_ledger_went_back 1" in metrics
            accepted = await http.post("/v1/ledger/accept-head", json=GROUNDS)
            assert accepted.json()["changed"]
            with anyio.fail_after(10):
                await ended.wait()

    async def watch_head() -> None:
        await keeper.run(ledger, halted=halted, end=ended.set)

    await gateway.run(serve(), watch_head)
    await gateway.aclose()
    assert "ledger_went_back" in answers[0].json()["problems"]
    error_of(answers[1], 503, "ledger_went_back")
    await anyio.to_thread.run_sync(expect_accepted, tmp_path)


def put_back_and_settled(folder: Path, keeper: HeadKeeper) -> tuple[Ledger, bool]:
    answered_and_put_back(folder, keeper_of(folder))
    ledger = opened(folder)
    return ledger, keeper.settle(ledger)


def expect_accepted(folder: Path) -> None:
    ledger = opened(folder)
    assert not keeper_of(folder).settle(ledger)
    ledger.close()


@pytest.mark.parametrize("way", ["renamed", "removed"])
def test_a_file_that_is_replaced_while_it_is_open_is_not_written(tmp_path: Path, way: str):
    ledger, keeper = opened(tmp_path), keeper_of(tmp_path)
    keeper.settle(ledger)
    submit(ledger, create("kept", "Note"))
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    shutil.copyfile(path, copy)
    if way == "renamed":
        copy.replace(path)
    else:
        path.unlink()
    with pytest.raises(LedgerWentBack) as refused:
        submit(ledger, create("lost", "Note"))
    assert refused.value.departure == "file_replaced"
    keeper.keep(ledger)
    keeper.close(ledger)
    beside = {each.name for each in tmp_path.iterdir()}
    assert "ledger.db-wal" not in beside
    assert "ledger.db-wal.of-replaced-file-0" in beside
    if way == "renamed":
        there = opened(tmp_path)
        assert there.read(LedgerView.head).ec_sequence_number == 0
        there.close()


def test_what_a_replaced_file_had_in_its_log_is_not_folded_into_the_backup(tmp_path: Path):
    """The new file came with a log of its own, which stays."""
    ledger, keeper = opened(tmp_path), keeper_of(tmp_path)
    keeper.settle(ledger)
    other = tmp_path / "other"
    other.mkdir()
    theirs = opened(other)
    submit(theirs, create("theirs", "Note"))
    submit(ledger, create("ours", "Note"))
    for suffix in ("", "-wal", "-shm"):
        (other / f"ledger.db{suffix}").replace(tmp_path / f"ledger.db{suffix}")
    with pytest.raises(LedgerWentBack):
        ledger.read(LedgerView.head)
    keeper.close(ledger)
    there = opened(tmp_path)
    assert there.read(lambda view: view.node("theirs")) is not None
    assert there.read(lambda view: view.node("ours")) is None
    there.close()
