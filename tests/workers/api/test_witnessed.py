"""`Prefer: durability=witnessed` at each route that has it, and the client that asks for it."""

import anyio
import httpx
import pytest

from kernel.proof.checkpoint_verdict import judge_checkpoint
from tests.kernel.build import FakeHost, create
from tests.workers.api.door import SESSION, error_of, eventually, running_door, source
from tests.workers.api.test_bindings import MEANING
from tests.workers.api.witnessed_gateway import WitnessedLog
from workers.api.preferences import WAIT_S, Preferences, preferences_of
from workers.client.gateway_http import GatewayHttp
from workers.client.log_proofs import LogProofs, NotWitnessed, proof_of_result
from workers.client.merkle_proofs import LogProofInvalid
from workers.publication import witnessed_waits

pytestmark = [pytest.mark.anyio, pytest.mark.may_block, pytest.mark.spec("P5")]

WITNESSED = {"Prefer": "proof, durability=witnessed, wait=20"}
IMPATIENT = {"Prefer": "durability=witnessed, wait=0"}


@pytest.fixture
def log(tmp_path):
    return WitnessedLog(tmp_path)


@pytest.fixture
async def door(log, anyio_backend):
    async with running_door(host=FakeHost().host, publishing=log.publishing) as door:
        publishing = door.services.publishing
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publishing.run)
            await door.declare(SESSION, "a", "b")
            with anyio.fail_after(30):
                yield door
            tasks.cancel_scope.cancel()
        await publishing.aclose()


def check_witnessed(log, durability, head):
    """The checkpoint is what its witness cosigned, of the tree to which the proof leads."""
    assert (durability["state"], durability["reason_code"]) == ("witnessed", None)
    judgement = judge_checkpoint(durability["checkpoint"].encode(), log.policy)
    assert judgement.message == "witnessed 1 of 1"
    assert (judgement.stated.size, judgement.stated.root) == (head.size, head.root)


async def test_an_answer_waits_until_its_rows_are_witnessed(door, log):
    answer = (await door.post("operations", {"intents": [source("s-1")]}, **WITNESSED)).json()
    [result] = answer["results"]
    check_witnessed(log, answer["durability"], proof_of_result(result).head)
    again = (await door.post("operations", {"intents": [source("s-1")]}, **IMPATIENT)).json()
    assert again["durability"] == answer["durability"], "of what is witnessed it is said at once"
    log.is_away = True
    named = {"intent_kind": "source_binding_create", "intent_key": "b", "binding_id": "b"}
    plain = (await door.send("/v1/bindings", {"intents": [MEANING | named]}, **IMPATIENT)).json()
    assert plain["durability"]["reason_code"] == "witnesses_not_in_time"
    struck = await door.post(
        "eliminate",
        {"source_id": "s", "observation_id": "o", "eliminated": ["a"], "justification": None},
        **IMPATIENT,
    )
    assert struck.json()["durability"]["state"] == "committed"
    assert "elimination_proof" not in struck.json()
    assert struck.json()["audit_event_id"]


async def test_a_row_without_its_witnesses_stands_and_says_so(door, log):
    log.is_away = True
    answer = (await door.post("envelopes", create("n-1", "Note"), **IMPATIENT)).json()
    assert answer["validation_result"] == "accepted"
    assert answer["durability"]["state"] == "committed"
    assert answer["durability"]["checkpoint"] is None
    assert answer["durability"]["reason_code"] == "witnesses_not_in_time"
    again = source("n-1", intent_key="of another operation")
    refused = await door.post("operations", {"intents": [again]}, **WITNESSED)
    assert "durability" not in refused.json(), "nothing is on the record"


async def test_the_client_gets_a_row_under_a_witnessed_checkpoint(door, log):
    log.is_away, envelope = True, create("n-1", "Note")
    async with door.client() as gateway:
        proofs = LogProofs(gateway)
        with pytest.raises(NotWitnessed) as not_witnessed:
            await proofs.submit_witnessed(SESSION, envelope, within_s=0)
        error = not_witnessed.value
        assert error.code == "witnesses_not_in_time"
        sequence = error.proof.sequence
        assert str(sequence) == error.result["ec_sequence_number"]
        with pytest.raises(NotWitnessed):
            await proofs.witnessed(sequence, within_s=0)
        log.is_away = False
        row = await proofs.witnessed(sequence, within_s=20)
        assert row.proof.row == error.proof.row
        result, again = await proofs.submit_witnessed(SESSION, envelope)
    assert result["ec_sequence_number"] == str(again.proof.sequence) == str(sequence)
    assert (
        judge_checkpoint(again.checkpoint, log.policy).message
        == again.message
        == "witnessed 1 of 1"
    )


