"""Bulk operations on pages: counted, begun once, followed, stopped, refused from elsewhere."""

import html
import re
from typing import Any

import pytest

from kernel.work.contents import BINDING_QUEUE
from tests.workers.api.asking import BINDINGS, binding, given_up
from tests.workers.api.door import URL, Door
from tests.workers.dashboard.test_pages import HOSTILE, QUEUE, page_of
from workers.dashboard.pages import bulk
from workers.gateway.loops.bulk_work import BulkWork

pytestmark = pytest.mark.anyio

PATH = "/bulk-operations"
FILTERS = {"tag": "customer=acme", "queue": BINDING_QUEUE}


async def enqueued(door: Door, *keys: str, **tags: str) -> list[str]:
    requests = [{**binding(key), "tags": tags} for key in keys]
    answer = await door.http.post(f"{BINDINGS}/requests", json={"requests": requests})
    assert answer.status_code == 200, answer.text
    return [request["request_id"] for request in answer.json()["requests"]]


async def previewed(door: Door, verb: str, **filters: str) -> str:
    answer = await door.http.get(f"{PATH}/preview", params={"verb": verb, **filters})
    assert answer.status_code == 200, answer.text
    text: str = answer.text
    return text


def hidden(page: str) -> dict[str, str]:
    """Return the hidden fields of the form of a preview."""
    fields = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)
    return {name: html.unescape(value) for name, value in fields}


async def sent(door: Door, path: str = PATH, origin: str | None = URL, **fields: Any) -> Any:
    headers = {} if origin is None else {"Origin": origin}
    return await door.http.post(path, data=fields, headers=headers)


async def operations(door: Door) -> Any:
    return (await door.http.get("/v1/bulk-operations")).json()["bulk_operations"]


async def gone_through(door: Door) -> None:
    await BulkWork(door.ledger, door.services.write, {}).go_on()


@pytest.mark.parametrize("path", ["/requests", QUEUE])
async def test_a_list_leads_to_what_is_done_to_all_that_fit_it(door: Door, path: str):
    filters = {"tag": "customer=acme", "since": "2001-01-31T12:00", "queue": BINDING_QUEUE}
    verbs = {
        None: {"cancel", "requeue", "dismiss", "prioritize"},
        "open": {"cancel", "prioritize"},
        "standing": {"requeue", "dismiss"},
        "dead_letter": {"requeue", "dismiss"},
        "completed": set(),
        "cancelled": set(),
    }
    for state, expected in verbs.items():
        stated = filters if state is None else {**filters, "state": state}
        page = (await door.http.get(path, params=stated)).text
        links = re.findall(r'href="\.[./]*(/bulk-operations/preview\?[^"]*)"', page)
        assert {re.findall("verb=([a-z]+)", link)[0] for link in links} == expected
        for link in links:
            preview = await door.http.get(html.unescape(link))
            assert preview.status_code == 200, preview.text
            for shown in ("customer=acme", "2001-01-31T12:00:00", BINDING_QUEUE):
                assert shown in preview.text
    unread = (await door.http.get(path, params={**filters, "until": "never"})).text
    assert "bulk-operations/preview" not in unread, "it would be about more than was meant"
    assert "verb=prioritize" not in (await door.http.get("/requests")).text


async def test_what_was_counted_is_done_once_and_no_more(door: Door):
    ids = await enqueued(door, "a", "b", "c", customer="acme")
    await enqueued(door, "d", customer="other")
    page = await previewed(door, "cancel", **FILTERS)
    assert "3 fit" in page
    assert all(f"/requests/{request_id.replace(':', '%3A')}" in page for request_id in ids)
    assert ">d<" not in page
    await enqueued(door, "later", customer="acme")
    answer = await sent(door, **hidden(page), reason="an exchange", name="ada")
    [operation] = await operations(door)
    number = operation["bulk_number"]
    place = f"./bulk-operations/{number}?done=begun&follow=yes"
    assert (answer.status_code, answer.headers["location"]) == (303, place)
    assert (operation["counted"], operation["reason"]) == (3, "an exchange")
    assert operation["decided_by"] == "ada at 127.0.0.1"
    running = await door.http.get(f"{PATH}/{number}", params={"done": "begun", "follow": "yes"})
    assert "Begun." in running.text
    assert "Stop it" in running.text
    assert running.headers["refresh"] == "2; url=?follow=yes"
    assert "refresh" not in (await door.http.get(f"{PATH}/{number}")).headers
    await gone_through(door)
    ended = await door.http.get(f"{PATH}/{number}", params={"follow": "yes"})
    assert "refresh" not in ended.headers
    assert "<strong>finished</strong>" in ended.text
    assert "Stop it" not in ended.text
    states = (await door.http.get("/v1/requests", params={"state": "open"})).json()["requests"]
    assert {each["request_key"] for each in states} == {"d", "later"}
    [row] = re.findall(r"<tr><th scope=\"row\">.*", (await door.http.get(PATH)).text)
    assert all(shown in row for shown in ("Cancel requests", "an exchange", "3 of 3", "ada at"))


