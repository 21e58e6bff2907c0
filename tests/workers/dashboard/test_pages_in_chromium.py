"""The pages in the system's Chromium: read, acted on and accessible, with and without JavaScript.

One browser and one gateway serve all tests of this file. Where there is no Chromium they are
skipped, and say so; with CHROMIUM_REQUIRED in the environment, as in CI, they fail.
"""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import anyio
import anyio.to_thread
import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect, sync_playwright

from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import whole_run
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import SESSION, claim, running_door, source, understanding

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]
ENQUEUE = "enqueue_v1_queues__queue__requests_post"
LOOKS = [
    (theme, width, script)
    for theme in ("light", "dark")
    for width in (1440, 390)
    for script in (True, False)
    # Pages of things have no script, so without one nothing is to be seen that is not seen with it.
    if script or theme == "light"
]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CHROMIUM_REQUIRED"),
    reason="no chromium is installed",
)


@dataclass
class Served:
    """A gateway on a port of the loopback: an open request, a dead letter, a run, a session."""

    url: str
    open_request: str
    dead_letter: str
    token: str
    operation: str

    def page_of(self, request_id: str) -> str:
        return f"{self.url}/queues/{BINDING_QUEUE}/requests/{quote(request_id, safe='')}"


def recorded_token(ledger: Ledger) -> str:
    recorder = Recorder(ledger)
    token_id: str = whole_run(recorder)["token"]["token_id"]
    recorder.complete_run("run-1")
    return token_id


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    is_ready, ids, servers = threading.Event(), [], []

    async def serve() -> None:
        async with running_door(host=FakeHost().host) as door:
            bindings = (binding(key, binding_id=f"<b>{key}</b>") for key in ("waits", "broke"))
            ids.extend(row["request_id"] for row in await enqueued(door, BINDINGS, *bindings))
            await given_up(door, BINDING_QUEUE, ids[1], "broken")
            ids.append(await anyio.to_thread.run_sync(recorded_token, door.ledger))
            await door.declare(SESSION, *(f"<i>hypothesis</i> {number}" for number in range(30)))
            for number in range(3):
                struck = [f"<i>hypothesis</i> {number}"]
                body = {"source_id": "s", "observation_id": f"o-{number}", "eliminated": struck}
                await door.post("eliminate", body)
            made = await door.operate(
                source("s-1"), understanding("u-1", "s-1"), claim("c-1", "s-1", "u-1")
            )
            ids.append(made[-1]["operation_id"])
            config = uvicorn.Config(door.app, log_level="error", lifespan="off")
            servers.append(uvicorn.Server(config))
            is_ready.set()
            await servers[0].serve(sockets=[listener])

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    assert is_ready.wait(20)
    yield Served(url, *ids)
    servers[0].should_exit = True
    thread.join(20)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "CHROMIUM_REQUIRED is set, and no chromium is installed"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.mark.parametrize(("theme", "width", "script"), LOOKS)
def test_each_page_fits_and_axe_finds_nothing(browser, served, theme, width, script):
    context = browser.new_context(
        color_scheme=theme,
        viewport={"width": width, "height": 900},
        java_script_enabled=script,
    )
    page = context.new_page()
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    queue = f"{served.url}/queues/{BINDING_QUEUE}"
    requests = (served.open_request, served.dead_letter)
    run = f"{served.url}/runs/run-1"
    of_runs = (f"{served.url}/runs", run, f"{run}/tokens/{served.token}", f"{run}/tokens/none")
    explain = f"{served.url}/explain"
    explained = (f"{explain}?id={quote(each, safe='')}" for each in (*requests, "nobody"))
    paths = ("queues/none", "requests", "sessions", "operations", f"sessions/{SESSION}")
    paths += (f"operations/{served.operation}", "requests?state=cancelled&since=2026-01-31T12:00")
    paths += ("requests?since=2026-01-31T12:00:00.5+01:00&until=never",)
    paths += (f"queues/{BINDING_QUEUE}?since=2026-01-31T12:00&until=never",)
    paths += ("docs", f"docs/routes/{ENQUEUE}", "docs/schemas/RequestBody")
    others = (f"{served.url}/{path}" for path in paths)
    pages = (*map(served.page_of, requests), explain, *explained, *of_runs, *others)
    for url in (queue, *pages):
        page.goto(url)
        expect(page.locator("h1")).to_be_visible()
        main = page.locator("main").bounding_box()
        assert main is not None
        assert main["width"] <= width
        # A tool may evaluate where the page may not run a script; axe itself needs one.
        assert page.evaluate("document.documentElement.scrollWidth") <= width, url
        if script:
            findings = Axe().run(page)
            assert findings.violations_count == 0, findings.generate_report()
    assert all(url.startswith(served.url) for url in urls)
    context.close()


