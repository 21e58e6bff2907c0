"""`rotulus checkpoint`: a key made by a command alone, and a log that only goes on."""

import shutil

import pytest

from kernel.ledger.sqlite import SqliteStore
from kernel.proof.merkle_tree import root_of
from kernel.proof.tiles import TILE_WIDTH, hashes_of, node_of_tiles, tile_path
from tests.contract.test_log_tree import add_rows
from tests.kernel.build import ledger_on
from tests.workers.cli.command import printed, rotulus
from workers.environment.checkpoint_key import held_key

pytestmark = pytest.mark.spec("P5")


class Publisher:
    """A key, a folder to publish to, and a ledger of rows."""

    def __init__(self, folder, data_folder):
        self.key, self.to = folder / "log.key", folder / "public"
        self.ledger_path = data_folder.ledger_path

    def grow(self, count):
        ledger, _ = ledger_on(SqliteStore(self.ledger_path))
        add_rows(ledger, count, at_once=300)
        ledger.close()

    def make_key(self):
        made = printed("checkpoint", "key", str(self.key), "--origin", "example/log", "--json")
        return made["vkey"]

    def run(self):
        return rotulus("checkpoint", "publish", str(self.to), "--key", str(self.key), "--json")

    def published(self):
        document = printed("checkpoint", "publish", str(self.to), "--key", str(self.key), "--json")
        return document["tree_head"]


@pytest.fixture
def publisher(tmp_path, data_folder):
    publisher = Publisher(tmp_path, data_folder)
    publisher.grow(3)
    return publisher


def test_a_key_is_private_and_never_written_over(publisher):
    assert not publisher.key.exists()
    assert "checkpoint_key_unusable" in publisher.run().stderr
    publisher.make_key()
    assert publisher.key.stat().st_mode & 0o777 == 0o600
    before = publisher.key.read_bytes()
    again = rotulus("checkpoint", "key", str(publisher.key), "--origin", "example/log")
    assert "checkpoint_key_unusable" in again.stderr
    assert publisher.key.read_bytes() == before
    assert rotulus("checkpoint", "key", str(publisher.key), "--origin", "a b").exit_code == 2


def test_a_mirror_of_the_folder_gives_the_signed_root(publisher):
    vkey = publisher.make_key()
    publisher.published()
    publisher.grow(TILE_WIDTH)
    head = publisher.published()
    size = 3 + TILE_WIDTH
    note = str(publisher.to / "checkpoint")
    signed = printed("checkpoint", "verify", note, "--vkey", vkey, "--json")
    assert (signed["tree_head"], signed["tree_size"]) == (head, str(size))

    def tile(level, index):
        width = min(TILE_WIDTH, (size >> 8 * level) - index * TILE_WIDTH)
        return hashes_of((publisher.to / tile_path(level, index, width)).read_bytes())

    root = root_of(size, lambda level, index: node_of_tiles(level, index, tile))
    assert root.hex() == signed["root_hash"]


def test_a_ledger_that_was_put_back_to_an_earlier_state_is_not_signed(publisher, tmp_path):
    publisher.make_key()
    backup = tmp_path / "backup.db"
    shutil.copy(publisher.ledger_path, backup)
    publisher.grow(2)
    head = publisher.published()
    shutil.copy(backup, publisher.ledger_path)
    refused = publisher.run()
    assert refused.exit_code == 1
    assert "checkpoint_diverged" in refused.stderr
    publisher.grow(1)
    assert "checkpoint_diverged" in publisher.run().stderr
    assert f"\n{head.split(':')[0]}\n" in (publisher.to / "checkpoint").read_text()


def test_a_log_that_was_written_anew_is_not_signed(publisher):
    publisher.make_key()
    publisher.published()
    publisher.ledger_path.unlink()
    ledger, _ = ledger_on(SqliteStore(publisher.ledger_path))
    with ledger.transaction() as transaction:
        transaction.next_commit_time_us()
    ledger.close()
    assert "checkpoint_diverged" in publisher.run().stderr


def test_nothing_is_signed_by_a_key_that_does_not_know_what_it_signed(publisher):
    publisher.make_key()
    publisher.published()
    signed = publisher.key.with_name("log.key.signed")
    kept = signed.read_bytes()
    signed.unlink()
    assert "checkpoint_key_unusable" in publisher.run().stderr
    signed.write_bytes(kept.replace(b"\n3\n", b"\n2\n"))
    assert "proof_invalid" in publisher.run().stderr
    publisher.key.write_text("no key")
    assert "checkpoint_key_unusable" in publisher.run().stderr


def test_what_was_signed_and_not_published_is_published_the_next_time(publisher):
    publisher.make_key()
    publisher.to.mkdir()
    (publisher.to / "tile").write_text("a file is in the way")
    assert "output_unusable" in publisher.run().stderr
    (publisher.to / "tile").unlink()
    assert publisher.published().startswith("3:")


def test_two_do_not_sign_with_a_key_at_once(publisher):
    publisher.make_key()
    with held_key(publisher.key):
        assert "another process signs with it" in publisher.run().stderr
    assert publisher.run().exit_code == 0


def test_a_folder_of_another_log_is_left_alone(publisher, tmp_path):
    publisher.make_key()
    publisher.published()
    before = (publisher.to / "checkpoint").read_bytes()
    publisher.key = tmp_path / "other.key"
    publisher.make_key()
    assert "output_unusable" in publisher.run().stderr
    assert (publisher.to / "checkpoint").read_bytes() == before
