"""Measures what the overview costs the browser that shows it, live, beside a whole fleet.

    python -m tests.bench.bench_browser [--open 12000] [--seconds 20]

A tree whose queue is paused has so many open requests. The command prints for how many milliseconds
a second the main thread of the page works while the stream goes on, over how many connections all
tabs of a browser are live, and how long after a gateway serves again the page is live again.
"""

import argparse
import os
import re
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.bench.report import note
from tests.ports import free_port
from tests.system.tree_run import TreeRun, wait_for
from tests.workers.api.asking import BINDINGS, binding
from tests.workers.chromium import running_browser

TABS = 9
CLIENT_MS = 30.0
LIVE_AGAIN_S = 3.0
START_S = 60.0
BATCH = 256
_LISTENING = re.compile(r"^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 01 ", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--open", type=int, default=12_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        port = free_port()
        url, data = f"http://127.0.0.1:{port}", Path(folder) / "data"
        at = {"ROTULUS_PORT": str(port)}
        tree = TreeRun(data, "up", env=at)
        try:
            wait_for("a gateway", lambda: _is_ready(url), START_S, 0.1)
            _enqueue(url, options.open)
            context = browser.new_context()
            pages = [context.new_page() for _ in range(TABS)]
            for page in pages:
                page.goto(f"{url}/")
                _wait_until_live(page, START_S)
            note(f"{TABS} tabs are live over {_connections(port)} connections to the gateway")
            for page in pages[1:]:
                page.close()
            note(
                f"the page works {_work_ms(context, pages[0], options.seconds):.1f} ms a second"
                f" (bound {CLIENT_MS:g}) at {options.open} open requests"
            )
            os.kill(tree.process.pid, signal.SIGTERM)
            tree.process.wait()
            pages[0].locator("#status[data-state=lost]").wait_for(timeout=START_S * 1000)
            tree = TreeRun(data, "up", env=at)
            wait_for("a gateway", lambda: _is_ready(url), START_S, 0.02)
            served_s = time.monotonic()
            _wait_until_live(pages[0], START_S)
            note(
                f"live again {time.monotonic() - served_s:.1f} s after the gateway"
                f" (bound {LIVE_AGAIN_S:g})"
            )
        finally:
            tree.stop_for_good()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False, timeout=2).is_success
    except httpx.HTTPError:
        return False


def _enqueue(url: str, count: int) -> None:
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        client.post(f"{BINDINGS}/pause", json={}).raise_for_status()
        for start in range(0, count, BATCH):
            keys = [f"n-{number}" for number in range(start, min(start + BATCH, count))]
            requests = [binding(key) for key in keys]
            client.post(f"{BINDINGS}/requests", json={"requests": requests}).raise_for_status()


def _wait_until_live(page: Any, timeout_s: float) -> None:
    page.locator("#status[data-state=live]").wait_for(timeout=timeout_s * 1000)


def _connections(port: int) -> int:
    """Return how many connections to a port of the loopback are open, by the side that listens."""
    table = Path("/proc/net/tcp").read_text()
    return sum(int(each[1], 16) == port for each in _LISTENING.finditer(table))


def _work_ms(context: Any, page: Any, seconds: float) -> float:
    """Return for how many milliseconds a second the main thread of a page works."""
    session = context.new_cdp_session(page)
    session.send("Performance.enable")

    def worked_s() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    before_s = worked_s()
    page.wait_for_timeout(seconds * 1000)
    return (worked_s() - before_s) / seconds * 1000


if __name__ == "__main__":
    main()
