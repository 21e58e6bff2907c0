"""A tree on somebody's Redis: it is used by a user who may do what is needed, refuses, fails over.

What was asked for meanwhile is done afterwards, and who looks is told what is wrong and what to do.
The bounds of time are far beyond those that an idle machine needs, but for the three seconds after
which nobody is told that a Redis which refuses serves.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.work.contents import BINDING_QUEUE
from kernel.work.requests import WorkRequest, enqueue
from queues.redis.keys import cluster_prefix
from tests import loopback
from tests.queues.topologies import Cluster, Sentineled, Server, cluster, sentineled, server
from tests.system.essence import outcomes_for_each_request, reading
from tests.system.extractions import steps
from tests.system.tree_run import STAND_S, TreeRun, running, wait_for
from workers.environment.system_host import system_host

pytestmark = pytest.mark.timeout(300)

ACL = Path(__file__).parents[2] / "deploy" / "redis.acl"
PASSWORD = "canary-4711-canary"  # noqa: S105 - of a server of this test
DONE_S = 90.0
SEEN_S = 30.0
RED_WITHIN_S = 3.0

Problems = dict[str, str]


def ask(run: TreeRun, name: str) -> None:
    """Requests of two queues, recorded by another process than the tree's."""
    ledger = Ledger(SqliteStore(run.ledger_path), system_host())
    content = {"binding_id": f"b-{name}", "source_event_id": f"e-{name}"}
    with ledger.transaction() as transaction:
        binding = WorkRequest(BINDING_QUEUE, f"b-{name}", content)
        enqueue(transaction, [binding, *steps(f"run-{name}")])
    ledger.close()


def all_done(run: TreeRun) -> bool:
    with reading(run.ledger_path) as ledger:
        [(requests, still_open)] = ledger.execute("SELECT count(*), sum(open) FROM outbox")
    return bool(requests) and still_open == 0


def work_is_done(run: TreeRun) -> None:
    wait_for("the end of the work", lambda: all_done(run), DONE_S, 0.1)
    assert outcomes_for_each_request(run.ledger_path) == {1}


def problems(run: TreeRun) -> Problems | None:
    """What is missing; None where it cannot be asked."""
    url = json.loads((run.data_dir / "runtime.json").read_bytes())["gateway_url"]
    try:
        answer: Any = loopback.get(f"{url}/readyz", timeout=5).json()
    except httpx.TransportError:
        return None
    return dict(answer["problems"])


def is_well(run: TreeRun) -> None:
    wait_for("a ready gateway", lambda: problems(run) == {}, SEEN_S, 0.1)


def is_named(run: TreeRun, name: str) -> None:
    """Wait until readiness names a refusal that has begun.

    However busy the machine is, nobody who asks three seconds after its beginning is told that
    Redis serves: what is answered comes from a look of that time. One that is too late says `away`.
    """
    began_s = time.monotonic()

    def is_so() -> bool:
        asked_s = time.monotonic()
        answer = problems(run)
        if answer is None or name in answer.get("redis", ""):
            return answer is not None
        if asked_s - began_s >= RED_WITHIN_S:
            assert "redis" in answer, answer
        return False

    wait_for(name, is_so, SEEN_S, 0.1)


def told(run: TreeRun, command: str, env: dict[str, str]) -> str:
    command_run = TreeRun(run.data_dir, command, env=env)
    assert command_run.finish() == 1, command_run.stderr
    return command_run.stdout + command_run.stderr


def limited_user(single: Server, prefix: str = "rotulus:") -> str:
    """Make the user of `deploy/redis.acl`, and return the URL of the server for him.

    Without INFO, which says how much memory is left, all goes on; many who administer keep it.
    """
    user, name, *rules = ACL.read_text("ascii").split()
    assert user == "user"
    rules.remove("+info")
    changed = [
        f">{PASSWORD}" if rule.startswith(">") else rule.replace("rotulus:*", f"{prefix}*")
        for rule in rules
    ]
    single.say("ACL", "SETUSER", name, *changed)
    return f"redis://{name}:{PASSWORD}@127.0.0.1:{single.port}/0"


