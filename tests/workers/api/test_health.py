"""Alive is not ready, and ready names what is missing."""

from dataclasses import replace
from typing import Any

import anyio
import pytest
from redis.asyncio import Redis
from redis.exceptions import ReadOnlyError

from kernel.ledger import schema
from kernel.ledger.shards import shards_of, take_shards
from kernel.ledger.sqlite.store import SqliteStore
from queues.redis.watch import FRESH_S
from tests.actors.harness import ScriptedStore
from tests.kernel.build import FakeHost
from tests.queues.test_redis_errors import RefusingRedis
from tests.workers.api.door import SESSION, Door, error_of, running_door
from workers.views.readiness import STALLED_S, Health

pytestmark = pytest.mark.anyio


async def unready(door: Door) -> dict[str, Any]:
    """What is missing; the process is alive all the same."""
    assert (await door.http.get("/healthz")).json() == {"status": "alive"}
    response = await door.http.get("/readyz")
    assert response.status_code == 503
    body = response.json()
    assert body["status"] == "not ready"
    return body["problems"]


async def test_a_gateway_that_misses_nothing_is_ready(door: Door):
    response = await door.http.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ready", "problems": {}})


async def test_a_ledger_that_cannot_be_read_is_named():
    store = ScriptedStore()
    async with running_door(store, host=FakeHost().host) as door:
        store.views_fail = True
        assert await unready(door) == {"ledger": "LedgerUnavailable"}
        refused = await door.http.get("/v1/nodes/n")
        error_of(refused, 503, "ledger_unavailable")
        assert refused.headers["Retry-After"]
        assert "gone" not in refused.text
        store.views_fail = False
        error_of(await door.http.get("/v1/nodes/n"), 404, "not_found")


async def test_a_redis_that_does_not_answer_is_named():
    redis = Redis.from_url("redis://127.0.0.1:1")
    async with running_door(host=FakeHost().host, redis=redis) as door:
        assert await unready(door) == {"redis": "ConnectionError"}
        error_of(await door.http.get("/v1/queues"), 503, "queue_unavailable")
        # What needs no queue works on.
        assert (await door.declare(SESSION, "a")).status_code == 201


async def test_a_redis_that_answers_and_refuses_is_named_with_what_to_do():
    redis = RefusingRedis()
    async with running_door(host=FakeHost().host, redis=redis) as door:
        assert (await door.http.get("/readyz")).status_code == 200
        redis.error = ReadOnlyError("You can't write against a read only replica.")
        await anyio.sleep(FRESH_S)
        said = (await unready(door))["redis"]
        assert said.startswith("refused: read_only: ")
        assert "redis+sentinel://" in said
        error_of(await door.http.get("/v1/queues"), 503, "queue_refused")
        redis.error = None
        await anyio.sleep(FRESH_S)
        assert (await door.http.get("/readyz")).status_code == 200


@pytest.mark.spec("L3")
async def test_a_session_that_does_not_verify_is_named_and_not_served(tmp_path):
    path = tmp_path / "ledger.db"
    store = SqliteStore(path)
    async with running_door(store, host=FakeHost().host) as door:
        await door.declare(SESSION, "a", "b")
        with store.transaction() as tables:
            head = {"head_event_hash": "0" * 64}
            tables.update(schema.belief_sessions, (SESSION,), head)
    async with running_door(store, host=FakeHost().host) as door:
        assert (await door.http.get("/readyz")).status_code == 200
        error_of(await door.http.get(f"/v1/sessions/{SESSION}"), 500, "session_corrupt")
        assert await unready(door) == {f"session {SESSION}": "its record does not verify"}
        error_of(await door.http.get(f"/v1/sessions/{SESSION}"), 500, "session_corrupt")
        other = "00000000-0000-4000-8000-000000000002"
        assert (await door.declare(other, "a")).status_code == 201
    store.close()


async def test_a_gateway_that_owns_no_shard_is_not_ready_and_refuses_for_now():
    async with running_door(host=FakeHost().host, shards=4) as door:
        assert await unready(door) == {"shards": "this gateway owns none"}
        refused = await door.declare(SESSION, "a")
        error_of(refused, 503, "shard_unowned")
        door.services.fleet.held_shards.name_taken = True
        assert await unready(door) == {
            "shards": "this gateway owns none",
            "gateway": "another process goes by its name",
        }
        assert int(refused.headers["Retry-After"]) >= 1
        assert (await door.http.get("/v1/shards")).json() == {
            "of": 4,
            "gateways": {},
            "unowned": [0, 1, 2, 3],
        }


async def test_a_gateway_says_how_many_shards_it_owns():
    async with running_door(host=FakeHost().host, shards=4) as door:
        with door.ledger.transaction() as transaction:
            seen = [shard for shard in shards_of(transaction) if shard.shard < 3]
            door.services.fleet.held_shards.add(take_shards(transaction, "a", seen))
        body = (await door.http.get("/readyz")).json()
        assert body == {"status": "ready", "problems": {}, "shards": {"owned": 3, "of": 4}}
        [(name, owned)] = (await door.http.get("/v1/shards")).json()["gateways"].items()
        assert (name, owned["shards"]) == ("a", [0, 1, 2])


async def test_a_gateway_that_was_replaced_unnoticed_says_so_when_it_is_asked():
    async with running_door(host=FakeHost().host, shards=1) as door:
        for name in ("a", "b"):
            with door.ledger.transaction() as transaction:
                taken = take_shards(transaction, name, shards_of(transaction))
            if name == "a":
                door.services.fleet.held_shards.add(taken)
                assert (await door.declare(SESSION, "x", "y")).status_code == 201
        refused = await door.http.get(f"/v1/sessions/{SESSION}")
        error_of(refused, 503, "stale_epoch")
        assert "Retry-After" in refused.headers
        assert await unready(door) == {"shards": "this gateway owns none"}


async def test_a_problem_of_the_process_makes_it_unready(door: Door):
    door.services.health.problems["relay"] = "stopped"
    assert await unready(door) == {"relay": "stopped"}


@pytest.mark.parametrize(
    ("stalled_s", "problems"),
    [(0.0, {}), (STALLED_S - 1, {}), (STALLED_S, {"commits": "nothing was committed for 5 s"})],
)
async def test_a_gateway_that_cannot_commit_is_not_ready(door: Door, stalled_s, problems):
    door.app.services = replace(door.services, health=Health(stalled_s=lambda: stalled_s))
    assert (await door.http.get("/readyz")).json()["problems"] == problems
