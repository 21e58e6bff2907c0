"""A key that lies elsewhere: a program of somebody else's signs, and whatever else it may do."""

import shutil

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.signing_keys import SigningKeyUnavailable, public_verifier
from kernel.proof.verification import ProofInvalid
from tests.contract.test_log_tree import add_rows
from tests.kernel.build import ledger_on
from tests.signed_log import ORIGIN
from tests.workers.cli.command import printed, rotulus
from workers.environment import command_key
from workers.environment.command_key import CommandKey
from workers.environment.key_file import CheckpointKeyUnusable, hold_keys, seal_keys

SCRIPT = """#!/bin/sh
message=$(mktemp) && cat >"$message"
openssl pkeyutl -sign -rawin -inkey "$1" -in "$message"
rm "$message"
"""


@pytest.fixture(scope="module")
def kms(tmp_path_factory):
    """A folder with a private key, its public half, and the program that signs with it."""
    folder = tmp_path_factory.mktemp("kms of some name")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "private.pem").write_bytes(private)
    (folder / "public.pem").write_bytes(public)
    (folder / "sign").write_text(SCRIPT)
    (folder / "sign").chmod(0o700)
    return folder, public_verifier(ORIGIN, key.public_key())


def command_of(folder):
    return f"'{folder}/sign' '{folder}/private.pem'"


def test_a_program_signs_what_verifies(kms):
    folder, verifier = kms
    key = CommandKey.of_command(verifier, command_of(folder))
    assert CommandKey.of_line(key.line) == key
    signature = key.signature(b"message")
    verifier.check(signature, b"message")


@pytest.mark.parametrize(
    "command",
    ["/nowhere/sign", "/bin/false", "/bin/echo no signature", "/bin/cat", "/bin/sleep 60"],
)
def test_a_program_that_does_not_sign_is_one_that_does_not_answer(kms, monkeypatch, command):
    monkeypatch.setattr(command_key, "SIGNED_S_MAX", 0.2)
    with pytest.raises(SigningKeyUnavailable, match=command.split()[0]):
        CommandKey.of_command(kms[1], command).signature(bytes(64))


@pytest.mark.parametrize("command", ["", "  ", "'open", "/bin/sign\n/bin/other"])
def test_a_line_names_its_program(kms, command):
    with pytest.raises(ProofInvalid):
        CommandKey.of_command(kms[1], command)


def test_a_log_is_signed_by_a_key_that_lies_elsewhere(kms, tmp_path, data_folder):
    folder, verifier = kms
    key_file, published = tmp_path / "log.key", str(tmp_path / "public")
    made = printed(
        *("checkpoint", "key", str(key_file), "--origin", ORIGIN, "--json"),
        *("--signer", str(folder / "public.pem"), command_of(folder)),
    )
    assert made == {"origin": ORIGIN, "vkey": verifier.vkey}
    assert b"PRIVATE" not in key_file.read_bytes()
    ledger, _ = ledger_on(SqliteStore(data_folder.ledger_path))
    add_rows(ledger, 3)
    publish = ("checkpoint", "publish", published, "--key", str(key_file), "--json")
    assert printed(*publish)["tree_size"] == "3"
    verify = ("checkpoint", "verify", f"{published}/checkpoint", "--vkey", verifier.vkey)
    assert rotulus(*verify).exit_code == 0
    add_rows(ledger, 1)
    ledger.close()
    shutil.move(folder / "private.pem", folder / "away")
    refused = rotulus(*publish)
    assert (refused.exit_code, "signing_key_unavailable" in refused.stderr) == (1, True)
    shutil.move(folder / "away", folder / "private.pem")
    assert printed(*publish)["tree_size"] == "4", "a later try succeeds"
    with hold_keys(key_file) as keys:
        assert [key.verifier for key in keys] == [verifier]
    with pytest.raises(CheckpointKeyUnusable, match="too slow"):
        seal_keys(key_file)


def test_a_key_that_signs_no_log_is_refused(kms, tmp_path):
    folder, _ = kms
    other = tmp_path / "other.pem"
    other.write_text("no key")
    key = ("checkpoint", "key", str(tmp_path / "log.key"), "--origin", ORIGIN)
    refused = rotulus(*key, "--signer", str(other), command_of(folder))
    assert (refused.exit_code, "proof_invalid" in refused.stderr) == (1, True)
    unsigned = rotulus(*key, "--signer", str(folder / "public.pem"), "/bin/false")
    assert "signing_key_unavailable" in unsigned.stderr
    assert not (tmp_path / "log.key").exists()
