"""Nothing that a legal request causes holds the event loop: every route with its largest bodies.

Measured in CPU time, against what one call costs on the same machine at the same time that nobody
can be let in between: reading the largest body at once, which takes about 50 ms.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kernel.build import create
from tests.loop_watchdog import STALL_S, Stall
from tests.system.gateways import ONTOLOGY, GatewayProcess, session_id

pytestmark = pytest.mark.timeout(600)

TOKEN = "stall-" + "0" * 16
LARGEST = 1_000_000
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
UNIVERSE = LARGEST if NIGHTLY else 100_000
SPAN = {"source_ref": "s-0", "offset": 0, "length": 3}


class MeasuredGateway:
    """A gateway that is watched, and a client of it."""

    def __init__(self, gateway: GatewayProcess, http: httpx.Client) -> None:
        self.gateway = gateway
        self.http = http
        self.ready_s = time.monotonic()

    def post(self, path: str, body: Any) -> httpx.Response:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        content = json.dumps(body, separators=(",", ":"))
        response = self.http.post(path, content=content, headers=headers)
        assert response.status_code < 500, response.text[:500]
        return response

    def get(self, path: str) -> httpx.Response:
        response = self.http.get(path)
        assert response.status_code == 200, response.text[:500]
        return response

    def new_stalls(self) -> list[Stall]:
        """Return what held the loop since the gateway was ready; its report comes later."""
        time.sleep(0.3)
        stalls = self.gateway.stalls()
        return [stall for stall in stalls if stall.ended_s - stall.seconds > self.ready_s]


@pytest.fixture
def measured(tmp_path: Path, valkey_url: str) -> Iterator[MeasuredGateway]:
    environment = {"ROTULUS_REDIS_URL": valkey_url, "ROTULUS_WORKER_TOKEN": TOKEN}
    gateway = GatewayProcess("watched", tmp_path, environment, watched=True)
    try:
        gateway.wait_until_ready()
        with httpx.Client(base_url=gateway.url, timeout=300, trust_env=False) as http:
            yield MeasuredGateway(gateway, http)
    finally:
        gateway.stop_for_good()


def allowed_s() -> float:
    """What reading the largest body in one call costs here and now."""
    body = json.dumps([f"{number:05x}" for number in range(LARGEST)])
    costs = []
    for _ in range(3):
        began_s = time.thread_time()
        json.loads(body)
        costs.append(time.thread_time() - began_s)
    return max(STALL_S, *costs)


def check(measured: MeasuredGateway) -> None:
    allowed = allowed_s()
    limits = {"callback": allowed, "starved": 2 * allowed}
    stalls = measured.new_stalls()
    long = [str(stall) for stall in stalls if stall.longer_than(limits[stall.measure])]
    assert long == [], f"more than {allowed * 1000:.0f} ms"


def test_a_universe_of_the_largest_size_holds_no_loop(measured: MeasuredGateway):
    session = session_id(1)
    ids = [f"{number:05x}" for number in range(UNIVERSE)]
    random.Random(1).shuffle(ids)
    declaration = {"session_id": session, "ontology": ONTOLOGY, "hypotheses": ids}
    assert measured.post("/v1/sessions", declaration).status_code == 201
    assert len(measured.get(f"/v1/sessions/{session}").json()["survivors"]) == UNIVERSE
    struck = {"source_id": "s", "observation_id": "o", "eliminated": ids[: UNIVERSE * 9 // 10]}
    for _ in range(2):
        answer = measured.post(f"/v1/sessions/{session}/eliminate", struck).json()
        assert len(answer["applied_eliminated"]) == UNIVERSE * 9 // 10
    assert len(measured.get(f"/v1/sessions/{session}/audit").json()["events"]) >= 1
    check(measured)


def test_the_largest_bodies_of_every_other_route_hold_no_loop(measured: MeasuredGateway):
    session = session_id(2)
    under = f"/v1/sessions/{session}"
    numbers = {"numbers": [1.0] * 150_000}
    declaration = {"session_id": session, "ontology": ONTOLOGY, "hypotheses": ["a", "b"]}
    assert measured.post("/v1/sessions", declaration | {"metadata": numbers}).status_code == 201
    sources = [
        {
            "intent_kind": "create_source",
            "intent_key": f"k-{number}",
            "node_id": f"s-{number}",
            "corpus_id": "c",
            "content_kind": "order",
            "text": "e1, " * 7500,
        }
        for number in range(256)
    ]
    results = measured.post(f"{under}/operations", {"intents": sources}).json()["results"]
    assert {outcome["validation_result"] for outcome in results} == {"accepted"}
    understanding = {
        "intent_kind": "synthesize_cu",
        "intent_key": "u",
        "node_id": "u",
        "corpus_id": "c",
        "title": "t",
        "source_spans": [SPAN | {"offset": number % 100} for number in range(10_000)],
    }
    measured.post(f"{under}/operations", {"intents": [understanding]})
    envelope = create("n-1", "SourceArtifact", envelope={"notes": ["x" * 100] * 9_900})
    assert measured.post(f"{under}/envelopes", envelope).status_code == 200
    refs = [f"r-{number}" for number in range(10_000)]
    envelope = create("n-2", "SourceArtifact", envelope={"read_set_refs": refs})
    measured.post(f"{under}/envelopes", envelope)
    measured.post(f"{under}/simulations", {"envelope": envelope})
    struck = {"source_id": "s", "observation_id": "o", "eliminated": ["a"]}
    measured.post(f"{under}/eliminate", struck | {"justification": numbers})
    measured.post(f"{under}/conclusions", {"conclusion_id": "c", "context": numbers})
    content = {"binding_id": "b", "source_event_id": "e", "note": "y" * 30_000}
    requests = [{"request_key": str(number), "content": content} for number in range(256)]
    path = "/v1/queues/binding-evaluation/requests"
    assert measured.post(path, {"requests": requests}).status_code == 200
    inputs = [
        {
            "parent_node_id": f"p-{number}",
            "parent_version": "1",
            "edge_essentiality": "core",
            "captured_at_authority": 0.5,
        }
        for number in range(40)
    ]
    stated = {"count": len(inputs), "digest": "0" * 64, "excerpt": inputs}
    result = {"target_cu_id": "u", "as_of_sequence": 1, "cu_authority": 0.5, "inputs": stated}
    recomputed = [
        {
            "session_id": session,
            "intent": {"intent_key": f"r-{number}", **result},
        }
        for number in range(250)
    ]
    assert measured.post("/internal/recomputed", {"results": recomputed}).status_code == 200
    for path in (
        f"{under}/audit",
        "/v1/log?limit=500",
        "/v1/audit/operations?limit=500",
        "/v1/audit/costs/totals",
        "/v1/nodes/u",
        "/v1/queues",
        "/",
        "/snapshot.json",
        "/metrics",
    ):
        measured.get(path)
    check(measured)


def test_bodies_at_their_limits_that_mean_nothing_hold_no_loop(measured: MeasuredGateway):
    """Refused or not: eight megabytes of each kind of value; by day each list of some of them."""
    under = f"/v1/sessions/{session_id(3)}"
    measured.post(
        "/v1/sessions",
        {"session_id": session_id(3), "ontology": ONTOLOGY, "hypotheses": ["a", "b"]},
    )
    headers = {"Content-Type": "application/json"}
    lists = (
        ("/v1/sessions", "hypotheses"),
        (f"{under}/eliminate", "eliminated"),
        (f"{under}/operations", "intents"),
        (f"{under}/envelopes", "primitive_effects"),
        (f"{under}/envelopes", "notes"),
    )
    values = (
        ("{}", 6_000),
        ("[]", 99_000),
        ("{}", 2_700_000),
        ("1.5", 290_000),
        ("0", 1_000_000),
        ('"\\u00e4"', 900_000),
        ("null", 1_000_000),
    )
    for place, (path, name) in enumerate(lists):
        for value, count in values if NIGHTLY else values[place % 3 :: 3]:
            content = f'{{"{name}":[{",".join([value] * count)}]}}'
            answer = measured.http.post(path, content=content, headers=headers)
            assert answer.status_code in (413, 422), answer.text[:200]
    check(measured)
