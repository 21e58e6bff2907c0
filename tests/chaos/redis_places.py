"""The Redis of a run, in one of three shapes: a server, a primary with sentinels, a cluster.

A single server stands behind proxies that delay and cut. Sentinels and nodes say themselves where
their servers are, so a fleet reaches those without proxies, and other faults meet them. The fleet
comes as a user who may do what `deploy/redis.acl` says, an administrator as another one.
"""

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import RedisError

from queues.embedded.server import EmbeddedRedis, ServerBinary, find_server
from queues.redis.keys import cluster_prefix
from tests.queues.topologies import Replicated, Server, cluster, sentineled
from tests.system.tree_run import wait_for

ADMINISTRATOR = "chaos"
PASSWORD = "chaos-" + "0" * 16
SENTINELS = 3
QUORUM = 2
REPLICAS = 3
AGREED_S = 60.0
PROBE = cluster_prefix("rotulus:") + "chaos"
ACL = Path(__file__).parents[2] / "deploy" / "redis.acl"


class SingleRedis:
    """One server, which keeps its data when it is killed, and has a clock of its own."""

    user = "default"

    def __init__(self, folder: Path) -> None:
        self._clock = folder / "redis-clock"
        self.server = EmbeddedRedis(folder, self._with_administrator(folder))

    @property
    def password(self) -> str:
        return urlsplit(self.server.url).password or ""

    @property
    def port(self) -> int:
        port = urlsplit(self.server.url).port
        assert port is not None
        return port

    @property
    def url(self) -> str:
        return self.server.url

    def url_through(self, port: int) -> str:
        """Return the URL of a proxy."""
        return self.server.url.replace(f":{self.port}/", f":{port}/")

    def administrator(self) -> Redis:
        """Return a client that may configure the server."""
        return Redis(port=self.port, username=ADMINISTRATOR, password=PASSWORD)

    def restore(self) -> None:
        """Do nothing, as whoever takes the server away brings it back."""

    def is_whole(self) -> bool:
        """Return true, as there is no replica that could be missing."""
        return True

    def serves(self) -> bool:
        """Return true, as whoever takes the server away waits until it is back."""
        return True

    def kill(self) -> None:
        """Kill the server; `server.start` brings it back."""
        assert self.server.pid is not None
        os.kill(self.server.pid, signal.SIGKILL)
        wait_for("the end of redis", lambda: not self.server.alive(), 10.0)

    def set_clock(self, ahead_s: int) -> None:
        """Have its clock step; nothing happens where there is no libfaketime."""
        self._clock.write_text(f"{ahead_s:+d}s\n")

    def _with_administrator(self, folder: Path) -> ServerBinary:
        """Return a server that somebody beside the fleet may configure."""
        user = shlex.join(["--user", ADMINISTRATOR, "on", f">{PASSWORD}", "~*", "&*", "+@all"])
        program = folder / "redis-with-administrator"
        self.set_clock(0)
        environment = {
            **preloaded("libfaketime.so.1"),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_CACHE_DURATION": "1",
        }
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        program.write_text(f'#!/bin/sh\nexec env {variables} {find_server().path} "$@" {user}\n')
        program.chmod(0o700)
        return ServerBinary(program, "path")


class ReplicatedRedis:
    """Servers of which one serves the fleet, and a replica takes over from it."""

    password = PASSWORD

    def __init__(self, servers: Replicated, user: str) -> None:
        self.servers = servers
        self.user = user
        # The first host of sentinels is one that does not run, another one at each call.
        scheme, hosts = servers.url.split("://")
        self.url = f"{scheme}://{user}:{PASSWORD}@{hosts}"

    def administrator(self) -> Redis:
        """Return a client that may configure the server that serves now."""
        return self.serving().admin()

    def restore(self) -> None:
        """Bring back the servers that others do without."""
        for server in self.servers.servers:
            server.go_on()

    def is_whole(self) -> bool:
        """Tell whether a replica in step stands behind the server that serves."""
        return self.servers.is_whole()

    def serves(self) -> bool:
        """Tell whether those who know agree on a server, and it takes a write."""
        serving = self.servers.serving()
        with suppress(RedisError):
            return serving is not None and bool(serving.say("SET", PROBE, 1, "PX", 1))
        return False

    def serving(self) -> Server:
        """Return the server that serves, once those who name it agree."""
        return wait_for("a server that serves", self.servers.serving, AGREED_S)


RedisPlace = SingleRedis | ReplicatedRedis


@contextmanager
def redis_place(shape: str, folder: Path) -> Iterator[RedisPlace]:
    """Run the servers of a shape for the time of a block."""
    if shape == "single":
        single = SingleRedis(folder)
        single.server.start()
        try:
            yield single
        finally:
            single.server.stop()
        return
    user, *rules = _fleet_user()
    options = ("--user", user, *rules)
    with (
        sentineled(folder / "redis", *options, sentinels=SENTINELS, quorum=QUORUM)
        if shape == "sentinels"
        else cluster(folder / "redis", cluster_prefix("rotulus:"), *options, replicas=REPLICAS)
    ) as servers:
        yield ReplicatedRedis(servers, user)


def preloaded(library: str) -> dict[str, str]:
    """Return the environment of a program whose clock is libfaketime's; empty where it is not."""
    for path in Path("/usr/lib").glob(f"*/faketime/{library}"):
        return {"LD_PRELOAD": str(path), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return {}


def _fleet_user() -> list[str]:
    """Return the name and the rules of the user of `deploy/redis.acl`."""
    word, *rules = ACL.read_text("ascii").split()
    assert word == "user"
    return [f">{PASSWORD}" if rule.startswith(">") else rule for rule in rules]
