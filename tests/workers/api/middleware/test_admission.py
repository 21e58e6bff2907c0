"""A gateway has so many requests in hand and no more; who is too many is told before it is read."""

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.commit.group_committer import URGENT_MAX, WAITING_MAX
from workers.api.body_limits import MAX_BODY_BYTES
from workers.api.middleware.admission import (
    BEGUN_AT_ONCE_MAX,
    BODIES_BYTES_MAX,
    PAGES_MAX,
    STREAMS_MAX,
    WORKERS_MAX,
    Admission,
    AdmissionMiddleware,
    asker_of,
    place_given_back,
)
from workers.environment.settings import Settings

pytestmark = pytest.mark.anyio

POST = "/v1/sessions"


class App:
    """Answers each request when it is told to, after it has read its body."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go_on = anyio.Event()
        self.error: Exception | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun.append(scope["path"])
        if (await receive())["type"] == "http.disconnect":
            return
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class AsgiRequest:
    """One request as a server hands it to an application."""

    def __init__(self, path: str = POST, **headers: str) -> None:
        self.path = path
        self.headers = [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ]
        self.read = 0
        self.sent: list[Any] = []
        self.gone = False

    async def receive(self) -> dict[str, Any]:
        self.read += 1
        if self.gone:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    async def ask(self, door: Any) -> None:
        scope = {"type": "http", "method": "POST", "path": self.path, "headers": self.headers}
        await door(scope, self.receive, self.send)


class AdmittingDoor:
    def __init__(self, requests_max: int = 2) -> None:
        self.admission = Admission(requests_max)
        self.app = App()
        self.door = AdmissionMiddleware(self.app, admission=self.admission)

    def in_flight(self, asker: str = "producers") -> int:
        return self.admission.places[asker].taken

    @asynccontextmanager
    async def asking(self, *clients: AsgiRequest) -> Any:
        """Requests that have begun and are not answered until the block ends."""
        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(client.ask, self.door)
            await settled()
            yield
            self.app.go_on.set()


async def settled() -> None:
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def refused(world: AdmittingDoor, path: str = POST) -> bool:
    """Ask once more, and tell whether that was refused without being read."""
    client = AsgiRequest(path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.ask, world.door)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    if client.status != 503:
        return False
    assert client.read == 0
    headers = dict(client.sent[0]["headers"])
    assert int(headers[b"retry-after"]) >= 1
    error = json.loads(client.sent[1]["body"])["error"]
    assert error["code"] == "gateway_full"
    return True


async def test_beyond_the_limit_nothing_is_read_and_a_time_is_named():
    world = AdmittingDoor(2)
    clients = [AsgiRequest(), AsgiRequest()]
    async with world.asking(*clients):
        assert world.in_flight() == 2
        assert await refused(world)
        assert len(world.app.begun) == 2
        assert world.admission.places["producers"].refused == 1
    assert [client.status for client in clients] == [200, 200]


async def test_an_answer_frees_the_place():
    world = AdmittingDoor(1)
    async with world.asking(AsgiRequest()):
        assert await refused(world)
    assert world.in_flight() == 0
    assert not await refused(world)


async def test_an_error_frees_the_place():
    world = AdmittingDoor(1)
    world.app.error = RuntimeError("ours")
    world.app.go_on.set()
    with pytest.raises(RuntimeError):
        await AsgiRequest().ask(world.door)
    assert world.in_flight() == 0


async def test_a_client_that_goes_away_frees_the_place():
    world = AdmittingDoor(1)
    client = AsgiRequest()
    client.gone = True
    await client.ask(world.door)
    assert (world.in_flight(), client.sent) == (0, [])


@pytest.mark.parametrize("waits", [False, True])
async def test_a_request_that_is_cancelled_frees_the_place(waits):
    world = AdmittingDoor(4 * BEGUN_AT_ONCE_MAX)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            for _ in range(3 * BEGUN_AT_ONCE_MAX):
                tasks.start_soon(AsgiRequest().ask, world.door)
            # At the first pause the later ones wait for their turn.
            await (anyio.lowlevel.checkpoint() if waits else settled())
            assert world.in_flight() == 3 * BEGUN_AT_ONCE_MAX
            assert (len(world.app.begun) < 3 * BEGUN_AT_ONCE_MAX) is waits
            scope.cancel()
    assert world.in_flight() == 0
    world.app.go_on.set()
    with anyio.fail_after(5):
        for _ in range(3 * BEGUN_AT_ONCE_MAX):
            await AsgiRequest().ask(world.door)


async def test_workers_hand_in_what_producers_cannot_keep_out():
    world = AdmittingDoor(1)
    async with world.asking(AsgiRequest()):
        assert await refused(world)
        assert not await refused(world, "/internal/work")
    flooded = AdmittingDoor(1)
    hand_ins = [AsgiRequest("/internal/recomputed") for _ in range(WORKERS_MAX)]
    async with flooded.asking(*hand_ins):
        await flooded_by(flooded, WORKERS_MAX)
        assert await refused(flooded, "/internal/work")
        assert not await refused(flooded)


async def flooded_by(world: AdmittingDoor, count: int) -> None:
    with anyio.fail_after(5):
        while len(world.app.begun) < count:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/events", "/static/v1/page.css"]
)
async def test_health_and_what_has_a_limit_of_its_own_is_never_refused(path):
    world = AdmittingDoor(1)
    async with world.asking(AsgiRequest(), *[AsgiRequest(path) for _ in range(3)]):
        assert len(world.app.begun) == 4
        assert {name: place.taken for name, place in world.admission.places.items()} == {
            "producers": 1,
            "workers": 0,
            "pages": 0,
            "streams": 0,
        }
        assert not await refused(world, path)


@pytest.mark.parametrize(
    ("path", "asker"),
    [
        ("/v1/sessions", "producers"),
        ("/v1/queues/extraction-transition/outcomes", "producers"),
        ("/nothing", "producers"),
        ("/v1/sessions/s/operations", "producers"),
        ("/v1/sessions/s/operations:bulk", "streams"),
        ("/internalx", "producers"),
        ("/healthz/x", "producers"),
        ("/internal/work", "workers"),
        ("/internal/crons/retention-sweep", "workers"),
        ("/", "pages"),
        ("/snapshot.json", "pages"),
        ("/healthz", None),
        ("/static/v/page.js", None),
    ],
)
def test_who_asks_is_told_by_the_path(path, asker):
    assert asker_of(path) == asker


async def test_a_gateway_has_so_many_streams_and_no_more():
    path = "/v1/sessions/s/operations:bulk"
    world = AdmittingDoor(1)
    async with world.asking(*[AsgiRequest(path) for _ in range(STREAMS_MAX)]):
        assert world.admission.places["streams"].taken == STREAMS_MAX
        assert await refused(world, path)
        assert not await refused(world, POST)


async def test_who_waits_gives_the_place_back_until_it_goes_on():
    world, waited = AdmittingDoor(1), anyio.Event()

    async def waits(_scope: Any, receive: Any, _send: Any) -> None:
        await receive()
        with place_given_back():
            await waited.wait()
        assert world.in_flight() == 1

    door = AdmissionMiddleware(waits, admission=world.admission)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(AsgiRequest().ask, door)
            await settled()
        assert world.in_flight() == 0
        assert not await refused(world, "/nothing")
        waited.set()
    assert world.in_flight() == 0


def test_without_a_place_there_is_none_to_give_back():
    with place_given_back():
        pass


@pytest.mark.parametrize(
    "headers",
    [{"content_length": str(MAX_BODY_BYTES)}, {"transfer_encoding": "chunked"}],
)
async def test_bodies_have_as_much_room_as_there_is_whatever_places_are_free(headers):
    """One whose length is not said may become as large as any."""
    world = AdmittingDoor(1000)
    most = BODIES_BYTES_MAX // MAX_BODY_BYTES
    async with world.asking(*[AsgiRequest(**headers) for _ in range(most)]):
        one_more = AsgiRequest(content_length="1")
        await one_more.ask(world.door)
        assert (one_more.status, one_more.read) == (503, 0)
        assert not await refused(world)
        assert not await refused(world, "/internal/work")
    assert world.admission.places["producers"].body_bytes == 0
    assert not await refused(world)


async def test_what_is_no_request_passes():
    seen = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["type"])

    await AdmissionMiddleware(app, admission=Admission(1))({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan"]


async def test_of_what_comes_at_once_a_few_begin_before_others_have_the_loop():
    """Reading and checking a request holds the loop: health must come in between."""
    turns: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        turns.append(scope["path"])

    door = AdmissionMiddleware(app, admission=Admission(1000))
    async with anyio.create_task_group() as tasks:
        for _ in range(10 * BEGUN_AT_ONCE_MAX):
            tasks.start_soon(AsgiRequest().ask, door)
        await anyio.lowlevel.checkpoint()
        assert turns == [POST] * BEGUN_AT_ONCE_MAX
        tasks.start_soon(AsgiRequest("/healthz").ask, door)
        tasks.start_soon(AsgiRequest("/internal/work").ask, door)
    assert len(turns) == 10 * BEGUN_AT_ONCE_MAX + 2
    assert turns.index("/healthz") <= 4 * BEGUN_AT_ONCE_MAX
    assert turns.index("/internal/work") <= 4 * BEGUN_AT_ONCE_MAX


async def test_what_comes_at_once_is_counted_before_it_is_read():
    """Else none of a thousand requests that are refused further in would ever find it full."""
    world = AdmittingDoor(BEGUN_AT_ONCE_MAX + 2)
    world.app.go_on.set()
    clients = [AsgiRequest() for _ in range(4 * BEGUN_AT_ONCE_MAX)]
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.ask, world.door)
    answered = [client.status for client in clients]
    assert answered.count(503) > 0
    assert all(client.read == 0 for client in clients if client.status == 503)
    assert world.in_flight() == 0


@given(st.lists(st.sampled_from(["/v1/log", "/internal/work", "/", "/healthz"]), max_size=40))
async def test_whatever_is_asked_no_limit_is_passed_and_every_place_comes_back(paths):
    world = AdmittingDoor(3)
    clients = [AsgiRequest(path) for path in paths]
    async with AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(world.asking(client))
            for places in world.admission.places.values():
                assert 0 <= places.taken <= places.limit
    for places in world.admission.places.values():
        assert (places.taken, places.body_bytes) == (0, 0)
    full = [client for client in clients if client.status == 503]
    assert len(full) == max(0, paths.count("/v1/log") - 3)


def test_limits_are_what_a_gateway_can_hold():
    assert Settings().requests_max == WAITING_MAX
    assert WORKERS_MAX == URGENT_MAX
    assert Admission(7).places["producers"].limit == 7
    assert Admission(7).places["pages"].limit == PAGES_MAX
