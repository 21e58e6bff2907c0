"""A page is verified in the reader's own browser: what holds is said, and each lie is found.

One browser and one gateway serve all tests of this file. A test that needs a lie takes the answer
of the honest gateway and changes it on the way, as a gateway that lies would.
"""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import anyio
import anyio.from_thread
import pytest
import uvicorn
from anyio import to_thread
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from kernel.ledger.ledger import Ledger, LedgerView
from kernel.proof.checkpoint import Checkpoint, sign_checkpoint
from kernel.proof.witness_policy import KnownLog, KnownWitness, WitnessPolicy
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.build import FakeHost
from tests.kernel.jobs import seal_receipts
from tests.signed_log import log_key, witness_key
from tests.workers.api.asking import BINDINGS, binding, enqueued
from tests.workers.api.door import SESSION, running_door, source, understanding
from tests.workers.chromium import in_chromium

KEY, WITNESS = log_key(), witness_key(1)
CHECKS = "#verification .checks li"
SAID = '#verification [data-part="said"]'
BUTTON = "Check it in this browser"

pytestmark = [pytest.mark.spec("workers/0510"), in_chromium]


class Published:
    """A published log that is always as new as its ledger, cosigned by a witness."""

    publishes = True
    problem = None

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def note(self) -> bytes:
        def read(view: LedgerView) -> bytes:
            size = view.head().ec_sequence_number
            stated = Checkpoint(KEY.verifier.name, size, view.log_tree().root(size))
            return sign_checkpoint(stated, [KEY]).sign(WITNESS, 1_700_000_000).to_bytes()

        return self._ledger.read(read)

    def policy(self) -> WitnessPolicy:
        witness = KnownWitness("w1", WITNESS.verifier, None)
        return WitnessPolicy((KnownLog(KEY.verifier, None),), (witness,), "w1")

    def stop(self) -> None:
        """Nobody waits here."""


