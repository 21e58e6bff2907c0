"""What a gateway knows of its ledger from one beginning to the next, whatever is put in its place."""

import shutil
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kernel.ledger.head_watch import LedgerWentBack
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import found_shards
from kernel.ledger.sqlite import SqliteStore
from tests.kernel.build import FakeHost, create, ledger_on, submit
from workers.gateway.head_keeper import HeadKeeper
from workers.views.lost_answers import LostDocument, lost_document

@pytest.fixture
def ledgers(tmp_path: Path) -> list[Path]:
    """Three copies of one ledger."""
    path = tmp_path / "ledger.db"
    ledger, _ = ledger_on(SqliteStore(path))
    with ledger.transaction() as transaction:
        found_shards(transaction, 1)
    submit(ledger, create("n", "Note"))
    ledger.close()
    copies = [shutil.copyfile(path, tmp_path / f"{number}.db") for number in range(3)]
    for copy in copies:
        copy.chmod(0o600)
    return copies


def opened(path: Path) -> Ledger:
    return Ledger(SqliteStore(path), FakeHost().host)


def lost_at(ledger: Ledger) -> LostDocument:
    return ledger.read(lambda view: lost_document(view, after=0, limit=100))


def halt(ledger: Ledger) -> None:
    assert ledger.watch_of_head is not None
    with suppress(LedgerWentBack):
        ledger.watch_of_head.halt("behind")


@pytest.mark.spec("§17")
def test_a_halted_gateway_keeps_what_it_knew_for_whatever_is_put_in_the_place_of_its_ledger(
    tmp_path: Path, ledgers: list[Path]
):
    """Twice it is led to a database that lacks answers, and then to the right one."""
    keeper = HeadKeeper("a", tmp_path, None)
    right, *lacking = ledgers
    with closing(opened(right)) as ledger:
        assert not keeper.settle(ledger)
        answered = submit(ledger, create("answered", "Note")).operation_id
        halt(ledger)
        keeper.keep(ledger, halted=False)
    for path in lacking:
        with closing(opened(path)) as ledger:
            assert keeper.settle(ledger)
            document = lost_at(ledger)
            assert answered in [each["name"] for each in document["lost"]]
            assert [found["is_all"] for found in document["findings"]] == [True]
            halt(ledger)
            keeper.keep(ledger, halted=True)
    with closing(opened(right)) as ledger:
        assert not keeper.settle(ledger)
        assert lost_at(ledger)["findings"] == []
