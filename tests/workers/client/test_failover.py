"""A client that knows several gateways asks the next one where one does not answer."""

from contextlib import asynccontextmanager

import anyio
import httpx
import pytest

from workers.client.errors import GatewayError
from workers.client.failover import ANSWER_WAIT_S, FailoverTransport
from workers.client.gateway_http import GatewayHttp

pytestmark = pytest.mark.anyio

URLS = ("http://a:1", "http://b:2", "https://c")


class GatewaysByHost(httpx.AsyncBaseTransport):
    """Gateways by host, each of which does the same with every request."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    async def handle_async_request(self, request):
        content = await request.aread()
        self.asked.append((str(request.url), request.headers["host"], content))
        self.timeouts = request.extensions["timeout"]
        answer = self.answers[request.url.host]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer, json={"by": request.url.host})


async def ask(fleet, times=1):
    """Return who answered each time, and how long was waited in between in all."""
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        await anyio.lowlevel.checkpoint()

    transport = FailoverTransport(URLS, fleet)
    async with GatewayHttp(URLS[0], transport=transport, sleep=sleep, give_up_after_s=1) as http:
        answers = [await http.ask("POST", "/x?y=1", json={"n": n}) for n in range(times)]
    return [answer.json()["by"] for answer in answers], sum(pauses)


async def test_the_first_is_asked_while_it_answers():
    fleet = GatewaysByHost(a=200, b=200, c=200)
    assert await ask(fleet, times=3) == (["a", "a", "a"], 0)
    assert {url for url, _, _ in fleet.asked} == {"http://a:1/x?y=1"}


@pytest.mark.parametrize("answer", [503, httpx.ConnectError("no"), httpx.ReadTimeout("silent")])
async def test_whoever_does_not_answer_is_left_for_the_next(answer):
    fleet = GatewaysByHost(a=answer, b=200, c=200)
    answers, waited_s = await ask(fleet, times=3)
    assert (answers, len(fleet.asked)) == (["b", "b", "b"], 4)
    assert waited_s < 1
    assert fleet.asked[1] == ("http://b:2/x?y=1", "b:2", b'{"n":0}')


async def test_all_are_asked_and_then_the_first_again():
    fleet = GatewaysByHost(a=503, b=httpx.ConnectError("no"), c=503)
    with pytest.raises(GatewayError):
        await ask(fleet)
    assert [host for _, host, _ in fleet.asked[:4]] == ["a:1", "b:2", "c", "a:1"]


async def test_what_is_wrong_with_a_request_is_nobody_elses_to_answer():
    fleet = GatewaysByHost(a=422, b=200, c=200)
    with pytest.raises(GatewayError):
        await ask(fleet)
    assert len(fleet.asked) == 1


async def test_one_gateway_holds_nobody_for_longer_than_its_time():
    fleet = GatewaysByHost(a=200, b=200, c=200)
    await ask(fleet)
    assert set(fleet.timeouts.values()) == {ANSWER_WAIT_S}


async def test_requests_that_fail_together_turn_from_a_gateway_once():
    fleet = GatewaysByHost(a=503, b=200, c=503)
    transport = FailoverTransport(URLS, fleet)
    async with GatewayHttp(URLS[0], transport=transport) as http, anyio.create_task_group() as all_:
        for _ in range(4):
            all_.start_soon(http.ask, "GET", "/")
    assert [host for _, host, _ in fleet.asked].count("c") == 0


class Table(GatewaysByHost):
    """Gateways by host that answer with one table of gateways."""

    def __init__(self, urls, **answers):
        super().__init__(**answers)
        self.rows = [{"gateway": url, "url": url} for url in urls]

    async def handle_async_request(self, request):
        answer = await super().handle_async_request(request)
        if request.url.path == "/v1/gateways" and answer.is_success:
            return httpx.Response(200, json={"gateways": self.rows})
        return answer


@asynccontextmanager
async def knowing_one(fleet, url="http://a:1"):
    """Yield the client and the transport of who was configured with one gateway."""
    transport = FailoverTransport([url], fleet)
    async with GatewayHttp(url, transport=transport) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(transport.follow_table, http)
        await anyio.wait_all_tasks_blocked()
        yield http, transport
        tasks.cancel_scope.cancel()


async def answer_by(http):
    return (await http.ask("POST", "/x", json={})).json()["by"]


async def test_who_was_configured_with_one_gateway_asks_those_of_its_table_where_it_is_silent():
    fleet = Table(["http://a:1/", "http://b:2"], a=200, b=200)
    async with knowing_one(fleet) as (http, _):
        assert await answer_by(http) == "a"
        assert set(fleet.timeouts.values()) == {ANSWER_WAIT_S}
        fleet.answers["a"] = httpx.ReadTimeout("silent")
        assert [await answer_by(http) for _ in range(2)] == ["b", "b"]


async def test_who_knows_no_other_gateway_gives_the_one_its_time():
    fleet = Table(["http://a:1"], a=200)
    async with knowing_one(fleet) as (http, _):
        assert await answer_by(http) == "a"
        assert fleet.timeouts["read"] > ANSWER_WAIT_S


async def test_a_gateway_that_left_the_table_is_asked_no_more():
    fleet = Table(["http://a:1", "http://b:2"], a=503, b=200)
    async with knowing_one(fleet) as (http, transport):
        fleet.answers["a"] = 200
        transport.use_table(["http://b:2"])
        assert await answer_by(http) == "a"
        transport.use_table([])
        assert await answer_by(http) == "a"
        fleet.answers["a"] = 422
        with pytest.raises(GatewayError):
            await answer_by(http)
    assert {host for _, host, _ in fleet.asked} == {"a:1"}


async def test_a_table_names_nobody_without_tls_to_who_is_asked_with_it():
    fleet = Table(["http://b:2", "https://c"], a=200, b=200, c=200)
    async with knowing_one(fleet, "https://a") as (http, _):
        fleet.answers["a"] = httpx.ConnectError("no")
        assert await answer_by(http) == "c"
        assert "b" not in {httpx.URL(url).host for url, _, _ in fleet.asked}


async def test_what_is_for_the_owner_of_a_session_goes_to_the_owner():
    fleet = GatewaysByHost(a=200, b=200, c=200)
    transport = FailoverTransport(URLS, fleet)
    async with httpx.AsyncClient(transport=transport) as http:
        fleet.answers["owner"] = 200
        assert (await http.get("http://owner:9/x")).json()["by"] == "owner"
