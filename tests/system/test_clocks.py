"""A gateway whose clock is a day and an hour ahead of its database's, under libfaketime."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kernel.work.contents import BINDING_QUEUE
from tests.ports import free_port
from tests.process_environment import process_environment
from tests.system.gateways import HYPOTHESES, ONTOLOGY, session_id
from tests.system.tree_run import wait_for
from tests.workers.api.asking import BINDINGS, binding
from tests.workers.api.door import source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
AHEAD_H = 25
"""Longer than a key has its answer (ROTULUS_KERNEL_IDEMPOTENCY_WINDOW_HOURS)."""

SESSION = session_id(1)


class FleetOfOne:
    """Gateways of one ledger, one at a time, with this machine's clock or one that is ahead."""

    def __init__(self, folder: Path, redis_url: str, database_url: str) -> None:
        self._folder = folder
        self._environment = {
            **process_environment(),
            "ROTULUS_REDIS_URL": redis_url,
            "ROTULUS_DATABASE_URL": database_url,
            "ROTULUS_DATA_DIR": str(folder / "data"),
            "ROTULUS_GATEWAY_ID": "the-one",
        }

    @contextmanager
    def gateway(self, *, ahead_h: int = 0) -> Iterator[httpx.Client]:
        port = free_port()
        clock = {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME": f"+{ahead_h}h",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        with (
            (self._folder / "log").open("ab") as log,
            subprocess.Popen(
                [sys.executable, "-m", "workers", "gateway"],
                cwd=ROOT,
                env=self._environment | {"ROTULUS_PORT": str(port)} | (clock if ahead_h else {}),
                stdout=log,
                stderr=log,
            ) as process,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client,
        ):

            def serves() -> bool:
                assert process.poll() is None, (self._folder / "log").read_text()
                try:
                    return bool(client.get("/readyz").json()["shards"]["owned"])
                except httpx.TransportError:
                    return False

            try:
                wait_for("the gateway to serve", serves, 60.0)
                yield client
            finally:
                process.terminate()
                process.wait(20)


@pytest.fixture
def fleet(tmp_path: Path, postgres_url: str, valkey_url: str) -> FleetOfOne:
    if not LIBRARIES:
        pytest.skip("no libfaketime here")
    return FleetOfOne(tmp_path, valkey_url, postgres_url)


def posted(client: httpx.Client, path: str, body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


# By day `workers/environment/test_ledger_clock.py` shows what is said of such a clock, and
# `queues/test_clock_steps.py` that Redis keeps the time of what waits.
@pytest.mark.nightly
@pytest.mark.spec("K6", "K25")
def test_a_clock_a_day_ahead_runs_nothing_twice_delays_nothing_and_is_not_ready(fleet: FleetOfOne):
    body = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": HYPOTHESES[:2]}
    operations, intents = f"/v1/sessions/{SESSION}/operations", {"intents": [source("s-1")]}
    with fleet.gateway() as client:
        posted(client, "/v1/sessions", body)
        [first] = posted(client, operations, intents)["results"]
        assert client.get("/readyz").json()["problems"] == {}
    with fleet.gateway(ahead_h=AHEAD_H) as client:
        [again] = posted(client, operations, intents)["results"]
        assert again["duplicate"] is True
        assert again["operation_id"] == first["operation_id"]
        ready = client.get("/readyz")
        problem = ready.json()["problems"]["clock"]
        assert (ready.status_code, problem.partition(":")[0]) == (503, "clock_skewed")
        assert f" is {AHEAD_H * 3600} s ahead " in problem or "89999 s" in problem, problem
        request = binding("late") | {"delay_s": 1}
        [recorded] = posted(client, f"{BINDINGS}/requests", {"requests": [request]})["requests"]
    with fleet.gateway() as client:

        def waits() -> bool:
            ready = client.get("/v1/queues").json()["queues"][BINDING_QUEUE]["ready"]
            return sum(ready.values()) == 1

        wait_for("the request to be due", waits, 30.0)
        status = client.get(f"{BINDINGS}/requests/{recorded['request_id']}").json()
        assert status["state"] == "open"
