"""A server that refuses is not away: a write through a script of ours says which, and its name."""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from redis import exceptions
from redis.commands.core import CoreCommands

from queues.errors import QueueError
from queues.queue.items import NewItem
from queues.queue.work_queue import WorkQueue
from queues.redis import watch as redis_watch
from queues.redis.connection import connect_redis
from queues.redis.refusals import OTHER, REFUSALS, problem_of, refusal_of
from queues.redis.watch import OWNER_KEPT_MS, LedgerMark, RedisOfAnotherLedgerError, RedisWatch
from tests.ports import free_port
from tests.queues.topologies import Server, server

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
USER, PASSWORD = "app", "canary-4711"
A, B = LedgerMark("a" * 32, "/data/a on host-1"), LedgerMark("b" * 32, "/data/b on host-2")

WORDS = {
    "READONLY You can't write against a read only replica.": "read_only",
    "MOVED 8018 127.0.0.1:7002": "cluster_node",
    "ASK 8018 127.0.0.1:7002": "cluster_node",
    "CROSSSLOT Keys in request don't hash to the same slot": "cluster_node",
    "SELECT is not allowed in cluster mode": "cluster_node",
    "CLUSTERDOWN Hash slot not served": "cluster_down",
    "TRYAGAIN Multiple keys request during rehashing of slot": "cluster_down",
    "This instance has cluster support disabled": "no_cluster",
    "NOMASTER": "master_unknown",
    "OOM command not allowed when used memory > 'maxmemory'.": "out_of_memory",
    "NOPERM User app has no permissions to run the 'evalsha' command": "not_permitted",
    "The user executing the script can't run this command or subcommand script": "not_permitted",
    "WRONGPASS invalid username-password pair or user is disabled.": "wrong_password",
    "NOAUTH Authentication required.": "wrong_password",
    "DB index is out of range": "wrong_index",
    "invalid DB index": "wrong_index",
    "LOADING Redis is loading the dataset in memory": "loading",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": (
        "master_down"
    ),
    "MISCONF Redis is configured to save RDB snapshots": "disk_refuses",
    "NOREPLICAS Not enough good replicas to write.": "too_few_replicas",
    "BUSY Redis is busy running a script.": "busy",
    "unknown command 'EVALSHA', with args beginning with:": "command_missing",
    "something that nobody has heard of": "refused",
}


@pytest.mark.parametrize("words", WORDS)
def test_an_error_reply_is_a_refusal_with_a_name_and_something_to_do(words: str):
    problem = problem_of(exceptions.ResponseError(words))
    assert (problem.state, problem.name) == ("refused", WORDS[words])
    assert problem.todo
    assert problem.name in str(problem)


def test_every_refusal_is_told_apart_by_words_of_a_server():
    named = {refusal.name for _, refusal in REFUSALS} | {OTHER.name}
    of_no_reply = {"sentinel_node", "too_many_clients", "other_protocol"}
    assert named - of_no_reply == set(WORDS.values())


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionError("Connection refused"),
        exceptions.TimeoutError("Timeout reading"),
        ConnectionResetError("reset"),
        TimeoutError(),
        EOFError(),
        exceptions.ResponseError("UNBLOCKED force unblock from blocking operation"),
    ],
)
def test_a_lost_connection_is_no_refusal(error: Exception):
    assert refusal_of(error) is None
    assert problem_of(error).state == "away"


def test_every_command_that_a_script_sends_is_used_by_the_watch():
    folder = files("queues") / "scripts"
    sent = {
        path.name: set(re.findall(r"(?:redis\.p?call|try)\('([A-Z]+)'", path.read_text("utf-8")))
        for path in folder.iterdir()
        if path.name.endswith(".lua")
    }
    used = sent.pop("watch.lua")
    assert used >= set.union(*sent.values())


CALL = re.compile(r"\b(?:_redis|redis|pipe)\.([a-z_]+)(?=\(| if | else |$)", re.MULTILINE)
CALLED_OTHERWISE = {"delete": "del", "script_load": "script|load"}
NO_COMMANDS = {"execute_command", "register_script"}


