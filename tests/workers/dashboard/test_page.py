"""The page: whole without JavaScript, escaped, small, and under a strict policy."""

import re
from dataclasses import replace
from html import unescape

import anyio
import httpx
import orjson
import pytest
from fastapi import FastAPI

from tests.workers.dashboard.fake_source import NOON, make_snapshot
from workers.dashboard.headers import PAGE
from workers.dashboard.hub import SnapshotHub
from workers.dashboard.page_model import NEWEST_SHOWN, QUEUE_STATES, page
from workers.dashboard.routes import build_router
from workers.dashboard.snapshot import DashboardSnapshot, SnapshotPart

pytestmark = pytest.mark.anyio

HOSTILE = "<script>alert('x')</script>\"><img src=x>"


class Fixed:
    """A source that shows one picture, or fails with one error."""

    def __init__(self, snapshot: DashboardSnapshot | Exception) -> None:
        self.snapshot = snapshot

    async def read(self) -> DashboardSnapshot:
        if isinstance(self.snapshot, Exception):
            raise self.snapshot
        return self.snapshot


async def page_of(
    snapshot: DashboardSnapshot | Exception, path: str = "/", root_path: str = ""
) -> httpx.Response:
    hub = SnapshotHub(Fixed(snapshot), clock=lambda: NOON)
    app = FastAPI()
    app.include_router(build_router(hub))
    transport = httpx.ASGITransport(app, root_path=root_path)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(hub.run)
        await hub.fresh()
        response = await client.get(path)
        hub.stop()
    return response


async def test_the_first_answer_holds_every_table_and_what_is_in_it():
    snapshot = make_snapshot()
    text = unescape((await page_of(snapshot)).text)
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    assert len(tables) >= 6
    for table in tables:
        assert "<caption" in table
        assert 'scope="col"' in table
    shown = [
        *(queue.name for queue in snapshot.queues.value),
        *(priority.name for queue in snapshot.queues.value for priority in queue.priorities),
        *(worker.worker_id for worker in snapshot.workers.value.workers),
        *(session.title for session in snapshot.sessions.value.newest[:NEWEST_SHOWN]),
        *(
            name
            for session in snapshot.sessions.value.newest[:NEWEST_SHOWN]
            for name in session.survivors[:3]
        ),
        *(row.operation_id for row in snapshot.ledger.value.tail[:NEWEST_SHOWN]),
        *(count.name for count in snapshot.gateways.value),
        *(count.name for count in snapshot.rejections.value),
        *(count.name for count in snapshot.requests.value.by_outcome),
        snapshot.ledger.value.head_hash,
    ]
    assert [name for name in shown if name not in text] == []


def test_the_numbers_of_a_queue_add_up_and_those_in_trouble_are_first():
    queues = page(make_snapshot())["queues"]
    assert queues.order == ["authority-recompute", "extraction-transition", "binding-evaluation"]
    states = [queues.rows[name]["state"] for name in queues.order]
    assert states == sorted(states, key=QUEUE_STATES.index)
    for row in queues.rows.values():
        parts = ("q_ready", "q_held", "q_delayed", "q_suspended", "q_in_flight")
        numbers = [int(row[name].replace("\u202f", "")) for name in ("q_open", *parts)]
        assert numbers[0] == sum(numbers[1:])
        assert row["q_closing"] == ""
    snapshot = make_snapshot()
    first, *others = snapshot.queues.value
    fewer = replace(first, open=first.open - first.held - 3, held=0)
    queues = page(replace(snapshot, queues=SnapshotPart("Redis", NOON, (fewer, *others))))["queues"]
    assert queues.rows[first.name]["q_closing"] == "and 3 just closed"


async def test_what_needs_somebody_comes_first_and_is_said_where_a_tab_is_seen():
    snapshot = make_snapshot()
    text = unescape((await page_of(snapshot)).text)
    assert "<title>(2) Overview – Rotulus</title>" in text
    assert '/alert.svg"' in text
    assert "3 need somebody" in text
    for item in snapshot.attention.value:
        assert 0 < text.index(item.sentence) < text.index('<h2 id="queues">')
        assert item.action.command in text
    calm = replace(snapshot, attention=SnapshotPart("ledger", NOON, ()))
    text = unescape((await page_of(calm)).text)
    assert "<title>Overview – Rotulus</title>" in text
    assert '/icon.svg"' in text
    assert "need somebody" not in text.partition("<main")[0]
    assert "Nothing needs anybody." in text