@dataclass
class Served:
    """A gateway on a port of the loopback."""

    url: str
    operation: str
    request: str
    note: Callable[[], bytes]
    grow: Callable[[], None]
    """Puts a row onto the log."""

    seal: Callable[[], None]
    """Seals the range of the receipts so far."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    is_ready, parts, servers = threading.Event(), [], []

    async def serve() -> None:
        async with running_door(host=FakeHost().host, publishing=Published) as door:
            await door.declare(SESSION, "<i>won</i>", "lost", "a" * 300)
            body = {
                "source_id": "s",
                "observation_id": "o",
                "eliminated": ["<i>won</i>", "a" * 300],
            }
            await door.post("eliminate", body)
            made = await door.operate(source("s-1", "<b>words</b>"), understanding("u-1", "s-1"))
            rows = await enqueued(door, BINDINGS, binding("waits"))
            numbers = iter(range(2, 100))

            async def grow() -> None:
                await door.operate(source(f"s-{next(numbers)}"))

            server = uvicorn.Server(uvicorn.Config(door.app, log_level="error", lifespan="off"))
            servers.append(server)
            async with anyio.from_thread.BlockingPortal() as portal:
                note = door.services.publishing.note
                parts.extend((made[-1]["operation_id"], rows[0]["request_id"], note))
                parts.append(lambda: portal.call(grow))
                seal = partial(seal_receipts, door.ledger, for_outcomes=True)
                parts.append(lambda: portal.call(to_thread.run_sync, seal))
                is_ready.set()
                await server.serve(sockets=[listener])

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    assert is_ready.wait(20)
    yield Served(url, *parts)
    servers[0].should_exit = True
    thread.join(20)


@pytest.fixture
def page(browser, served) -> Iterator[Page]:
    """A browser that has kept nothing."""
    context = browser.new_context()
    page = context.new_page()
    yield page
    context.close()


def verify(page: Page, url: str) -> list[tuple[str, str]]:
    """Open a page, verify it there, and return the result and the words of each check."""
    page.goto(url)
    button = page.get_by_role("button", name=BUTTON)
    expect(page.locator(SAID)).to_contain_text("checked nothing of this page yet")
    button.click()
    return checks_of(page)


def checks_of(page: Page) -> list[tuple[str, str]]:
    expect(page.locator(SAID)).to_contain_text(re.compile("browser made"))
    items = page.locator(CHECKS).all()
    return [(item.get_attribute("data-result") or "", item.inner_text()) for item in items]


def lie(page: Page, path: str, change: Callable[[str], str]) -> None:
    """Change what the gateway answers on a path."""

    def answer(route: Route) -> None:
        honest = route.fetch()
        route.fulfill(response=honest, body=change(honest.text()))

    page.route(re.compile(re.escape(path)), answer)


def in_json(change: Callable[[Any], None]) -> Callable[[str], str]:
    def changed(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return changed


def failures(checks: list[tuple[str, str]]) -> str:
    return " | ".join(text for result, text in checks if result == "fails")


def operation_of(served: Served) -> str:
    return f"{served.url}/operations/{quote(served.operation, safe='')}"


def test_a_page_holds_and_what_the_server_alone_says_is_not_marked(page, served):
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(operation_of(served))
    assert not any("verification.js" in url or "/v1/" in url for url in urls)
    checks = verify(page, operation_of(served))
    assert [result for result, _ in checks] == ["stated", "first", *["holds"] * 6]
    texts = " ".join(text for _, text in checks)
    assert "has signed the first" in texts
    assert "witnessed 1 of 1" in texts
    assert "among those that are signed" in texts
    assert page.locator('[data-checked="holds"]').count() >= 8
    assert page.locator('[data-checked="fails"]').count() == 0
    assert page.locator("pre [data-checked]").count() == 0
    assert all(url.startswith(served.url) for url in urls)
    served.grow()
    checks = verify(page, operation_of(served))
    assert {result for result, _ in checks[1:]} == {"holds"}
    assert "are those that this browser kept" in checks[1][1]
    axe = Axe().run(page)
    assert axe.violations_count == 0, axe.generate_report()


def test_sessions_requests_and_the_record_are_verified_too(page, served):
    checks = verify(page, f"{served.url}/sessions/{SESSION}")
    assert failures(checks) == ""
    assert "entries end where row" in checks[3][1]
    assert page.locator('li[data-checked="holds"]').count() == 2
    request = f"{served.url}/queues/{BINDING_QUEUE}/requests/{quote(served.request, safe='')}"
    checks = verify(page, request)
    assert [result for result, _ in checks[3:]] == ["open", "open", "open"]
    assert "admission_not_sealed" in checks[3][1]
    served.seal()
    checks = verify(page, request)
    assert failures(checks) == ""
    assert {result for result, _ in checks[1:]} == {"holds"}, checks
    assert "its receipt is in the range of row" in checks[3][1]
    assert page.locator('[data-proved="receipt.item_key"][data-checked="holds"]').count() == 1
    page.goto(f"{served.url}/record")
    checks = checks_of(page)
    assert {result for result, _ in checks[1:]} == {"holds"}


def kept_of(page: Page) -> Any:
    return json.loads(page.evaluate("Object.values(localStorage)[0]"))


def test_a_log_that_went_back_is_found_and_nothing_is_kept_of_it(page, served):
    verify(page, operation_of(served))
    before = kept_of(page)
    size = int(before["tree_size"]) - 1
    head = page.request.get(f"{served.url}/v1/tree?tree_size={size}").text()
    page.route(re.compile("/v1/tree$"), lambda route: route.fulfill(body=head))
    page.route(re.compile("/checkpoint$"), lambda route: route.abort())
    checks = verify(page, operation_of(served))
    assert f"it had {size + 1} rows" in failures(checks)
    assert kept_of(page) == before
    expect(page.locator(SAID)).to_contain_text("Something is wrong")
    page.unroute_all()
    page.get_by_role("button", name="Forget what this browser kept").click()
    expect(page.locator(CHECKS).nth(1)).to_contain_text("kept for the first time")


def test_a_log_that_was_rewritten_is_found(page, served):
    verify(page, operation_of(served))
    kept = kept_of(page) | {"root_hash": "0" * 64}
    page.evaluate(
        "text => localStorage.setItem(Object.keys(localStorage)[0], text)", json.dumps(kept)
    )
    served.grow()
    checks = verify(page, operation_of(served))
    assert "the log was rewritten" in failures(checks)
    assert kept_of(page) == kept


def change_row(document: Any) -> None:
    document["inclusion"]["row"] = document["inclusion"]["row"].replace('"user"', '"agent"')


def change_envelope(document: Any) -> None:
    document["envelope"]["content"] = document["envelope"]["content"].replace("u-1", "u-2")


def change_effects(document: Any) -> None:
    document["effects"][0]["record_key"] = "another"


def change_path(document: Any) -> None:
    document["path"][0] = "0" * 64


def change_signature(note: str) -> str:
    lines = note.split("\n")
    [place] = [
        at for at, line in enumerate(lines) if line.startswith(f"\u2014 {KEY.verifier.name}")
    ]
    changed = "A" if lines[place][-5] != "A" else "B"
    lines[place] = f"{lines[place][:-5]}{changed}{lines[place][-4:]}"
    return "\n".join(lines)


def other_key(document: Any) -> None:
    other = log_key(seed=b"o").verifier.vkey
    document["policy"] = document["policy"].replace(KEY.verifier.vkey, other)


LIES = {
    "a row": ("/v1/tree/operations/", in_json(change_row), "leads to another root"),
    "an envelope": ("/v1/tree/operations/", in_json(change_envelope), "the commitment is not to"),
    "the effects": ("/v1/operations/", in_json(change_effects), "are not those that the row"),
    "the row before": ("/v1/tree/inclusion/", in_json(change_path), "leads to another root"),
    "a signature": ("/checkpoint", change_signature, "does not fit the checkpoint"),
    "a key": ("/v1/checkpoint", in_json(other_key), "is not signed by its log"),
    "a text of the page": (
        "/operations/",
        lambda html: html.replace(">user<", ">agent<"),
        "the page shows \u201cagent\u201d",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_each_lie_is_found_and_said(page, served, name):
    path, change, words = LIES[name]
    verify(page, operation_of(served))
    lie(page, f"{served.url}{path}", change)
    checks = verify(page, operation_of(served))
    assert words in failures(checks)
    expect(page.locator(SAID)).to_contain_text("Something is wrong")


def test_a_check_that_the_server_refuses_is_no_check_that_holds(page, served):
    page.route(
        re.compile("/v1/tree/operations/"), lambda route: route.fulfill(status=503, body="{}")
    )
    checks = verify(page, operation_of(served))
    assert [result for result, _ in checks[3:]] == ["open"] * 5
    expect(page.locator(SAID)).to_contain_text("5 could not be made")


def test_a_browser_without_cryptography_finds_the_same(page, served):
    page.add_init_script("delete Crypto.prototype.subtle")
    checks = verify(page, operation_of(served))
    assert failures(checks) == ""
    assert "witnessed 1 of 1" in checks[2][1]
    lie(page, f"{served.url}/checkpoint", change_signature)
    assert "does not fit" in failures(verify(page, operation_of(served)))


def test_a_page_without_a_script_says_that_nothing_was_checked_and_how_to(browser, served):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(operation_of(served))
    expect(page.locator(SAID)).to_contain_text("Your browser checked nothing")
    expect(page.get_by_role("button", name=BUTTON)).not_to_be_visible()
    page.locator("#verification summary").click()
    expect(page.locator("#verification pre")).to_contain_text("rotulus prove operation")
    context.close()
