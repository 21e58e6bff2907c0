"""A ledger with a checkpoint and proof files of it, and everybody who verifies such a file."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof import proof_file
from kernel.proof.proof_file import ProofFileInvalid, verify_proof_file
from tests.kernel.build import START_US, FakeHost, create, ledger_on, op_id, submit
from tests.proof_verifiers import NODE, asked_of_the_script
from tests.workers.cli.command import printed, rotulus

ORIGIN = "example/log"

needs_node = pytest.mark.skipif(NODE is None, reason="there is no node on the path")


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

    def ledger(self, time_us=START_US):
        host = FakeHost()
        host.time_us = time_us
        return Ledger(SqliteStore(self.ledger_path), host.host)

    def publish(self):
        printed("checkpoint", "publish", str(self.public), "--key", str(self.key), "--json")

    def prove(self, operation_id, *options, kind="operation"):
        output = self.folder / "proof.json"
        note = str(self.public / "checkpoint")
        result = rotulus(
            "prove", kind, operation_id, "--output", str(output), "--checkpoint", note, *options
        )
        return result, output

    def proved(self, kind, subject):
        """What the command and the files that stand alone say of a proof; all say the same."""
        result, file = self.prove(subject, kind=kind)
        assert result.exit_code == 0, result.output
        shown = printed("verify", "--proof", str(file), "--vkey", self.vkey, "--json")
        assert shown == verify_proof_file(file.read_bytes(), self.vkey)
        if NODE is not None:
            assert by_the_script([file.read_bytes()], self.vkey) == [shown]
        return shown


def alone(file, vkey, folder, source=proof_file.__file__, program=(sys.executable, "-I")):
    """Run a file that stands alone where nothing of Rotulus can be imported."""
    copy = folder / f"alone{Path(source).suffix}"
    shutil.copy(source, copy)
    command = [*program, str(copy), str(file), "--vkey", vkey]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def by_the_script(contents, *vkeys, policy=None):
    question = {"kind": "file", "vkeys": vkeys, "policy": policy and policy.hex()}
    return asked_of_the_script(question | {"content": each.hex()} for each in contents)


def assert_refused(files, vkey):
    for content in files:
        with pytest.raises(ProofFileInvalid):
            verify_proof_file(content, vkey)
    if NODE is not None:
        assert by_the_script(files, vkey) == [None] * len(files)


def judged_alone(content, *vkeys, policy=None):
    try:
        return verify_proof_file(content, *vkeys, policy=policy)
    except ProofFileInvalid:
        return None
