"""Erasing thoughts over HTTP: proofs go on to verify, and a legal hold wins (P6)."""

import pytest

from kernel.verify import verify
from tests.workers.api.door import Door
from tests.workers.api.test_thoughts import SESSION, closed, posted
from workers.client.typed.thoughts import merkle_verify

pytestmark = pytest.mark.anyio
GROUNDS = {"reason": "asked for by the person", "authority": "privacy office"}
THOUGHT = {"payload_kind": "thought", "session_id": SESSION, "payload_id": "t-1", **GROUNDS}
OTHER = "0193514a-9a51-7cc3-8f0e-6a9c2b1d4e60"


@pytest.mark.spec("P6", "002 merkle_verify")
async def test_a_thought_is_erased_and_its_proof_from_before_and_one_from_after_verify(door: Door):
    await closed(door)
    path = f"/v1/thoughts/{SESSION}"
    before = (await door.http.get(f"{path}/proof/1")).json()
    erasure = await posted(door, "erasures", **THOUGHT)
    commitment, tombstone = before["thought"]["content_commitment"], erasure.pop("operation_id")
    assert erasure == {"commitment": commitment, "erased": True}
    again = await posted(door, "erasures", **THOUGHT)
    assert again == {"commitment": commitment, "erased": False, "operation_id": tombstone}
    operation = (await door.http.get(f"/v1/operations/{tombstone}")).json()
    assert operation["row"]["semantic_intent"] == "payload_erase"
    [effect] = operation["envelope"]["primitive_effects"]
    assert operation["envelope"]["target_refs"] == [f"payload:{commitment}"]
    assert effect["payload"] == {"decided_by": GROUNDS["authority"], "reason": GROUNDS["reason"]}
    after = (await door.http.get(f"{path}/proof/1")).json()
    assert (merkle_verify(before), merkle_verify(after)) == ([], [])
    page = (await door.http.get(path)).json()
    assert [thought["content"] for thought in page["thoughts"]][:2] == [None, "plan 2"]
    again = {"thought_id": "t-1", "thought_type": "plan", "content": "plan 1"}
    refused = await posted(door, f"thoughts/{SESSION}", 409, **again)
    assert "was erased" in refused["error"]["message"]
    with door.ledger.view() as view:
        assert not verify(view).findings


@pytest.mark.spec("P6")
async def test_a_hold_on_a_session_keeps_its_thoughts_until_it_is_lifted(door: Door):
    await closed(door)
    subject = {"subject_kind": "thought_session", "subject_id": SESSION}
    hold = await posted(door, "legal-holds", hold_id="case-7", **subject, **GROUNDS)
    assert (await door.http.get("/v1/legal-holds")).json() == {"holds": [hold]}
    refused = await posted(door, "erasures", 409, **THOUGHT)
    assert refused["error"]["code"] == "payload_held"
    await posted(door, "legal-holds/unknown/lift", 404, **GROUNDS)
    assert (await posted(door, "legal-holds", hold_id="b", **subject, **GROUNDS))["hold_id"] == "b"
    assert (await posted(door, "legal-holds/b/lift", **GROUNDS))["changed"]
    assert not (await posted(door, "legal-holds/b/lift", **GROUNDS))["changed"]
    assert (await posted(door, "erasures", 409, **THOUGHT))["error"]["code"] == "payload_held"


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": ""},
        {"authority": "  "},
        {"payload_kind": "envelope"},
        {"payload_id": ""},
        {"further": 1},
        {"session_id": "x" * 129},
    ],
)
async def test_bad_input_is_refused(door: Door, changes):
    await posted(door, "erasures", 422, **(THOUGHT | changes))


async def test_what_is_not_on_the_record_is_unknown(door: Door):
    for changes in ({"session_id": OTHER}, {"payload_id": "unknown"}):
        answer = await posted(door, "erasures", 404, **(THOUGHT | changes))
        assert answer["error"]["code"] == "payload_unknown"
