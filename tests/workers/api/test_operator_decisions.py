"""What people decide about queues, requests and payloads is an operation, with who and why."""

from typing import Any

import pytest

from kernel.verify import verify
from kernel.work.contents import BINDING_QUEUE
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import Door
from tests.workers.api.test_thoughts import SESSION, closed, posted

pytestmark = pytest.mark.anyio

WHO = {"decided_by": "ada"}
WHY = {"reason": "the model is being exchanged"}
BY = "ada at 127.0.0.1"
GROUNDS = {"reason": "a court order", "authority": "records office"}


async def decisions(door: Door, verb: str) -> list[tuple[list[str], str, str]]:
    """Return what each operation of a verb is about, who decided it, and why."""
    page = (await door.http.get("/v1/audit/operations", params={"semantic_intent": verb})).json()
    shown = []
    for row in page["operations"]:
        operation = (await door.http.get(f"/v1/operations/{row['operation_id']}")).json()
        [receipt] = operation["receipts"]
        assert receipt["receipt_kind"] == "operator_decided"
        targets = operation["envelope"]["target_refs"]
        shown.append((targets, receipt["decided_by"], receipt["reason"]))
    return shown


async def sends(door: Door, path: str, body: dict[str, Any]) -> Any:
    answer = await door.send(path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_pause_and_its_end_are_operations_and_what_changes_nothing_is_none(door: Door):
    for _ in range(2):
        await sends(door, f"{BINDINGS}/pause", WHO | WHY)
    await sends(door, f"{BINDINGS}/pause", WHO | {"priority": "background"})
    for _ in range(2):
        await sends(door, f"{BINDINGS}/resume", {"decided_by": "bob"})
    queue = f"queue:{BINDING_QUEUE}"
    assert await decisions(door, "queue_pause") == [
        ([queue], BY, WHY["reason"]),
        ([f"{queue}:background"], BY, ""),
    ]
    assert await decisions(door, "queue_resume") == [([queue], "bob at 127.0.0.1", "")]
    with door.ledger.view() as view:
        assert verify(view).findings == ()


async def test_requests_are_requeued_dismissed_and_cancelled_by_operations(door: Door):
    requests = await enqueued(door, BINDINGS, *(binding(name) for name in "abcd"))
    again, gone, other, unwanted = (request["request_id"] for request in requests)
    for dead in (again, gone, other):
        await given_up(door, BINDING_QUEUE, dead, "broken")
    for _ in range(2):
        answer = await sends(door, f"{BINDINGS}/requeue", WHO | {"request_ids": [again]})
        body = WHO | WHY | {"request_ids": [gone, other, gone]}
        await sends(door, f"{BINDINGS}/dismiss", body)
        await sends(door, f"{BINDINGS}/requests/{unwanted}/cancel", WHO | WHY)
    assert await decisions(door, "request_requeue") == [([again], BY, "")]
    assert await decisions(door, "request_dismiss") == [([gone, other], BY, WHY["reason"])]
    assert await decisions(door, "request_cancel") == [([unwanted], BY, WHY["reason"])]
    settled = {}
    for request in (again, gone, other, unwanted):
        status = (await door.http.get(f"{BINDINGS}/requests/{request}")).json()
        assert status["settled_by"] == BY
        operation = await door.http.get(f"/v1/operations/{status['settled_operation_id']}")
        settled[request] = operation.json()["row"]["semantic_intent"]
    assert list(settled.values()) == ["request_requeue", *["request_dismiss"] * 2, "request_cancel"]
    anew = (
        await door.http.get(f"{BINDINGS}/requests/{answer['requests'][0]['request_id']}")
    ).json()
    assert (anew["state"], anew["settled_operation_id"]) == ("open", None)
    new = answer["requests"][0]["request_id"]
    assert await why(door, new) == [("request", None), ("request", None), ("operation", BY)]
    assert await why(door, unwanted) == [("request", None), ("operation", BY)]
    with door.ledger.view() as view:
        assert verify(view).findings == ()


async def test_a_request_waits_at_another_priority_by_an_operation_of_its_own(door: Door):
    requests = await enqueued(door, BINDINGS, binding("a"), binding("b"))
    waits, taken_back = (request["request_id"] for request in requests)
    path = f"{BINDINGS}/requests/{waits}/prioritize"
    answers = [await sends(door, path, WHO | WHY | {"priority": "critical"}) for _ in range(2)]
    assert [answer["changed"] for answer in answers] == [True, False]
    assert [answer["request"]["priority"] for answer in answers] == ["critical"] * 2
    assert await decisions(door, "request_prioritize") == [([waits], BY, WHY["reason"])]
    refused = await door.send(path, {"priority": "<b>odd</b>"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "queue_unknown_priority")
    await sends(door, f"{BINDINGS}/requests/{taken_back}/cancel", WHO | WHY)
    late = f"{BINDINGS}/requests/{taken_back}/prioritize"
    assert not (await sends(door, late, WHO | {"priority": "critical"}))["changed"]
    unknown = await door.send(f"{BINDINGS}/requests/none/prioritize", {"priority": "critical"})
    assert unknown.status_code == 404
    assert len(await decisions(door, "request_prioritize")) == 1
    with door.ledger.view() as view:
        assert verify(view).findings == ()


async def why(door: Door, record_id: str) -> list[tuple[str, str | None]]:
    """Return the way back from an id: the kind of each step, and who decided it."""
    answer = await door.http.get("/v1/explain", params={"record_id": record_id})
    steps = answer.json()["provenance"]["steps"]
    return [(step["kind"], step["says"].get("decided_by")) for step in steps]


@pytest.mark.spec("P6")
async def test_an_erasure_leaves_a_tombstone_operation_and_a_hold_is_set_and_lifted_by_one(
    door: Door,
):
    await closed(door)
    subject = {"subject_kind": "thought_session", "subject_id": SESSION}
    thought = {"payload_kind": "thought", "session_id": SESSION, "payload_id": "t-1", **GROUNDS}
    await posted(door, "legal-holds", hold_id="case-7", **subject, **GROUNDS)
    await posted(door, "erasures", 409, **thought)
    assert await decisions(door, "payload_erase") == []
    for _ in range(2):
        await posted(door, "legal-holds/case-7/lift", **GROUNDS)
        erasure = await posted(door, "erasures", **thought)
    who = (GROUNDS["authority"], GROUNDS["reason"])
    assert await decisions(door, "hold_set") == [(["legal-hold:case-7"], *who)]
    assert await decisions(door, "hold_lift") == [(["legal-hold:case-7"], *who)]
    assert await decisions(door, "payload_erase") == [([f"payload:{erasure['commitment']}"], *who)]
    with door.ledger.view() as view:
        assert verify(view).findings == ()
