"""The gateway performs what a caller's envelope asks for outside."""

import asyncio
import socket
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import create_shards
from kernel.values.errors import LedgerUnavailable
from tests.kernel.build import create
from tests.kernel.reports import TEXT, TEXT_HASH, artifact
from tests.ports import free_port
from tests.workers.api.door import ONTOLOGY, SESSION
from tests.workers.gateway.served import served_gateway
from workers.environment.data_folder import DataFolder
from workers.environment.ledger_access import ledger_place, open_store
from workers.environment.ledger_verification import verify_file
from workers.environment.listening import listen
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.gateway.process import serve_gateway

pytestmark = pytest.mark.anyio

WAIT_S = 30


@pytest.mark.spec("K19")
async def test_an_artifact_that_a_caller_asks_for_becomes_a_file(tmp_path: Path, valkey_url: str):
    data_dir = tmp_path / "data"
    settings = Settings(data_dir=data_dir, port=free_port())
    file = anyio.Path(data_dir / "artifacts" / "pdf" / TEXT_HASH)
    async with served_gateway(settings, valkey_url) as client:
        with anyio.fail_after(WAIT_S):
            declared = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["h"]}
            (await client.post("/v1/sessions", json=declared)).raise_for_status()
            place = f"/v1/sessions/{SESSION}/envelopes"
            (await client.post(place, json=artifact("art"))).raise_for_status()
            while (await client.get("/v1/queues")).json()["requests"]["open"]:
                await anyio.sleep(0.02)
        assert await file.read_text() == TEXT
    verification = await anyio.to_thread.run_sync(
        verify_file, data_dir / "ledger.db", lambda _done, _total: None
    )
    assert (verification.findings, verification.requests_closed) == ((), 1)


@pytest.mark.spec("INV-A-COST-1", "§18.1")
async def test_what_an_operator_limits_is_limited_and_comes_back(tmp_path: Path, valkey_url: str):
    settings = Settings(
        data_dir=tmp_path / "data",
        port=free_port(),
        kernel_capacity="create=0.5",
        kernel_capacity_reserves="critical=0.2",
        kernel_capacity_period_s=1.0,
    )
    async with served_gateway(settings, valkey_url) as client:
        with anyio.fail_after(WAIT_S):
            declared = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["h"]}
            (await client.post("/v1/sessions", json=declared)).raise_for_status()
            place = f"/v1/sessions/{SESSION}/envelopes"
            dear = create("n-1", "Note")
            dear["affected_subgraph_descriptor"]["estimated_capacity_cost"] = 0.5
            # Until the leases were read for the first time, nobody knows how much there is.
            while "cannot be read" in (never := await client.post(place, json=dear)).text:
                await anyio.sleep(0.02)
            assert never.status_code == 503, never.text
            assert "never more than 0.4" in never.json()["error"]["message"]
            statuses: list[int] = []

            async def send(number: int) -> None:
                # Of two effects, and so of 0.1: four of them are all that there is.
                document = create(f"m-{number}", "Note")
                while (answer := await client.post(place, json=document)).status_code == 429:
                    statuses.append(429)
                    assert int(answer.headers["retry-after"]) >= 1
                    await anyio.sleep(0.05)
                statuses.append(answer.status_code)

            async with anyio.create_task_group() as senders:
                for number in range(8):
                    senders.start_soon(send, number)
            assert statuses.count(200) == 8
            assert 429 in statuses
            costs = (await client.get("/v1/audit/costs")).json()["entries"]
    leased = [cost["ec_capacity_lease_id"] for cost in costs if cost["semantic_intent"] == "create"]
    assert len([worker for worker in leased if worker.startswith("kernel:create#gateway-")]) >= 8
    assert len(set(leased)) > 1


@pytest.mark.spec("D6")
async def test_a_gateway_alone_serves_sessions_while_redis_is_away(tmp_path: Path):
    settings = Settings(data_dir=tmp_path / "data", port=free_port())
    async with served_gateway(settings, "redis://127.0.0.1:1") as client:
        declared = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["h"]}
        (await client.post("/v1/sessions", json=declared)).raise_for_status()
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert list(ready.json()["problems"]) == ["redis"]
        assert ready.json()["shards"] == {"owned": 64, "of": 64}


async def test_a_ledger_keeps_the_number_of_shards_that_it_was_founded_with(tmp_path: Path):
    settings = Settings(data_dir=tmp_path / "data", port=free_port(), shards=4)
    await anyio.to_thread.run_sync(found_with_eight_shards, settings)
    with pytest.raises(LedgerUnavailable) as refused:
        await serve_gateway(settings, "redis://127.0.0.1:1")
    assert refused.value.code == "ledger_shards_differ"


async def test_small_answers_are_not_held_back_for_an_acknowledgement():
    """Else each answer in two pieces waits for the asker's delayed one, some 40 ms."""
    held_back = []

    async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        held_back.append(not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listen("127.0.0.1", 0) as listening:
        server = await asyncio.start_server(connected, sock=listening)
        async with server, await anyio.connect_tcp(*listening.getsockname()) as stream:
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
    assert held_back == [False]


def found_with_eight_shards(settings: Settings) -> None:
    DataFolder(settings.data_dir).make()
    ledger = Ledger.create(open_store(ledger_place(settings)), system_host())
    with ledger.transaction() as transaction:
        create_shards(transaction, 8)
    ledger.close()
