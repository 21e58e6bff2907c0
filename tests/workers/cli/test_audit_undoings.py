"""`rotulus audit undoings` and what `rotulus verify` says of them."""

import lzma

import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.schema import migrate
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import FakeHost, create, submit
from tests.ledgers.make import FOLDER
from tests.workers.cli.command import printed, rotulus

pytestmark = pytest.mark.spec("§5.2", "K30")


def test_an_operator_is_told_whose_write_an_earlier_release_lost(data_folder):
    path = data_folder.ledger_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.decompress((FOLDER / "undone_1.sqlite.xz").read_bytes()))
    migrate(path)
    named = printed("audit", "undoings", "--json", code=1)["undoings"]
    assert [undoing["record_key"] for undoing in named] == ["lost", "back", "opened"]
    verified = printed("verify", "--json")
    assert verified["verifies"] is True
    assert verified["undoings_that_differ"] == named
    [later] = printed("audit", "undoings", "--after", "15", "--json", code=1)["undoings"]
    assert later["record_key"] == "opened"
    assert "opened" in rotulus("audit", "undoings").output


def test_where_nothing_was_undone_wrongly_nothing_is_named(data_folder):
    ledger = Ledger.create(SqliteStore(data_folder.ledger_path), FakeHost().host)
    submit(ledger, create("n", "Note"))
    ledger.close()
    assert printed("audit", "undoings", "--json") == {"undoings": []}
