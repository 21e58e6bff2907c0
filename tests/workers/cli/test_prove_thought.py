"""`rotulus prove thought`, and three verifiers that judge its files, byte for byte."""

import itertools
import json
import os
import random

import pytest

from actors.commit.thought_units import (
    ChainVerifiedUnit,
    FinalizeUnit,
    RecordThoughtUnit,
    Sealing,
    StartAuditSessionUnit,
)
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.proof_file import verify_proof_file
from kernel.proof.signing_keys import KeyKind, SeedKey
from kernel.records.legal_holds import Grounds
from kernel.retention.erasure import ErasablePayload, erase
from kernel.thoughts.reading import read_chain
from tests.actors.harness import bench_on
from tests.kernel.build import FakeHost
from tests.kernel.deciding import deciding
from tests.proof_verifiers import NODE
from tests.signed_log import witness_key
from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.notary import Notary, assert_refused, by_the_script, judged_alone

pytestmark = [pytest.mark.spec("002 Finalization workflow"), pytest.mark.may_block]

SIGNER = SeedKey("example.com/agent", KeyKind.ED25519, b"a" * 32)
WITNESS = witness_key(1)
TIME_S = 1_700_000_000
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


class Thinker(Notary):
    """A ledger with sessions of thoughts, finalized unless a test says otherwise."""

    def __init__(self, folder, data_folder):
        super().__init__(folder, data_folder)
        self.host = FakeHost()
        self.host.counter = itertools.count(1 << 20)

    def ledger(self):
        """The ledger with a host whose randomness goes on."""
        return Ledger(SqliteStore(self.ledger_path), self.host.host)

    def run(self, *units):
        ledger = self.ledger()
        for unit in units:
            with bench_on(ledger) as context, context.transaction.savepoint():
                unit.run(context)
        ledger.close()

    def think(self, session_id, count, *, finalize=True):
        kinds = ["decision"] * (count - 1) + ["reflection"]
        self.run(
            StartAuditSessionUnit(session_id, "task"),
            *(
                RecordThoughtUnit(session_id, f"t-{number}", kind, f"{session_id}: é {number}")
                for number, kind in enumerate(kinds, start=1)
            ),
        )
        if finalize:
            ledger = self.ledger()
            with ledger.view() as view:
                read = read_chain(view, session_id)
            ledger.close()
            sealing = Sealing(signers=(SIGNER,))
            self.run(ChainVerifiedUnit(session_id, *read), FinalizeUnit(session_id, sealing))
        self.publish()

    def thought(self, session_id, number, *options):
        result, file = self.prove(f"{session_id}:t-{number}", *options, kind="thought")
        assert result.exit_code == 0, result.output
        return file.read_bytes()


@pytest.fixture
def thinker(tmp_path, data_folder):
    return Thinker(tmp_path, data_folder)


def said_by_all(content, vkey):
    shown = verify_proof_file(content, vkey)
    if NODE is not None:
        assert by_the_script([content], vkey) == [shown]
    return shown


