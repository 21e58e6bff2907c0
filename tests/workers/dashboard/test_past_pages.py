"""Pages of a row that is past: read-only, and every link of them leads to the same row."""

import re

import pytest

from tests.workers.api.asking import BINDINGS, binding, enqueued
from tests.workers.api.door import SESSION, Door, source, understanding
from workers.dashboard.pages.fixed_links import fixed_at

pytestmark = [pytest.mark.anyio, pytest.mark.spec("workers/0520")]

HOSTILE = '<form><a href="./x">'


async def filled(door: Door) -> tuple[int, str]:
    """Fill the record, and return a row in the middle with its operation."""
    await door.declare(SESSION, HOSTILE, "b", "c")
    [made] = await door.operate(source("s-1", "before"))
    sequence = door.ledger.read(lambda view: view.head().ec_sequence_number)
    await door.post("eliminate", {"source_id": "s", "observation_id": "o", "eliminated": ["b"]})
    await door.operate(source("s-2"), understanding("u-1", "s-1"))
    await enqueued(door, BINDINGS, binding("a"))
    return sequence, made["operation_id"]


async def page(door: Door, path: str, **query: object) -> str:
    answer = await door.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_a_past_page_is_read_only_and_its_links_stay_there(door: Door):
    sequence, operation = await filled(door)
    paths = ("/", "/sessions", f"/sessions/{SESSION}", "/operations", "/nodes/s-1", "/requests")
    for path in (*paths, f"/operations/{operation}", "/record", "/queues", "/workers"):
        text = await page(door, path, at=sequence)
        assert "<form" not in text
        links = re.findall(r'href="([^"]*)"', text)
        inner = [link for link in links if link.startswith(".") and "/static/" not in link]
        assert len(inner) > 5, path
        for link in inner:
            assert f"at={sequence}" in link or link.endswith("/docs"), (path, link)
        assert f"?at={sequence - 1}" in text
        assert f"?at={sequence + 1}" in text
        assert f"As it stood behind row {sequence}" in text


async def test_what_came_later_is_not_on_it(door: Door):
    sequence, _ = await filled(door)
    session = await page(door, f"/sessions/{SESSION}", at=sequence)
    assert "3 of 3" in session
    assert "ELIMINATE" not in session
    assert "2 of 3" in await page(door, f"/sessions/{SESSION}")
    assert "3&nbsp;of&nbsp;3" in await page(door, "/", at=sequence)
    assert "No queue had been asked" in await page(door, "/", at=sequence)
    assert "u-1" not in await page(door, "/operations", at=sequence)
    assert "before" in await page(door, "/nodes/s-1", at=sequence)
    assert "Where it stands" in await page(door, "/nodes/u-1")
    assert (await door.http.get("/nodes/u-1", params={"at": sequence})).status_code == 404
    assert "Nobody wrote this down" in await page(door, "/workers", at=sequence)


@pytest.mark.parametrize(
    ("at", "status", "code"),
    [("999", 409, "state_as_of_ahead"), ("x", 422, "INVALID_REQUEST"), ("", 422, "INVALID")],
)
async def test_a_row_that_there_is_not_is_refused(door: Door, at, status, code):
    answer = await door.http.get("/", params={"at": at})
    assert answer.status_code == status
    assert code in answer.text


async def test_the_questions_take_the_row_too(door: Door):
    sequence, _ = await filled(door)
    node = (await door.http.get("/v1/nodes/s-1", params={"at": sequence})).json()
    assert node["version"] == 1
    sessions = (await door.http.get("/v1/sessions", params={"at": sequence})).json()
    assert [each["n_survivors"] for each in sessions["sessions"]] == [3]
    refused = await door.http.get("/v1/nodes/s-1", params={"at": 10**6})
    assert refused.json()["error"]["code"] == "state_as_of_ahead"


def test_only_links_of_pages_are_fixed():
    html = '<a href="./a?b=1#c"><a href="?at=3"><link href="../static/1/page.css"><form>x</form>'
    fixed = '<a href="./a?b=1&amp;at=7#c"><a href="?at=3"><link href="../static/1/page.css">'
    assert fixed_at(html, 7) == fixed
    assert fixed_at('<a href="./?at=9">', 7) == '<a href="./?at=9">'
