"""Two gateways that advertise themselves: a client that knows one asks the owner before long."""

import anyio
import anyio.to_thread
import pytest

from tests import loopback
from tests.system.gateways import HYPOTHESES, ONTOLOGY, running_gateways, session_id
from tests.system.tree_run import wait_for
from workers.client.typed.belief_session import SessionClient
from workers.client.typed.gateway import GatewayClient
from workers.views.belief_sessions import Ontology

pytestmark = [pytest.mark.timeout(120), pytest.mark.anyio, pytest.mark.may_block]


class Watched(GatewayClient):
    """A client that notes by whom each of its answers was given."""

    def __init__(self, url):
        super().__init__(url)
        self.places = []

    async def ask(self, method, path, **options):
        response = await super().ask(method, path, **options)
        self.places.append(f"http://127.0.0.1:{response.url.port}")
        return response


async def test_the_owner_is_asked_directly_and_when_it_is_gone_the_configured_gateway(tmp_path):
    with running_gateways(tmp_path) as gateways:
        a, b = (gateways.start(name, advertised=True) for name in ("a", "b"))
        for gateway in (a, b):
            gateway.wait_until_owning(32)
        urls = {a.url, b.url}

        def known():
            rows = loopback.get(f"{a.url}/v1/gateways", timeout=5).json()["gateways"]
            return {row["url"] for row in rows} == urls

        await anyio.to_thread.run_sync(wait_for, "the table", known, 30.0, 0.1)
        async with Watched(a.url) as client:
            owned_by_b = 0
            for number in range(8):
                session = SessionClient(client, session_id(number))
                await session.declare(Ontology(**ONTOLOGY), HYPOTHESES)
                client.places.clear()
                for observation in range(3):
                    await session.eliminate("s", f"o-{observation}", [HYPOTHESES[observation]])
                assert client.places[1] == client.places[2]
                owned_by_b += client.places[2] == b.url
                assert client.places[0] == a.url
            assert 0 < owned_by_b < 8
            b.stop_for_good()
            client.places.clear()
            for number in range(8):
                session = SessionClient(client, session_id(number))
                answer = await session.eliminate("s", "o-9", [HYPOTHESES[9]])
                assert answer.applied_eliminated == [HYPOTHESES[9]]
            assert set(client.places) == {a.url}
        gateways.verify()