async def test_dead_letters_are_asked_for_anew_by_their_signature(door: Door):
    ids = await enqueued(door, "a", "b", customer="acme")
    await given_up(door, BINDING_QUEUE, ids[0], "broken")
    thing = (await door.http.get(page_of(ids[0]))).text
    [link] = re.findall(r'/requests\?error_signature=[^"]*', thing)
    same = (await door.http.get(html.unescape(link))).text
    assert (page_of(ids[0]) in same, page_of(ids[1]) in same) == (True, False)
    page = await previewed(door, "requeue", error_signature="broken", state="standing")
    assert "1 fits" in page
    assert (await sent(door, **hidden(page), reason="mended")).status_code == 303
    await gone_through(door)
    status = (await door.http.get(f"{BINDINGS}/requests/{ids[0]}")).json()
    assert status["requeued_as"] is not None
    assert "Nothing is to be done." in await previewed(door, "dismiss", error_signature="broken")


async def test_another_priority_is_chosen_among_those_of_the_queue(door: Door):
    [request_id] = await enqueued(door, "a", customer="acme")
    page = await previewed(door, "prioritize", **FILTERS)
    assert "<option>critical</option>" in page
    refused = await sent(door, **hidden(page), reason="urgent", priority="none")
    assert (refused.status_code, await operations(door)) == (422, [])
    assert (
        await sent(door, **hidden(page), reason="urgent", priority="critical")
    ).status_code == 303
    await gone_through(door)
    status = (await door.http.get(f"{BINDINGS}/requests/{request_id}")).json()
    assert status["priority"] == "critical"


@pytest.mark.parametrize("origin", [None, "null", "http://elsewhere.test", "http://127.0.0.1:1"])
async def test_a_form_from_elsewhere_begins_and_stops_nothing(door: Door, origin: str | None):
    await enqueued(door, "a", customer="acme")
    form = hidden(await previewed(door, "cancel", **FILTERS))
    assert (await sent(door, origin=origin, **form, reason="r")).status_code == 403
    assert await operations(door) == []
    await sent(door, **form, reason="r")
    [operation] = await operations(door)
    path = f"{PATH}/{operation['bulk_number']}/stop"
    assert (await sent(door, path, origin, name="")).status_code == 403
    assert await operations(door) == [operation]


async def test_a_bulk_operation_is_stopped_by_somebody(door: Door):
    await enqueued(door, "a", customer="acme")
    await sent(door, **hidden(await previewed(door, "cancel", **FILTERS)), reason="r")
    [operation] = await operations(door)
    path = f"{PATH}/{operation['bulk_number']}"
    answer = await sent(door, f"{path}/stop", name="bob")
    assert answer.headers["location"] == f"../..{path}?done=stopped"
    [stopped] = await operations(door)
    assert (stopped["state"], stopped["stopped_by"]) == ("stopped", "bob at 127.0.0.1")
    page = (await door.http.get(path, params={"done": "stopped"})).text
    assert "Stopped where it was." in page
    assert "bob at 127.0.0.1" in page
    await gone_through(door)
    assert await operations(door) == [stopped]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"verb": "explode"}, 404),
        ({}, 404),
        ({"verb": "cancel", "since": "never"}, 422),
        ({"verb": "cancel", "state": "odd"}, 422),
        ({"verb": "cancel", "state": "completed"}, 422),
        ({"verb": "requeue", "state": "open"}, 422),
        ({"verb": "cancel", "tagg": "customer=acme"}, 422),
        ({"verb": "cancel", "tag": ["a=b", "c=d"]}, 422),
        ({"verb": "cancel", "tag": " "}, 422),
        ({"verb": "cancel", "words": "w" * 513}, 422),
        ({"verb": "cancel", "words": "\x00"}, 422),
        ({"verb": "cancel", "queue": "none"}, 404),
    ],
)
async def test_a_filter_that_is_not_read_widens_nothing(door: Door, query: Any, status: int):
    answer = await door.http.get(f"{PATH}/preview", params=query)
    assert answer.status_code == status, answer.text
    assert 'method="post"' not in answer.text
    verb = query.pop("verb", "")
    filters = "&".join(
        f"{name}={each}"
        for name, value in query.items()
        for each in [*([value] if isinstance(value, str) else value)]
    )
    form = {"verb": verb, "filters": filters, "upper": "9", "counted": "1", "reason": "r"}
    assert (await sent(door, **form)).status_code == status
    assert await operations(door) == []


