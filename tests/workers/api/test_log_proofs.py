"""Proofs over the log through the door, and the client that believes none of them."""

import json
from hashlib import sha256

import anyio
import httpx
import pytest

from kernel.audit.proofs import elimination
from kernel.ledger import schema
from kernel.ledger.blob_commitment import blob_commitment
from kernel.proof.merkle_tree import EMPTY_ROOT, Frontier, leaf_hash
from tests.kernel.build import create
from tests.kernel.jobs import QUEUE, do_jobs, seal_receipts
from tests.workers.api.door import SESSION, Door, error_of, source
from tests.workers.api.test_bindings import MEANING
from workers.client.gateway_http import GatewayHttp
from workers.client.log_proofs import LogProofs, OutcomeProof, TreeHead, proof_of_result
from workers.client.merkle_proofs import LogProofInvalid
from workers.client.session_operations import SessionOperations
from workers.client.source_bindings import SourceBindings
from workers.client.typed.belief_session import SessionClient
from workers.client.typed.elimination_proof import EliminationProof

pytestmark = [pytest.mark.anyio, pytest.mark.spec("P5")]

PROOF = {"Prefer": "respond-async, proof;x=1"}


@pytest.fixture(autouse=True)
async def _declared(door: Door) -> None:
    await door.declare(SESSION, "a", "b")


async def get(door: Door, path: str) -> dict:
    answer = await door.http.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def frontier_of(door: Door) -> Frontier:
    frontier = Frontier()
    with door.ledger.view() as view:
        for row in view.log_rows():
            frontier = frontier.append(leaf_hash(row["row_bytes"]))
    return frontier


async def test_the_head_of_the_tree_is_that_of_the_rows(door: Door):
    await door.operate(source("s-1"), source("s-2"))
    rows = frontier_of(door)
    expected = {"tree_size": str(rows.size), "root_hash": rows.root.hex()}
    assert await get(door, "/v1/tree") == expected
    empty = await get(door, "/v1/tree?tree_size=0")
    assert empty == {"tree_size": "0", "root_hash": EMPTY_ROOT.hex()}


async def test_every_row_is_proved_at_every_size(door: Door):
    await door.operate(*(source(f"s-{number}") for number in range(5)))
    async with door.client() as gateway:
        proofs = LogProofs(gateway)
        size = (await proofs.head()).size
        for of_size in range(1, size + 1):
            for sequence in range(1, of_size + 1):
                proof = await proofs.inclusion(sequence, of_size)
                assert (proof.sequence, proof.head.size) == (sequence, of_size)


async def test_an_operation_is_proved_with_its_envelope(door: Door):
    [made] = await door.operate(source("s-1"))
    await door.operate(source("s-2"))
    proof = await get(door, f"/v1/tree/operations/{made['operation_id']}")
    row, size = proof["inclusion"], int((await get(door, "/v1/tree"))["tree_size"])
    assert row == await get(door, f"/v1/tree/inclusion/{size - 1}")
    assert json.loads(row["row"])["operation_id"] == made["operation_id"]
    shown = proof["envelope"]
    commitment = blob_commitment(bytes.fromhex(shown["salt"]), shown["content"].encode())
    assert json.loads(row["row"])["envelope_payload_blob_ref"] == commitment
    nobody = await door.http.get("/v1/tree/operations/nobody")
    error_of(nobody, 404, "operation_not_found")
    early = await door.http.get(f"/v1/tree/operations/{made['operation_id']}?tree_size=1")
    error_of(early, 422, "tree_size_invalid")


async def test_entries_of_a_trail_are_proved_by_the_row_that_anchors_the_last(door: Door):
    for number, name in enumerate("ab"):
        body = {"eliminated": [name], "observation_id": f"o-{number}", "source_id": "s"}
        await door.post("eliminate", body)
    proof = await get(door, f"/v1/tree/sessions/{SESSION}?first_event=1&limit=50")
    hashes = [sha256(event.encode()).hexdigest() for event in proof["events"]]
    assert json.loads(proof["events"][0])["verb"] == "ELIMINATE"
    assert json.loads(proof["events"][1])["prev_event_hash"] == hashes[0]
    [effect] = json.loads(proof["envelope"]["content"])["primitive_effects"]
    assert effect["payload"]["sessions"][0]["head_event_hash"] == hashes[-1]
    nobody = await door.http.get("/v1/tree/sessions/nobody")
    error_of(nobody, 404, "SESSION_NOT_FOUND")


