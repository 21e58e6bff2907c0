"""`rotulus checkpoint`: a key made by a command alone, and a log that only goes on."""

import json
import shutil
from functools import partial
from pathlib import Path

import click
import pytest

from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.merkle_tree import root_of
from kernel.proof.tiles import TILE_WIDTH, hashes_of, node_of_tiles, tile_path
from tests.contract.test_log_tree import add_rows
from tests.kernel.build import accept, create, ledger_on, submit
from tests.kernel.test_key_handover import stated
from tests.signed_log import SignedLog, log_key, witness_key
from tests.workers.cli.command import printed, rotulus
from workers.cli import checkpoint as checkpoint_commands
from workers.environment.checkpoint_key import hold_key

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
    with hold_key(publisher.key):
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


class Judge:
    """Checkpoints as files, and the command that says what they are worth."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def verify(self, *arguments):
        said = rotulus("checkpoint", "verify", *arguments, "--json")
        return (said.exit_code, json.loads(said.stdout)["verdict"]) if said.stdout else said.stderr


@pytest.fixture
def judge(tmp_path):
    return Judge(tmp_path)


def test_a_checkpoint_is_worth_what_its_signatures_are(judge):
    log, witness = SignedLog(9), witness_key(1)
    note = judge.write("note", log.signed(9).to_bytes())
    cosigned = judge.write("cosigned", log.signed(9).sign(witness, 1).to_bytes())
    [vkey] = [verifier.vkey for verifier in log.verifiers]
    lines = f"log {vkey}\nwitness w {witness.verifier.vkey}\nquorum w\n"
    policy = judge.write("policy", lines.encode())
    other = log_key(seed=b"o").verifier.vkey
    assert judge.verify(note, "--vkey", vkey) == (0, "unwitnessed")
    assert judge.verify(note, "--vkey", vkey, "--vkey", other) == (1, "invalid")
    assert judge.verify(note, "--policy", policy) == (1, "unwitnessed")
    assert judge.verify(cosigned, "--policy", policy) == (0, "witnessed")
    assert judge.verify(cosigned, "--policy", policy, "--vkey", other) == (1, "invalid")
    assert "--vkey or --policy is needed" in judge.verify(note)
    assert "witness_policy_invalid" in judge.verify(note, "--policy", note)


def test_a_checkpoint_is_compared_with_one_that_was_kept(judge):
    log, rewritten = SignedLog(9), SignedLog(12, 5)
    kept = judge.write("kept", log.signed(9).to_bytes())
    newer = judge.write("newer", rewritten.signed(12).to_bytes())
    same_size = judge.write("same", rewritten.signed(9).to_bytes())
    tiles = judge.folder / "tiles" / "tile" / "0"
    tiles.mkdir(parents=True)
    (tiles / "000").write_bytes(b"".join(rewritten.leaves))
    key = ("--vkey", log.verifiers[0].vkey)
    evidence = str(judge.folder / "evidence.json")
    verify = partial(judge.verify, *key, "--kept", kept, "--evidence", evidence)
    assert verify(kept) == (0, "unwitnessed")
    assert "--tiles is needed" in verify(newer)
    assert not Path(evidence).exists()
    for note, options in ((same_size, ()), (newer, ("--tiles", str(tiles.parents[1])))):
        assert verify(note, *options) == (1, "diverged")
        shown = printed("verify", "--evidence", evidence, *key, "--json")
        assert (shown["proves"], shown["verdict"]) == (True, "diverged")
        assert shown["tree_heads"][0].startswith("9:")
    stranger = log_key(seed=b"o").verifier.vkey
    refused = rotulus("verify", "--evidence", evidence, "--vkey", stranger)
    assert (refused.exit_code, "evidence_invalid" in refused.stderr) == (1, True)
    assert rotulus("verify", "--evidence", evidence).exit_code == 2
    (tiles / "000").write_bytes(b"".join(log.leaves) + bytes(96))
    assert "proof_invalid" in verify(newer, "--tiles", str(tiles.parents[1]))


def test_what_was_published_goes_on_from_what_was_kept(publisher, judge):
    vkey = publisher.make_key()
    publisher.published()
    kept = judge.write("kept", (publisher.to / "checkpoint").read_bytes())
    publisher.grow(TILE_WIDTH)
    publisher.published()
    note = str(publisher.to / "checkpoint")
    options = ("--vkey", vkey, "--kept", kept, "--tiles", str(publisher.to))
    assert judge.verify(note, *options) == (0, "unwitnessed")
    assert judge.verify(kept, "--vkey", vkey, "--kept", note, *options[4:]) == (1, "diverged")


class Handed:
    """A log that was handed over: a ledger with the operation, its keys, and a proof of it."""

    def __init__(self, publisher, monkeypatch):
        self.publisher, self.old = publisher, publisher.key
        self.old_vkey = publisher.make_key()
        publisher.published()
        self.kept = publisher.to.with_name("kept")
        shutil.copy(publisher.to / "checkpoint", self.kept)
        publisher.key = self.new = self.old.with_name("new.key")
        self.new_vkey = publisher.make_key()
        monkeypatch.setattr(checkpoint_commands, "ask_gateway", self._record)
        self.recorded = []

    def _record(self, _, path, body):
        """What a gateway does with it, which has a test of its own."""
        assert path == "/v1/checkpoint/handovers"
        ledger, _ = ledger_on(SqliteStore(self.publisher.ledger_path))
        document = stated(body["handover"], idempotency_key="ab" * 32)
        result = submit(ledger, document, submitter="orchestrator")
        ledger.close()
        self.recorded.append(result.operation_id)
        return {"operation_id": result.operation_id}

    def hand_over(self):
        return rotulus("checkpoint", "hand-over", str(self.old), str(self.new), "--json")

    def proof(self):
        path = self.old.with_name("handover.json")
        options = ("--output", str(path), "--checkpoint", str(self.publisher.to / "checkpoint"))
        printed = rotulus("prove", "operation", self.recorded[0], *options, "--with-envelope")
        assert printed.exit_code == 0, printed.stderr
        return str(path)


@pytest.fixture
def handed(tmp_path, data_folder, monkeypatch):
    ledger, _ = ledger_on(SqliteStore(data_folder.ledger_path))
    accept(ledger, create("n", "Note"))
    ledger.close()
    return Handed(Publisher(tmp_path, data_folder), monkeypatch)


def test_a_verifier_follows_a_handover_from_the_key_that_it_has(handed, judge):
    assert json.loads(handed.hand_over().stdout)["new_vkeys"][0] == handed.new_vkey
    handed.publisher.published()
    note = str(handed.publisher.to / "checkpoint")
    old_key, followed = ("--vkey", handed.old_vkey), ("--handover", handed.proof())
    assert judge.verify(note, *old_key) == (1, "invalid")
    assert judge.verify(note, *old_key, *followed) == (0, "unwitnessed")
    assert judge.verify(note, "--vkey", handed.new_vkey) == (0, "unwitnessed")
    kept = ("--kept", str(handed.kept), "--tiles", str(handed.publisher.to))
    assert judge.verify(note, *old_key, *followed, *kept) == (0, "unwitnessed")
    assert judge.verify(str(handed.kept), *old_key, *followed) == (0, "unwitnessed")
    assert "--handover" in rotulus("checkpoint", "verify", "--help").stdout
    proof = ("verify", "--proof", followed[1], "--json")
    assert "proof_invalid" in rotulus(*proof, *old_key).stderr
    assert printed(*proof, *old_key, *followed)["verdict"] == "unwitnessed"
    for content in (b"{}", Path(followed[1]).read_bytes().replace(b"row", b"wor", 1)):
        forged = judge.write("forged", content)
        assert "proof_invalid" in judge.verify(note, *old_key, "--handover", forged)


def test_keys_that_handed_the_log_over_sign_nothing_more(handed):
    assert handed.hand_over().exit_code == 0
    handed.publisher.key = handed.old
    assert "has handed the log over" in handed.publisher.run().stderr
    handed.publisher.key = handed.new
    assert handed.publisher.published().startswith("2:")


def test_a_handover_is_made_once(handed, monkeypatch):
    def away(*_):
        raise click.ClickException("gateway_unreachable")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_commands, "ask_gateway", away)
        assert handed.hand_over().exit_code == 1
    assert handed.hand_over().exit_code == handed.hand_over().exit_code == 0
    assert len(set(handed.recorded)) == 1
    other = handed.old.with_name("other.key")
    handed.publisher.key = other
    handed.publisher.make_key()
    handed.new = other
    assert "was handed over to other keys" in handed.hand_over().stderr


def test_a_handover_goes_to_keys_of_the_log_that_have_signed_nothing_else(handed):
    stranger = handed.old.with_name("stranger.key")
    printed("checkpoint", "key", str(stranger), "--origin", "example/other", "--json")
    handed.new = stranger
    assert "is of another log" in handed.hand_over().stderr
    handed.publisher.key = handed.new = handed.old.with_name("used.key")
    handed.publisher.make_key()
    handed.publisher.to = handed.publisher.to.with_name("elsewhere")
    ledger, _ = ledger_on(SqliteStore(handed.publisher.ledger_path))
    accept(ledger, create("m", "Note"))
    ledger.close()
    handed.publisher.published()
    assert "has signed a log already" in handed.hand_over().stderr