async def test_many_are_typed_and_a_form_has_limits(door: Door, monkeypatch: Any):
    monkeypatch.setattr(bulk, "TYPED_ABOVE", 1)
    await enqueued(door, "a", "b", customer="acme")
    page = await previewed(door, "cancel", **FILTERS)
    assert "Type 2" in page
    form = hidden(page)
    for fields in (
        {"reason": "r"},
        {"reason": "r", "typed": "3"},
        {"reason": " ", "typed": "2"},
        {"reason": "r", "typed": "2", "other": "x"},
        {"reason": "r" * 101, "typed": "2"},
        {"reason": "r", "typed": "2", "name": "n" * 20_000},
        {"reason": "r", "typed": "2", "upper": "x"},
        {"reason": "r", "typed": "2", "filters": "tag=%ff"},
    ):
        assert (await sent(door, **{**form, **fields})).status_code in (413, 422), fields
    assert await operations(door) == []
    assert (await sent(door, **form, reason="r", typed="2")).status_code == 303
    for number in ("0", "77", "x", "9" * 5000, HOSTILE):
        assert (await door.http.get(f"{PATH}/{number}")).status_code == 404


async def test_bulk_operations_go_on_on_further_pages_and_hostile_text_stays_text(door: Door):
    await enqueued(door, "a", customer=HOSTILE[:20])
    for number in range(52):
        page = await previewed(door, "dismiss", words=HOSTILE)
        assert "<script>" not in page
        form = {"verb": "dismiss", "filters": "", "upper": "9", "counted": "0"}
        form |= {"filters": "tag=%3Cscript%3E"} if number % 2 else {}
        assert (await sent(door, **form, reason=f"{number} {HOSTILE}")).status_code == 303
        await gone_through(door)
    first = (await door.http.get(PATH)).text.replace("<wbr>", "")
    assert "51 &lt;script&gt;" in first
    assert ">1 &lt;" not in first
    older = html.unescape(first.partition(f"{PATH}?after")[2].partition('"')[0])
    second = (await door.http.get(f"{PATH}?after{older}")).text
    assert ">1 &lt;" in second
    numbers = re.findall(r'/bulk-operations/(\d+)"', first)
    for text in (first, second, (await door.http.get(f"{PATH}/{numbers[0]}")).text):
        assert "<script>" not in text
        assert "<img" not in text
        assert "\u202e" not in text


async def test_a_form_that_is_sent_twice_begins_one_operation(door: Door):
    await enqueued(door, "a", "b", customer="acme")
    form = hidden(await previewed(door, "cancel", **FILTERS)) | {"reason": "r"}
    first, second = [await sent(door, **form) for _ in range(2)]
    assert first.headers["location"] == second.headers["location"]
    assert len(await operations(door)) == 1
    another = hidden(await previewed(door, "cancel", **FILTERS)) | {"reason": "r"}
    assert (await sent(door, **another)).headers["location"] != first.headers["location"]
    other = await sent(door, **form | {"verb": "dismiss"})
    assert (other.status_code, "work_request_conflict" in other.text) == (409, True)


async def test_what_was_chosen_on_a_list_and_nothing_else_is_previewed(door: Door):
    await enqueued(door, "a", "b", "c", customer="acme")
    page = (await door.http.get("/requests")).text
    numbers = re.findall(r'name="number" value="([0-9]+)"', page)
    assert len(numbers) == 3
    chosen = {"verb": "cancel", "choose": "yes", "number": numbers[:2]}
    preview = (await door.http.get(f"{PATH}/preview", params=chosen)).text
    assert ">2 fit<" in preview
    form = hidden(preview) | {"reason": "r"}
    assert (await sent(door, **form)).status_code == 303
    await gone_through(door)
    [operation] = await operations(door)
    assert (operation["done"], operation["counted"]) == (2, 2)
    for bad in ([], ["x"], ["-1"], ["1"] * 257):
        answer = await door.http.get(f"{PATH}/preview", params=chosen | {"number": bad})
        assert answer.status_code == 422
        assert '<form class="act"' not in answer.text
