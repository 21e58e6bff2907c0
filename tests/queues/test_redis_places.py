"""A server, sentinels or a cluster are three ways to the address of the server for writes."""

from pathlib import Path

import anyio
import pytest
from redis.exceptions import RedisError

from queues.errors import REDIS_FAILED, QueueError
from queues.gateways.inbox import Inbox, mail_note
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from queues.redis.address import parse_redis_url
from queues.redis.connection import PlacedRedis, connect_redis
from queues.redis.keys import cluster_prefix
from queues.redis.watch import FRESH_S, RedisWatch
from tests.queues.topologies import (
    Cluster,
    Sentineled,
    blocked_clients,
    cluster,
    sentineled,
    server,
)

pytestmark = pytest.mark.anyio

QUEUE = "authority-recompute"
RECOVERS_S = 30.0
"""Generous, as machines are busy; how fast it is says `tests/system`."""


@pytest.mark.parametrize(
    ("url", "way", "seeds", "plain"),
    [
        ("redis://h:1/2", "single", (), "redis://h:1/2"),
        ("unix:///run/redis", "single", (), "unix:///run/redis"),
        (
            "redis+sentinel://u:p%40@h1:1,h2/m/3?sentinel_password=x&client_name=c",
            "sentinel",
            (("h1", 1), ("h2", 26379)),
            "redis://u:p%40@h1:1/3?client_name=c",
        ),
        (
            "rediss+cluster://:p@[::1]:7000,h2:7001?ssl_cert_reqs=none",
            "cluster",
            (("::1", 7000), ("h2", 7001)),
            "rediss://:p@[::1]:7000/?ssl_cert_reqs=none",
        ),
    ],
)
def test_a_url_is_taken_apart(url, way, seeds, plain):
    parsed = parse_redis_url(url)
    assert (parsed.way, parsed.seeds, parsed.plain) == (way, seeds, plain)
    assert "p%40" not in repr(parsed)


CANARY = "canary-4711"


@pytest.mark.parametrize(
    "rest",
    [
        "http://:{}@h",
        "redis+sentinel://:{}@h:1",
        "redis+sentinel://:{}@h:1/m/x",
        "redis+sentinel://:{}@h:99999/m",
        "redis+cluster://:{}@h:1/3",
        "redis+cluster://:{}@",
        "redis://:{}@h:1/abc",
        "redis://:{}#@h:1/0",
        "redis://:{}@h:1/0?unknown=1",
        "redis://:{}@h:1/0?socket_timeout={}",
        "redis+cluster://" + ",".join("h" for _ in range(65)),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_being_shown(rest):
    with pytest.raises(ValueError, match=r".") as refused:
        parse_redis_url(rest.replace("{}", CANARY))
    assert CANARY not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("prefix", "on_a_cluster"),
    [
        ("rotulus:", "rotulus:{rotulus}:"),
        ("a:b:", "a:b:{a:b}:"),
        ("x", "x{x}:"),
    ],
)
def test_on_a_cluster_every_key_has_the_tag_of_its_prefix(prefix, on_a_cluster):
    assert cluster_prefix(prefix) == on_a_cluster


async def _serves(redis: PlacedRedis, key: str) -> None:
    """Try until work goes through a queue; meanwhile it is away or refuses, and nothing else."""
    queue, inbox = WorkQueue(redis, QUEUE), Inbox(redis, "a")
    with anyio.fail_after(RECOVERS_S):
        while True:
            try:
                await queue.enqueue(NewItem(key, "background_normal", "cause", b"{}"))
                claims = await queue.claim(10, 60_000)
                await queue.acknowledge(claims)
                await inbox.tell(["a"], mail_note(3))
                heard = await inbox.listen(1)
                assert heard is not None
                assert heard.mail_for == {3}
            except QueueError as error:
                if error.code not in REDIS_FAILED:
                    raise
                await anyio.sleep(0.05)
            else:
                assert key in {claim.key for claim in claims}
                return


async def _is_well(watch: RedisWatch) -> None:
    with anyio.fail_after(RECOVERS_S):
        while await watch.current() is not None:
            await anyio.sleep(0.05)


async def _survives_a_failover(servers: Sentineled | Cluster, redis: PlacedRedis) -> None:
    servers.hold()  # on a busy machine one that is well seems to be away
    watch, blocked = RedisWatch(redis), []
    assert await watch.current() is None
    await _serves(redis, "u-1")

    async def wait() -> None:
        try:
            blocked.append(await WorkQueue(redis, QUEUE).wait(50))
        except QueueError as error:
            blocked.append(error.code)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        serving = servers.serving()
        assert serving is not None
        with anyio.fail_after(RECOVERS_S):
            while not await anyio.to_thread.run_sync(blocked_clients, serving):
                await anyio.sleep(0.02)
        await anyio.to_thread.run_sync(servers.fail_over)
        await _is_well(watch)
        await _serves(redis, "u-2")
        with anyio.fail_after(RECOVERS_S):
            while not blocked:
                await anyio.sleep(0.05)
    assert blocked[0] in REDIS_FAILED


@pytest.mark.slow
async def test_sentinels_say_where_the_primary_is_and_a_promoted_replica_is_followed(
    tmp_path: Path,
):
    with sentineled(tmp_path) as servers:
        redis = connect_redis(servers.url)
        await _survives_a_failover(servers, redis)
        # The old primary comes back, and nobody writes to it as long as it is one.
        servers.primary.start()
        await _serves(redis, "u-3")
        assert servers.primary.say("DBSIZE") == 0 or servers.primary.say("ROLE")[0] == b"slave"
        assert redis.place.found == ("127.0.0.1", servers.replica.port)
        await redis.aclose()


@pytest.mark.slow
async def test_who_is_connected_to_a_primary_that_was_demoted_goes_to_the_new_one(tmp_path: Path):
    with sentineled(tmp_path) as servers:
        redis = connect_redis(servers.url)
        watch = RedisWatch(redis)
        assert await watch.current() is None
        await anyio.to_thread.run_sync(servers.switch)
        with anyio.fail_after(RECOVERS_S):
            while servers.named() != servers.replica.port:
                await anyio.sleep(0.05)
        await _is_well(watch)
        await _serves(redis, "u-1")
        assert servers.replica.say("EXISTS", "rotulus:{authority-recompute}:clock") == 1
        await redis.aclose()


@pytest.mark.slow
async def test_a_look_at_a_primary_that_hangs_ends_as_another_one_is_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("queues.redis.watch.LOOK_S", 100.0)
    with sentineled(tmp_path) as servers:
        redis = connect_redis(servers.url)
        watch = RedisWatch(redis)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.follow)
            await _is_well(watch)
            servers.primary.hang()
            with anyio.fail_after(RECOVERS_S):
                while await watch.current() is None:
                    await anyio.sleep(0.05)
            await _is_well(watch)
            tasks.cancel_scope.cancel()
        assert redis.place.found == ("127.0.0.1", servers.replica.port)
        await redis.aclose()


