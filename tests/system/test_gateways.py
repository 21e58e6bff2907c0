"""Two gateways on one ledger: any of them may be killed, paused or stopped, and Redis lost."""

import html
import signal
from collections import Counter
from functools import partial
from urllib.parse import quote

import anyio
import pytest
from redis import Redis

from kernel.authority.requests import AUTHORITY_QUEUE
from tests import loopback
from tests.system.gateways import (
    ANSWER_S,
    RetryingClient,
    database_of,
    elimination,
    on_a_file,
    on_a_server,
    running_gateways,
    session_id,
)
from tests.workers.api.door import source, understanding
from tests.workers.cli.command import rotulus
from tests.workers.gateway.served import until
from workers.client.gateway_http import GatewayHttp
from workers.client.session_operations import SessionOperations

pytestmark = [pytest.mark.timeout(120), pytest.mark.anyio, pytest.mark.may_block]

CLIENTS = 50
EACH = 5
SESSIONS = 8
LONG = 30
AWAY = "its session's gateway a is away"

_numbers = iter(range(10_000))


@pytest.fixture(scope="module")
def gateways(request, tmp_path_factory):
    """One ledger with its gateways for all tests of a store; each test begins with a pair."""
    folder = tmp_path_factory.mktemp("gateways")
    with running_gateways(folder, database_of(request)) as gateways:
        yield gateways
        gateways.verify()


def new_sessions(number):
    return [session_id(next(_numbers)) for _ in range(number)]


def owners(gateways):
    return Counter(shard.owner for shard in gateways.shards())


async def eliminate_each(client, sessions, numbers=range(EACH)):
    """Let every session have its own asker; returns once everybody was answered."""

    async def ask(session):
        await client.declare(session)
        for number in numbers:
            answer = await client.eliminate(session, number)
            assert answer["applied_eliminated"] == [f"h{number:03d}"]

    async with anyio.create_task_group() as tasks:
        for session in sessions:
            tasks.start_soon(ask, session)


async def assert_exactly_once(client, sessions, numbers=range(EACH)):
    """What was answered is on the record, once, in the order of asking."""
    for session in sessions:
        assert await client.trail(session) == [f"o-{number}" for number in numbers]


@on_a_server
async def test_every_gateway_serves_every_session(gateways):
    pair = gateways.pair()
    assert owners(gateways) == {"a": 32, "b": 32}
    sessions = new_sessions(SESSIONS)
    async with RetryingClient(*pair) as client:
        await eliminate_each(client, sessions)
    for gateway in pair:
        async with RetryingClient(gateway) as client:
            await assert_exactly_once(client, sessions)
    gateways.verify()


@on_a_server
async def test_every_gateway_takes_a_stream_for_every_session(gateways):
    pair = gateways.pair()
    sessions = new_sessions(4)
    async with RetryingClient(*pair) as client:
        for session in sessions:
            await client.declare(session)
    for place, gateway in enumerate(pair):
        async with GatewayHttp(gateway.url) as http:
            for session in sessions:
                intents = [source(f"{session}-{number}") for number in range(300)]
                operations = SessionOperations(http, session)
                results = [outcome.result async for outcome in operations.submit(intents)]
                assert {result["validation_result"] for result in results} == {"accepted"}
                assert {result["duplicate"] for result in results} == {bool(place)}
    gateways.verify()


@on_a_server
async def test_a_killed_gateways_sessions_go_on_at_the_other(gateways):
    a, b = gateways.pair()
    sessions = new_sessions(CLIENTS)
    async with RetryingClient(a, b) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(eliminate_each, client, sessions)
        await client.wait_until_answered(3 * len(sessions))
        a.send(signal.SIGKILL)
        await anyio.to_thread.run_sync(b.wait_until_owning, 64)
    async with RetryingClient(b) as client:
        await assert_exactly_once(client, sessions)
    gateways.verify()


