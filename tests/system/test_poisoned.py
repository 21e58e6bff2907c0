"""Nothing that anybody sends ends a gateway: two of them are fed what fails whoever takes it."""

from contextlib import suppress

import anyio
import httpx
import orjson
import pytest

from actors.sharding import SHARDS_DEFAULT
from actors.sharding.assignment import shard_of
from tests import loopback
from tests.system import poisoned_gateway as poison
from tests.system.gateways import (
    RetryingClient,
    database_of,
    on_a_server,
    running_gateways,
    session_id,
)

pytestmark = [pytest.mark.timeout(300), pytest.mark.anyio, pytest.mark.may_block]

SESSIONS = 8
EACH = 10

POISONS = [
    b'{"write_set_refs": ["\\ud800"]}',
    b'{"read_set_refs": ["\\ud800"], "source_refs": ["\\u0000", "a\\u0000\\ud800"]}',
    b'{"write_set_refs": ["a\\u0000b"], "idempotency_key": "\\ud800"}',
    b'{"operation_id": "\\ud800", "actor": 1e999, "n": ' + b"9" * 4000 + b"}",
    b'{"primitive_effects": ' + b"[" * 400 + b"]" * 400 + b"}",
    *(
        orjson.dumps({"marker": marker})
        for marker in (poison.RAISES, poison.SPOILS, poison.CONFUSES)
    ),
]
"""Known kinds, and three of which nothing knows."""


LEASE_S = "20"
"""Longer than a gateway takes to start again, so that one of the two always lives: the key of their
mail is gone with the last that has it, and what waited with it (decision kernel/0660)."""


@pytest.fixture
def gateways(request, tmp_path):
    options = {"program": poison.__name__, "ROTULUS_SHARD_LEASE_S": LEASE_S}
    with running_gateways(tmp_path, database_of(request), **options) as gateways:
        yield gateways
        gateways.verify()


async def post(gateway, session, body):
    async with loopback.client(base_url=gateway.url, timeout=30) as http:
        headers = {"Content-Type": "application/json"}
        path = f"/v1/sessions/{session}/envelopes"
        return await http.post(path, content=body, headers=headers)


async def feed(gateway, sessions, answers):
    """Send everything, the same through both, for sessions that the one owns and the other."""
    for number, body in enumerate(POISONS):
        for session in sessions[number % 2 :: 3]:
            answer = await post(gateway, session, body)
            answers.append((body, answer))


async def strike_each(client, session):
    for number in range(EACH):
        answer = await client.eliminate(session, number)
        assert answer["applied_eliminated"] == [f"h{number:03d}"]


@on_a_server
async def test_what_fails_whoever_takes_it_is_refused_and_ends_no_gateway(gateways):
    pair = gateways.pair()
    sessions = [session_id(number) for number in range(SESSIONS)]
    answers = []
    async with RetryingClient(*pair) as client:
        for session in sessions:
            await client.declare(session)
        async with anyio.create_task_group() as tasks:
            for gateway in pair:
                tasks.start_soon(feed, gateway, sessions, answers)
            for session in sessions:
                tasks.start_soon(strike_each, client, session)
        for session in sessions:
            assert await client.trail(session) == [f"o-{number}" for number in range(EACH)]

    assert [gateway.process.poll() for gateway in pair] == [None, None]
    for body, answer in answers:
        assert answer.status_code == 422, (body[:60], answer.text)
        document = answer.json()
        code = document["error"]["code"]
        assert code not in ("", "internal")
        if b"marker" in body:
            assert code == "request_unprocessable", document
    causes = {refusal["cause"] for refusal in gateways.receipts("request_unprocessable")}
    assert causes >= {"LookupError", "ArithmeticError", "ZeroDivisionError"}


class GatewayRestarter:
    """Starts each gateway again that has ended, under its name, and counts."""

    def __init__(self, gateways, *running):
        self._gateways = gateways
        self.ends = 0
        self.living = {process.name: process for process in running}

    async def run(self):
        while True:
            for name, gateway in self.living.items():
                if gateway.process.poll() is not None:
                    self.ends += 1
                    self.living[name] = self._gateways.start(name)
            await anyio.sleep(0.05)


@on_a_server
async def test_what_ends_whoever_takes_it_is_set_aside_after_three_ends(gateways):
    a, b = gateways.pair()
    supervisor = GatewayRestarter(gateways, a, b)
    sessions = [session_id(number) for number in range(SESSIONS)]
    async with RetryingClient(a, b) as client:
        for session in sessions:
            await client.declare(session)
    owned_by_b = next(session for session in sessions if owner_of(gateways, session) == "b")
    answers = []

    async def poison_it():
        body = orjson.dumps({"marker": poison.ENDS})
        # The asker's gateway may be among those that take it.
        with suppress(httpx.TransportError):
            answers.append(await post(a, owned_by_b, body))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(supervisor.run)
        tasks.start_soon(poison_it)
        with anyio.fail_after(240):
            while not gateways.receipts("mailbox_entry_set_aside"):
                await anyio.sleep(0.2)
            ends = supervisor.ends
            for gateway in list(supervisor.living.values()):
                await anyio.to_thread.run_sync(gateway.wait_until_ready)
            async with RetryingClient(*supervisor.living.values()) as client:
                for session in sessions:
                    await strike_each(client, session)
                for session in sessions:
                    assert await client.trail(session) == [f"o-{n}" for n in range(EACH)]
            alive = next(iter(supervisor.living.values()))
            async with loopback.client(base_url=alive.url, timeout=30) as http:
                listed = (await http.get("/v1/shards/set-aside")).json()
                [kept] = listed["set_aside"]
                place = {name: kept[name] for name in ("shard", "offset")}
                assert listed["findings"][0]["offset"] == place["offset"]
                back = await http.post("/v1/shards/put-back", json={**place, "shard": 0})
                assert back.json() == {"put_back": kept["shard"] == 0}
        tasks.cancel_scope.cancel()

    assert ends == supervisor.ends == 3
    [finding] = gateways.receipts("mailbox_entry_set_aside")
    assert finding["process_ends"] == "3"
    assert finding["session_id"] == owned_by_b
    if answers:
        [answer] = answers
        assert answer.json()["error"]["code"] in ("request_set_aside", "reply_lost")


def owner_of(gateways, session):
    return gateways.shards()[shard_of(session, SHARDS_DEFAULT)].owner
