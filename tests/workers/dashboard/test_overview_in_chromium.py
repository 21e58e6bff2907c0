"""The overview in the system's Chromium: it is live, and what needs somebody is said at once."""

import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import anyio
import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import expect

from tests.workers.chromium import in_chromium
from tests.workers.dashboard.fake_source import NOON, TARGETS, make_snapshot
from workers.dashboard.hub import SnapshotHub
from workers.dashboard.routes import build_router
from workers.dashboard.snapshot import DashboardSnapshot, SnapshotPart
from workers.views.attention_items import AttentionItem, AttentionSubject, Link

pytestmark = in_chromium

HOSTILE = "<img src=x onerror=alert(1)>"
DAMAGE = AttentionItem(
    "record_damaged",
    "critical",
    AttentionSubject("session", "s"),
    f"a record of the session {HOSTILE} is damaged",
    "2026-03-14T11:59:00Z",
    Link("session", ("javascript:alert(1)//",)),
)


class ChangedSource:
    """A source whose picture the test changes."""

    def __init__(self) -> None:
        self.snapshot = calm(make_snapshot())

    async def read(self) -> DashboardSnapshot:
        self.snapshot = replace(self.snapshot, version=self.snapshot.version + 1)
        return self.snapshot


def calm(snapshot: DashboardSnapshot) -> DashboardSnapshot:
    return replace(snapshot, attention=SnapshotPart("ledger", NOON, ()))


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, ChangedSource]]:
    listener = socket.create_server(("127.0.0.1", 0))
    source, servers, is_ready = ChangedSource(), [], threading.Event()

    async def serve() -> None:
        hub = SnapshotHub(source, 0.2, clock=lambda: NOON)
        app = FastAPI(openapi_url=None)
        app.include_router(build_router(hub))
        servers.append(uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off")))
        async with anyio.create_task_group() as group:
            group.start_soon(hub.run)
            is_ready.set()
            await servers[0].serve(sockets=[listener])
            hub.stop()

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    assert is_ready.wait(20)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/", source
    servers[0].should_exit = True
    thread.join(20)


def test_a_tab_says_what_needs_somebody_and_when_nothing_does(browser, served):
    url, source = served
    page = browser.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(url)
    expect(page.locator("#word")).to_have_text("Live")
    expect(page).to_have_title("Overview – Rotulus")
    expect(page.get_by_text("Nothing needs anybody.")).to_be_visible()
    was = source.snapshot
    source.snapshot = replace(was, attention=SnapshotPart("ledger", NOON, (DAMAGE,)))
    item = page.locator('[data-list="attention"] > li')
    expect(item).to_contain_text(f"a record of the session {HOSTILE} is damaged")
    expect(item.locator(".state")).to_have_text("critical")
    expect(item.get_by_role("link")).to_have_attribute(
        "href", "./sessions/javascript%3Aalert%281%29%2F%2F"
    )
    expect(item.locator("time")).to_have_attribute("data-exact", "2026-03-14 11:59:00 UTC")
    expect(page).to_have_title("(1) Overview – Rotulus")
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile(r"alert\.svg$"))
    expect(page.get_by_role("link", name="1 needs somebody")).to_be_visible()
    source.snapshot = calm(source.snapshot)
    expect(page).to_have_title("Overview – Rotulus")
    expect(item).to_have_class("gone")
    expect(page.locator("#needs")).not_to_be_visible()
    assert problems == []
    page.close()


def test_a_queue_is_patched_where_it_stands(browser, served):
    url, source = served
    page = browser.new_page()
    page.goto(url)
    rows = page.locator("table.queues > tbody")
    expect(rows).to_have_count(3)
    names = [row.locator("th a").first.inner_text() for row in rows.all()]
    page.get_by_text("Priorities of binding-evaluation").click()
    queues = source.snapshot.queues.value
    assert queues is not None
    changed = tuple(
        replace(queue, dead=7) if queue.name == names[-1] else queue for queue in queues
    )
    source.snapshot = replace(source.snapshot, queues=SnapshotPart("Redis", NOON, changed))
    last = rows.nth(2)
    expect(last.get_by_text("7 dead letters")).to_be_visible()
    expect(last).to_have_attribute("data-state", "dead")
    expect(last.get_by_role("row", name=TARGETS[-1][0])).to_be_visible()
    assert [row.locator("th a").first.inner_text() for row in rows.all()] == names
    page.close()
