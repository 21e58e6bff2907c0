"""A gateway as its process puts it together, without a server, a file or a Redis of its own."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from fakeredis import FakeAsyncRedis

from kernel.proof.witness_policy import PolicyInvalid
from tests.kernel.build import memory_ledger
from tests.workers.api.door import ONTOLOGY, SESSION, eventually, http_client
from workers.environment.checkpoint_key import create_key
from workers.environment.ledger_clock import LedgerClock
from workers.environment.settings import Settings
from workers.gateway.publishing import publishing_of
from workers.gateway.wiring import Gateway, build_gateway

pytestmark = pytest.mark.anyio

HYPOTHESES = ["a", "b", "c"]


def gateway_in(folder: Path, **options: Any) -> Gateway:
    settings = Settings(data_dir=folder, shards=4, **options)
    return build_gateway(settings, memory_ledger(), FakeAsyncRedis(), "gateway-1", LedgerClock())


async def test_a_gateway_in_a_tests_own_process_is_the_one_that_its_process_runs(tmp_path: Path):
    gateway = gateway_in(tmp_path)
    answers = []

    async def serve() -> None:
        async with http_client(gateway.app) as http:
            answers.append(await http.get("/readyz"))
            declared = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
            answers.append(await http.post("/v1/sessions", json=declared))
            struck = {"source_id": "s", "observation_id": "o-1", "eliminated": ["a"]}
            path = f"/v1/sessions/{SESSION}/eliminate"
            answers.append(await http.post(path, json=struck))

    await gateway.sharing.begin()
    await gateway.run(serve())
    await gateway.aclose()
    assert [answer.status_code for answer in answers] == [200, 201, 200]
    assert answers[0].json()["shards"] == {"owned": 4, "of": 4}


async def test_a_gateway_that_leaves_owns_nothing_any_more(tmp_path: Path):
    gateway = gateway_in(tmp_path)

    async def serve() -> None:
        await eventually(lambda: len(gateway.sharing.held_shards.held) == 4)
        await gateway.leave()

    await gateway.sharing.begin()
    await gateway.run(serve())
    with gateway.services.ledger.view() as view:
        assert view.head().ec_sequence_number == 0
    assert gateway.sharing.held_shards.held == {}
    await gateway.aclose()


async def test_a_gateway_with_a_key_publishes_the_log_by_itself(tmp_path: Path):
    key = tmp_path / "log.key"
    create_key(key, "example.com/log")
    gateway = gateway_in(tmp_path / "data", checkpoint_key=key, checkpoint_folder=tmp_path / "out")
    answers = []

    async def serve() -> None:
        async with http_client(gateway.app) as http:
            with anyio.fail_after(10):
                while (answer := await http.get("/checkpoint")).status_code != 200:
                    await anyio.sleep(0.01)
            answers.extend((answer, await http.get("/v1/checkpoint"), await http.get("/metrics")))

    await gateway.sharing.begin()
    await gateway.run(serve())
    await gateway.aclose()
    assert answers[0].text.startswith("example.com/log\n0\n")
    assert answers[1].json()["checkpoint"]["verdict"] == "unwitnessed"
    assert 'rotulus_checkpoint_rows{verdict="unwitnessed"} 0' in answers[2].text


def test_a_gateway_does_not_start_with_witnesses_that_cannot_be_read(tmp_path: Path):
    settings = Settings(data_dir=tmp_path, witness_policy=tmp_path / "none")
    with pytest.raises(PolicyInvalid):
        publishing_of(settings, memory_ledger(), lambda: 0.0)
