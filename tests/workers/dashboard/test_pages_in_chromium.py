"""The pages in the system's Chromium: read and acted on, with and without JavaScript.

One browser and one gateway serve all tests of this file.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import parse_qs, quote, urlsplit

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
import uvicorn
from playwright.sync_api import expect

from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import whole_run
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import SESSION, claim, running_door, source, understanding
from tests.workers.chromium import in_chromium
from tests.workers.dashboard.test_charts import count_a_minute
from workers.gateway.loops.bulk_work import BulkWork

pytestmark = in_chromium


@dataclass
class Served:
    """A gateway on a port of the loopback: an open request, a dead letter, a run, a session."""

    url: str
    open_request: str
    dead_letter: str
    token: str
    operation: str
    bulk_number: int
    go_on: Callable[[], int]
    """Goes through the bulk operations that run, which nobody else does here."""

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
            await anyio.to_thread.run_sync(count_a_minute, door.ledger)
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
            for tag in ("plain", "scripted", "waiting"):
                tagged = ({**binding(f"{tag}-{n}"), "tags": {"customer": tag}} for n in range(12))
                await enqueued(door, BINDINGS, *tagged)
            waiting = {"verb": "cancel", "filter": {"tag": "customer=waiting"}}
            begun = await door.http.post(
                "/v1/bulk-operations", json={**waiting, "reason": "<i>an exchange</i>"}
            )
            ids.append(begun.json()["bulk_number"])
            work = BulkWork(door.ledger, door.services.write, {})
            config = uvicorn.Config(door.app, log_level="error", lifespan="off")
            servers.append(uvicorn.Server(config))
            async with anyio.from_thread.BlockingPortal() as portal:
                ids.append(partial(portal.call, work.go_on))
                is_ready.set()
                await servers[0].serve(sockets=[listener])

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    assert is_ready.wait(20)
    yield Served(url, *ids)
    servers[0].should_exit = True
    thread.join(20)


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


@pytest.mark.parametrize("tag", ["plain", "scripted"])
def test_all_that_fit_are_cancelled_and_the_page_follows_without_javascript(browser, served, tag):
    context = browser.new_context(java_script_enabled=tag == "scripted")
    page = context.new_page()
    page.goto(f"{served.url}/requests")
    page.get_by_label("Tag, as customer=acme").fill(f"customer={tag}")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="Cancel them", exact=True).click()
    expect(page.locator("h2").first).to_have_text("12 fit")
    expect(page.locator("main")).to_contain_text("These are the newest 10.")
    button = page.get_by_role("button", name="Cancel them")
    button.click()
    expect(button).to_be_visible()
    page.get_by_label("Reason").fill(f"{tag} is not wanted")
    page.get_by_label("Your name").fill("ada")
    button.click()
    expect(page.get_by_role("status")).to_contain_text("Begun.")
    expect(page.locator("main")).to_contain_text("ada at 127.0.0.1")
    expect(page.get_by_role("button", name="Stop it")).to_be_visible()
    page.reload()
    served.go_on()
    # The page looks again by itself, and then no more.
    expect(page.locator("main")).to_contain_text("Statefinished", timeout=20_000)
    expect(page.get_by_role("status")).not_to_be_visible()
    expect(page.get_by_role("button", name="Stop it")).not_to_be_visible()
    page.get_by_role("link", name="Bulk operations").click()
    expect(page.get_by_role("row").filter(has_text=f"{tag} is not wanted")).to_have_count(1)
    context.close()


def test_nothing_is_lost_without_a_reason(browser, served):
    page = browser.new_page()
    page.goto(served.page_of(served.open_request))
    button = page.get_by_role("button", name="Cancel the request")
    button.click()
    expect(button).to_be_visible()
    page.get_by_role("textbox", name="Reason", exact=True).fill("not wanted")
    button.click()
    expect(page.locator("p.still")).to_contain_text("Cancelled")
    expect(page.locator("main")).to_contain_text("not wanted")
    expect(page.locator("main")).to_contain_text("Cancelled by127.0.0.1")
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


def test_an_explanation_without_a_published_checkpoint_says_why_there_is_no_exhibit(
    browser, served
):
    page = browser.new_page()
    page.goto(f"{served.url}/explain?id={quote(served.operation, safe='')}")
    href = page.get_by_role("link", name="Exhibit").get_attribute("href")
    page.goto(f"{served.url}/{href.removeprefix('./')}")
    expect(page.locator("main")).to_contain_text("checkpoint_not_published")
    page.close()


def test_every_page_is_searched_and_left_by_keys_alone(browser, served):
    page = browser.new_page()
    page.goto(f"{served.url}/runs")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Any id, key, tag or words")).to_be_focused()
    page.keyboard.type(f"{SESSION}\n")
    expect(page.locator("h1")).to_contain_text("Session")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Go to")
    expect(palette.get_by_role("option")).to_have_count(9)
    page.keyboard.type("re")
    expect(palette.get_by_role("option", selected=True)).to_have_text("Requests")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(palette.get_by_role("option", selected=True)).to_have_text("Record")
    page.keyboard.press("ArrowDown")
    expect(palette.get_by_role("option", selected=True)).to_contain_text("Search everything")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Record")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(palette).not_to_be_visible()
    page.close()


@pytest.mark.parametrize("is_secure", [True, False])
def test_an_id_is_copied_also_where_there_is_no_clipboard(browser, served, is_secure):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    if not is_secure:
        # As on plain http under a host name; the browser's own clipboard is read afterwards.
        page.add_init_script(
            "window.kept = navigator.clipboard;"
            "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        )
    page.goto(served.page_of(served.open_request))
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copy").first).to_have_text("Copied")
    read = "(window.kept ?? navigator.clipboard).readText()"
    assert page.evaluate(read) == served.open_request
    context.close()


def test_times_are_said_by_their_age_and_grow_older(browser, served):
    page = browser.new_page()
    page.clock.install(time="2023-11-14T22:23:30Z")
    page.goto(f"{served.url}/requests")
    time = page.locator("td time").first
    expect(time).to_have_text("10 min ago")
    page.clock.fast_forward("02:00:00")
    expect(time).to_have_text("2 h ago")
    exact = time.get_attribute("data-exact")
    assert exact is not None
    assert exact.endswith("UTC")
    page.close()


def test_a_time_that_is_drawn_over_a_chart_opens_its_requests(served: Served, browser):
    page = browser.new_page()
    page.goto(f"{served.url}/queues/{BINDING_QUEUE}")
    area = page.locator(".brush").first
    box = area.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 60, steps=3)
    expect(page.locator(".chosen").first).to_contain_text(" to ")
    page.mouse.up()
    page.wait_for_url("**/requests?queue=*")
    chosen = parse_qs(urlsplit(page.url).query)
    since, until = (datetime.fromisoformat(chosen[name][0]) for name in ("since", "until"))
    assert timedelta(minutes=15) < until - since < timedelta(minutes=20)
    assert chosen["queue"] == [BINDING_QUEUE]
    page.go_back()
    area.focus()
    for key in ("ArrowLeft", "Shift+ArrowLeft", "Shift+ArrowLeft", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**/requests?queue=*")
    chosen = parse_qs(urlsplit(page.url).query)
    since, until = (datetime.fromisoformat(chosen[name][0]) for name in ("since", "until"))
    assert until - since == timedelta(minutes=1)
    page.close()


def test_what_waits_is_decided_by_keyboard_and_a_session_gone_through_by_a_slider(browser, served):
    page = browser.new_page()
    page.goto(f"{served.url}/reviews?kind=membership")
    second = page.locator("article.review").nth(1)
    record_id = second.locator("h3 small").inner_text()
    for key in ("j", "j", "k", "j", "c"):
        page.keyboard.press(key)
    # Nothing is decided without a reason: the key presses the item's own button.
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("jck")
    expect(page.get_by_label("Reason")).to_have_value("jck")
    page.get_by_label("Your name").fill("ada")
    second.focus()
    page.keyboard.press("c")
    expect(page.get_by_role("status")).to_contain_text("each item is an operation of its own")
    expect(page.locator("article.review").first).to_be_focused()
    expect(page.get_by_label("Your name")).to_have_value("ada")
    expect(page.locator("article.review h3 small").get_by_text(record_id)).to_have_count(0)
    expect(page.locator("main")).to_contain_text("1 confirm, 0 reject, 0 defer")
    page.goto(f"{served.url}/sessions/{SESSION}?step=1")
    expect(page.locator("#fates [data-gone]")).to_have_count(1)
    page.locator("#step").press("End")
    expect(page.locator("#fates [data-gone]")).to_have_count(3)
    expect(page.locator("#left")).to_have_text("27")
    page.close()
