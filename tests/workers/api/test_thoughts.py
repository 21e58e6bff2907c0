"""Thoughts and rounds through the door, and the client that verifies what it is answered."""

import pytest

from kernel.proof.verification import ProofInvalid
from kernel.verify import verify
from tests.workers.api.door import Door
from workers.client.typed.thoughts import merkle_verify

pytestmark = pytest.mark.anyio
SESSION = "0193514a-9a51-7cc3-8f0e-6a9c2b1d4e5f"


async def posted(door: Door, path: str, status: int = 200, **body: object) -> dict:
    answer = await door.http.post(f"/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def closed(door: Door, thoughts: int = 3) -> dict:
    path = f"thoughts/{SESSION}"
    await posted(door, f"{path}/start", task_id="task")
    for number in range(1, thoughts):
        body = {"thought_id": f"t-{number}", "thought_type": "plan", "content": f"plan {number}"}
        assert (await posted(door, path, **body))["sequence"] == number
    assert (await posted(door, f"{path}/verify"))["verified_count"] == thoughts - 1
    last = {"thought_id": "last", "thought_type": "reflection", "content": "done \u00e9\U0001f600"}
    await posted(door, path, **last)
    return await posted(door, f"{path}/finalize")


@pytest.mark.spec("002 Finalization workflow", "002 merkle_finalize", "002 merkle_root")
async def test_a_session_is_recorded_closed_and_proved(door: Door):
    root = await closed(door)
    path = f"/v1/thoughts/{SESSION}"
    assert (await door.http.get(f"{path}/root")).json() == root
    page = (await door.http.get(f"{path}?limit=2")).json()
    assert [thought["content"] for thought in page["thoughts"]] == ["plan 1", "plan 2"]
    rest = (await door.http.get(f"{path}?after={page['next_after']}")).json()
    assert rest["thoughts"][0]["content"] == "done \u00e9\U0001f600"
    assert rest["next_after"] is None
    for sequence in (1, 2, 3):
        proof = (await door.http.get(f"{path}/proof/{sequence}")).json()
        assert merkle_verify(proof) == []
        changed = proof | {"record": proof["record"].replace("task", "tusk").replace("t-", "u-")}
        if changed["record"] != proof["record"]:
            with pytest.raises(ProofInvalid):
                merkle_verify(changed)
        with pytest.raises(ProofInvalid):
            merkle_verify(proof | {"seal": proof["seal"] | {"leaf_count": 5}})
    assert (await posted(door, f"thoughts/{SESSION}/end"))["state"] == "ended"
    with door.ledger.view() as view:
        assert not verify(view).findings


@pytest.mark.spec("P3")
async def test_a_step_that_does_not_come_next_is_refused_with_its_code(door: Door):
    path = f"thoughts/{SESSION}"
    unknown = await posted(door, f"{path}/finalize", 404)
    assert unknown["error"]["code"] == "audit_session_unknown"
    await posted(door, f"{path}/start", task_id="task")
    empty = await posted(door, f"{path}/finalize", 409)
    assert empty["error"]["code"] == "audit_session_empty"
    early = await door.http.get(f"/v1/{path}/proof/1")
    assert early.json()["error"]["code"] == "audit_session_not_finalized"


async def test_bad_input_is_refused_and_changes_nothing(door: Door):
    path = f"thoughts/{SESSION}"
    await posted(door, f"{path}/start", task_id="task")
    good = {"thought_id": "t", "thought_type": "plan", "content": "c"}
    for changes in (
        {"thought_type": "musing"},
        {"thought_id": ""},
        {"thought_id": "t" * 129},
        {"thought_id": "a\x00b"},
        {"content": "c" * 65_537},
        {"content": 7},
        {"further": 1},
    ):
        await posted(door, path, 422, **(good | changes))
    page = (await door.http.get(f"/v1/{path}")).json()
    assert page["session"]["thought_count"] == 0


async def test_a_content_that_is_no_unicode_is_refused_on_the_record(door: Door):
    path = f"/v1/thoughts/{SESSION}"
    await posted(door, f"thoughts/{SESSION}/start", task_id="task")
    body = b'{"thought_id":"t","thought_type":"plan","content":"\\ud800"}'
    answer = await door.http.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert (await door.http.get(path)).json()["session"]["thought_count"] == 0


@pytest.mark.spec("002 Interaction with rounds")
async def test_rounds_are_opened_sealed_and_listed(door: Door):
    assert (await posted(door, "rounds/seal", 409))["error"]["code"] == "round_not_open"
    opened = await posted(door, "rounds/open")
    assert (opened["round_number"], opened["state"]) == (1, "open")
    assert (await posted(door, "rounds/open", 409))["error"]["code"] == "round_is_open"
    root = await closed(door)
    sealed = await posted(door, "rounds/seal")
    assert [entry["eta_root"] for entry in sealed["seal"]["sessions"]] == [root["merkle_root"]]
    listed = (await door.http.get("/v1/rounds?limit=1")).json()
    assert listed["rounds"] == [sealed]
    assert listed["next_after"] == 1