def test_every_command_that_a_module_sends_is_in_the_acl():
    rules = (ROOT / "deploy" / "redis.acl").read_text("ascii").split()
    modules = [path for name in ("queues", "workers") for path in (ROOT / name).rglob("*.py")]
    called = {name for path in modules for name in CALL.findall(path.read_text("utf-8"))}
    names = {name for name in called - NO_COMMANDS if hasattr(CoreCommands, name)}
    sent = {CALLED_OTHERWISE.get(name, name) for name in names}
    assert {"hget", "hsetnx", "rpush", "set"} <= sent
    assert {name for name in sent if f"+{name}" not in rules} == set()


SENT_OTHERWISE = {
    *("auth", "hello", "ping", "select", "cluster|slots", "info"),
    *("evalsha", "script|load", "blpop", "watch", "unwatch", "multi", "exec", "discard"),
}
"""By connections, and what no script can send: the watch sends it, or a connection that is made."""


def test_the_user_of_the_acl_may_do_what_the_watch_does_and_no_more():
    rules = (ROOT / "deploy" / "redis.acl").read_text("ascii").split()
    allowed = {rule[1:] for rule in rules if rule.startswith("+")}
    text = (files("queues") / "scripts" / "watch.lua").read_text("utf-8")
    calls = re.findall(r"redis\.p?call\('([A-Z]+)'(?:, '([A-Z]+)')?", text)
    used = {"|".join(filter(None, words)).lower() for words in calls}
    assert allowed == used | SENT_OTHERWISE
    assert [rule for rule in rules if not rule.startswith("+")] == [
        *("user", "rotulus", "on", ">replace-this-password", "resetkeys", "~rotulus:*"),
        *("resetchannels", "-@all"),
    ]


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no other Redis")
def test_the_redis_of_the_machine_takes_the_acl(tmp_path: Path):
    """It refuses to start where it does not know a command of its `aclfile`."""
    port, acl = str(free_port()), str(ROOT / "deploy" / "redis.acl")
    options = ("--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", str(tmp_path))
    command = ("redis-server", *options, "--aclfile", acl)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        said = list(takewhile(lambda line: "Ready to accept" not in line, started.stdout))
        started.terminate()
    assert not any("ACL" in line for line in said), said


@pytest.fixture(scope="module")
def administered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("watched")) as single:
        yield single


@pytest.fixture
def limited(administered: Server) -> Server:
    administered.say("FLUSHALL")
    rules = ("reset", "on", f">{PASSWORD}", "~rotulus:*", "+@all", "-@admin")
    administered.say("ACL", "SETUSER", USER, *rules)
    return administered


def _url(single: Server, index: str = "") -> str:
    return f"redis://{USER}:{PASSWORD}@127.0.0.1:{single.port}/{index}"


REFUSING = {
    "read_only": ([("REPLICAOF", "127.0.0.1", "1")], [("REPLICAOF", "NO", "ONE")]),
    "out_of_memory": ([("CONFIG", "SET", "maxmemory", "1")], [("CONFIG", "SET", "maxmemory", "0")]),
    "too_few_replicas": (
        [("CONFIG", "SET", "min-replicas-to-write", "1")],
        [("CONFIG", "SET", "min-replicas-to-write", "0")],
    ),
    "not_permitted": ([("ACL", "SETUSER", USER, "-evalsha")], [("ACL", "SETUSER", USER, "+@all")]),
    "not_permitted in a script": (
        [("ACL", "SETUSER", USER, "-xadd")],
        [("ACL", "SETUSER", USER, "+@all")],
    ),
    "not_permitted a key": (
        [("ACL", "SETUSER", USER, "resetkeys", "~others:*")],
        [("ACL", "SETUSER", USER, "~rotulus:*")],
    ),
    "not_permitted a wait": (
        [("ACL", "SETUSER", USER, "-blpop")],
        [("ACL", "SETUSER", USER, "+@all")],
    ),
    "wrong_password": (
        [("ACL", "SETUSER", USER, "resetpass", ">another"), ("CLIENT", "KILL", "USER", USER)],
        [("ACL", "SETUSER", USER, f">{PASSWORD}")],
    ),
}


