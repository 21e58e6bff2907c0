"""Two gateways on one ledger: any of them may be killed, paused or stopped, and Redis lost."""

import signal
from collections import Counter
from contextlib import contextmanager

import anyio
import httpx
import pytest
from redis import Redis

from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import shards_of
from queues.client.gateway_http import GatewayHttp
from queues.client.session_operations import SessionOperations
from queues.embedded.server import EmbeddedRedis, find_server
from tests import loopback
from tests.system.gateways import (
    ANSWER_S,
    RetryingClient,
    elimination,
    running_gateways,
    session_id,
)
from tests.workers.api.door import source
from workers.environment.ledger_access import open_store
from workers.environment.system_host import system_host

pytestmark = [pytest.mark.timeout(120), pytest.mark.anyio]

CLIENTS = 50
EACH = 5
SESSIONS = 8
LONG = 30

_numbers = iter(range(10_000))


@pytest.fixture(autouse=True)
def no_blocking_calls():
    """The gateways have loops of their own; this one may wait for a look at the record."""


on_both = pytest.mark.parametrize("gateways", ["sqlite", "postgres"], indirect=True)
on_a_file = pytest.mark.parametrize("gateways", ["sqlite"], indirect=True)


@pytest.fixture(scope="module")
def gateways(request, tmp_path_factory):
    """One ledger with its gateways for all tests of a store; each test begins with a pair."""
    folder = tmp_path_factory.mktemp("gateways")
    database = None
    if request.param == "postgres":
        postgres = request.getfixturevalue("postgres")
        database = postgres.new_database()
    server = EmbeddedRedis(folder, find_server())
    server.start()
    try:
        with running_gateways(folder, server.url, database) as gateways:
            gateways.redis = server
            yield gateways
            gateways.verify()
    finally:
        server.stop()


def new_sessions(number):
    return [session_id(next(_numbers)) for _ in range(number)]


def owners(gateways):
    ledger = Ledger(open_store(gateways.place, read_only=True), system_host())
    try:
        with ledger.view() as view:
            return Counter(shard.owner for shard in shards_of(view))
    finally:
        ledger.close()


async def eliminate_each(client, sessions, numbers=range(EACH)):
    """Let every session have its own asker; returns once everybody was answered."""

    async def one(session):
        await client.declare(session)
        for number in numbers:
            answer = await client.eliminate(session, number)
            assert answer["applied_eliminated"] == [f"h{number:03d}"]

    async with anyio.create_task_group() as tasks:
        for session in sessions:
            tasks.start_soon(one, session)


async def assert_exactly_once(client, sessions, numbers=range(EACH)):
    """What was answered is on the record, once, in the order of asking."""
    for session in sessions:
        assert await client.trail(session) == [f"o-{number}" for number in numbers]


@on_both
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


@on_both
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


@on_both
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


@contextmanager
def paused(gateway):
    gateway.send(signal.SIGSTOP)
    try:
        yield
    finally:
        gateway.send(signal.SIGCONT)


@on_both
@pytest.mark.spec("D6")
async def test_a_gateway_that_was_paused_past_its_lease_writes_nothing_stale(gateways):
    a, b = gateways.pair()
    sessions = new_sessions(SESSIONS)
    late = {}

    async def ask_the_paused(session):
        """A request that is in its socket when it wakes up."""
        async with httpx.AsyncClient(
            base_url=a.url, timeout=ANSWER_S, verify=loopback.NO_TLS, trust_env=False
        ) as http:
            path = f"/v1/sessions/{session}/eliminate"
            late[session] = await http.post(path, json=elimination(EACH))

    async with (
        RetryingClient(a, b) as both,
        RetryingClient(b) as living,
        anyio.create_task_group() as tasks,
    ):
        await eliminate_each(both, sessions, range(2))
        with paused(a):
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