async def test_hostile_text_is_text():
    snapshot = make_snapshot()
    sessions = snapshot.sessions.value
    first = replace(sessions.newest[0], title=HOSTILE, survivors=(HOSTILE,))
    hostile = replace(
        snapshot,
        sessions=SnapshotPart(
            "ledger", NOON, replace(sessions, newest=(first, *sessions.newest[1:]))
        ),
        queues=SnapshotPart("Redis", NOON, None, HOSTILE),
    )
    text = (await page_of(hostile)).text
    assert HOSTILE not in text
    assert "<img" not in text
    assert "&lt;script&gt;" in text


async def test_the_policy_is_strict_and_the_page_keeps_it():
    response = await page_of(make_snapshot())
    policy = PAGE["Content-Security-Policy"]
    assert response.headers["content-security-policy"] == policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert " style=" not in response.text
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", response.text) == []
    assert re.findall(r"\son\w+=", response.text) == []
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", response.text) == []


async def test_a_first_load_is_small():
    page = await page_of(make_snapshot())
    names = set(re.findall(r"(?:src|href)=\"\.(/static/[^\"]+)\"", page.text))
    script = next(name for name in names if name.endswith("app.js"))
    names |= {script.replace("app.js", name) for name in ("stream.js", "hub.js")}
    files = [await page_of(make_snapshot(), name) for name in sorted(names)]
    assert all(file.status_code == 200 for file in files)
    assert len(files) + 2 <= 8
    assert sum(len(file.content) for file in (page, *files)) <= 100_000


async def test_files_are_kept_for_ever_under_their_version_and_nothing_else_is_served():
    page = await page_of(make_snapshot())
    (version,) = set(re.findall(r"/static/(\w+)/", page.text))
    kept = await page_of(make_snapshot(), f"/static/{version}/app.js")
    assert "immutable" in kept.headers["cache-control"]
    assert kept.headers["content-type"].startswith("text/javascript")
    other = await page_of(make_snapshot(), "/static/another/app.js")
    assert "immutable" not in other.headers["cache-control"]
    for name in ("overview.html", "..%2froutes.py", "none.js"):
        assert (await page_of(make_snapshot(), f"/static/{version}/{name}")).status_code == 404


@pytest.mark.parametrize(("path", "root_path"), [("/", ""), ("/rotulus/", "/rotulus")])
async def test_every_url_is_relative_to_the_page_that_names_it(path, root_path):
    page = await page_of(make_snapshot(), path, root_path=root_path)
    urls = re.findall(r"(?:src|href|data-hub|data-events)=\"([^\"]*)\"", page.text)
    assert any(url.endswith("/events") for url in urls)
    assert [
        url
        for url in urls
        if not url.startswith(("./", "queues/", "workers/", "sessions/", "operations/", "#"))
    ] == []


async def test_a_part_that_failed_says_so_and_the_rest_is_shown():
    snapshot = replace(
        make_snapshot(), leases=SnapshotPart("Redis", NOON, None, "queue_unavailable")
    )
    text = unescape((await page_of(snapshot)).text)
    assert "queue_unavailable" in text
    assert snapshot.ledger.value.head_hash in text


async def test_a_source_that_fails_leaves_a_page_that_says_so():
    response = await page_of(RuntimeError("gone"))
    assert response.status_code == 200
    assert "RuntimeError" in response.text
    assert "<title>(?) Overview" in response.text
    assert "What needs somebody is not known" in response.text


@pytest.mark.spec("K27")
async def test_no_number_in_the_json_is_too_large_for_a_browser():
    snapshot = make_snapshot()
    sessions = snapshot.sessions.value
    large = replace(snapshot, sessions=SnapshotPart("ledger", NOON, replace(sessions, total=2**60)))
    document = orjson.loads((await page_of(large, "/snapshot.json")).content)
    assert document["sessions"]["value"]["total"] == str(2**60)
    assert numbers_beyond(document, 2**53) == []


def numbers_beyond(value, bound):
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers_beyond(item, bound)]
    if isinstance(value, list):
        return [number for item in value for number in numbers_beyond(item, bound)]
    return [value] if isinstance(value, int) and abs(value) >= bound else []
