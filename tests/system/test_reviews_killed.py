"""A gateway that is killed in the middle of a batch leaves all of it or nothing (§14.4)."""

import signal
from collections import Counter
from pathlib import Path

import anyio
import httpx
import pytest

from tests import loopback
from tests.system import halting_gateway
from tests.system.gateways import (
    GatewayProcess,
    RetryingClient,
    database_of,
    on_both,
    running_gateways,
    session_id,
)
from tests.system.halting_gateway import request_of

pytestmark = [pytest.mark.timeout(150), pytest.mark.anyio, pytest.mark.may_block]

ITEMS = 50
CORPUS = "corpus:review"


@pytest.fixture
def gateways(request, tmp_path):
    database = database_of(request)
    with running_gateways(tmp_path, database, program=halting_gateway.__name__) as gateways:
        yield gateways


def sources():
    return [
        {
            "intent_kind": "create_source",
            "intent_key": f"n{number}",
            "node_id": f"n{number}",
            "corpus_id": CORPUS,
            "content_kind": "note",
            "text": "word",
        }
        for number in range(ITEMS)
        if number != 23
    ]


def batch():
    items = [
        {"item_membership_id": f"{CORPUS}|n{number}", "disposition": "confirm"}
        for number in range(ITEMS)
    ]
    named = {"batch_review_id": "BR-1", "source_batch_id": "ingested-1"}
    return named | {"item_operations": items}


def is_stopped(gateway: GatewayProcess) -> bool:
    state = Path(f"/proc/{gateway.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


async def stopped_in_a_batch(gateway: GatewayProcess, folder: Path) -> None:
    """Send the batch, and wait until the gateway stops while it writes it."""
    request_of(folder / "data", gateway.name).touch()
    async with anyio.create_task_group() as tasks:

        async def send() -> None:
            async with httpx.AsyncClient(verify=loopback.NO_TLS, trust_env=False) as http:
                url = f"{gateway.url}/v1/reviews/batches"
                with pytest.raises(httpx.TransportError):
                    await http.post(url, json=batch(), timeout=60)

        tasks.start_soon(send)
        with anyio.fail_after(30):
            while not is_stopped(gateway):
                await anyio.sleep(0.01)
        gateway.send(signal.SIGKILL)
        gateway.process.wait(10)


@on_both
@pytest.mark.spec("INV-K-BATCH-PARTIAL-1", "INV-K-BATCH-1", "§14.4")
async def test_a_batch_that_was_cut_off_is_sent_again_and_done_once(gateways, tmp_path):
    first = gateways.start("a")
    first.wait_until_ready()
    async with RetryingClient(first) as client:
        session = session_id(1)
        await client.declare(session)
        body = {"intents": sources()}
        await client.ask("POST", f"/v1/sessions/{session}/operations", body)
    await stopped_in_a_batch(first, tmp_path)

    second = gateways.start("a")
    second.wait_until_ready()
    unknown = loopback.get(f"{second.url}/v1/reviews/batches/BR-1", timeout=30)
    assert unknown.status_code == 404, unknown.text
    async with RetryingClient(second) as client:
        answers = [await client.ask("POST", "/v1/reviews/batches", batch()) for _ in range(2)]
        assert [answer.pop("duplicate") for answer in answers] == [False, True]
        assert answers[0] == answers[1]
        assert (answers[0]["success_count"], answers[0]["failure_count"]) == (ITEMS - 1, 1)
        shown = await client.ask("GET", "/v1/reviews/batches/BR-1")
        page = await client.ask("GET", "/v1/audit/operations?limit=500")
    states = Counter(item["membership_state"] for item in shown["item_operations"])
    assert states == {"confirmed": ITEMS - 1, None: 1}
    verbs = Counter(operation["semantic_intent"] for operation in page["operations"])
    assert (verbs["corpus_membership_confirm"], verbs["batch_review"]) == (ITEMS - 1, 1)
    gateways.verify()