def test_a_user_limited_to_a_prefix_serves_and_each_refusal_is_named_until_it_ends(
    tmp_path: Path,
) -> None:
    with server(tmp_path / "redis") as redis:
        env = {
            "ROTULUS_REDIS_URL": limited_user(redis, "team-a:"),
            "ROTULUS_REDIS_PREFIX": "team-a:",
        }
        with running(tmp_path / "data", "up", env=env) as run:
            run.wait_until_up()
            ask(run, "begin")
            work_is_done(run)
            keys = redis.say("KEYS", "*")
            assert keys
            assert all(key.startswith(b"team-a:") for key in keys)

            refusals = {
                "read_only": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
                "out_of_memory": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
                "not_permitted": ("ACL SETUSER rotulus -zadd", "ACL SETUSER rotulus +zadd"),
                "wrong_password": (
                    "ACL SETUSER rotulus resetpass >another",
                    f"ACL SETUSER rotulus >{PASSWORD}",
                ),
            }
            for name, (begin, end) in refusals.items():
                redis.say(*begin.split())
                if name == "wrong_password":
                    redis.say("CLIENT", "KILL", "USER", "rotulus")
                is_named(run, name)
                ask(run, name)
                if name == "read_only":
                    for command in ("doctor", "status"):
                        assert "read_only" in told(run, command, env)
                redis.say(*end.split())
                is_well(run)
                work_is_done(run)
            assert PASSWORD not in run.stdout + run.stderr


@contextmanager
def under_load(run: TreeRun, name: str) -> Iterator[list[str]]:
    """Ask for more and more in the time of a block; yields what was asked for."""
    names: list[str] = []
    stop = threading.Event()

    def keep_asking() -> None:
        while not stop.is_set():
            ask(run, f"{name}-{len(names)}")
            names.append(name)
            time.sleep(0.1)

    thread = threading.Thread(target=keep_asking)
    thread.start()
    try:
        yield names
    finally:
        stop.set()
        thread.join()


# By day `queues/test_queue_cluster.py` takes every step of a queue on a cluster.
@pytest.mark.parametrize("kind", ["sentinels", pytest.param("cluster", marks=pytest.mark.nightly)])
def test_a_failover_under_load_loses_nothing(kind: str, tmp_path: Path) -> None:
    servers: Any = {
        "sentinels": lambda: sentineled(tmp_path / "redis"),
        "cluster": lambda: cluster(tmp_path / "redis", cluster_prefix("rotulus:")),
    }[kind]()
    with servers as redis:
        url = redis.url
        with running(tmp_path / "data", "up", env={"ROTULUS_REDIS_URL": url}) as run:
            run.wait_until_up()
            ask(run, "begin")
            work_is_done(run)
            with under_load(run, "load") as names:
                wait_for("load", lambda: len(names) > 2, SEEN_S)
                _fail_over(redis)
                is_well(run)
                before = len(names)
                wait_for("load", lambda: len(names) > before + 2, SEEN_S)
            work_is_done(run)
            if isinstance(redis, Cluster):
                expect_keys_on_one_node(redis)


def expect_keys_on_one_node(redis: Cluster) -> None:
    """Every key, those of arq among them, has the tag of the prefix and lies where that does."""
    keys = redis.replica.say("KEYS", "*")
    prefix = cluster_prefix("rotulus:").encode()
    assert [key for key in keys if not key.startswith(prefix)] == []
    assert any(key.startswith(prefix + b"{arq}:") for key in keys)
    others = [node for node in redis.nodes if node is not redis.serving_first]
    assert [node.say("DBSIZE") for node in others] == [0, 0]


def _fail_over(redis: Sentineled | Cluster) -> None:
    redis.fail_over()


def test_a_node_of_a_cluster_that_is_named_as_a_server_is_said_to_be_one(tmp_path: Path) -> None:
    with server(tmp_path / "redis", "--cluster-enabled", "yes") as node:
        node.say("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        env = {"ROTULUS_REDIS_URL": node.url}
        with running(tmp_path / "data", "up", env=env) as run:
            run.wait_until_up()
            is_named(run, "cluster_node")
            for command in ("doctor", "status"):
                assert "redis+cluster://" in told(run, command, env)
            wait_for("the terminal", lambda: "cluster_node" in run.stderr, SEEN_S)


def test_the_second_ledger_on_a_redis_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with server(tmp_path / "redis") as redis:
        env = {"ROTULUS_REDIS_URL": redis.url}
        with running(tmp_path / "a" / "data", "up", env=env) as first:
            first.wait_until_up()
            with running(tmp_path / "b" / "data", "up", env=env) as second:
                assert second.finish(STAND_S) != 0
                assert "redis_of_another_ledger" in second.stderr
                for run in (first, second):
                    assert str(run.ledger_path) in second.stderr
                assert "redis_of_another_ledger" in told(second, "doctor", env)
            ask(first, "after")
            work_is_done(first)
            assert problems(first) == {}
            # Under another prefix there is room for both.
            other = {**env, "ROTULUS_REDIS_PREFIX": "second:"}
            with running(tmp_path / "b" / "data", "up", env=other) as second:
                second.wait_until_up()
                ask(second, "own")
                work_is_done(second)
