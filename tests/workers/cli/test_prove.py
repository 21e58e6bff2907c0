"""`rotulus prove` and who verifies its files: the command, and two files that stand alone."""

import json
import random
import shutil
from pathlib import Path

import pytest

from actors.commit.units import DeadLetterUnit
from kernel.audit.proofs import SUBJECTS
from kernel.landscape.recorder import Recorder
from kernel.proof import proof_file
from kernel.proof.proof_file import KINDS, ProofFileInvalid, verify_proof_file
from kernel.work.manifests import manifest_id
from tests.kernel.binding_world import EVENT, ask, bound, furnish
from tests.kernel.binding_world import work as evaluate
from tests.kernel.build import create, link, op_id, submit
from tests.kernel.honest import Believer, recompute
from tests.kernel.jobs import ask_for_job, do_jobs, seal_receipts, unit
from tests.kernel.landscape.runs import seal, whole_run
from tests.proof_verifiers import NODE, SCRIPT
from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.notary import (
    ORIGIN,
    Notary,
    alone,
    assert_refused,
    by_the_script,
    judged_alone,
    needs_node,
)

pytestmark = pytest.mark.spec("P5")


@pytest.fixture
def notary(tmp_path, data_folder):
    return Notary(tmp_path, data_folder)


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


@needs_node
def test_a_proof_verifies_by_node_alone(notary, tmp_path):
    _, file = notary.prove(op_id("2"))
    ran = alone(file, notary.vkey, tmp_path, SCRIPT, (NODE,))
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == verify_proof_file(file.read_bytes(), notary.vkey)
    file.write_bytes(file.read_bytes().replace(b"index 2", b"index 3"))
    ran = alone(file, notary.vkey, tmp_path, SCRIPT, (NODE,))
    assert (ran.returncode, "proof_invalid" in ran.stderr) == (1, True)
    assert not any(line.startswith("import ") for line in SCRIPT.read_text().splitlines())


def test_a_tombstone_is_proved_by_the_operation_that_anchors_it(notary):
    ledger = notary.ledger(time_us=1_770_631_200_000_000)
    believers = [Believer(ledger, f"s-{number}", 4) for number in range(2)]
    for believer in believers:
        believer.eliminate("h-001")
        believer.eliminate("h-002", "h-003")
    ledger.close()
    notary.publish()
    for session_id in ("s-0", "s-1"):
        for number, struck in ((1, ["h-001"]), (2, ["h-002", "h-003"])):
            shown = notary.proved("elimination", f"{session_id}:{number}")
            assert shown["event"]["session_id"] == session_id
            assert shown["event"]["delta"] == {"eliminated": struck}
            assert shown["row"]["semantic_intent"] == "belief_anchor"
    for event_id in ("s-0:0", "s-9:1"):
        refused, _ = notary.prove(event_id, kind="elimination")
        assert "elimination_not_found" in refused.stderr


def test_a_tombstone_is_proved_by_the_events_behind_it_and_by_no_others(notary):
    ledger = notary.ledger(time_us=1_770_631_200_000_000)
    believer = Believer(ledger, "s-0", 5)
    believer.eliminate_at_once(["h-001"], ["h-002"], ["h-003"])
    ledger.close()
    notary.publish()
    assert notary.proved("elimination", "s-0:2")["event"]["delta"] == {"eliminated": ["h-002"]}
    honest = json.loads((notary.folder / "proof.json").read_bytes())
    events = honest["events"]
    assert len(events) == 2
    changed = [
        [],
        events[:1],
        events[::-1],
        [*events, events[-1]],
        [events[0].replace("h-002", "h-004"), events[1]],
        [events[0], events[1].replace("h-003", "h-004")],
        [events[0].replace("ELIMINATE", "DECLARE_CONCLUSION"), events[1]],
    ]
    files = [json.dumps(honest | {"events": each}).encode() for each in changed]
    files.append(json.dumps(honest | {"kind": "manifest"}).encode())
    assert_refused(files, notary.vkey)


@pytest.mark.spec("L4", "seed 003, exporter")
def test_the_digest_of_an_exported_run_is_proved_by_the_operation_that_states_it(notary):
    ledger = notary.ledger()
    for run_id in ("run-1", "run-2"):
        recorder = Recorder(ledger)
        whole_run(recorder, run_id)
        recorder.complete_run(run_id)
    seal(ledger)
    ledger.close()
    notary.publish()
    exported = rotulus("landscape", "export", "run-1").stdout.splitlines()
    manifest = json.loads(exported[-1])
    result, file = notary.prove("run-1", kind="run")
    assert result.exit_code == 0, result.output
    shown = verify_proof_file(file.read_bytes(), notary.vkey)
    assert shown["row"]["ec_sequence_number"] == manifest["sealed_by_sequence"]
    [stated] = shown["envelope"]["primitive_effects"]
    for name in ("run_id", "record_count", "run_digest", "table_digests"):
        assert stated["payload"][name] == manifest[name]
    for unsealed in ("run-2", "run-3"):
        refused, _ = notary.prove(unsealed, kind="run")
        assert (refused.exit_code, "landscape_unknown" in refused.stderr) == (1, True)