async def test_a_request_whose_gateway_was_killed_says_so_until_another_has_its_session(tmp_path):
    with running_gateways(tmp_path, ROTULUS_SHARD_LEASE_S="4") as gateways:
        a, b = gateways.pair()
        async with (
            RetryingClient(b) as client,
            GatewayHttp(b.url) as asker,
            loopback.client(base_url=b.url) as http,
        ):
            for session in new_sessions(SESSIONS):
                await client.declare(session)
                intents = [source(f"s-{session}"), understanding(f"u-{session}", f"s-{session}")]
                operations = SessionOperations(asker, session)
                assert [outcome async for outcome in operations.submit(intents)]
            listed = (await http.get("/v1/requests")).json()
            ids = [request["request_id"] for request in listed["requests"]]

            async def whys():
                path = f"/v1/queues/{AUTHORITY_QUEUE}/requests"
                return [(await http.get(f"{path}/{name}/waiting")).json()["why"] for name in ids]

            async def nobody_works():
                return await whys() == [f"no worker serves {AUTHORITY_QUEUE}"] * SESSIONS

            async def away():
                return [name for name, why in zip(ids, await whys(), strict=True) if AWAY in why]

            await until(nobody_works)
            a.send(signal.SIGKILL)
            [request_id, *_] = await until(away)
            page = await http.get(f"/queues/{AUTHORITY_QUEUE}/requests/{quote(request_id)}")
            assert AWAY in html.unescape(page.text)
            why = partial(rotulus, "queues", "why", AUTHORITY_QUEUE, request_id, "--gateway", b.url)
            assert AWAY in (await anyio.to_thread.run_sync(why)).output
            await until(nobody_works)
        assert b.owned() == 64


@on_a_server
@pytest.mark.spec("D6")
async def test_a_gateway_that_was_paused_past_its_lease_writes_nothing_stale(gateways):
    a, b = gateways.pair()
    sessions = new_sessions(SESSIONS)
    late = {}

    async def ask_the_paused(session):
        """A request that is in its socket when it wakes up."""
        async with loopback.client(base_url=a.url, timeout=ANSWER_S) as http:
            path = f"/v1/sessions/{session}/eliminate"
            late[session] = await http.post(path, json=elimination(EACH))

    async with (
        RetryingClient(a, b) as both,
        RetryingClient(b) as living,
        anyio.create_task_group() as tasks,
    ):
        await eliminate_each(both, sessions, range(2))
        with a.paused():
            for session in sessions:
                tasks.start_soon(ask_the_paused, session)
            await anyio.to_thread.run_sync(b.wait_until_owning, 64)
            await eliminate_each(living, sessions, range(2, EACH))
    async with RetryingClient(a, b) as both:
        for session in sessions:
            answered = late[session].status_code == 200
            assert answered or late[session].status_code == 503
            trail = await both.trail(session)
            # It knew of two eliminations when it was paused, and has to have learned of the rest.
            assert trail[:EACH] == [f"o-{number}" for number in range(EACH)]
            assert trail[EACH:] == [f"o-{EACH}"] * answered
    gateways.pair()
    gateways.verify()


@on_a_file
async def test_a_redis_that_is_flushed_and_then_restarted_loses_no_answer(gateways):
    a, b = gateways.pair()
    sessions = new_sessions(SESSIONS)
    async with RetryingClient(a, b) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(eliminate_each, client, sessions, range(LONG))
        await client.wait_until_answered(3 * len(sessions))
        await anyio.to_thread.run_sync(flush, gateways.redis.url)
        await anyio.sleep(0.5)
        # From this thread: the server lives as long as the thread that has started it.
        gateways.redis.stop()
        await anyio.sleep(0.5)
        gateways.redis.start()
    gateways.pair()
    async with RetryingClient(a, b) as client:
        await assert_exactly_once(client, sessions, range(LONG))
    gateways.verify()


def flush(url):
    with Redis.from_url(url) as client:
        assert client.flushall()


@on_a_file
async def test_a_gateway_that_is_stopped_hands_over_before_it_ends(gateways):
    a, b = gateways.pair()
    sessions = new_sessions(SESSIONS)
    async with RetryingClient(a, b) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(eliminate_each, client, sessions)
        await client.wait_until_answered(3 * len(sessions))
        a.send(signal.SIGTERM)
        await anyio.to_thread.run_sync(a.process.wait, 30)
        # By hand-over, and not because a lease is over: it holds nothing on the record any more.
        assert owners(gateways)["a"] == 0
        await anyio.to_thread.run_sync(b.wait_until_owning, 64)
    async with RetryingClient(b) as client:
        await assert_exactly_once(client, sessions)
    gateways.verify()