async def test_a_client_takes_no_checkpoint_of_another_tree(door, log):
    answer = (await door.post("envelopes", create("n-1", "Note"), **WITNESSED)).json()
    for checkpoint in (
        None,
        "no note",
        answer["durability"]["checkpoint"].replace("\n1\n", "\n2\n").replace("\n2\n", "\n3\n", 1),
        "o\n1\n" + "A" * 43 + "=\n",
    ):
        lying = answer | {"durability": answer["durability"] | {"checkpoint": checkpoint}}
        transport = httpx.MockTransport(lambda _, lying=lying: httpx.Response(200, json=lying))
        async with GatewayHttp("http://gateway", transport=transport) as gateway:
            with pytest.raises(LogProofInvalid):
                await LogProofs(gateway).submit_witnessed(SESSION, {})


async def test_a_row_that_there_is_not_is_not_waited_for(door):
    answer = await door.http.get("/v1/tree/inclusion/99", headers=WITNESSED)
    error_of(answer, 422, "tree_size_invalid")


async def test_a_gateway_that_publishes_nothing_answers_at_once():
    async with running_door(host=FakeHost().host) as door:
        await door.declare(SESSION, "a", "b")
        answer = (await door.post("envelopes", create("n-1", "Note"), **WITNESSED)).json()
    assert answer["durability"]["reason_code"] == "witnesses_not_set"
    assert proof_of_result(answer).sequence == int(answer["ec_sequence_number"])


async def test_who_waits_has_given_its_place_back(log, monkeypatch):
    """However many wait for a witness that is away, others are answered."""
    monkeypatch.setattr(witnessed_waits, "WAITS_MAX", 3)
    log.is_away = True
    host = FakeHost().host
    answers = []
    async with running_door(host=host, publishing=log.publishing, requests_max=2) as door:
        await door.declare(SESSION, "a", "b")
        publishing = door.services.publishing

        async def wait(number):
            envelope = create(f"n-{number}", "Note") | {"idempotency_key": f"k{number}"}
            envelope |= {"operation_id": f"00000000-0000-7000-8000-00000000000{number}"}
            answers.append((await door.post("envelopes", envelope, **WITNESSED)).json())

        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(20):
                for number in range(3):
                    tasks.start_soon(wait, number)
                    # The first row is that of the declaration.
                    await eventually(lambda rows=number + 2: publishing.wanted == rows)
                await wait(3)
                assert [answer["durability"]["reason_code"] for answer in answers] == ["waits_full"]
                assert len(await door.operate(source("s-1"))) == 1
                publishing.stop()
        assert len(answers) == 4


@pytest.mark.parametrize(
    ("stated", "preferences"),
    [
        ((), Preferences()),
        (("proof",), Preferences(proof=True)),
        (("durability=witnessed",), Preferences(witnessed_within_s=WAIT_S)),
        (('proof;x, durability="WITNESSED"', "wait=3"), Preferences(True, 3)),
        (("wait=3",), Preferences()),
        (("durability=eternal, wait=3",), Preferences()),
        (("durability=witnessed, wait=-1",), Preferences(witnessed_within_s=WAIT_S)),
        (("durability=witnessed, wait=1e9",), Preferences(witnessed_within_s=WAIT_S)),
        (("durability=witnessed, wait=" + "9" * 5000,), Preferences(witnessed_within_s=WAIT_S)),
        (("durability=witnessed, wait=\u0663",), Preferences(witnessed_within_s=WAIT_S)),
        ((",,=,;,=;proofs,\x00",), Preferences()),
    ],
)
def test_what_a_request_prefers_is_read_and_the_rest_is_passed_over(stated, preferences):
    class Request:
        class headers:  # noqa: N801 - as Starlette has it
            @staticmethod
            def getlist(_):
                return list(stated)

    assert preferences_of(Request) == preferences