@pytest.mark.parametrize("kind", REFUSING)
async def test_a_server_that_refuses_is_named_and_is_well_again_by_itself(
    limited: Server, kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(redis_watch, "FRESH_S", -1.0)
    redis = connect_redis(_url(limited))
    watch, queue = RedisWatch(redis), WorkQueue(redis, "authority-recompute")
    begin, end = REFUSING[kind]
    if kind != "not_permitted a wait":
        assert await watch.current() is None
    for words in begin:
        limited.say(*words)
    try:
        problem = await watch.current()
        if problem is not None and problem.state == "away":  # who was cut off comes again
            problem = await watch.current()
        assert problem is not None
        assert (problem.state, problem.name) == ("refused", kind.split(" ", maxsplit=1)[0])
        assert PASSWORD not in str(problem)
        if " " not in kind:
            with pytest.raises(QueueError) as refused:
                await queue.enqueue(NewItem("u", "background_normal", "cause", b"{}"))
            assert refused.value.code == "queue_refused"
    finally:
        for words in end:
            limited.say(*words)
    assert await watch.current() is None
    await redis.aclose()


async def test_a_database_that_is_not_there_is_named(limited: Server):
    redis = connect_redis(_url(limited, "99"))
    problem = await RedisWatch(redis).current()
    assert problem is not None
    assert problem.name == "wrong_index"
    await redis.aclose()


@contextmanager
def _elsewhere(folder: Path, *options: str, mode: tuple[str, ...] = ()) -> Iterator[Server]:
    single = Server(folder, options, mode)
    single.start()
    try:
        yield single
    finally:
        single.kill()


async def test_a_node_of_a_cluster_is_no_single_server(tmp_path: Path):
    with server(tmp_path, "--cluster-enabled", "yes") as node:
        redis = connect_redis(node.url)
        problem = await RedisWatch(redis).current()
        await redis.aclose()
    assert problem is not None
    assert (problem.name, "redis+cluster://" in problem.todo) == ("cluster_node", True)


async def test_a_sentinel_is_no_server(tmp_path: Path):
    config = tmp_path / "sentinel.conf"
    config.write_text("")
    with _elsewhere(tmp_path, mode=(str(config), "--sentinel")) as sentinel:
        redis = connect_redis(sentinel.url)
        problem = await RedisWatch(redis).current()
        of_a_master = connect_redis(f"redis+sentinel://127.0.0.1:{sentinel.port}/nobody")
        unknown = await RedisWatch(of_a_master).current()
        await redis.aclose()
        await of_a_master.aclose()
    assert problem is not None
    assert unknown is not None
    assert (problem.name, unknown.name) == ("sentinel_node", "master_unknown")


async def test_a_single_server_is_neither_cluster_nor_sentinel(limited: Server):
    names = []
    for way, behind in (("cluster", ""), ("sentinel", "/m")):
        redis = connect_redis(f"redis+{way}://127.0.0.1:{limited.port}{behind}")
        problem = await RedisWatch(redis).current()
        names.append(problem and problem.name)
        await redis.aclose()
    assert names == ["no_cluster", "master_unknown"]


async def test_a_server_that_is_not_there_or_says_nothing_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(redis_watch, "LOOK_S", 0.2)
    monkeypatch.setattr(redis_watch, "FRESH_S", -1.0)
    nobody = connect_redis(f"redis://127.0.0.1:{free_port()}")
    problem = await RedisWatch(nobody).current()
    await nobody.aclose()
    assert problem is not None
    assert (problem.state, str(problem)) == ("away", "ConnectionError")
    with server(tmp_path) as single:
        redis = connect_redis(single.url)
        watch = RedisWatch(redis)
        monkeypatch.setattr(redis_watch, "LOOK_S", 10.0)
        assert await watch.current() is None
        monkeypatch.setattr(redis_watch, "LOOK_S", 0.2)
        assert single.process is not None
        single.process.send_signal(signal.SIGSTOP)
        problem = await watch.current()
        single.process.send_signal(signal.SIGCONT)
        assert problem is not None
        assert problem.state == "away"
        monkeypatch.setattr(redis_watch, "LOOK_S", 10.0)
        assert await watch.current() is None
        await redis.aclose()


def _marked(mark: LedgerMark):
    async def read() -> LedgerMark:
        return mark

    return read


async def test_the_keys_of_a_prefix_are_of_the_first_ledger_and_the_second_is_refused():
    shared = FakeServer()
    first = RedisWatch(FakeAsyncRedis(server=shared), _marked(A))
    second = RedisWatch(FakeAsyncRedis(server=shared), _marked(B))
    await first.refuse_another()
    with pytest.raises(RedisOfAnotherLedgerError) as refused:
        await second.refuse_another()
    for mark in (A, B):
        assert mark.name in str(refused.value)
        assert mark.id[:12] in str(refused.value)
    assert refused.value.code == "redis_of_another_ledger"
    assert "ROTULUS_REDIS_PREFIX" in str(refused.value)
    assert second.problem is not None
    assert second.problem.name == "redis_of_another_ledger"
    assert await first.current() is None


async def test_a_flush_changes_nothing_for_the_owner_and_who_only_looks_takes_nothing():
    shared = FakeServer()
    redis = FakeAsyncRedis(server=shared)
    owner = RedisWatch(redis, _marked(A))
    await owner.refuse_another()
    await redis.flushall()
    await RedisWatch(redis, _marked(B), claims=False).refuse_another()
    await owner.refuse_another()
    assert 0 < await redis.pttl("rotulus:{ledger}:owner") <= OWNER_KEPT_MS
    with pytest.raises(RedisOfAnotherLedgerError):
        await RedisWatch(redis, _marked(B), claims=False).refuse_another()


async def test_the_looks_of_two_processes_do_not_disturb_one_another(
    monkeypatch: pytest.MonkeyPatch,
):
    """One that looked while another one tried a transaction made it say that Redis is away."""
    shared = FakeServer()
    redis = FakeAsyncRedis(server=shared)
    other = RedisWatch(FakeAsyncRedis(server=shared))
    begin = redis.pipeline

    def begin_and_be_met(**options: Any) -> Any:
        pipe = begin(**options)
        ask = pipe.exists

        async def ask_after_the_other(key: str) -> Any:
            assert await other.current() is None
            return await ask(key)

        monkeypatch.setattr(pipe, "exists", ask_after_the_other)
        return pipe

    monkeypatch.setattr(redis, "pipeline", begin_and_be_met)
    assert await RedisWatch(redis).current() is None


async def test_two_prefixes_are_two_fleets(limited: Server):
    limited.say("ACL", "SETUSER", USER, "~team-b:*")
    for mark, prefix in ((A, "rotulus:"), (B, "team-b:")):
        redis = connect_redis(_url(limited), prefix)
        await RedisWatch(redis, _marked(mark)).refuse_another()
        await redis.aclose()
    with limited.admin() as admin:
        assert {key.split(b"{")[0] for key in admin.scan_iter()} == {b"rotulus:", b"team-b:"}


@pytest.mark.parametrize("stored", [b"garbage", b"x" * 2000])
async def test_what_nobody_wrote_as_an_owner_is_dropped(stored: bytes):
    redis = FakeAsyncRedis()
    await redis.set("rotulus:{ledger}:owner", stored)
    await RedisWatch(redis, _marked(A)).refuse_another()
    assert (await redis.get("rotulus:{ledger}:owner")).startswith(A.id.encode())
