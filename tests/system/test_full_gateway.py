"""A gateway that has as many requests in flight as it takes: it says so, and goes on serving."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.system.gateways import HYPOTHESES, ONTOLOGY, GatewayProcess, session_id
from tests.system.tree_run import wait_for

pytestmark = pytest.mark.timeout(120)

PLACES = 4
TOKEN = "full-" + "0" * 16
BINDINGS = "/v1/queues/binding-evaluation"


@contextmanager
def running(folder: Path, redis_url: str) -> Iterator[tuple[GatewayProcess, httpx.Client]]:
    environment = {
        "ROTULUS_REDIS_URL": redis_url,
        "ROTULUS_REQUESTS_MAX": str(PLACES),
        "ROTULUS_WORKER_TOKEN": TOKEN,
    }
    gateway = GatewayProcess("full", folder, environment)
    try:
        gateway.wait_until_ready()
        with httpx.Client(base_url=gateway.url, timeout=20, trust_env=False) as http:
            yield gateway, http
    finally:
        gateway.stop_for_good()


def declaration(number: int) -> dict[str, Any]:
    return {"session_id": session_id(number), "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}


class SlowProducer:
    """A producer whose body comes in two halves."""

    def __init__(self, gateway: GatewayProcess, number: int) -> None:
        body = json.dumps(declaration(number)).encode()
        head = (
            f"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._rest = body[20:]
        self._socket = socket.create_connection(("127.0.0.1", gateway.port), timeout=20)
        self._socket.sendall(head.encode() + body[:20])

    def finish(self) -> bytes:
        """Send the rest, and return the first line of the answer."""
        self._socket.sendall(self._rest)
        return self._socket.recv(1 << 16).partition(b"\r\n")[0]

    def close(self) -> None:
        self._socket.close()


def in_flight(http: httpx.Client) -> float:
    series = 'rotulus_http_requests_in_flight{asker="producers"} '
    [line] = [line for line in http.get("/metrics").text.splitlines() if line.startswith(series)]
    return float(line.removeprefix(series))


def test_slow_requests_fill_their_places_and_nothing_else(tmp_path: Path, valkey_url: str):
    with running(tmp_path, valkey_url) as (gateway, http), ExitStack() as stack:
        slow = [SlowProducer(gateway, number) for number in range(3 * PLACES)]
        for producer in slow:
            stack.callback(producer.close)
        wait_for("the places to be taken", lambda: in_flight(http) == PLACES, 20)

        refused = http.post("/v1/sessions", json=declaration(99))
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "gateway_full"
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.headers["X-Request-Id"]
        for path in ("/healthz", "/readyz", "/"):
            assert http.get(path).status_code == 200
        policy = {"queue": "binding-evaluation", "policy": {}}
        worker = {"Authorization": f"Bearer {TOKEN}"}
        handed_in = http.post("/internal/retry-policy", json=policy, headers=worker)
        assert handed_in.status_code == 200

        # Those that came first are served; the others were refused while they still sent.
        assert {producer.finish() for producer in slow[:PLACES]} == {b"HTTP/1.1 201 Created"}
        assert {producer.finish() for producer in slow[PLACES:]} == {
            b"HTTP/1.1 503 Service Unavailable"
        }
        wait_for("the places to be free", lambda: in_flight(http) == 0, 20)
        assert http.post("/v1/sessions", json=declaration(99)).status_code == 201
        for number in range(3 * PLACES):
            response = http.get(f"/v1/sessions/{session_id(number)}")
            assert response.status_code == (200 if number < PLACES else 404)


def test_slow_requests_that_go_away_leave_their_places(tmp_path: Path, valkey_url: str):
    with running(tmp_path, valkey_url) as (gateway, http):
        slow = [SlowProducer(gateway, number) for number in range(PLACES)]
        wait_for("the places to be taken", lambda: in_flight(http) == PLACES, 20)
        for producer in slow:
            producer.close()
        wait_for("the places to be free", lambda: in_flight(http) == 0, 20)
        assert http.post("/v1/sessions", json=declaration(0)).status_code == 201


def test_who_waits_for_an_outcome_takes_no_place(tmp_path: Path, valkey_url: str):
    with running(tmp_path, valkey_url) as (gateway, http), ExitStack() as stack:
        open_request = {"request_key": "k", "content": {"binding_id": "b", "source_event_id": "e"}}
        answer = http.post(f"{BINDINGS}/requests", json={"requests": [open_request]})
        [request] = answer.json()["requests"]
        question = (
            f"GET {BINDINGS}/requests/{request['request_id']}/outcome?wait_s=20 HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{gateway.port}\r\n\r\n"
        )
        waits = []
        # Not more at once than there are places: each takes one until it waits.
        for _ in range(3):
            for _ in range(PLACES - 1):
                client = socket.create_connection(("127.0.0.1", gateway.port), timeout=30)
                stack.callback(client.close)
                client.sendall(question.encode())
                waits.append(client)
            time.sleep(1.1)  # what is told of places may be a second old
            assert in_flight(http) == 0
        assert http.post("/v1/sessions", json=declaration(0)).status_code == 201
        taken_back = f"{BINDINGS}/requests/{request['request_id']}/cancel"
        assert http.post(taken_back, json={"reason": "no more"}).json()["cancelled"]
        for client in waits:
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
