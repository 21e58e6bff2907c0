"""Bulk operations over HTTP: counted, begun, followed by Redis, looked at and stopped."""

from typing import Any

import pytest

from kernel.work.contents import BINDING_QUEUE
from tests.workers.api.asking import BINDINGS, binding
from tests.workers.api.door import Door
from workers.gateway.loops.bulk_work import BulkWork

PATH = "/v1/bulk-operations"


class Queue:
    """Redis' side of a queue, in which every second item is in the hands of a worker."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.withdrawn: list[str] = []

    async def cancel(self, keys: Any) -> list[str]:
        self.cancelled += keys
        return ["stopping" if number % 2 else "cancelled" for number, _ in enumerate(keys)]

    async def withdraw(self, keys: Any) -> list[str]:
        self.withdrawn += keys
        return ["withdrawn"] * len(keys)


async def enqueued(door: Door, *keys: str, **tags: str) -> list[str]:
    requests = [{**binding(key), "tags": tags} for key in keys]
    answer = await door.http.post(f"{BINDINGS}/requests", json={"requests": requests})
    assert answer.status_code == 200, answer.text
    return [request["request_id"] for request in answer.json()["requests"]]


async def begun(door: Door, verb: str, **body: Any) -> Any:
    stated = {"verb": verb, "reason": "because", "filter": {"tag": "customer=acme"}} | body
    answer = await door.http.post(PATH, json=stated)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_bulk_operation_is_counted_begun_and_gone_through(door: Door) -> None:
    ids = await enqueued(door, "a", "b", "c", customer="acme")
    await enqueued(door, "d", customer="other")
    body = {"verb": "cancel", "filter": {"tag": "customer=acme", "queue": BINDING_QUEUE}}
    counted = (await door.http.post(f"{PATH}:preview", json=body)).json()
    assert (counted["count"], counted["complete"]) == (3, True)
    assert [sample["request_id"] for sample in counted["samples"]] == ids[::-1]
    operation = await begun(door, "cancel", decided_by="ada", filter=body["filter"])
    assert (operation["state"], operation["counted"], operation["done"]) == ("running", 3, 0)
    queue = Queue()
    work = BulkWork(door.ledger, door.services.write, {BINDING_QUEUE: queue})  # type: ignore[dict-item]
    assert await work.go_on() == 2, "the page, and what Redis said of it"
    assert sorted(queue.cancelled) == sorted(ids)
    number = operation["bulk_number"]
    now = (await door.http.get(f"{PATH}/{number}")).json()
    assert (now["state"], now["done"], now["ended_meanwhile"]) == ("finished", 3, 0)
    assert now["asked_to_stop"] == 1
    assert now["decided_by"].startswith("ada at ")
    [listed] = (await door.http.get(PATH)).json()["bulk_operations"]
    assert listed == now
    assert (await door.http.post(f"{PATH}/{number}/stop", json={})).json() == now


async def test_what_waits_leaves_redis_to_wait_at_another_priority(door: Door) -> None:
    ids = await enqueued(door, "a", customer="acme")
    filters = {"queue": BINDING_QUEUE, "tag": "customer=acme"}
    await begun(door, "prioritize", filter=filters, priority="critical")
    queue = Queue()
    await BulkWork(door.ledger, door.services.write, {BINDING_QUEUE: queue}).go_on()  # type: ignore[dict-item]
    assert queue.withdrawn == ids
    status = (await door.http.get(f"{BINDINGS}/requests/{ids[0]}")).json()
    assert (status["priority"], status["tags"]) == ("critical", {"customer": "acme"})


async def test_what_a_preview_did_not_show_is_left_alone(door: Door) -> None:
    await enqueued(door, "a", "b", customer="acme")
    body = {"verb": "cancel", "filter": {"tag": "customer=acme"}}
    counted = (await door.http.post(f"{PATH}:preview", json=body)).json()
    await enqueued(door, "later", customer="acme")
    upper = counted["upper_sequence"]
    operation = await begun(door, "cancel", upper_sequence=upper)
    assert (operation["counted"], operation["upper_sequence"]) == (2, upper)
    await BulkWork(door.ledger, door.services.write, {}).go_on()
    search = {"state": "open", "tag": "customer=acme"}
    left = (await door.http.get("/v1/requests", params=search)).json()["requests"]
    assert [request["request_key"] for request in left] == ["later"]
    operation = await begun(door, "cancel", upper_sequence=2**62)
    assert operation["counted"] == 1, "what is not recorded yet is not meant"
    stopped = await door.http.post(
        f"{PATH}/{operation['bulk_number']}/stop", json={"decided_by": "bob"}
    )
    assert stopped.json()["stopped_by"].startswith("bob at ")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("", {"verb": "cancel", "reason": " "}, 422, "work_request_invalid"),
        (
            "",
            {"verb": "cancel", "reason": "x", "filter": {"queue": "no"}},
            404,
            "work_queue_unknown",
        ),
        ("/77/stop", {}, 404, "bulk_operation_unknown"),
        ("", {"verb": "odd", "reason": "x"}, 422, "INVALID_REQUEST"),
        ("", {"verb": "cancel", "reason": "x", "filter": {"odd": 1}}, 422, "INVALID_REQUEST"),
    ],
)
async def test_what_cannot_be_meant_has_its_code(door, path, body, status, code) -> None:
    answer = await door.http.post(f"{PATH}{path}", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["code"] == code


async def test_a_number_that_there_is_not_has_its_code(door: Door) -> None:
    answer = await door.http.get(f"{PATH}/77")
    assert answer.json()["error"]["code"] == "bulk_operation_unknown"