def test_a_thought_is_proved_by_the_seal_of_its_session(thinker):
    for count in (1, 3, 6):
        session_id = f"s-{count}"
        thinker.think(session_id, count)
        for number in {1, count // 2 + 1, count}:
            shown = said_by_all(thinker.thought(session_id, number), thinker.vkey)
            assert shown["thought"]["thought_id"] == f"t-{number}"
            assert (shown["thought"]["sequence"], shown["content"]) == (number, None)
            assert (shown["seal"]["leaf_count"], shown["seal"]["session_id"]) == (count, session_id)
            assert shown["signed_by"] == [SIGNER.verifier.vkey]
            assert shown["row"]["semantic_intent"] == "merkle_finalize"
    with_content = thinker.thought("s-3", 2, "--with-content")
    assert said_by_all(with_content, thinker.vkey)["content"] == "s-3: é 2"
    for number in (1, 3):
        assert f"s-3: é {number}" not in json.loads(with_content)["content"]["content"]


def test_the_command_verifies_it_without_a_ledger(thinker):
    thinker.think("s", 3)
    content = thinker.thought("s", 2, "--with-content")
    thinker.ledger_path.unlink()
    file = thinker.folder / "proof.json"
    shown = printed("verify", "--proof", str(file), "--vkey", thinker.vkey, "--json")
    assert shown == verify_proof_file(content, thinker.vkey)


def test_what_is_not_sealed_or_not_there_is_not_proved(thinker):
    thinker.think("s", 2)
    thinker.think("open", 2, finalize=False)
    for subject, code in (
        ("open:t-1", "audit_session_not_finalized"),
        ("s:t-3", "thought_unknown"),
        ("s", "thought_unknown"),
        ("nobody:t-1", "audit_session_unknown"),
    ):
        refused, file = thinker.prove(subject, kind="thought")
        assert (refused.exit_code, code in refused.stderr) == (1, True), refused.output
        assert not file.exists()


@pytest.mark.spec("P6")
def test_an_erased_content_is_withheld_and_the_proof_before_stays(thinker):
    thinker.think("s", 3)
    before = thinker.thought("s", 2, "--with-content")
    ledger = thinker.ledger()
    payload = ErasablePayload("thought", "t-2", "s")
    with ledger.transaction() as transaction:
        grounds = Grounds("a request", "the court")
        assert erase(transaction, payload, grounds, deciding(transaction)).erased
    ledger.close()
    assert said_by_all(before, thinker.vkey)["content"] == "s: é 2"
    refused, _ = thinker.prove("s:t-2", "--with-content", kind="thought")
    assert (refused.exit_code, "was erased" in refused.stderr) == (1, True)
    assert said_by_all(thinker.thought("s", 2), thinker.vkey)["content"] is None


@pytest.mark.spec("P1")
def test_what_was_put_together_otherwise_proves_nothing(thinker):
    thinker.think("s", 5)
    thinker.think("other", 5)
    honest = json.loads(thinker.thought("s", 5, "--with-content"))
    other = json.loads(thinker.thought("other", 5, "--with-content"))
    fourth = json.loads(thinker.thought("s", 4))
    _, file = thinker.prove(honest_operation(honest), "--with-envelope")
    operation = json.loads(file.read_bytes())
    record = honest["thought"]
    changed = [
        *({name: other[name]} for name in ("thought", "envelope", "content", "row", "tlog_proof")),
        *({name: fourth[name]} for name in ("thought", "eta_path", "rfc6962_path")),
        *({name: None} for name in ("thought", "envelope", "eta_path", "rfc6962_path")),
        *({name: honest[name][1:]} for name in ("eta_path", "rfc6962_path")),
        *({name: [*honest[name], honest[name][0]]} for name in ("eta_path", "rfc6962_path")),
        {"thought": record.replace('"sequence":5', '"sequence":6')},
        {"thought": record.replace('"sequence":5', '"sequence":5.0')},
        {"thought": record.replace('"sequence":5', '"sequence":1e999')},
        {"thought": record.replace('"sequence":5', '"sequence":true')},
        {"thought": record.replace("t-5", "t-6")},
        {"content": honest["content"] | {"content": "s: é 6"}},
        {"content": honest["content"] | {"salt": "00" * 32}},
        {"kind": "manifest"},
        {"kind": "elimination", "events": []},
    ]
    files = [honest | change for change in changed] + [operation | {"kind": "thought"}]
    assert_refused([json.dumps(file).encode() for file in files], thinker.vkey)


def honest_operation(document):
    return json.loads(document["row"])["operation_id"]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.spec("P5")
def test_no_byte_of_a_file_can_be_changed(thinker):
    """Every byte of a cosigned proof: three verifiers refuse the file or take it for less.

    By day every fourth byte is changed.

    A signature whose line no longer names a known key is none: then the log has not signed, or a
    witness has not cosigned.
    """
    thinker.think("s", 3)
    document = json.loads(thinker.thought("s", 2, "--with-content"))
    head, _, note = document["tlog_proof"].partition("\n\n")
    signed = SignedCheckpoint.of_bytes(note.encode()).sign(WITNESS, TIME_S)
    # The line of ML-DSA-44 is that of a key of which these verifiers are told nothing.
    text, of_log, _, of_witness = signed.to_bytes().decode().rsplit("\n", 4)[:-1]
    document["tlog_proof"] = f"{head}\n\n{text}\n{of_log}\n{of_witness}\n"
    honest = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    policy = f"witness w {WITNESS.verifier.vkey}\nquorum w\n".encode()
    assert verify_proof_file(honest, thinker.vkey, policy=policy)["verdict"] == "witnessed"
    chance, files = random.Random(18), []
    changed_places = range(0, len(honest), 1 if NIGHTLY else 4)
    for place in changed_places:
        changed = bytearray(honest)
        changed[place] ^= chance.randrange(1, 256)
        files.append(bytes(changed))
    judged = [judged_alone(content, thinker.vkey, policy=policy) for content in files]
    if NODE is not None:
        assert by_the_script(files, thinker.vkey, policy=policy) == judged
    taken = {
        place: proved
        for place, proved in zip(changed_places, judged, strict=True)
        if proved is not None
    }
    assert {proved["verdict"] for proved in taken.values()} <= {"unwitnessed"}
    line = honest.index(of_witness.encode())
    assert all(line <= place < line + len(of_witness.encode()) for place in taken)


def test_a_ledger_can_not_be_asked_for_a_thought_of_nothing(data_folder, tmp_path):
    note = tmp_path / "note"
    note.write_text("nothing")
    output = str(tmp_path / "proof")
    refused = rotulus("prove", "thought", "s:t", "--output", output, "--checkpoint", str(note))
    assert (refused.exit_code, "ledger_unavailable" in refused.stderr) == (1, True)
