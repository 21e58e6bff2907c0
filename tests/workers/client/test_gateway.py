"""The gateway as others see it: patient where asking again can help, and nowhere else."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from workers.client.errors import GatewayError
from workers.client.gateway_http import PAUSE_FIRST_S, PAUSE_MAX_S
from workers.client.typed.gateway import GatewayClient
from workers.client.typed.worker_proof import WorkerProof, proof_of

pytestmark = pytest.mark.anyio

URL = "http://gateway.test"


class ScriptedAnswers:
    """Answers in turn, and the pauses that were made between them."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.pauses_s: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(self, seconds: float) -> None:
        self.pauses_s.append(seconds)

    def client(self, **options: Any) -> GatewayClient:
        options = {"sleep": self.sleep, "transport": httpx.MockTransport(self), **options}
        return GatewayClient(URL, **options)


def error(status: int, code: str = "some_code") -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": "why"}})


OK = httpx.Response(200, json={"fine": True})


@pytest.mark.parametrize(
    "trouble",
    [
        error(429, "mailbox_full"),
        error(503, "commit_failed"),
        error(503, "gateway_full"),
        error(408, "body_too_slow"),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut off"),
    ],
)
async def test_what_may_pass_is_asked_again_the_same(trouble):
    gateway = ScriptedAnswers(trouble, trouble, OK)
    async with gateway.client() as client:
        assert await client.post("/path", {"a": 1}) == {"fine": True}
    assert [json.loads(request.content) for request in gateway.requests] == [{"a": 1}] * 3
    assert len(gateway.pauses_s) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 421, 422, 500, 502])
async def test_what_was_refused_is_not_asked_again(status):
    gateway = ScriptedAnswers(error(status, "the_code"))
    async with gateway.client() as client:
        with pytest.raises(GatewayError) as caught:
            await client.post("/path", {})
    assert (caught.value.code, caught.value.status) == ("the_code", status)
    assert str(caught.value) == "why"
    assert len(gateway.requests) == 1


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (httpx.ConnectError("refused"), "gateway_unreachable"),
        (error(503, "commit_failed"), "commit_failed"),
    ],
)
async def test_patience_ends_after_the_time_that_was_waited(trouble, code):
    gateway = ScriptedAnswers(trouble)
    async with gateway.client(give_up_after_s=10) as client:
        with pytest.raises(GatewayError) as caught:
            await client.get("/path")
    assert caught.value.code == code
    assert 10 <= sum(gateway.pauses_s) <= 10 + 1.5 * PAUSE_MAX_S
    assert len(gateway.requests) == len(gateway.pauses_s) + 1


async def test_pauses_grow_up_to_a_bound_and_are_never_the_same_for_all():
    gateway = ScriptedAnswers(httpx.ConnectError("refused"))
    async with gateway.client(give_up_after_s=30) as client:
        with pytest.raises(GatewayError):
            await client.get("/path")
    floors = [min(PAUSE_MAX_S, PAUSE_FIRST_S * 2**turn) for turn in range(len(gateway.pauses_s))]
    for pause_s, floor_s in zip(gateway.pauses_s, floors, strict=True):
        assert floor_s <= pause_s <= 1.5 * floor_s
    late = gateway.pauses_s[-5:]
    assert len(set(late)) == len(late)


@pytest.mark.parametrize(
    ("named", "least_s", "most_s"),
    [("7", 7, 10.5), ("1000", 30, 45), ("-3", 0, 1), ("soon", 0, 1)],
)
async def test_a_pause_is_at_least_what_the_gateway_names_within_reason(named, least_s, most_s):
    full = error(429, "mailbox_full")
    full.headers["Retry-After"] = named
    gateway = ScriptedAnswers(full, OK)
    async with gateway.client() as client:
        await client.get("/path")
    assert least_s <= gateway.pauses_s[0] <= most_s


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"error": "x"}', b'{"error": {"code": "only"}}']
)
async def test_an_answer_that_is_not_ours_has_a_code_all_the_same(body):
    gateway = ScriptedAnswers(httpx.Response(502, content=body))
    async with gateway.client() as client:
        with pytest.raises(GatewayError) as caught:
            await client.get("/path")
    assert (caught.value.code, caught.value.status) == ("gateway_failed", 502)


async def test_queries_are_sent_and_the_token_is_proven_but_not_told():
    gateway = ScriptedAnswers(OK)
    async with gateway.client(auth=WorkerProof("sesame")) as client:
        await client.get("/v1/log", after=7, limit=2)
    [request] = gateway.requests
    assert request.url.path == "/v1/log"
    assert dict(request.url.params) == {"after": "7", "limit": "2"}
    assert "sesame" not in str(request.headers.raw)
    expected = proof_of("sesame", "GET", b"/v1/log?after=7&limit=2", b"")
    assert request.headers["authorization"] == expected


async def test_without_a_token_none_is_sent():
    gateway = ScriptedAnswers(OK)
    async with gateway.client() as client:
        await client.get("/v1/log")
    assert "authorization" not in gateway.requests[0].headers


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(OK, True), (error(503), False), (error(404), False), (httpx.ConnectError("no"), False)],
)
async def test_whether_it_answers_is_asked_once(answer, expected):
    gateway = ScriptedAnswers(answer)
    async with gateway.client() as client:
        assert await client.answers("/readyz") is expected
    assert len(gateway.requests) == 1
    assert gateway.pauses_s == []


async def test_waiting_can_be_cancelled():
    gateway = ScriptedAnswers(httpx.ConnectError("refused"))
    slept = anyio.Event()

    async def sleep(_: float) -> None:
        slept.set()
        await anyio.sleep_forever()

    client = gateway.client(give_up_after_s=1e9, sleep=sleep)
    async with client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.get, "/path")
        await slept.wait()
        tasks.cancel_scope.cancel()


async def test_the_environment_does_not_send_it_through_a_proxy(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    made: list[dict[str, Any]] = []
    new: Callable[..., httpx.AsyncClient] = httpx.AsyncClient
    monkeypatch.setattr(
        httpx, "AsyncClient", lambda **options: made.append(options) or new(**options)
    )
    async with GatewayClient(URL):
        pass
    assert made[0]["trust_env"] is False