async def test_a_log_that_grew_is_consistent_with_every_head_that_was_kept(door: Door):
    async with door.client() as gateway:
        proofs = LogProofs(gateway)
        kept = []
        for number in range(4):
            kept.append(await proofs.head())
            await door.operate(source(f"s-{number}"))
        now = await proofs.head()
        for old in kept:
            assert await proofs.grown_from(old) == now
            with pytest.raises(LogProofInvalid):
                await proofs.grown_from(TreeHead(old.size + 1, b"x" * 32))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/tree?tree_size=999",
        "/v1/tree/inclusion/999",
        "/v1/tree/inclusion/2?tree_size=1",
        "/v1/tree/inclusion/1?tree_size=999",
        "/v1/tree/consistency/999",
        "/v1/tree/consistency/2?tree_size=1",
    ],
)
async def test_what_no_tree_of_that_size_has_is_refused(door: Door, path):
    await door.operate(source("s-1"), source("s-2"))
    error_of(await door.http.get(path), 422, "tree_size_invalid")


@pytest.mark.parametrize("path", ["/v1/tree/inclusion/0", "/v1/tree/consistency/-1"])
async def test_what_is_no_size_is_refused(door: Door, path):
    error_of(await door.http.get(path), 422, "INVALID_REQUEST")


async def test_results_are_answered_with_proofs_where_that_is_preferred(door: Door):
    intents = [source("s-1"), source("s-2"), source("s-2")]
    answer = await door.post("operations", {"intents": intents}, **PROOF)
    results = answer.json()["results"]
    heads = {proof_of_result(result).head for result in results if "row_hash" in result}
    assert len(heads) == 1
    assert heads.pop().root == frontier_of(door).root
    plain = await door.operate(source("s-3"))
    assert "inclusion_proof" not in plain[0]


async def test_an_elimination_is_answered_with_its_proof(door: Door):
    async with door.client() as gateway:
        believing = SessionClient(gateway, SESSION)
        struck = await believing.eliminate("s", "o-1", ["a"], prove=True)
        await believing.eliminate("s", "o-2", ["b"])
        again = await believing.eliminate("s", "o-1", ["a"], prove=True)
        root = frontier_of(door).root
        plain = await believing.eliminate("s", "o-3", [])
    assert (again.duplicate, plain.elimination_proof) == (True, None)
    assert again.audit_event_id == struck.audit_event_id
    stated = again.elimination_proof
    assert stated is not None
    proof = EliminationProof.verified(stated, again.audit_event_id)
    assert proof.event["delta"] == {"eliminated": ["a"]}
    assert proof.inclusion.head.root == root
    for changed in (
        {**stated, "events": stated["events"] * 2},
        {**stated, "events": []},
        {**stated, "envelope": {**stated["envelope"], "salt": "00" * 32}},
        {},
    ):
        with pytest.raises(LogProofInvalid):
            EliminationProof.verified(changed, again.audit_event_id)
    with pytest.raises(LogProofInvalid):
        EliminationProof.verified(stated, plain.audit_event_id)


async def test_eliminations_of_one_transaction_are_each_proved(door: Door):
    answers = []

    async def strike(number: int) -> None:
        async with door.client() as gateway:
            believing = SessionClient(gateway, SESSION)
            answers.append(await believing.eliminate("s", f"o-{number}", ["a"], prove=True))

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(strike, number)
    assert len({answer.audit_event_id for answer in answers}) == 12
    assert all(answer.elimination_proof is not None for answer in answers)


async def test_an_elimination_whose_anchor_was_erased_is_answered_without_a_proof(door: Door):
    async with door.client() as gateway:
        believing = SessionClient(gateway, SESSION)
        struck = await believing.eliminate("s", "o-1", ["a"])
        with door.ledger.view() as view:
            row = elimination(view, struck.audit_event_id).row
        with door.ledger.store.transaction() as tables:
            tables.delete(schema.blobs, row["envelope_payload_blob_ref"])
        again = await believing.eliminate("s", "o-1", ["a"])
        assert again.duplicate
        with pytest.raises(LogProofInvalid):
            await believing.eliminate("s", "o-1", ["a"], prove=True)


async def test_a_stream_is_answered_with_proofs_where_that_is_preferred(door: Door):
    intents = [source("s-1"), {"intent_kind": "rule_the_world"}, source("s-2")]
    async with door.client() as gateway:
        operations = SessionOperations(gateway, SESSION)
        outcomes = [outcome async for outcome in operations.submit(intents, prove=True)]
        plain = [outcome async for outcome in operations.submit([source("s-3")])]
    proofs = [outcome.proof for outcome in outcomes]
    assert [proof is None for proof in proofs] == [False, True, False]
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome.result is not None
        assert outcome.proof == proof_of_result(outcome.result)
    assert plain[0].proof is None
    assert "inclusion_proof" not in (plain[0].result or {})


async def test_a_change_of_a_binding_is_answered_with_its_proof(door: Door):
    async with door.client() as gateway:
        bindings = SourceBindings(gateway, prove=True)
        created = await bindings.create("b-1", MEANING)
        plain = await SourceBindings(gateway).disable("b-1")
    assert proof_of_result(created).sequence == int(created["ec_sequence_number"])
    assert "inclusion_proof" not in plain


