"""A gateway serves the queues that workers register while it runs, and follows their changes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from kernel.ledger.ledger import Ledger
from kernel.values.errors import LedgerUnavailable
from kernel.values.priorities import QueuePriority
from kernel.work.queue_kinds import QUEUE_KINDS
from tests.kernel.test_registrations import ROWS, put, registration, table
from tests.workers.api.door import Door, error_of, eventually
from workers.gateway.loops.registered_queues import RegisteredQueues

pytestmark = pytest.mark.anyio
__all__ = ["table"]


class Served:
    """What a gateway would serve: the relays that run, each as often as it began."""

    def __init__(self, ledger: Ledger) -> None:
        self.running: list[str] = []
        self.begun: list[str] = []
        self.loop = RegisteredQueues(ledger, self.serve, self.begun.append)

    def serve(self, name: str) -> Any:
        self.begun.append(name)

        async def relay() -> None:
            self.running.append(name)
            try:
                await anyio.sleep_forever()
            finally:
                self.running.remove(name)

        return relay


@asynccontextmanager
async def serving(ledger: Ledger) -> AsyncIterator[Served]:
    served = Served(ledger)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.loop.run)
        yield served
        tasks.cancel_scope.cancel()
    assert served.running == []


async def test_a_queue_is_served_from_its_registration_on_and_as_it_changes(door: Door):
    ledger = door.ledger
    put(ledger, registration("early"))
    async with serving(ledger) as served:
        await eventually(lambda: served.running == ["early"])
        put(ledger, registration("late"))
        served.loop.notify()
        await eventually(lambda: sorted(served.running) == ["early", "late"])
        put(ledger, registration("late", properties={"width": {"type": "string"}}))
        served.loop.notify()
        await eventually(
            lambda: QUEUE_KINDS["late"].content.properties["width"] == {"type": "string"}
        )
        assert served.begun == ["early", "late"], "a changed schema needs no new relay"
        put(ledger, registration("late", priorities=ROWS[1:]))
        served.loop.notify()
        await eventually(lambda: served.begun == ["early", "late", "late"])
        await eventually(lambda: sorted(served.running) == ["early", "late"])
    assert "late" not in QUEUE_KINDS, "the rows end with the gateway"


async def test_a_gateway_knows_what_is_registered_before_its_first_request(door: Door):
    put(door.ledger, registration("early"))
    async with serving(door.ledger) as served:
        await served.loop.wait_looked()
        assert QUEUE_KINDS["early"].is_registered


async def test_a_ledger_that_is_away_keeps_no_gateway_from_answering(
    door: Door, monkeypatch: pytest.MonkeyPatch
):
    def away(_: Any) -> None:
        raise LedgerUnavailable("nobody answers")

    monkeypatch.setattr(door.ledger, "read", away)
    async with serving(door.ledger) as served:
        await served.loop.wait_looked()
        assert served.running == []


async def test_what_this_process_cannot_serve_is_said_and_others_go_on(door: Door):
    odd = (QueuePriority("user_initiated", "critical", 5),)
    put(door.ledger, registration("odd", priorities=odd, default_priority="user_initiated"))
    with capture_logs() as logs:
        async with serving(door.ledger) as served:
            put(door.ledger, registration("good"))
            served.loop.notify()
            await eventually(lambda: served.running == ["good"])
    [said] = [log for log in logs if log["event"] == "queue_not_served"]
    assert said["queue"] == "odd"


def body(*queues: dict[str, Any], is_new: bool = True) -> dict[str, Any]:
    return {"queues": list(queues), "is_new": is_new}


async def test_a_worker_registers_with_its_token_and_producers_are_told_what_does_not_fit(
    door: Door,
):
    document = registration("resize").document()
    answer = await door.reporter("queues", body(document), token=None)
    error_of(answer, 401, "unauthorized")
    answer = await door.reporter("queues", body(document))
    assert answer.json() == {"registered": 1}
    again = await door.reporter("queues", body(document, is_new=False))
    assert again.json() == {"registered": 0}
    path = "/v1/queues/resize/requests"
    content = {"image_id": "i", "width": "80"}
    refusal = await door.http.post(
        path, json={"requests": [{"request_key": "k", "content": content}]}
    )
    error = error_of(refusal, 422, "work_request_invalid")
    assert error["details"] == {"field": "content.width", "index": 0}
    good = {"request_key": "k", "content": {**content, "width": 80}}
    assert (await door.http.post(path, json={"requests": [good]})).status_code in {200, 201, 202}


async def test_a_request_is_taken_back_where_its_queue_is_not_known_yet(door: Door):
    """As at a gateway that another one's worker tells of the queue within a second."""
    await door.reporter("queues", body(registration("resize").document()))
    path = "/v1/queues/resize/requests"
    wanted = {"request_key": "k", "content": {"image_id": "i", "width": 80}}
    [request] = (await door.http.post(path, json={"requests": [wanted]})).json()["requests"]
    assert "resize" not in QUEUE_KINDS
    place = f"{path}/{request['request_id']}"
    cancelled = (await door.http.post(f"{place}/cancel", json={"reason": "why"})).json()
    assert (cancelled["cancelled"], cancelled["request"]["reason"]) == (True, "why")


async def test_a_registration_that_cannot_be_used_is_refused_with_its_code(door: Door):
    document = registration("resize", item_key="nobody").document()
    answer = await door.reporter("queues", body(document))
    error_of(answer, 422, "queue_registration_invalid")
