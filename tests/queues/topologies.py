"""Servers as operators set them up: one by itself, one behind sentinels, a cluster.

Where a replica takes over, a place says who serves now, and holds promotions back until somebody
has seen that nobody serves.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError

from queues.embedded.server import find_server
from tests.ports import free_port

STARTS_S = 20.0
MASTER = "rotulus-test"
DOWN_AFTER_MS = 400
NEVER_MS = 3_600_000
NODES = 3


def bus_port() -> int:
    """Return a port whose bus port, 10 000 higher, is a port too."""
    while (port := free_port()) >= 55_000:
        pass
    return port


@dataclass(eq=False)
class Server:
    """A server on the loopback that can be configured, stopped and killed."""

    folder: Path
    options: tuple[str, ...]
    mode: tuple[str, ...] = ()
    """What stands before the options: a file, and `--sentinel`."""

    port: int = field(default_factory=bus_port)
    process: subprocess.Popen[bytes] | None = None
    is_hung: bool = False

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

    def admin(self) -> Redis:
        return Redis(port=self.port, socket_timeout=5)

    def say(self, *words: Any) -> Any:
        with self.admin() as admin:
            return admin.execute_command(*words)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process, self.is_hung = None, False

    def hang(self) -> None:
        """Stop it without ending it, so that whoever asks it waits."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.is_hung = True

    def go_on(self) -> None:
        """Have it run, whether it was killed or hangs."""
        if self.process is None:
            self.start()
        elif self.is_hung:
            self.process.send_signal(signal.SIGCONT)
            self.is_hung = False


def blocked_clients(server: Server) -> int:
    """Return how many connections to a server wait for something to come."""
    return int(server.say("INFO", "clients")["blocked_clients"])


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


class Replicated(Protocol):
    """Servers of which one at a time serves our keys, and a replica takes over from it."""

    @property
    def servers(self) -> list[Server]:
        """All of them, up or not."""

    @property
    def url(self) -> str:
        """The URL that leads to the one that serves."""

    def serving(self) -> Server | None:
        """Return the one that serves; None while those who say so do not agree."""

    def standby(self) -> Server:
        """Return the replica of the one that serves."""

    def hold(self) -> None:
        """Have no replica take over by itself from now on."""

    def release(self) -> None:
        """Have replicas take over again."""

    def switch(self) -> None:
        """Begin to promote the standby while the other one is well, as an operator does."""

    def does_without(self, lost: Server) -> bool:
        """Tell whether another one serves what a server served."""

    def is_whole(self) -> bool:
        """Tell whether all are up and agree, and each that serves has a replica in step."""


@dataclass
class Sentineled:
    """A primary, its replica, and sentinels that know both."""

    primary: Server
    replica: Server
    sentinels: list[Server]

    @property
    def servers(self) -> list[Server]:
        return [self.primary, self.replica]

    @property
    def sentinel(self) -> Server:
        return self.sentinels[0]

    @property
    def url(self) -> str:
        """The first of those that are named does not run."""
        ports = [free_port(), *(sentinel.port for sentinel in self.sentinels)]
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in ports) + f"/{MASTER}"

    def fail_over(self) -> None:
        """Kill the primary, and wait until the sentinels name the replica."""
        self.primary.kill()
        self.release()
        until(lambda: self.serving() is self.replica)

    def serving(self) -> Server | None:
        ports = {_primary_named_by(sentinel) for sentinel in self.sentinels}
        return next((each for each in self.servers if {each.port} == ports), None)

    def standby(self) -> Server:
        serving = self.serving()
        return next(server for server in self.servers if server is not serving)

    def named(self) -> int:
        """Return the port of the primary as the first sentinel knows it."""
        return _primary_named_by(self.sentinel)

    def hold(self) -> None:
        self._set_down_after(NEVER_MS)

    def release(self) -> None:
        self._set_down_after(DOWN_AFTER_MS)

    def switch(self) -> None:
        until(self._is_switching)

    def _is_switching(self) -> bool:
        """Ask for it; a sentinel that has heard nothing of the replica for long refuses."""
        with suppress(ResponseError):
            return bool(self.sentinel.say("SENTINEL", "FAILOVER", MASTER))
        return False

    def does_without(self, lost: Server) -> bool:
        serving = self.serving()
        return serving is not None and serving is not lost and serving.say("ROLE")[0] == b"master"

    def is_whole(self) -> bool:
        serving = self.serving()
        return (
            serving is not None
            and _has_replica(serving)
            and all(_flags(sentinel) == b"master" for sentinel in self.sentinels)
        )

    def _set_down_after(self, ms: int) -> None:
        for sentinel in self.sentinels:
            sentinel.say("SENTINEL", "SET", MASTER, "down-after-milliseconds", ms)