@pytest.mark.slow
async def test_a_cluster_serves_a_ledger_by_one_node_and_its_replica_is_followed(tmp_path: Path):
    with cluster(tmp_path, cluster_prefix("rotulus:")) as servers:
        redis = connect_redis(servers.url)
        await _survives_a_failover(servers, redis)
        keys = servers.replica.say("KEYS", "*")
        assert keys
        assert {servers.replica.say("CLUSTER", "KEYSLOT", key) for key in keys} == {
            servers.replica.say("CLUSTER", "KEYSLOT", "rotulus:{rotulus}:")
        }
        others = [node for node in servers.nodes if node is not servers.serving_first]
        assert [node.say("DBSIZE") for node in others] == [0, 0]
        await redis.aclose()


@pytest.mark.slow
async def test_a_cluster_that_lost_the_node_of_our_keys_is_well_again_with_it(tmp_path: Path):
    with cluster(tmp_path, cluster_prefix("rotulus:")) as servers:
        redis = connect_redis(servers.url)
        watch = RedisWatch(redis)
        assert await watch.current() is None
        servers.replica.kill()
        servers.serving_first.kill()
        await anyio.sleep(2 * FRESH_S)
        assert await watch.current() is not None
        servers.serving_first.start()
        await _is_well(watch)
        await redis.aclose()


@pytest.mark.slow
async def test_a_look_without_an_answer_ends_every_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A network may have lost them all, and nobody would be told."""
    with server(tmp_path) as single:
        redis = connect_redis(single.url)
        watch = RedisWatch(redis)
        assert await watch.current() is None
        monkeypatch.setattr("queues.redis.watch.LOOK_S", 0.2)

        async def wait() -> None:
            with pytest.raises(QueueError):
                await WorkQueue(redis, QUEUE).wait(50)

        with anyio.fail_after(RECOVERS_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.sleep(2 * FRESH_S)
                single.hang()
                assert await watch.current() is not None
        monkeypatch.undo()
        single.go_on()
        await _is_well(watch)
        await redis.aclose()


async def test_where_no_sentinel_answers_redis_is_away():
    redis = connect_redis("redis+sentinel://127.0.0.1:1,127.0.0.1:2/m")
    problem = await RedisWatch(redis).current()
    assert problem is not None
    assert problem.state == "away"
    with pytest.raises(RedisError):
        await redis.ping()
    await redis.aclose()