def test_a_manifest_is_proved_by_its_operation(notary):
    ledger = notary.ledger()
    furnish(ledger, bound("b-1", "corpus_document_membership"))
    for request_id in ask(ledger, "b-1"):
        evaluate(ledger, request_id)
    ledger.close()
    notary.publish()
    shown = notary.proved("manifest", manifest_id(EVENT, 1))
    assert (shown["manifest"]["source_event_id"], shown["manifest"]["cycle"]) == (EVENT, 1)
    refused, _ = notary.prove("manifest:of nothing:1", kind="manifest")
    assert "binding_manifest_unknown" in refused.stderr
    honest = json.loads((notary.folder / "proof.json").read_bytes())
    of_an_operation, file = notary.prove(op_id("2"), "--with-envelope")
    assert of_an_operation.exit_code == 0
    other = json.loads(file.read_bytes()) | {"kind": "manifest"}
    without = {name: value for name, value in honest.items() if name != "envelope"}
    assert_refused([json.dumps(each).encode() for each in (other, without)], notary.vkey)


def test_a_log_is_proved_to_go_on_from_a_checkpoint_that_was_kept(notary):
    old = notary.folder / "kept"
    shutil.copy(notary.public / "checkpoint", old)
    notary.grow(9)
    notary.publish()
    shown = notary.proved("consistency", str(old))
    sizes = [shown[name].partition(":")[0] for name in ("old_tree_head", "tree_head")]
    assert sizes == ["5", "14"]
    honest = json.loads((notary.folder / "proof.json").read_bytes())
    notes = {"checkpoint": honest["old_checkpoint"], "old_checkpoint": honest["checkpoint"]}
    changed = [honest | notes, honest | {"path": honest["path"][1:]}, honest | {"path": None}]
    assert_refused([json.dumps(each).encode() for each in changed], notary.vkey)
    shutil.copy(old, notary.public / "checkpoint")
    newer = notary.folder / "newer"
    newer.write_text(honest["checkpoint"])
    refused, _ = notary.prove(str(newer), kind="consistency")
    assert "proof_invalid" in refused.stderr


def test_every_kind_that_is_verified_is_written():
    assert {*SUBJECTS, "operation", "thought", "consistency"} == set(KINDS)


def test_an_envelope_is_shown_under_its_commitment_where_that_is_asked_for(notary):
    _, file = notary.prove(op_id("2"), "--with-envelope")
    assert verify_proof_file(file.read_bytes(), notary.vkey)["envelope"]["operation_id"] == op_id(
        "2"
    )
    document = json.loads(file.read_bytes())
    document["envelope"]["content"] = document["envelope"]["content"].replace("n-2", "n-3")
    with pytest.raises(ProofFileInvalid):
        verify_proof_file(json.dumps(document).encode(), notary.vkey)


def test_a_file_that_was_changed_proves_nothing(notary, tmp_path):
    _, file = notary.prove(op_id("2"))
    honest = file.read_bytes()
    expected = verify_proof_file(honest, notary.vkey)
    chance = random.Random(18)
    files = []
    for _ in range(600):
        changed = bytearray(honest)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        files.append(bytes(changed))
    judged = [judged_alone(content, notary.vkey) for content in files]
    assert all(proved in (None, expected) for proved in judged)
    if NODE is not None:
        assert by_the_script(files, notary.vkey) == judged
    file.write_bytes(honest.replace(b"index 2", b"index 3"))
    assert alone(file, notary.vkey, tmp_path).returncode == 1
    refused = rotulus("verify", "--proof", str(file), "--vkey", notary.vkey)
    assert (refused.exit_code, "proof_invalid" in refused.stderr) == (1, True)
    assert rotulus("verify", "--proof", str(file)).exit_code == 2


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda file: b"\xef\xbb\xbf" + file,
        lambda file: file.replace(b'"kind"', b'"a": NaN, "kind"'),
        lambda file: file.replace(b'"kind": "operation"', b'"kind": "constructor"'),
        lambda file: file.replace(b'"kind": "operation"', b'"kind": ["operation"]'),
        lambda file: file.replace(b"index 2", b"index 02"),
        lambda file: file.replace(b"index 2", b"index 2" + b"0" * 30),
        lambda file: file.replace(b"=\\n\\n", b"=\\n \\n"),
        lambda file: file.replace(b'"row": "', b'"row": "\\ud800'),
        lambda file: b"[" + file + b"]",
        lambda file: b"[" * 100_000 + file,
        lambda _: b"",
        lambda _: b"\xff\xfe{}",
        lambda file: file[:-3],
    ],
)
def test_what_is_no_proof_file_is_refused_alike(notary, spoiled):
    _, file = notary.prove(op_id("2"))
    content = spoiled(file.read_bytes())
    assert content != file.read_bytes()
    assert_refused([content], notary.vkey)