def _primary_named_by(sentinel: Server) -> int:
    return int(sentinel.say("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1])


def _flags(sentinel: Server) -> bytes:
    """Return what a sentinel thinks of the primary."""
    words = sentinel.say("SENTINEL", "MASTER", MASTER)
    return bytes(dict(zip(words[::2], words[1::2], strict=True))[b"flags"])


def _sees(sentinel: Server, peers: int) -> bool:
    return len(sentinel.say("SENTINEL", "SENTINELS", MASTER)) == peers


def _knows(node: Server, nodes: int) -> bool:
    return len(node.say("CLUSTER NODES")) == nodes


def _has_replica(server: Server) -> bool:
    """Tell whether a server that serves has a replica that follows it."""
    with suppress(RedisError):
        role, *_, replicas = server.say("ROLE")
        # One that still loads has no offset.
        return role == b"master" and any(int(offset) > 0 for _, _, offset in replicas)
    return False


def _is_in_step(replica: Server) -> bool:
    return bool(replica.say("INFO", "replication").get("master_link_status") == "up")


@contextmanager
def sentineled(
    folder: Path, *options: str, sentinels: int = 1, quorum: int = 1
) -> Iterator[Sentineled]:
    """Run a primary, a replica and sentinels; the options are those of the first two."""
    with ExitStack() as stack:
        primary = stack.enter_context(server(folder / "a", *options))
        replica = stack.enter_context(
            server(folder / "b", "--replicaof", f"127.0.0.1 {primary.port}", *options)
        )
        until(lambda: _is_in_step(replica))
        watching = []
        for number in range(sentinels):
            config = folder / f"s{number}" / "sentinel.conf"
            config.parent.mkdir()
            config.write_text(
                f"sentinel monitor {MASTER} 127.0.0.1 {primary.port} {quorum}\n"
                f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {MASTER} 3000\n"
            )
            sentinel = Server(config.parent, (), (str(config), "--sentinel"))
            stack.callback(sentinel.kill)
            sentinel.start()
            watching.append(sentinel)
        for sentinel in watching:
            until(partial(sentinel.say, "SENTINEL", "REPLICAS", MASTER))
            until(partial(_sees, sentinel, sentinels - 1))
        yield Sentineled(primary, replica, watching)


@dataclass
class Cluster:
    """Three nodes; the one that served the keys of a prefix at first has a replica, or all have."""

    nodes: list[Server]
    serving_first: Server
    replicas: list[Server]
    slot: int

    @property
    def servers(self) -> list[Server]:
        return [*self.nodes, *self.replicas]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    @property
    def replica(self) -> Server:
        """The replica that the serving node had at first."""
        return self.replicas[0]

    def fail_over(self) -> None:
        """Kill the node that serves, and wait until its replica does."""
        self.serving_first.kill()
        self.release()
        until(lambda: self.replica.say("ROLE")[0] == b"master")
        until(lambda: is_well(self.replica))

    def serving(self) -> Server | None:
        named = {self._named_by(node) for node in self._up()}
        return named.pop() if len(named) == 1 else None

    def standby(self) -> Server:
        serving = self.serving()
        assert serving is not None
        return self._of_port(serving.say("ROLE")[2][0][1])

    def others(self) -> list[Server]:
        """Return the nodes that serve what none of our keys is in."""
        masters = [node for node in self._up() if node.say("ROLE")[0] == b"master"]
        return [node for node in masters if node is not self.serving()]

    def hold(self) -> None:
        self._keep_replicas("yes")

    def release(self) -> None:
        self._keep_replicas("no")

    def switch(self) -> None:
        self.standby().say("CLUSTER", "FAILOVER")

    def does_without(self, lost: Server) -> bool:
        rest = [node for node in self._up() if node is not lost]
        masters = [node for node in rest if node.say("ROLE")[0] == b"master"]
        return len(masters) == NODES and all(map(is_well, rest)) and self.serving() is not lost

    def is_whole(self) -> bool:
        if len(self._up()) < len(self.servers) or self.serving() is None:
            return False
        masters = [node for node in self.servers if node.say("ROLE")[0] == b"master"]
        return (
            len(masters) == NODES
            and all(_has_replica(master) for master in masters)
            and all(is_well(node) for node in self.servers)
        )

    def _up(self) -> list[Server]:
        return [each for each in self.servers if each.process is not None and not each.is_hung]

    def _named_by(self, node: Server) -> Server | None:
        """Return whom a node thinks to serve; None where it thinks that nobody does."""
        for first, last, (_, port, *_), *_ in node.say("CLUSTER", "SLOTS"):
            if first <= self.slot <= last:
                return self._of_port(port)
        return None

    def _of_port(self, port: Any) -> Server:
        return next(server for server in self.servers if server.port == int(port))

    def _keep_replicas(self, value: str) -> None:
        for node in self._up():
            if node.say("ROLE")[0] == b"slave":
                node.say("CONFIG", "SET", "cluster-replica-no-failover", value)


def is_well(node: Server) -> bool:
    """Tell whether a node thinks that its cluster serves."""
    return bool(node.say("CLUSTER INFO")["cluster_state"] == "ok")


@contextmanager
def cluster(folder: Path, prefix: str, *node_options: str, replicas: int = 1) -> Iterator[Cluster]:
    """Run three nodes and as many replicas, the first one of the node that serves a prefix."""
    options = (
        *("--cluster-enabled", "yes", "--cluster-node-timeout", "1000"),
        # However long a promotion is held back, the replica is not too old for it.
        *("--cluster-replica-validity-factor", "0"),
        *node_options,
    )
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(server(folder / str(number), *options))
            for number in range(NODES + replicas)
        ]
        masters, followers = nodes[:NODES], nodes[NODES:]
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
        followed = [serving, *(node for node in masters if node is not serving)]
        for replica, master in zip(followers, followed, strict=False):
            until(partial(_knows, replica, len(nodes)))
            until(partial(_replicates, replica, master))
        for node in nodes:
            until(partial(is_well, node))
        for replica in followers:
            until(partial(_is_in_step, replica))
        yield Cluster(masters, serving, followers, slot)


def _replicates(replica: Server, node: Server) -> bool:
    with suppress(RedisError):
        replica.say("CLUSTER", "REPLICATE", node.say("CLUSTER", "MYID"))
        return True
    return False
