"""The search of every page: what is named is shown at once, what occurs somewhere is listed."""

from urllib.parse import quote

import anyio.to_thread
import pytest

from kernel.landscape.recorder import Recorder
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.landscape.runs import whole_run
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import SESSION, Door, claim, source, understanding
from workers.views.search import ROWS_MAX

pytestmark = pytest.mark.anyio

HOSTILE = "<script>alert(1)</script>\u202e\"'><img src=x>"


async def led_to(door: Door, text: str) -> str:
    answer = await door.http.get("/search", params={"q": text})
    assert answer.status_code == 303, text
    return answer.headers["location"]


async def listed(door: Door, text: str) -> str:
    answer = await door.http.get("/search", params={"q": text})
    assert answer.status_code == 200, text
    return answer.text


async def filled(door: Door) -> dict[str, str]:
    await door.declare(SESSION, "a", "b", metadata={"case_name": "Aldgate v. Thornton"})
    made = await door.operate(source("s-1"), understanding("u-1", "s-1"), claim("c", "s-1", "u-1"))
    rows = await enqueued(
        door, BINDINGS, *({**binding(key), "tags": {"customer": "acme"}} for key in ("k-1", "k-2"))
    )
    await given_up(door, BINDING_QUEUE, rows[1]["request_id"], "ValueError: Not JSON")

    def record_run() -> str:
        recorder = Recorder(door.ledger)
        token_id: str = whole_run(recorder)["token"]["token_id"]
        recorder.complete_run("run-1")
        return token_id

    token = await anyio.to_thread.run_sync(record_run)
    return {
        "operation": made[0]["operation_id"],
        "request": rows[0]["request_id"],
        "token": token,
        "dead": rows[1]["request_id"],
    }


async def test_what_a_text_names_is_shown_at_once(door: Door):
    ids = await filled(door)
    request = f"./queues/{BINDING_QUEUE}/requests/{quote(ids['request'], safe='')}"
    expected = {
        BINDING_QUEUE: f"./queues/{BINDING_QUEUE}",
        ids["request"]: request,
        "k-1": request,
        f"  {ids['request']} ": request,
        ids["operation"]: f"./operations/{ids['operation']}",
        SESSION: f"./sessions/{SESSION}",
        "run-1": "./runs/run-1",
        "u-1": "./explain?id=u-1",
        ids["token"]: f"./explain?id={ids['token']}",
    }
    assert {text: await led_to(door, text) for text in expected} == expected
    [newest] = (await door.http.get("/v1/audit/operations?order=newest&limit=1")).json()[
        "operations"
    ]
    by_number = await led_to(door, newest["ec_sequence_number"])
    assert by_number == f"./operations/{newest['operation_id']}"


async def test_where_a_text_occurs_is_listed(door: Door):
    ids = await filled(door)
    tagged = await listed(door, "customer=acme")
    assert "Requests with this tag" in tagged
    assert all(quote(ids[name], safe="") in tagged for name in ("request", "dead"))
    in_error = await listed(door, "not json")
    assert "Requests with these words in an error" in in_error
    assert quote(ids["dead"], safe="") in in_error
    assert quote(ids["request"], safe="") not in in_error
    sessions = await listed(door, "aldgate")
    assert f'/sessions/{SESSION}"' in sessions
    assert "Runs" not in sessions.partition("<main")[2]
    assert '/runs/run-1"' in await listed(door, "RUN-")
    assert f'/queues/{BINDING_QUEUE}"' in await listed(door, "evaluation")


async def test_what_begins_with_a_text_is_listed_in_the_order_of_its_ids(door: Door):
    ids = await filled(door)

    async def beginning(text: str) -> list[tuple[str, str]]:
        answer = await door.http.get("/v1/search", params={"text": text})
        results = answer.json()["results"]
        return [
            *((each["kind"], each["name"]) for each in results["beginning"]),
            *(("tag", each) for each in results["tags"]),
            *(("item", each) for each in results["item_keys"]),
        ]

    requests = sorted(ids[name] for name in ("request", "dead"))
    assert await beginning(f"request:{BINDING_QUEUE}:") == [("request", each) for each in requests]
    # What has the whole text as its id is named, and does not begin with it and go on.
    assert await beginning(requests[0][:-1]) == [("request", requests[0])]
    assert await beginning(requests[0]) == []
    assert await beginning(SESSION[:12]) == [("session", SESSION)]
    assert await beginning("run") == [("run", "run-1")]
    assert await beginning("customer=") == [("tag", "customer=acme")]
    assert ("record", "u-1") in await beginning("u")
    assert ("operation", ids["operation"]) in await beginning(ids["operation"][:12])
    assert await beginning("\U0010ffff") == []
    page = await listed(door, SESSION[:12])
    assert f'/sessions/{SESSION}"' in page.partition("Ids that begin so")[2]
    assert "tag=customer%3Dacme" in (await listed(door, "customer=a"))


async def test_items_are_listed_by_their_beginnings_and_never_many(door: Door):
    await enqueued(door, BINDINGS, *(binding(f"k-{n:02}") for n in range(30)))
    answer = (await door.http.get("/v1/search", params={"text": "k-"})).json()
    every = [
        each["item_key"]
        for each in (await door.http.get("/v1/requests")).json()["requests"]
        if each["item_key"].startswith("k-")
    ]
    assert answer["results"]["item_keys"] == sorted(every)[:ROWS_MAX]
    begun = (await door.http.get("/v1/search", params={"text": "request:"})).json()
    assert len(begun["results"]["beginning"]) == ROWS_MAX


async def test_a_text_that_occurs_nowhere_says_what_to_do(door: Door):
    assert "Nothing was asked for." in await listed(door, " ")
    for text in (HOSTILE, "x" * 5000, "9" * 30, "\x00", "a\x00b", "nothing/of it", "²"):
        page = await listed(door, text)
        assert "Nothing on the record has this" in page
        assert "<script>alert" not in page
        assert "\u202e" not in page
