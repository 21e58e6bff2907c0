"""The producers' client: safe to send again, patient where that helps, and clear where not."""

import json
from typing import Any

import anyio
import httpx
import pytest

from queues import NewRequest, Producer, ProducerError
from queues.client.gateway_http import PAUSE_FIRST_S
from workers.api.body_limits import MAX_BODY_BYTES

pytestmark = pytest.mark.anyio

OPEN = {"request_id": "r", "state": "open"}
ENDED = {"request_id": "r", "state": "completed", "operation_id": "op", "unheard_of": 1}
WORK = NewRequest({"binding_id": "b", "source_event_id": "e"})


class ScriptedGateway:
    """Answers in turn, the last answer for ever, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.pauses_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses_s.append(seconds)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def producer(self, **options: Any) -> Producer:
        transport = httpx.MockTransport(self)
        return Producer("binding-evaluation", sleep=self.sleep, transport=transport, **options)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


def refusal(status: int, code: str, headers: Any = None, **details: Any) -> httpx.Response:
    body = {"error": {"code": code, "message": "why", "details": details}}
    return httpx.Response(status, json=body, headers=headers)


def taken(request: httpx.Request) -> httpx.Response:
    keys = [open_request["request_key"] for open_request in json.loads(request.content)["requests"]]
    receipts = [{"request_id": f"request:{key}", "duplicate": False} for key in keys]
    return httpx.Response(200, json={"requests": receipts})


@pytest.mark.spec("K6")
@pytest.mark.parametrize(
    "trouble",
    [
        refusal(429, "work_requests_too_many"),
        refusal(503, "commit_failed"),
        refusal(503, "gateway_full"),
        refusal(408, "body_too_slow"),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut off"),
    ],
)
async def test_a_call_has_one_key_however_often_it_is_sent(trouble):
    gateway = ScriptedGateway(trouble, trouble, taken)
    async with gateway.producer() as producer:
        enqueued = await producer.enqueue(WORK)
        other = await producer.enqueue(WORK)
    first, second, third, fourth = gateway.bodies
    assert first == second == third
    assert enqueued.request_id == f"request:{first['requests'][0]['request_key']}"
    assert other.request_id != enqueued.request_id
    assert first != fourth


async def test_a_pause_is_at_least_as_long_as_the_gateway_says():
    gateway = ScriptedGateway(refusal(429, "work_requests_too_many", {"Retry-After": "7"}), taken)
    async with gateway.producer() as producer:
        await producer.enqueue(WORK)
    assert gateway.pauses_s[0] >= 7


async def test_patience_ends_with_the_last_reason():
    for trouble, code in (
        (refusal(429, "work_requests_too_many"), "work_requests_too_many"),
        (httpx.ConnectError("refused"), "gateway_unreachable"),
    ):
        gateway = ScriptedGateway(trouble)
        async with gateway.producer(give_up_after_s=1.0) as producer:
            with pytest.raises(ProducerError) as caught:
                await producer.enqueue(WORK)
        assert caught.value.code == code
        assert sum(gateway.pauses_s) >= 1.0
        assert gateway.pauses_s[0] >= PAUSE_FIRST_S


async def test_what_was_refused_is_not_sent_again_and_says_which_and_why():
    gateway = ScriptedGateway(
        taken, refusal(409, "work_request_conflict", field="request_key", index=3)
    )
    async with gateway.producer() as producer:
        with pytest.raises(ProducerError) as caught:
            await producer.enqueue_many([WORK] * 300)
    error = caught.value
    assert (error.code, error.status, error.field) == ("work_request_conflict", 409, "request_key")
    assert error.index == 259
    assert len(error.receipts) == 256
    assert len(gateway.requests) == 2


async def test_an_answer_of_something_else_is_an_error_of_its_own():
    gateway = ScriptedGateway(httpx.Response(500, text="<html>"))
    async with gateway.producer() as producer:
        with pytest.raises(ProducerError) as caught:
            await producer.status("r")
    assert (caught.value.code, caught.value.status) == ("gateway_failed", 500)


async def test_many_are_sent_in_chunks_and_only_what_was_stated():
    gateway, progress = ScriptedGateway(taken), []
    full = NewRequest({"a": 1}, request_key="k", priority="critical", delay_s=5)
    async with gateway.producer() as producer:
        enqueued = await producer.enqueue_many(
            iter([full] + [WORK] * 599), progress=progress.append
        )
    assert [len(body["requests"]) for body in gateway.bodies] == [256, 256, 88]
    assert (len(enqueued), progress) == (600, [256, 512, 600])
    assert gateway.bodies[0]["requests"][0] == {
        "request_key": "k",
        "content": {"a": 1},
        "priority": "critical",
        "delay_s": 5,
    }
    assert set(gateway.bodies[0]["requests"][1]) == {"request_key", "content"}


async def test_a_call_is_never_larger_than_a_gateway_takes():
    gateway = ScriptedGateway(taken)
    async with gateway.producer() as producer:
        enqueued = await producer.enqueue_many([NewRequest({"x": "y" * 32_000})] * 300)
    assert len(enqueued) == 300
    assert sum(len(body["requests"]) for body in gateway.bodies) == 300
    assert max(len(request.content) for request in gateway.requests) < MAX_BODY_BYTES


@pytest.mark.parametrize("content", [{"x": float("nan")}, {"x": object()}])
async def test_what_is_no_json_is_refused_and_what_came_before_is_known(content):
    gateway = ScriptedGateway(taken)
    async with gateway.producer() as producer:
        with pytest.raises(ProducerError) as caught:
            await producer.enqueue_many([*[WORK] * 257, NewRequest(content)])
    assert caught.value.code == "work_request_invalid"
    assert len(caught.value.receipts) == 256


async def test_an_outcome_is_asked_for_until_it_is_there():
    def answer(*outcomes: Any) -> httpx.Response:
        return httpx.Response(200, json={"outcomes": outcomes})

    gateway, progress = ScriptedGateway(answer(OPEN, ENDED), answer(ENDED, ENDED)), []
    async with gateway.producer() as producer:
        answered = await producer.wait_many(["r", "s"], 60, progress=progress.append)
    assert [outcome.state for outcome in answered] == ["completed", "completed"]
    assert progress == [1, 2]
    assert all(0 < body["wait_s"] <= 30 for body in gateway.bodies)


async def test_after_the_deadline_it_is_said_what_is_still_open():
    gateway = ScriptedGateway(httpx.Response(200, json={"outcomes": [OPEN]}))
    async with gateway.producer() as producer:
        with anyio.fail_after(10):
            assert (await producer.wait("r", 0)).state == "open"
            assert (await producer.wait("r", 0.05)).state == "open"


@pytest.mark.parametrize("name", ["a/b", "a?b#c", "u-1 ü", "request:1:n"])
async def test_any_name_is_one_part_of_the_path(name):
    gateway = ScriptedGateway(refusal(404, "work_request_unknown"))
    async with gateway.producer() as producer:
        with pytest.raises(ProducerError):
            await producer.cancel(name, "why")
    path = gateway.requests[0].url.path
    assert path == f"/v1/queues/binding-evaluation/requests/{name}/cancel"