@pytest.mark.parametrize("script", [True, False])
def test_a_queue_is_paused_and_resumed_with_and_without_javascript(browser, served, script):
    context = browser.new_context(java_script_enabled=script)
    page = context.new_page()
    page.goto(f"{served.url}/queues/{BINDING_QUEUE}")
    page.get_by_label("Reason").fill("an exchange")
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Pause the queue").click()
    expect(page.get_by_role("status")).to_contain_text("Paused.")
    expect(page.locator("main")).to_contain_text("by ada at 127.0.0.1: an exchange")
    page.get_by_role("button", name="Resume the queue").click()
    expect(page.get_by_role("status")).to_contain_text("Resumed.")
    expect(page.locator("main")).to_contain_text("Nothing is paused.")
    context.close()


def test_nothing_is_lost_without_a_reason(browser, served):
    page = browser.new_page()
    page.goto(served.page_of(served.open_request))
    button = page.get_by_role("button", name="Cancel the request")
    button.click()
    expect(button).to_be_visible()
    page.get_by_label("Reason").fill("not wanted")
    button.click()
    expect(page.get_by_role("status")).to_contain_text("Cancelled")
    expect(page.locator("main")).to_contain_text("not wanted")
    expect(page.locator("main")).to_contain_text("Settled by127.0.0.1")
    page.get_by_role("link", name="on the log").click()
    expect(page.locator("h1")).to_have_text("Operation request_cancel")
    expect(page.locator("main")).to_contain_text("decided by 127.0.0.1: not wanted")
    page.close()


def test_a_run_is_followed_from_the_list_to_the_words_of_its_source(browser, served):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{served.url}/runs")
    page.get_by_role("link", name="run-1", exact=True).click()
    expect(page.locator("h1")).to_have_text("Run run-1")
    page.get_by_role("link", name=served.token).click()
    expect(page.locator("main")).to_contain_text("Motion GRANTED")
    page.get_by_role("link", name="Run run-1").click()
    expect(page.locator("h1")).to_have_text("Run run-1")
    context.close()


@pytest.mark.parametrize("script", [True, False])
def test_rows_lead_from_lists_to_pages_and_from_there_on(browser, served, script):
    context = browser.new_context(java_script_enabled=script)
    page = context.new_page()
    page.goto(f"{served.url}/sessions")
    page.get_by_label("Words of a title or an id").fill(SESSION[:8])
    page.get_by_role("button", name="Search").click()
    assert "words=" in page.url
    page.locator(f'a[href$="/sessions/{SESSION}"]').click()
    expect(page.locator("main")).to_contain_text("27 of 30")
    page.get_by_role("link", name="All its operations").click()
    expect(page.get_by_label("Session")).to_have_value(SESSION)
    page.locator(f'a[href$="/operations/{served.operation}"]').click()
    expect(page.locator("main")).to_contain_text("membership_write")
    page.get_by_role("link", name="Requests", exact=True).click()
    page.get_by_label("State").select_option("dead_letter")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="broke", exact=True).click()
    expect(page.get_by_role("button", name="Dismiss the dead letter")).to_be_visible()
    context.close()
