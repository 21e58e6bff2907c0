"""K35: a secret of a class leaves by no door but for those who are cleared for the class."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from kernel.ledger.sqlite.store import SqliteStore
from kernel.records.access.clearance import CLEARANCES
from tests.kernel.build import FakeHost
from tests.workers.api.classified import (
    SECRETS,
    Classified,
    calls_of,
    declaration,
    hidden_from,
    reading_paths,
    session_of,
    word_of,
)
from tests.workers.api.door import http_client, running_door, understanding
from workers.mcp.server import call
from workers.mcp.tool import ToolContext

REPLAY = {
    "from_sequence": 1,
    "to_sequence": 4,
    "strategy": "record_only",
    "audit_context": {"caller_kind": "other", "caller_attribution": "who"},
}
TELL_NOTHING = ("/v1/bulk-operations:preview",)
DAILY = ("firewalled", "everything")
pytestmark = pytest.mark.anyio
HTML = {"Accept": "text/html"}
BY_DAY = [
    pytest.param(each, marks=() if each in DAILY else pytest.mark.nightly) for each in CLEARANCES
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def world(anyio_backend: str, tmp_path_factory: Any) -> AsyncIterator[Classified]:
    path = tmp_path_factory.mktemp("classified") / "ledger.db"
    store = SqliteStore(path)
    async with running_door(store, host=FakeHost().host, takes_keys=True) as door:
        classified = Classified(door, path)
        door.http.headers.update(await classified.key_of("person:owner", ("owner", "")))
        with capture_logs() as logs:
            await classified.write()
        assert not any(word_of(secret) in str(logs) for secret in SECRETS)
        yield classified


async def key_up_to(world: Classified, clearance: str) -> dict[str, str]:
    """The header of who may read everything that there is to read, up to a class."""
    roles = ("auditor", "reviewer", "operator", "producer")
    return await world.key_of(f"person:{clearance}", *((role, clearance) for role in roles))


@pytest.mark.spec("§7.5", "§12.1")
@pytest.mark.parametrize("clearance", BY_DAY)
async def test_what_is_read_has_the_words_of_the_classes_that_are_cleared(
    world: Classified, clearance: str
):
    key = await key_up_to(world, clearance)
    hidden = hidden_from(clearance)
    seen, leaked, broken = set(), set(), []
    requests = [clearance, *hidden] if hidden else world.names
    paths = dict.fromkeys(
        path for secret in requests for path in reading_paths(world.door, world.names[secret])
    )
    async with http_client(world.door.app) as client:
        for path in paths:
            response = await client.get(path, headers=key | HTML)
            everything = response.text + str(response.headers)
            # Of readiness this gateway knows nothing.
            if response.status_code >= 500 and path != "/readyz":
                broken.append((path, response.status_code, response.text[:200]))
            seen |= {each for each in world.names if word_of(each) in everything}
            leaked |= {(each, path) for each in hidden if word_of(each) in everything}
            for each in hidden:
                marks = [name for name in world.names[each]["node_id"] if name not in path]
                leaked |= {(mark, path) for mark in marks if mark in everything}
    assert not broken
    assert not leaked
    assert seen == {*world.names}.difference(hidden)


@pytest.mark.spec("§12.1")
@pytest.mark.parametrize("clearance", ["public_open", "sealed"])
async def test_what_is_asked_for_by_a_body_tells_nothing_more(world: Classified, clearance: str):
    key = await key_up_to(world, clearance)
    async with http_client(world.door.app) as client:
        for secret in hidden_from(clearance):
            names = world.names[secret]
            source = names["source_ref"][0]
            drawn = understanding(f"sim-{source}", source)
            requests: list[tuple[str, Any]] = [
                (f"/v1/sessions/{session_of('public_open')}/simulations", {"intent": drawn}),
                ("/v1/audit/replay", REPLAY),
                ("/v1/bulk-operations:preview", {"verb": "requeue", "filter": {}}),
                ("/v1/sessions", declaration(names["session_id"][0])),
            ]
            requests += [
                ("/v1/rollbacks/dry-run", {"tier": 1, "operation_id": operation})
                for operation in names["operation_id"]
            ]
            for request in names["request_id"]:
                path = "/v1/queues/authority-recompute/outcomes"
                requests.append((path, {"request_ids": [request], "wait_s": 0}))
            for path, body in requests:
                response = await client.post(path, json=body, headers=key)
                assert response.status_code < 500, response.text
                assert word_of(secret) not in response.text + str(response.headers), path
                assert response.status_code >= 400 or path in TELL_NOTHING, (path, response.text)


@pytest.mark.spec("§7.5", "§12.1")
@pytest.mark.parametrize("clearance", BY_DAY)
async def test_no_tool_tells_a_word_of_a_class_that_is_not_cleared(
    world: Classified, clearance: str
):
    key = await key_up_to(world, clearance)
    context = ToolContext(
        world.path, lambda: "http://127.0.0.1:9", takes_keys=True, key=key["Authorization"][7:]
    )
    hidden, seen = hidden_from(clearance), set()
    for secret in [clearance, *hidden] if hidden else world.names:
        for tool, arguments in calls_of(world.names[secret]):
            [content] = (await call(context, tool, arguments)).content
            text = getattr(content, "text", "")
            assert '"internal"' not in text, (tool, arguments, text)
            seen |= {each for each in world.names if word_of(each) in text}
            assert not [each for each in hidden if word_of(each) in text], (tool, arguments)
    assert seen == {*world.names}.difference(hidden)


async def test_sql_takes_a_clearance_of_everything(world: Classified):
    statement = {"sql": "SELECT CAST(record AS TEXT) AS record FROM nodes"}
    for clearance in ("sealed", "everything"):
        key = (await key_up_to(world, clearance))["Authorization"][7:]
        context = ToolContext(world.path, lambda: "", takes_keys=True, key=key)
        result = await call(context, "query", statement)
        assert result.isError == (clearance == "sealed")
        assert (word_of("sealed") in str(result.content)) == (clearance == "everything")


@pytest.mark.parametrize("key", [{}, {"Authorization": ""}])
async def test_what_the_published_log_is_worth_needs_no_clearance(world: Classified, key: Any):
    answer = await world.door.http.get("/v1/checkpoint", headers=key)
    assert (answer.status_code, answer.json()["publishes"]) == (200, False)


@pytest.mark.parametrize("tool", ["get_node", "list_log", "query", "diagnose"])
@pytest.mark.parametrize("key", ["", "rot_000000000000_" + "A" * 43, "nonsense"])
async def test_without_a_key_that_stands_a_tool_answers_nothing(
    world: Classified, tool: str, key: str
):
    context = ToolContext(world.path, lambda: "", takes_keys=True, key=key)
    result = await call(context, tool, {})
    assert result.isError
    assert '"unauthenticated"' in str(result.content)


async def test_a_tool_asks_for_its_action_as_a_route_does(world: Classified):
    key = await world.key_of("person:olga", ("operator", ""))
    context = ToolContext(
        world.path, lambda: "http://127.0.0.1:9", takes_keys=True, key=key["Authorization"][7:]
    )
    assert '"access_denied"' in str((await call(context, "get_node", {"node_id": "x"})).content)
    assert not (await call(context, "diagnose", {})).isError


@pytest.mark.spec("§12.1")
@pytest.mark.parametrize("clearance", ["public_open", "everything"])
async def test_a_stream_has_the_picture_of_its_readers_clearance(world: Classified, clearance: str):
    key = await key_up_to(world, clearance)
    operation_id = await world.annotate("sealed")
    pieces: list[bytes] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/events",
        "raw_path": b"/events",
        "query_string": b"",
        "headers": [
            (b"host", b"127.0.0.1:8440"),
            (b"authorization", key["Authorization"].encode()),
        ],
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "http_version": "1.1",
    }
    streaming = anyio.CancelScope()

    async def send(message: dict[str, Any]) -> None:
        pieces.append(message.get("body", b""))
        if "event: delta" in b"".join(pieces).decode() or len(pieces) > 4:
            streaming.cancel()

    with anyio.fail_after(30), streaming:
        await world.door.app(scope, anyio.sleep_forever, send)
    shown = b"".join(pieces).decode()
    assert "event: full" in shown
    assert (operation_id in shown) == (clearance == "everything")
