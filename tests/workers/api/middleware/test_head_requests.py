"""HEAD is answered wherever GET is."""

import httpx
import pytest

from tests.workers.api.door import Door, transport_to

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/healthz", "/v1/queues", "/v1/nodes/nothing", "/openapi.json"])
async def test_head_is_answered_as_get_is(door: Door, path: str):
    # A client of its own: that of the door reads the body of every answer.
    transport = transport_to(door.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        head, get = await client.head(path), await client.get(path)
    assert head.status_code == get.status_code
    assert head.headers["content-type"] == get.headers["content-type"]


@pytest.mark.parametrize("path", ["/events", "/v1/authority/tick"])
async def test_head_is_refused_where_an_answer_has_no_end_and_where_get_is(door: Door, path: str):
    transport = transport_to(door.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.head(path)).status_code == 405
