"""`rotulus prove` and who verifies its files: the command, and one file that stands alone."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.ledger.sqlite import SqliteStore
from kernel.proof import proof_file
from kernel.proof.merkle_tree import HASH_BYTES, inclusion_path, leaf_hash, root_of
from kernel.proof.proof_file import ProofFileInvalid, verified
from kernel.proof.tiles import subtree_root
from kernel.proof.verification import ProofInvalid, verify_inclusion
from tests.kernel.build import create, ledger_on, op_id, submit
from tests.workers.cli.command import printed, rotulus

pytestmark = pytest.mark.spec("P5")

ORIGIN = "example/log"


class Notary:
    """A ledger of some operations, and its newest checkpoint."""

    def __init__(self, folder, data_folder):
        self.folder, self.ledger_path = folder, data_folder.ledger_path
        self.key, self.public = folder / "log.key", folder / "public"
        made = printed("checkpoint", "key", str(self.key), "--origin", ORIGIN, "--json")
        self.vkey = made["vkey"]
        self.grow(5)
        self.publish()

    def grow(self, count):
        ledger, _ = ledger_on(SqliteStore(self.ledger_path))
        with ledger.view() as view:
            begin = view.head().ec_sequence_number
        for number in range(begin, begin + count):
            submit(ledger, create(f"n-{number}", "Note") | {"operation_id": op_id(f"{number}")})
        ledger.close()

    def publish(self):
        printed("checkpoint", "publish", str(self.public), "--key", str(self.key), "--json")

    def prove(self, operation_id, *options):
        output = self.folder / "proof.json"
        note = str(self.public / "checkpoint")
        result = rotulus(
            "prove", "operation", operation_id, "--output", str(output), "--checkpoint", note,
            *options,
        )  # fmt: skip
        return result, output


@pytest.fixture
def notary(tmp_path, data_folder):
    return Notary(tmp_path, data_folder)


def alone(file, vkey, folder):
    """Run the single file where nothing of Rotulus can be imported."""
    copy = folder / "alone.py"
    shutil.copy(proof_file.__file__, copy)
    command = [sys.executable, "-I", str(copy), str(file), vkey]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_a_proof_verifies_without_a_ledger_and_without_rotulus(notary, tmp_path):
    result, file = notary.prove(op_id("2"))
    assert result.exit_code == 0, result.output
    notary.ledger_path.unlink()
    proved = printed("verify", "--proof", str(file), "--vkey", notary.vkey, "--json")
    assert (proved["verifies"], proved["verdict"]) == (True, "unwitnessed")
    assert (proved["row"]["operation_id"], proved["origin"]) == (op_id("2"), ORIGIN)
    assert proved["envelope"] is None
    ran = alone(file, notary.vkey, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == proved
    source = Path(proof_file.__file__).read_text()
    assert not any(f"import {name}" in source for name in ("kernel", "workers", "orjson"))


def test_an_envelope_is_shown_under_its_commitment_where_that_is_asked_for(notary):
    _, file = notary.prove(op_id("2"), "--with-envelope")
    assert verified(file.read_bytes(), notary.vkey)["envelope"]["operation_id"] == op_id("2")
    document = json.loads(file.read_bytes())
    document["envelope"]["content"] = document["envelope"]["content"].replace("n-2", "n-3")
    with pytest.raises(ProofFileInvalid):
        verified(json.dumps(document).encode(), notary.vkey)


def test_a_file_that_was_changed_proves_nothing(notary, tmp_path):
    _, file = notary.prove(op_id("2"))
    honest = file.read_bytes()
    expected = verified(honest, notary.vkey)
    chance = random.Random(18)
    for _ in range(600):
        changed = bytearray(honest)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        try:
            assert verified(bytes(changed), notary.vkey) == expected
        except ProofFileInvalid:
            continue
    file.write_bytes(honest.replace(b"index 2", b"index 3"))
    assert alone(file, notary.vkey, tmp_path).returncode == 1
    refused = rotulus("verify", "--proof", str(file), "--vkey", notary.vkey)
    assert (refused.exit_code, "proof_invalid" in refused.stderr) == (1, True)
    assert rotulus("verify", "--proof", str(file)).exit_code == 2


def test_what_a_checkpoint_does_not_have_is_not_proved(notary):
    notary.grow(1)
    refused, file = notary.prove(op_id("5"))
    assert "proof_invalid" in refused.stderr
    unknown, _ = notary.prove("nothing")
    assert "operation_not_found" in unknown.stderr
    assert not file.exists()


def test_the_two_verifiers_agree_on_paths_honest_and_not():
    leaves = [leaf_hash(b"%d" % number) for number in range(40)]
    chance = random.Random(6962)
    for _ in range(3000):
        size = chance.randrange(1, len(leaves) + 1)
        index = chance.randrange(size)

        def node(level, place):
            return subtree_root(leaves[place << level : (place + 1) << level])

        path, root = inclusion_path(index, size, node), root_of(size, node)
        stated = (leaves[index], index, size, path)
        if chance.randrange(2):
            stated = mutated(chance, *stated)
        assert holds(*stated, root) == holds_alone(*stated, root)


def mutated(chance, leaf, index, size, path):
    return chance.choice(
        [
            (leaf, max(0, index - 1), size, path),
            (leaf, index, size + 1, path),
            (leaf, index, size, path[:-1]),
            (leaf, index, size, [*path, bytes(HASH_BYTES)]),
            (leaf, index, size, path[::-1]),
            (bytes(HASH_BYTES), index, size, path),
        ]
    )


def holds(leaf, index, size, path, root):
    try:
        verify_inclusion(leaf, index, size, path, root)
    except ProofInvalid:
        return False
    return True


def holds_alone(leaf, index, size, path, root):
    try:
        return index < size and proof_file.root_over(leaf, index, size, path) == root
    except ProofFileInvalid:
        return False
