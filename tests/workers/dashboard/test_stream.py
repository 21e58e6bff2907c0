"""The stream: a picture at once, the newest to whoever is slow, and an end when told to stop."""

from itertools import pairwise

import anyio
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.dashboard.fake_source import NOON, make_snapshot
from workers.dashboard import page_model
from workers.dashboard.event_stream import EventStream
from workers.dashboard.hub import SnapshotHub, TooManyListeners, changes

pytestmark = pytest.mark.anyio


class ChangingSource:
    """A source whose picture changes with every read."""

    def __init__(self) -> None:
        self.version = 0

    async def read(self):
        self.version += 1
        return make_snapshot(self.version, NOON)


class StreamReader:
    """The other end of one stream; `taken` holds the writes it has accepted."""

    def __init__(self, hub: SnapshotHub, **options) -> None:
        self._stream = EventStream(hub, **options)
        self.writes: list[dict] = []
        self.may_take = anyio.Event()
        self.may_take.set()
        self.left = anyio.Event()
        self.ended = anyio.Event()

    async def run(self) -> None:
        await self._stream({"type": "http"}, self._receive, self._send)
        self.ended.set()

    async def _receive(self) -> dict:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict) -> None:
        await self.may_take.wait()
        self.writes.append(message)

    @property
    def events(self) -> list[tuple[int, str, dict]]:
        events = []
        for write in self.writes:
            fields = dict(
                line.split(": ", 1)
                for line in write.get("body", b"").decode().splitlines()
                if ": " in line and not line.startswith(":")
            )
            if "id" in fields:
                events.append((int(fields["id"]), fields["event"], orjson.loads(fields["data"])))
        return events

    async def until(self, count: int) -> None:
        with anyio.fail_after(5):
            while len(self.events) < count:
                await anyio.sleep(0.005)


@pytest.fixture
async def hub():
    hub = SnapshotHub(ChangingSource(), interval_s=0.02, clock=lambda: NOON)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hub.run)
        yield hub
        hub.stop()


async def test_the_whole_picture_comes_first_and_then_what_changed(hub):
    client = StreamReader(hub)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.run)
        await client.until(4)
        client.left.set()
    assert client.writes[0]["type"] == "http.response.start"
    assert client.writes[1]["body"].startswith(b"retry: ")
    kinds = [kind for _, kind, _ in client.events]
    assert kinds[0] == "full"
    assert "delta" in kinds
    ids = [number for number, _, _ in client.events]
    assert ids == sorted(set(ids))


async def test_a_slow_client_gets_the_newest_picture_and_no_backlog(hub):
    client = StreamReader(hub)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.run)
        await client.until(1)
        client.may_take = anyio.Event()
        behind = hub.newest.serial
        with anyio.fail_after(5):
            while hub.newest.serial < behind + 10:
                await anyio.sleep(0.005)
        taken = len(client.events)
        client.may_take.set()
        await client.until(taken + 2)
        client.left.set()
    ids = [number for number, _, _ in client.events]
    missed = [after - before for before, after in pairwise(ids)]
    assert max(missed) >= 8
    whole = [kind for (_, kind, _), gap in zip(client.events[1:], missed, strict=False) if gap > 1]
    assert set(whole) == {"full"}


async def test_a_stop_ends_every_stream_at_once_also_one_that_does_not_read(hub):
    clients = [StreamReader(hub) for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.run)
        for client in clients:
            await client.until(1)
        clients[0].may_take = anyio.Event()
        hub.stop()
        with anyio.fail_after(20):
            for client in clients:
                await client.ended.wait()


async def test_a_stream_ends_by_itself_and_a_quiet_one_shows_that_it_lives(hub):
    hub.interval_s = 60
    client = StreamReader(hub, stream_s=0.2, heartbeat_s=0.03)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.run)
        with anyio.fail_after(5):
            await client.ended.wait()
    assert any(write.get("body", b"").startswith(b": ") for write in client.writes)
    assert client.writes[-1]["more_body"] is False


async def test_no_more_listeners_than_allowed():
    hub = SnapshotHub(ChangingSource(), clock=lambda: NOON, listeners_max=1)
    with hub.listening():
        with pytest.raises(TooManyListeners), hub.listening():
            pass
        refused = StreamReader(hub)
        await refused.run()
        assert refused.writes[0]["status"] == 503
        assert b'"code":"too_many_listeners"' in refused.writes[1]["body"]
    with hub.listening():
        pass


async def test_a_source_that_fails_later_leaves_the_last_values_with_its_error():
    source = ChangingSource()
    hub = SnapshotHub(source, interval_s=0.01, clock=lambda: NOON)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hub.run)
        before = await hub.fresh()

        async def fails():
            raise OSError("no ledger")

        source.read = fails
        with anyio.fail_after(5), hub.listening():
            while hub.newest.snapshot.ledger.error is None:
                await anyio.sleep(0.005)
        after = hub.newest.snapshot
        hub.stop()
    assert after.ledger.value == before.snapshot.ledger.value
    assert "OSError" in after.ledger.error


def merged(old, change):
    """The old page with a change applied, as `static/stream.js` applies it."""
    page = dict(old)
    for name, value in change.items():
        are_rows = isinstance(value, dict) and isinstance(old.get(name), page_model.Rows)
        page[name] = merged_rows(old[name], value) if are_rows else value
    return page


def merged_rows(old, change):
    order = change.get("order", old.order)
    rows = {k: merged(old.rows.get(k, {}), change["rows"].get(k, {})) for k in order}
    return page_model.Rows(order, rows)


@settings(max_examples=60)
@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 14), st.integers(0, 14))
def test_a_change_applied_to_the_page_before_is_the_page_after(first, second, few, many):
    old = page_model.page(make_snapshot(first, NOON, workers=few, sessions=many))
    new = page_model.page(make_snapshot(second, NOON, workers=many, sessions=few))
    assert merged(old, changes(old, new)) == new
    assert changes(new, new) == {}
