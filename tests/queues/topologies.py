"""Servers as operators set them up: one by itself, one behind sentinels, a cluster."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from queues.embedded.server import find_server
from tests.ports import free_port

STARTS_S = 20.0
MASTER = "rotulus-test"
NODES = 3


def bus_port() -> int:
    """Return a port whose bus port, 10 000 higher, is a port too."""
    while (port := free_port()) >= 55_000:
        pass
    return port


@dataclass
class Server:
    """A server on the loopback that can be configured, stopped and killed."""

    folder: Path
    options: tuple[str, ...]
    mode: tuple[str, ...] = ()
    """What stands before the options: a file, and `--sentinel`."""

    port: int = field(default_factory=bus_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        words = ("--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *self.options)
        self.process = subprocess.Popen(
            [str(find_server().path), *self.mode, *words],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )
        until(self.answers)

    def answers(self) -> bool:
        with suppress(RedisError, OSError), self.admin() as admin:
            return bool(admin.ping())
        return False

    def admin(self) -> "Redis[bytes]":
        return Redis(port=self.port, socket_timeout=5)

    def say(self, *words: Any) -> Any:
        with self.admin() as admin:
            return admin.execute_command(*words)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None


def until(is_so: Callable[[], Any], within_s: float = STARTS_S) -> None:
    until_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.02)


@contextmanager
def server(folder: Path, *options: str) -> Iterator[Server]:
    """Run one server."""
    single = Server(folder, options)
    single.start()
    try:
        yield single
    finally:
        single.kill()


@dataclass
class Sentineled:
    """A primary, its replica, and a sentinel that knows both."""

    primary: Server
    replica: Server
    sentinel: Server

    @property
    def url(self) -> str:
        """The first of the two that are named does not run."""
        return f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{self.sentinel.port}/{MASTER}"

    def fail_over(self) -> None:
        """Kill the primary, and wait until the sentinel names the replica."""
        self.primary.kill()
        until(lambda: self.named() == self.replica.port)

    def named(self) -> int:
        host_and_port = self.sentinel.say("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
        return int(host_and_port[1])


@contextmanager
def sentineled(folder: Path) -> Iterator[Sentineled]:
    with ExitStack() as stack:
        primary = stack.enter_context(server(folder / "a"))
        replica = stack.enter_context(
            server(folder / "b", "--replicaof", f"127.0.0.1 {primary.port}")
        )
        until(lambda: replica.say("INFO", "replication")["master_link_status"] == "up")
        (folder / "s").mkdir()
        config = folder / "s" / "sentinel.conf"
        config.write_text(
            f"sentinel monitor {MASTER} 127.0.0.1 {primary.port} 1\n"
            f"sentinel down-after-milliseconds {MASTER} 400\n"
            f"sentinel failover-timeout {MASTER} 3000\n"
        )
        sentinel = Server(folder / "s", (), (str(config), "--sentinel"))
        stack.callback(sentinel.kill)
        sentinel.start()
        until(lambda: sentinel.say("SENTINEL", "REPLICAS", MASTER))
        yield Sentineled(primary, replica, sentinel)


@dataclass
class Cluster:
    """Three nodes, of which the one that serves the keys of a prefix has a replica."""

    nodes: list[Server]
    serving: Server
    replica: Server

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def fail_over(self) -> None:
        """Kill the node that serves, and wait until its replica does."""
        self.serving.kill()
        until(lambda: self.replica.say("ROLE")[0] == b"master")
        until(lambda: self.replica.say("CLUSTER INFO")["cluster_state"] == "ok")


@contextmanager
def cluster(folder: Path, prefix: str) -> Iterator[Cluster]:
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(server(folder / str(number), *options))
            for number in range(NODES + 1)
        ]
        *masters, replica = nodes
        width = -(-16384 // NODES)
        ranges = [(n * width, min(16383, (n + 1) * width - 1)) for n in range(NODES)]
        for node, (first, last) in zip(masters, ranges, strict=True):
            node.say("CLUSTER", "ADDSLOTSRANGE", first, last)
        for epoch, node in enumerate(masters, start=1):
            node.say("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        for node in nodes[1:]:
            node.say("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        slot = key_slot(prefix.encode())
        [serving] = [
            node
            for node, (first, last) in zip(masters, ranges, strict=True)
            if first <= slot <= last
        ]
        serving_id = serving.say("CLUSTER", "MYID")
        until(lambda: len(replica.say("CLUSTER NODES")) == len(nodes))
        until(lambda: _replicates(replica, serving_id))
        for node in nodes:
            until(lambda node=node: node.say("CLUSTER INFO")["cluster_state"] == "ok")
        until(lambda: replica.say("INFO", "replication").get("master_link_status") == "up")
        yield Cluster(masters, serving, replica)


def _replicates(replica: Server, node_id: bytes) -> bool:
    with suppress(RedisError):
        replica.say("CLUSTER", "REPLICATE", node_id)
        return True
    return False
