"""Counts the timers that a gateway and a worker set while nobody asks them for anything.

An idle process wakes up because a timer fires, or because something answers what it asked when one
fired. How often it really wakes up depends on what else the machine does, and so do the commands
that both send Redis (255 to 293 a second in three runs); the timers do not: they repeat within some
per cent.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import httpx

from queues.embedded.server import EmbeddedRedis, find_server
from tests import loopback
from tests.ports import free_port
from tests.process_environment import process_environment
from tests.ratchet.counted_process import NUMBER
from tests.system.tree_run import wait_for

SETTLED_S: Final = 8.0
"""What a start has left to do is done then."""

COUNTED_S: Final = 4.0
TIMES_COUNTED: Final = 4
"""What a process does once in a while is in some of the counts, and the least has none of it."""

READY_S: Final = 60.0


def timers() -> Mapping[str, float]:
    """Return how many timers each sets in a second."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = EmbeddedRedis(folder, find_server())
        server.start()
        stack.callback(server.stop)
        url = f"http://127.0.0.1:{(port := free_port())}"
        variables = {
            "ROTULUS_DATA_DIR": str(folder / "data"),
            "ROTULUS_REDIS_URL": server.url,
            "ROTULUS_PORT": str(port),
            "ROTULUS_GATEWAY_URL": url,
            "ROTULUS_WORKER_TOKEN": "t" * 40,
        }
        for command in ("gateway", "worker"):
            stack.enter_context(_counted(folder / command, command, variables))
            wait_for(f"the gateway at {url}", lambda: _is_ready(url), READY_S, 0.2)
        wait_for("the worker", (folder / "worker").exists, READY_S, 0.2)
        time.sleep(SETTLED_S)
        counts = [_counts(folder)]
        for _ in range(TIMES_COUNTED):
            time.sleep(COUNTED_S)
            counts.append(_counts(folder))
    return {
        name: min(after[name] - before[name] for before, after in pairwise(counts)) / COUNTED_S
        for name in counts[0]
    }


@contextmanager
def _counted(file: Path, command: str, variables: Mapping[str, str]) -> Iterator[None]:
    arguments = [sys.executable, "-m", "tests.ratchet.counted_process", str(file), command]
    process = subprocess.Popen(
        arguments, env={**process_environment(), **variables}, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(READY_S)


def _is_ready(url: str) -> bool:
    try:
        return bool(loopback.get(f"{url}/readyz", timeout=5).status_code == httpx.codes.OK)
    except httpx.TransportError:
        return False


def _counts(folder: Path) -> Mapping[str, int]:
    return {
        "of_gateway": NUMBER.unpack((folder / "gateway").read_bytes())[0],
        "of_worker": NUMBER.unpack((folder / "worker").read_bytes())[0],
    }
