"""A tree stops within its two seconds, whoever is connected, and one tree uses a data folder."""

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.system.tree_run import TreeRun, running, wait_for
from tests.wall_clock import hold_at_night
from workers.process_tree.supervisor import STOP_TOTAL_S

MEMBERS = ["gateway", "redis", "root", "worker"]
WAIT_S = 60.0
STOP_S = STOP_TOTAL_S + 3.0
"""The last of it is what a busy machine may add; whoever waits for a connection waits longer."""


def to_the_root(pid: int) -> None:
    os.kill(pid, signal.SIGINT)


def to_the_foreground_group(pid: int) -> None:
    os.killpg(pid, signal.SIGINT)


def terminate(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)


def ask(gateway_url: str, path: str, until: bytes) -> socket.socket:
    """Send one request and return the open connection once the answer has come so far."""
    url = urlsplit(gateway_url)
    connection = socket.create_connection((url.hostname, url.port), timeout=10)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
    answer = b""
    while until not in answer:
        received = connection.recv(65_536)
        assert received, answer
        answer += received
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return connection


def stops_in_time(run: TreeRun, stop: Callable[[int], None]) -> None:
    """Connect to a standing tree as browsers do, stop it, and see that nothing is left."""
    url = run.wait_until_up()["gateway_url"]
    with ExitStack() as connections:
        for _ in range(3):
            connections.enter_context(ask(url, "/events", b"event: full"))
        connections.enter_context(ask(url, "/healthz", b"alive"))
        # Redis may have a child for a moment, which writes its file.
        wait_for("its members alone", lambda: sorted(run.members().values()) == MEMBERS, WAIT_S)

        asked_s = time.monotonic()
        stop(run.process.pid)
        code = run.finish()
        took_s = time.monotonic() - asked_s

        wait_for("nothing to be left", lambda: not run.members(), WAIT_S)
        assert code == 0
        assert "Traceback" not in run.stderr
        assert not (run.data_dir / "runtime.json").exists()
        hold_at_night(took_s, STOP_S)


@pytest.mark.parametrize(
    "stop",
    [
        # By day the root is asked to stop by SIGTERM, below.
        pytest.param(to_the_root, marks=pytest.mark.nightly),
        to_the_foreground_group,
    ],
)
def test_ctrl_c_stops_a_tree_with_open_streams_and_an_idle_connection(
    stop: Callable[[int], None], tmp_path: Path
) -> None:
    with running(tmp_path / "data", "up", as_operator=True) as run:
        stops_in_time(run, stop)


def test_a_second_tree_on_the_folder_is_refused_and_sigterm_stops_the_first(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "data", "up") as first:
        first.wait_until_up()
        before = first.pids_of("root", "gateway", "worker")
        second = TreeRun(first.data_dir, "up")
        assert second.finish() == 1
        assert "data_folder_busy" in second.stderr
        assert f"process {first.process.pid}" in second.stderr
        assert "Traceback" not in second.stderr
        assert first.pids_of("root", "gateway", "worker") == before
        stops_in_time(first, terminate)


def test_a_job_that_is_interrupted_ends_with_a_failure_and_no_traceback(tmp_path: Path) -> None:
    with running(tmp_path / "data", "demo", "--exit", "--json") as run:
        run.wait_for_rows(20)
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 1
        wait_for("nothing to be left", lambda: not run.members(), WAIT_S)
        assert "Traceback" not in run.stderr
        assert run.stdout == ""
