"""A gateway killed between an event and its completion, and Redis emptied: nothing is forgotten."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests import loopback
from tests.kernel.bindings.routed import CONVERSION, selector
from tests.system.gateways import (
    HYPOTHESES,
    ONTOLOGY,
    GatewayProcess,
    Gateways,
    running_gateways,
    session_id,
)
from tests.system.tree_run import wait_for
from tests.workers.api.test_bindings import MEANING, brought, completed

pytestmark = [pytest.mark.timeout(180), pytest.mark.spec("004 §13.3"), pytest.mark.spec("K19")]

QUEUE = "binding-evaluation"


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Gateways]:
    with running_gateways(tmp_path) as gateways:
        yield gateways


@pytest.fixture
def redis_url(gateways: Gateways) -> str:
    return gateways.redis.url


def started(gateways: Gateways, name: str) -> GatewayProcess:
    gateway = gateways.start(name)
    gateway.wait_until_ready()
    return gateway


def operate(gateway: GatewayProcess, *intents: dict[str, Any]) -> None:
    session = {"session_id": session_id(1), "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
    loopback.post(f"{gateway.url}/v1/sessions", json=session, timeout=40)
    path = f"{gateway.url}/v1/sessions/{session_id(1)}/operations"
    results = loopback.post(path, json={"intents": intents}, timeout=40).json()["results"]
    assert [result["validation_result"] for result in results] == ["accepted"] * len(intents)


def pairs(gateway: GatewayProcess, binding_id: str) -> dict[str, int]:
    shown = loopback.get(f"{gateway.url}/v1/bindings/{binding_id}", timeout=10).json()
    return {state: number for state, number in shown["pairs"].items() if number}


def test_what_waited_is_asked_for_by_whoever_records_the_completion(
    gateways: Gateways, redis_url: str
) -> None:
    papers = {"include": [selector("source_kind", "docket"), selector("content_type", "x")]}
    create = {"intent_kind": "source_binding_create", "binding_id": "b1", "intent_key": "b1"}
    first = started(gateways, "a")
    operate(first, create | MEANING | {"selector_list": papers})
    operate(first, brought("a1", source_kind="docket"), brought("a2", source_kind="mail"))
    assert pairs(first, "b1") == {"pending_intake": 1}
    first.send(signal.SIGKILL)
    first.process.wait(10)
    with Redis.from_url(redis_url) as redis:
        redis.flushall()

    second = started(gateways, "b")
    assert pairs(second, "b1") == {"pending_intake": 1}
    operate(second, completed("a1", CONVERSION, content_type="x"))
    assert pairs(second, "b1") == {"ready_to_evaluate": 1}
    with Redis.from_url(redis_url) as redis:
        redis.flushall()

    def is_carried() -> bool:
        queues = loopback.get(f"{second.url}/v1/queues", timeout=10).json()["queues"]
        return sum(queues[QUEUE]["ready"].values()) == 1

    wait_for("the evaluation to be in its queue again", is_carried, 60.0)
    second.send(signal.SIGTERM)
    second.process.wait(30)
    assert gateways.verify().requests_open == 1
