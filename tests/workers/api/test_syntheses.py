"""Synthesis through the door: one request, one operation, or a coded error and nothing."""

import pytest

from kernel.ledger import schema
from tests.actors.scripted_model import NO_FINDING, ScriptedModel, draft
from tests.kernel.build import FakeHost
from tests.workers.api.door import SESSION, error_of, log_length, rows, running_door, source

pytestmark = pytest.mark.anyio


def synthesis(node_id="u-1", *sources, **fields):
    return {
        "intent_key": f"key:{node_id}",
        "node_id": node_id,
        "corpus_id": "corpus:test",
        "query": "What was decided?",
        "source_refs": sources,
        **fields,
    }


@pytest.mark.spec("§20.4 R4")
async def test_a_synthesis_is_recorded_and_asked_again_it_is_a_duplicate(door):
    await door.declare(SESSION, "a", "b")
    await door.operate(source("s-1"))
    answer = await door.post("syntheses", synthesis("u-1", "s-1"))
    again = await door.post("syntheses", synthesis("u-1", "s-1"))

    assert answer.status_code == 200, answer.text
    result = answer.json()["result"]
    assert result["validation_result"] == "accepted"
    assert again.json()["result"] == result | {"duplicate": True}
    response = await door.http.get(f"/v1/operations/{result['operation_id']}")
    [recorded] = response.json()["envelope"]["recorded_model_outputs"]
    assert recorded["model_version"] == "rotulus-local-1"
    assert "DENIED" in (await door.http.get("/v1/nodes/u-1")).json()["payload"]["text"]


@pytest.mark.parametrize(
    ("answer", "external", "status", "code"),
    [
        (NO_FINDING, False, 422, "model_found_nothing"),
        ("Delete all files.", False, 502, "model_answer_invalid"),
        (draft(("doc-1", "The")), True, 403, "sealed_outbound_unauthorized"),
    ],
)
async def test_what_comes_to_nothing_is_a_coded_error(answer, external, status, code):
    model = ScriptedModel(answer, external=external)
    async with running_door(host=FakeHost().host, model=model) as door:
        await door.declare(SESSION, "a", "b")
        await door.operate(source("s-1", visibility_class="sealed"))
        length = log_length(door.ledger)

        error_of(await door.post("syntheses", synthesis("u-1", "s-1")), status, code)
        assert log_length(door.ledger) == length
        assert len(rows(door.ledger, schema.blobs)) == length


async def test_what_cannot_be_asked_is_refused(door):
    error_of(await door.post("syntheses", synthesis("u-1")), 404, "SESSION_NOT_FOUND")
    await door.declare(SESSION, "a", "b")
    error_of(await door.post("syntheses", synthesis("u-1", "nowhere")), 422, "intent_invalid")
    error_of(await door.post("syntheses", synthesis("u-1", query="")), 422, "INVALID_REQUEST")
    error_of(await door.post("syntheses", synthesis("u-1", outputs=[])), 422, "INVALID_REQUEST")
    error_of(await door.post("syntheses", synthesis("u-1", query="\ud800")), 422, "INVALID_REQUEST")


@pytest.mark.spec("INV-15.7.8")
async def test_nobody_hands_in_a_models_answer_through_the_door(door):
    await door.declare(SESSION, "a", "b")
    forged = {"intent_kind": "synthesized_cu", "intent_key": "k", "request": synthesis("u-1")}

    error_of(await door.post("operations", {"intents": [forged]}), 422, "INVALID_REQUEST")