def test_a_proof_is_made_with_the_checkpoint_that_was_published_last(notary, monkeypatch, tmp_path):
    _, named = notary.prove(op_id("2"))
    file = tmp_path / "of-the-folder.json"
    prove = ("prove", "operation", op_id("2"), "--output", str(file))
    refused = rotulus(*prove)
    assert "checkpoint_not_published: nothing is published in" in refused.stderr
    assert not file.exists()
    monkeypatch.setenv("ROTULUS_CHECKPOINT_FOLDER", str(notary.public))
    assert rotulus(*prove).exit_code == 0
    assert file.read_bytes() == named.read_bytes()


def test_what_a_checkpoint_does_not_have_is_not_proved(notary):
    notary.grow(1)
    refused, file = notary.prove(op_id("5"))
    assert "proof_invalid" in refused.stderr
    unknown, _ = notary.prove("nothing")
    assert "operation_not_found" in unknown.stderr
    assert not file.exists()


@pytest.mark.spec("§17.5", "§14.3")
def test_the_outcome_of_a_plugins_job_is_proved_by_the_seal_of_its_range(notary):
    ledger = notary.ledger()
    results = [{"width": 40 * number} for number in range(1, 6)]
    requests = do_jobs(ledger, *results)
    refused, _ = notary.prove(requests[0], kind="request")
    assert (refused.exit_code, "outcome_not_sealed" in refused.stderr) == (1, True)
    seal_receipts(ledger)
    unanswered = ask_for_job(ledger, "unanswered")
    ledger.close()
    stale, _ = notary.prove(requests[0], kind="request")
    assert "proof_invalid" in stale.stderr, "the seal is behind the checkpoint"
    notary.publish()
    for request_id, result in zip(requests, results, strict=True):
        shown = notary.proved("request", request_id)
        receipt = shown["receipt"]
        assert (receipt["request_id"], receipt["outcome"]) == (request_id, "completed")
        assert receipt["handler_result"] == result
        assert shown["row"]["semantic_intent"] == "receipts_seal"
    refused, _ = notary.prove(unanswered, kind="request")
    assert "has no outcome yet" in refused.stderr
    refused, _ = notary.prove("nobody-asked", kind="request")
    assert "work_request_unknown" in refused.stderr
    honest = json.loads((notary.folder / "proof.json").read_bytes())
    receipt = json.loads(honest["receipt"])
    place = int(receipt["receipt_sequence"])
    changed = [
        {"receipt": honest["receipt"].replace("200", "9999")},
        {"receipt": honest["receipt"].replace("completed", "cancelled")},
        {"receipt": honest["receipt"].replace(f'"{place}"', f'"{place - 1}"')},
        {"receipt_path": honest["receipt_path"][:-1]},
        {"receipt_path": [*honest["receipt_path"], honest["receipt_path"][0]]},
        {"receipt_path": honest["receipt_path"][::-1]},
        {"kind": "manifest"},
        {"receipt": None},
    ]
    files = [json.dumps(honest | each).encode() for each in changed]
    assert_refused(files, notary.vkey)


@pytest.mark.spec("§8.6", "§17.5")
def test_the_outcome_of_a_recompute_is_its_operation_or_the_receipt_that_gives_it_up(notary):
    ledger = notary.ledger()
    for name in ("given-up", "computed"):
        submit(ledger, create(name, "ConsolidatedUnderstanding"))
        submit(ledger, link(f"in-{name}", "n-0", name))
    with ledger.view() as view:
        requests = {request.item_key: request.request_id for request in view.open_requests()}
    unit(ledger, DeadLetterUnit("given-up", "KeyError at compute", (requests["given-up"],)))
    recompute(ledger, "computed")
    seal_receipts(ledger, for_outcomes=True)
    ledger.close()
    notary.publish()
    receipt = notary.proved("request", requests["given-up"])["receipt"]
    assert receipt["request_id"] == requests["given-up"]
    assert receipt["receipt_kind"] == "authority_recompute_dead_lettered"
    refused, _ = notary.prove(requests["computed"], kind="request")
    assert "rotulus prove operation" in refused.stderr


@pytest.mark.spec("workers/0490")
def test_an_exhibit_is_written_and_verified_without_a_ledger(notary, tmp_path):
    output, operation_id = tmp_path / "exhibit.html", op_id("2")
    options = ("--output", str(output), "--checkpoint", str(notary.public / "checkpoint"))
    said = rotulus("exhibit", operation_id, *options)
    assert "checkpoint_key_unusable" in said.stderr, "nobody says whose log it is"
    said = rotulus("exhibit", operation_id, *options, "--vkey", notary.vkey)
    assert said.exit_code == 0, said.output
    notary.ledger_path.unlink()
    verdict = printed("verify", "--exhibit", str(output), "--vkey", notary.vkey, "--json")
    assert verdict["verifies"]
    assert verdict["fingerprint"] in said.stdout
    output.write_text(output.read_text().replace(op_id("2"), op_id("3")))
    changed = rotulus("verify", "--exhibit", str(output), "--vkey", notary.vkey)
    assert changed.exit_code == 1
    assert rotulus("verify", "--exhibit", str(output)).exit_code == 2
