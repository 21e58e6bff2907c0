"""What a reader is refused is a page with the code and what to do; a program gets its JSON."""

import re
from urllib.parse import urljoin

import pytest

from actors.error_codes import ERRORS
from kernel.ledger.head_watch import LedgerWentBack
from kernel.values.errors import LedgerUnavailable
from queues.errors import QueueError
from tests.workers.api.door import URL, Door, http_client
from workers.api.middleware.request_guard import RequestGuardMiddleware
from workers.dashboard.error_pages import ErrorPages
from workers.dashboard.headers import PAGE
from workers.dashboard.pages import refusals
from workers.gateway.page_source import LivePages

pytestmark = pytest.mark.anyio

READER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
HOSTILE = "<script>alert(1)</script>"


def is_a_page(answer) -> bool:
    text = answer.text
    return (
        answer.headers["content-type"].startswith("text/html")
        and answer.headers["content-security-policy"] == PAGE["Content-Security-Policy"]
        and text.count('aria-label="Places"') == 1
        and "<h1>" in text
        and "<script>" not in text
    )


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", f"/none/{HOSTILE}", 404, "not_found"),
        ("GET", "/requests/none", 404, "not_found"),
        ("GET", "/static/x/none.js", 404, "not_found"),
        ("POST", "/sessions", 405, "method_not_allowed"),
        ("GET", "/bulk-operations/preview?verb=explode", 404, "not_found"),
        ("GET", "/queues/none", 404, "work_queue_unknown"),
    ],
)
async def test_an_address_that_is_none_is_a_page_for_a_reader(
    door: Door, method, path, status, code
):
    answer = await door.http.request(method, path, headers=READER | {"Origin": URL})
    assert answer.status_code == status
    assert is_a_page(answer)
    assert code in answer.text
    [style] = re.findall(r'href="([^"]*\.css)"', answer.text)
    assert (await door.http.get(urljoin(str(answer.url), style))).status_code == 200


async def test_what_is_not_ready_says_so_in_its_own_form_to_a_reader_too(door: Door):
    door.services.health.problems["signing"] = "no key"
    answer = await door.http.get("/readyz", headers=READER)
    assert (answer.status_code, answer.json()["status"]) == (503, "not ready")


@pytest.mark.parametrize("path", ["/none", "/v1/none", "/queues"])
async def test_a_program_gets_json(door: Door, path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(LivePages, "queues", failing(RuntimeError("gone")))
    for accept in ("*/*", "application/json", "text/event-stream"):
        answer = await door.http.get(path, headers={"Accept": accept})
        assert answer.json()["error"]["code"] in ("not_found", "internal")
    assert (await door.http.get("/v1/none", headers=READER)).json()["error"]["code"] == "not_found"


def failing(error: Exception):
    async def read(*_: object, **__: object) -> None:
        raise error

    return read


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (LedgerUnavailable("postgresql://secret", code="ledger_unavailable"), 503, "ledger_un"),
        (QueueError("queue_unavailable", "away"), 503, "What stands in each is in Redis"),
        (RuntimeError("secret"), 500, "internal"),
    ],
)
async def test_what_cannot_be_read_now_is_a_page_that_says_what_to_do(
    door: Door, monkeypatch: pytest.MonkeyPatch, error, status, code
):
    monkeypatch.setattr(LivePages, "queues", failing(error))
    answer = await door.http.get("/queues", headers=READER)
    assert answer.status_code == status
    assert is_a_page(answer)
    assert code in answer.text
    assert "secret" not in answer.text
    if status == 500:
        assert answer.headers["x-request-id"] in answer.text.replace("<wbr>", "")


async def test_a_ledger_that_went_back_is_said_on_every_page(door: Door):
    host, problem = door.ledger.host, LedgerWentBack("behind")
    guarded = RequestGuardMiddleware(
        door.app,
        hosts=frozenset(),
        host=host,
        went_back=lambda: problem,
        reader_send=ErrorPages().reader_send,
    )
    async with http_client(guarded) as http:
        answer = await http.get("/requests", headers=READER)
        assert answer.status_code == 503
        assert is_a_page(answer)
        assert "ledger_went_back" in answer.text
        [style] = re.findall(r'href="\.(/static/[^"]*\.css)"', answer.text)
        assert (await http.get(style)).status_code == 200


def test_whatever_has_advice_of_its_own_is_a_code():
    assert refusals.ADVICE_OF_CODES.keys() <= ERRORS.keys()