async def test_a_result_without_a_row_has_no_proof(door: Door):
    answer = await door.post("envelopes", {"operation_id": "op-refused"}, **PROOF)
    assert "inclusion_proof" not in answer.text


async def test_an_envelope_is_submitted_and_proved(door: Door):
    async with door.client() as gateway:
        envelope = create("n-1", "SourceArtifact")
        result, proof = await LogProofs(gateway).submit(SESSION, envelope)
        again, _ = await LogProofs(gateway).submit(SESSION, envelope)
    assert result["ec_sequence_number"] == again["ec_sequence_number"] == str(proof.sequence)
    assert sha256(proof.row).hexdigest() == result["row_hash"]


def answering(document) -> LogProofs:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=document))
    return LogProofs(GatewayHttp("http://gateway", transport=transport))


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: proof | {"ec_sequence_number": "2"},
        lambda proof: proof | {"row": proof["row"].replace("}", " }")},
        lambda proof: proof | {"path": proof["path"][:-1]},
        lambda proof: proof | {"path": [*proof["path"], "00" * 32]},
        lambda proof: proof | {"path": 7},
        lambda proof: proof | {"row": None},
        lambda proof: proof | {"row": "[]"},
        lambda proof: proof | {"tree_head": proof["tree_head"] | {"root_hash": "00" * 32}},
        lambda proof: proof | {"tree_head": proof["tree_head"] | {"tree_size": "999"}},
        lambda _: {},
    ],
)
async def test_a_gateway_that_lies_is_not_believed(door: Door, change):
    await door.operate(source("s-1"), source("s-2"))
    honest = await get(door, "/v1/tree/inclusion/1")
    assert (await answering(honest).inclusion(1)).sequence == 1
    with pytest.raises(LogProofInvalid):
        await answering(change(honest)).inclusion(1)


async def test_a_proof_of_another_row_or_size_is_no_answer(door: Door):
    await door.operate(source("s-1"), source("s-2"))
    other = await get(door, "/v1/tree/inclusion/2")
    with pytest.raises(LogProofInvalid):
        await answering(other).inclusion(1)
    with pytest.raises(LogProofInvalid):
        await answering(other).inclusion(2, 2**40)
    with pytest.raises(LogProofInvalid):
        proof_of_result({"row_hash": "00" * 32, "inclusion_proof": other})
    with pytest.raises(LogProofInvalid):
        proof_of_result({"row_hash": "00" * 32})


async def test_a_consistency_path_that_is_none_is_not_believed():
    with pytest.raises(LogProofInvalid):
        await answering({"tree_head": {}, "path": []}).grown_from(TreeHead(1, b"x" * 32))


@pytest.mark.spec("§17.5", "§14.3")
async def test_the_outcome_of_a_plugins_job_is_proved_by_the_seal_of_its_range(door: Door):
    requests = do_jobs(door.ledger, {"width": 80}, {"width": 120}, {"width": 160})
    path = f"/v1/queues/{QUEUE}/requests/{requests[1]}/proof"
    error_of(await door.http.get(path), 409, "outcome_not_sealed")
    error_of(await door.http.get(f"{path}?of=admission"), 409, "admission_not_sealed")
    assert (await get(door, "/v1/checkpoint"))["receipts_not_under_the_tree"] == 6
    seal_receipts(door.ledger)
    assert (await get(door, "/v1/checkpoint"))["receipts_not_under_the_tree"] == 0
    document = await get(door, path)
    admission = json.loads((await get(door, f"{path}?of=admission"))["receipt"])
    assert (admission["receipt_kind"], admission["request_id"]) == ("work_requested", requests[1])
    async with door.client() as gateway:
        proofs = LogProofs(gateway)
        for request_id, width in zip(requests, (80, 120, 160), strict=True):
            proof = await proofs.outcome(QUEUE, request_id)
            assert proof.receipt["handler_result"] == {"width": width}
            assert proof.inclusion.head == await proofs.head()
        size = proof.inclusion.head.size
        assert await proofs.outcome(QUEUE, request_id, size) == proof
    changed = [
        {"receipt": document["receipt"].replace("120", "9999")},
        {"receipt_path": document["receipt_path"][:-1]},
        {"envelope": document["envelope"] | {"salt": "00" * 32}},
    ]
    assert OutcomeProof.verified(document, requests[1]).receipt["outcome"] == "completed"
    for each in changed:
        with pytest.raises(LogProofInvalid):
            OutcomeProof.verified(document | each, requests[1])
    with pytest.raises(LogProofInvalid):
        OutcomeProof.verified(document, requests[0])
    error_of(await door.http.get(f"{path}?tree_size=0"), 422, "tree_size_invalid")
    other = f"/v1/queues/binding-evaluation/requests/{requests[1]}/proof"
    error_of(await door.http.get(other), 404, "work_request_unknown")
