"""The pages of single things, and their forms: read without JavaScript, refused from elsewhere."""

from typing import Any
from urllib.parse import quote

import pytest

from kernel.work.contents import BINDING_QUEUE
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import SESSION, URL, Door, source, understanding

pytestmark = pytest.mark.anyio

QUEUE = f"/queues/{BINDING_QUEUE}"
HOSTILE = "<script>alert(1)</script>\u202e\"'><img src=x>"


def page_of(request_id: str) -> str:
    return f"{QUEUE}/requests/{quote(request_id, safe='')}"


async def submit(door: Door, verb: str, origin: str | None = URL, **fields: Any) -> Any:
    headers = {} if origin is None else {"Origin": origin}
    return await door.http.post(f"{QUEUE}/{verb}", data={"name": "", **fields}, headers=headers)


async def test_a_queue_is_paused_and_resumed_by_forms_that_say_who_asked(door: Door):
    answer = await submit(door, "pause", name="ada", reason="an exchange")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{QUEUE}?done=pause")
    [pause] = (await door.http.get("/v1/queues")).json()["pauses"]
    assert (pause["decided_by"], pause["reason"]) == ("ada at 127.0.0.1", "an exchange")
    shown = (await door.http.get(answer.headers["location"])).text
    assert "by ada at 127.0.0.1: an exchange" in shown
    assert "Resume the queue" in shown
    assert (await submit(door, "resume")).status_code == 303
    assert (await door.http.get("/v1/queues")).json()["pauses"] == []


@pytest.mark.parametrize("origin", [None, "null", "http://elsewhere.test", "http://127.0.0.1:1"])
async def test_a_form_from_elsewhere_changes_nothing(door: Door, origin: str | None):
    assert (await submit(door, "pause", origin)).status_code == 403
    assert (await door.http.get("/v1/queues")).json()["pauses"] == []


async def test_what_is_lost_needs_a_reason(door: Door):
    [request] = await enqueued(door, BINDINGS, binding("a"))
    request_id = request["request_id"]
    page = await door.http.get(page_of(request_id))
    assert "Why it waits" in page.text
    assert "This cannot be taken back" in page.text
    refused = await submit(door, "cancel", request_id=request_id, reason=" ")
    assert refused.status_code == 422
    assert "work_request_invalid" in refused.text
    answer = await submit(door, "cancel", request_id=request_id, reason="not wanted", name="ada")
    assert answer.headers["location"] == f"{page_of(request_id)}?done=cancel"
    status = (await door.http.get(f"{BINDINGS}/requests/{request_id}")).json()
    assert (status["state"], status["reason"]) == ("cancelled", "not wanted (ada at 127.0.0.1)")


async def test_a_dead_letter_is_asked_anew_or_dismissed(door: Door):
    requests = await enqueued(door, BINDINGS, binding("a"), binding("b"))
    first, second = (request["request_id"] for request in requests)
    for request_id in (first, second):
        await given_up(door, BINDING_QUEUE, request_id, "broken")
    queue = (await door.http.get(QUEUE)).text
    assert f'href="{page_of(first)}"' in queue
    assert f'href="{page_of(second)}"' in queue
    assert (await submit(door, "requeue", request_id=first)).status_code == 303
    assert "Asked for anew as" in (await door.http.get(page_of(first))).text
    dismissed = await submit(door, "dismiss", request_id=second, reason="known")
    assert dismissed.status_code == 303
    assert "Dismiss the dead letter" not in (await door.http.get(page_of(second))).text
    assert (await door.http.get(f"{BINDINGS}/dead-letters")).json()["dead_letters"] == []


async def test_the_url_of_a_queue_holds_its_filters_and_its_page(door: Door):
    await enqueued(door, BINDINGS, *(binding(f"k{number:02}") for number in range(60)))
    first = (await door.http.get(QUEUE, params={"state": "open"})).text
    assert "k59" in first
    assert "k09" not in first
    assert "state=open&amp;after=" in first
    older = first.partition('href="' + QUEUE + "?state")[2].partition("#")[0].replace("&amp;", "&")
    second = (await door.http.get(f"{QUEUE}?state{older}")).text
    assert "k09" in second
    assert "k59" not in second
    none = (await door.http.get(QUEUE, params={"state": "cancelled"})).text
    assert "No request fits" in none
    for after in ("-1", "9" * 5000, "x", "²"):
        assert (await door.http.get(QUEUE, params={"after": after})).status_code == 200


async def test_hostile_text_stays_text(door: Door):
    [request] = await enqueued(door, BINDINGS, binding("k", binding_id=HOSTILE))
    for path in (QUEUE, page_of(request["request_id"]), f"/workers/{quote(HOSTILE, safe='')}"):
        text = (await door.http.get(path, params={"words": HOSTILE, "done": HOSTILE})).text
        assert "<script" not in text
        assert "<img" not in text
        assert "\u202e" not in text


async def test_a_form_has_limits(door: Door):
    for fields in ({"name": "n" * 2_000_000}, {"name": "n" * 41}, {"other": "x"}):
        assert (await submit(door, "pause", **fields)).status_code in (413, 422)
    assert (await submit(door, "explode")).status_code == 404
    unknown = await submit(door, "cancel", request_id="nobody", reason="r")
    assert unknown.status_code == 404
    assert (await door.http.get("/queues/none")).status_code == 404
    assert (await door.http.get("/workers/none")).status_code == 404
    assert (await door.http.get("/v1/queues")).json()["pauses"] == []


async def test_a_way_is_shown_with_its_words_and_links(door: Door):
    await door.declare(SESSION, "a", "b")
    await door.operate(source("s-1", HOSTILE), understanding("u-1", "s-1"))
    assert "What is asked" in (await door.http.get("/explain")).text
    page = await door.http.get("/explain", params={"id": "u-1"})
    assert page.status_code == 200
    assert '<h2 id="subject">Authority</h2>' in page.text
    assert '<a href="#step-' in page.text
    assert "characters 0 to 3" in page.text
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert(1)" in page.text
    assert "form-action 'self'" in page.headers["Content-Security-Policy"]
    survivor = await door.http.get("/explain", params={"id": SESSION, "hypothesis": "a"})
    assert "survives" in survivor.text


async def test_what_nobody_knows_is_said_on_the_page(door: Door):
    page = await door.http.get("/explain", params={"id": HOSTILE})
    assert page.status_code == 404
    assert "landscape_unknown" in page.text
    assert "<script>alert" not in page.text
