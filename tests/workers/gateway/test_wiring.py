"""A gateway as its process puts it together, without a server, a file or a Redis of its own."""

from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis

from tests.kernel.build import memory_ledger
from tests.workers.api.door import ONTOLOGY, SESSION, eventually, http_client
from workers.environment.ledger_clock import LedgerClock
from workers.environment.settings import Settings
from workers.gateway.wiring import Gateway, build_gateway

pytestmark = pytest.mark.anyio

HYPOTHESES = ["a", "b", "c"]


def gateway_in(folder: Path) -> Gateway:
    settings = Settings(data_dir=folder, shards=4)
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
