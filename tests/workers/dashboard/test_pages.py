"""The pages of single things, and their forms: read without JavaScript, refused from elsewhere."""

import csv
import html
import json
import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from kernel.ledger import schema
from kernel.ledger.outbox import DEAD_LETTER, SETTLED
from kernel.ledger.store.tables import TableQuery
from kernel.work.contents import BINDING_QUEUE
from queues.fleet.cron_claims import CronFiring, Crons
from queues.fleet.worker_heartbeats import WorkerBeat
from queues.queue.items import token_of
from queues.queue.outbox_relay import route_of
from queues.queue.work_queue import WorkQueue
from tests.kernel.build import create
from tests.kernel.quarantining import quarantined, row_of
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import SESSION, URL, Door, claim, source, understanding
from tests.workers.dashboard.fake_source import NOON
from workers.dashboard.formatting import ago
from workers.dashboard.pages import ROUTES
from workers.dashboard.pages.fleet import ranges_of
from workers.dashboard.pages.page import PLACES, moment, timed_text
from workers.dashboard.sanitize import breakable_pieces
from workers.environment.system_host import utc_now

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
    assert (answer.status_code, answer.headers["location"]) == (303, f"../..{QUEUE}?done=pause")
    [pause] = (await door.http.get("/v1/queues")).json()["pauses"]
    assert (pause["decided_by"], pause["reason"]) == ("ada at 127.0.0.1", "an exchange")
    shown = (await door.http.get(f"{QUEUE}?done=pause")).text
    assert "by ada at 127.0.0.1: an exchange" in shown
    assert "Resume the queue" in shown
    assert (await submit(door, "resume")).status_code == 303
    assert (await door.http.get("/v1/queues")).json()["pauses"] == []


@pytest.mark.parametrize("origin", [None, "null", "http://elsewhere.test", "http://127.0.0.1:1"])
async def test_a_form_from_elsewhere_changes_nothing(door: Door, origin: str | None):
    assert (await submit(door, "pause", origin)).status_code == 403
    assert (await door.http.get("/v1/queues")).json()["pauses"] == []


async def test_each_page_says_where_it_stands_among_the_places(door: Door):
    places = {"/": "Overview"} | {each.path: each.place for each in ROUTES if each.method == "GET"}
    for path in ("/", "/docs", *(f"/{path}" for path in PLACES.values())):
        page = (await door.http.get(path)).text
        assert re.findall(r'aria-current="page">(\w+)</a>', page) == [
            place for place in (places[path],) if place
        ]
        for place in PLACES.values():
            assert f'href="./{place}"' in page


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        ({"seconds": 0.9}, "now"),
        ({"seconds": 1}, "1 s ago"),
        ({"seconds": 119}, "1 min ago"),
        ({"hours": 23, "minutes": 59}, "23 h ago"),
        ({"days": 89}, "89 d ago"),
        ({"days": 90}, "2026-03-14"),
        ({"seconds": -61}, "in 1 min"),
    ],
)
def test_a_time_is_shown_by_its_age(passed: dict[str, float], shown: str):
    assert ago(NOON, NOON + timedelta(**passed)) == shown
    assert ago(NOON.replace(tzinfo=None), NOON + timedelta(**passed)) == shown


def test_a_time_that_is_none_is_shown_as_it_is():
    assert "now soon" in moment("now soon<b>")
    assert "<b>" not in moment("now soon<b>")


def test_a_time_in_a_sentence_is_shown_by_its_age_too():
    at = (utc_now() - timedelta(minutes=5)).isoformat()
    sentence = str(timed_text(f"<i>jobs</i> was paused at {at} by ada"))
    assert sentence.startswith("&lt;i&gt;jobs&lt;/i&gt; was paused <time datetime=")
    assert sentence.endswith(">5 min ago</time> by ada")
    assert timed_text("at 12 of 2026-03-14") == "at 12 of 2026-03-14"


def test_an_id_may_end_behind_each_eighth_letter_and_a_word_nowhere():
    assert breakable_pieces("W" * 20 + " handler_failed: W") == ["W" * 20 + " handler_failed: W"]
    assert breakable_pieces("W" * 48) == ["W" * 8] * 6
    request_id = "request:pictures:082a96af801c1"
    assert breakable_pieces(request_id) == ["request:", "pictures:082a96af801c1"]


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
    assert answer.headers["location"] == f"../..{page_of(request_id)}?done=cancel"
    status = (await door.http.get(f"{BINDINGS}/requests/{request_id}")).json()
    assert (status["state"], status["reason"]) == ("cancelled", "not wanted")
    assert status["settled_by"] == "ada at 127.0.0.1"


async def test_a_dead_letter_is_asked_anew_or_dismissed(door: Door):
    requests = await enqueued(door, BINDINGS, binding("a"), binding("b"))
    first, second = (request["request_id"] for request in requests)
    for request_id in (first, second):
        await given_up(door, BINDING_QUEUE, request_id, "broken")
    queue = (await door.http.get(QUEUE)).text
    assert f'{page_of(first)}"' in queue
    assert f'{page_of(second)}"' in queue
    assert (await submit(door, "requeue", request_id=first)).status_code == 303
    assert "Asked for anew as" in (await door.http.get(page_of(first))).text
    dismissed = await submit(door, "dismiss", request_id=second, reason="known")
    assert dismissed.status_code == 303
    assert "Dismiss the dead letter" not in (await door.http.get(page_of(second))).text
    assert (await door.http.get(f"{BINDINGS}/dead-letters")).json()["dead_letters"] == []


async def test_a_request_is_given_another_priority_and_its_page_tells_its_way(door: Door):
    [request] = await enqueued(door, BINDINGS, binding(HOSTILE))
    request_id = request["request_id"]
    page = (await door.http.get(page_of(request_id))).text
    assert "<option>critical</option>" in page
    assert "<option>background</option>" not in page
    refused = await submit(door, "prioritize", request_id=request_id, priority=HOSTILE)
    assert (refused.status_code, "<script>" in refused.text) == (422, False)
    fields = {"request_id": request_id, "priority": "critical", "reason": HOSTILE, "name": "ada"}
    answer = await submit(door, "prioritize", **fields)
    assert answer.headers["location"] == f"../..{page_of(request_id)}?done=prioritize"
    await submit(door, "cancel", request_id=request_id, reason=HOSTILE, name="<b>eve")
    page = (await door.http.get(page_of(request_id))).text
    order = ("Asked for at the priority background", "Given the priority critical", "Cancelled: ")
    places = [page.index(words) for words in order]
    assert places == sorted(places)
    assert "ada at 127.0.0.1" in page
    assert "asked for by a producer, under the key" in page
    assert "Give it the priority" not in page
    for harmful in ("<script>alert", "<img src", "<b>eve", "\u202e"):
        assert harmful not in page
    operations = re.findall(r'href="[./]*(/operations/[^"?]+)"', page)
    assert len(operations) >= 2
    for path in operations:
        assert (await door.http.get(path)).status_code == 200


async def test_the_url_of_a_queue_holds_its_filters_and_its_page(door: Door):
    await enqueued(door, BINDINGS, *(binding(f"k{number:02}") for number in range(60)))
    first = (await door.http.get(QUEUE, params={"state": "open"})).text
    assert "k59" in first
    assert "k09" not in first
    assert "state=open&amp;after=" in first
    older = first.partition(QUEUE + "?state")[2].partition("#")[0].replace("&amp;", "&")
    second = (await door.http.get(f"{QUEUE}?state{older}")).text
    assert "k09" in second
    assert "k59" not in second
    none = (await door.http.get(QUEUE, params={"state": "cancelled"})).text
    assert "No request fits" in none
    for after in ("-1", "9" * 5000, "x", "²"):
        assert (await door.http.get(QUEUE, params={"after": after})).status_code == 200


async def test_the_page_of_requests_is_searched_by_age(door: Door):
    await enqueued(door, BINDINGS, binding("aged"))
    [request] = (await door.http.get("/v1/requests")).json()["requests"]
    minute = request["enqueued_at"][:16]
    later = datetime.fromisoformat(minute) + timedelta(minutes=1)
    shown = {"since": minute, "until": later.isoformat(timespec="minutes")}
    page = (await door.http.get("/requests", params=shown)).text
    assert "aged" in page
    assert f'type="datetime-local" value="{minute}:00"' in page
    for none in ({"until": minute}, {"since": shown["until"]}):
        assert "No request fits" in (await door.http.get("/requests", params=none)).text
    for bad in ("x", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00+23:59", "9" * 5000):
        answer = (await door.http.get("/requests", params={"since": bad})).text
        assert "aged" in answer
        assert "Not understood." in answer
    assert "Not understood." not in page
    # The field shows whole seconds; a `+` that a URL does not encode is the sign of a zone.
    hour_on = (datetime.fromisoformat(minute) + timedelta(hours=1)).isoformat()
    for path in ("/requests", QUEUE):
        answer = (await door.http.get(f"{path}?since={hour_on}.5+01:00&until=")).text
        assert f'type="datetime-local" value="{minute}:00"' in answer
        assert "Not understood." not in answer


@pytest.mark.parametrize("path", ["/requests", QUEUE])
async def test_the_link_to_older_requests_keeps_each_filter(door: Door, path: str):
    requests = (binding(f"k{number:02}", source_event_id="e") for number in range(51))
    await enqueued(door, BINDINGS, *requests)
    stated = {"since": "2001-01-31T12:00:00.500000", "item_key": "e", "state": "open"}
    page = (await door.http.get(path, params=stated)).text
    [link] = re.findall(r'href="([^"#]*after=[^"#]*)', page)
    kept = parse_qs(urlsplit(link.replace("&amp;", "&")).query)
    assert {name: kept.get(name) for name in stated} == {
        name: [value] for name, value in stated.items()
    }


async def test_a_session_has_a_page_with_its_trail_in_pages_and_its_operations(door: Door):
    await door.declare(SESSION, *(f"h{number:02}" for number in range(60)))
    for number in range(55):
        body = {"source_id": "s", "observation_id": f"o-{number}", "eliminated": [f"h{number:02}"]}
        assert (await door.post("eliminate", body)).status_code == 200
    await door.operate(source("s-1"))
    listed = (await door.http.get("/sessions", params={"words": SESSION[-5:].upper()})).text
    assert f'/sessions/{SESSION}"' in listed
    assert "No session fits" in (await door.http.get("/sessions", params={"words": "none"})).text
    newest = (await door.http.get(f"/sessions/{SESSION}")).text
    assert "5 of 60" in newest
    assert "o-54" in newest
    assert "o-4 <small>" not in newest
    older = newest.partition("?before=")[2].partition("#")[0]
    assert older == "6"
    oldest = (await door.http.get(f"/sessions/{SESSION}", params={"before": older})).text
    assert "o-4 <small>" in oldest
    assert "DECLARE" in oldest
    assert "o-54" not in oldest
    operation = newest.partition("/operations/")[2].partition('"')[0]
    assert f'/sessions/{SESSION}"' in (await door.http.get(f"/operations/{operation}")).text
    assert (await door.http.get("/sessions/none")).status_code == 404


async def test_an_operation_has_a_page_that_leads_to_what_it_concerns(door: Door):
    await door.declare(SESSION, "a", "b")
    [made, _, again] = await door.operate(
        source("s-1"), understanding("u-1", "s-1"), claim("c-1", "s-1", "u-1")
    )
    page = (await door.http.get(f"/operations/{again['operation_id']}")).text
    for shown in (again["row_hash"], "membership_write", f"/sessions/{SESSION}"):
        assert shown in page
    assert '/requests?item_key=c-1"' in page
    listed = (await door.http.get("/requests", params={"item_key": "u-1"})).text
    link = listed.partition("/queues/authority-recompute/requests/")[2].partition('"')[0]
    recompute = (await door.http.get(f"/queues/authority-recompute/requests/{link}")).text
    assert "Why it waits" in recompute
    assert "Cancel the request" not in recompute
    written = (await door.http.get("/operations", params={"entity": "c-1"})).text
    assert f"/operations/{again['operation_id']}" in written
    assert made["operation_id"] not in written
    assert (await door.http.get("/operations/none")).status_code == 404
    assert "No operation fits" in (await door.http.get("/operations", params={"actor": "x"})).text


@pytest.mark.spec("§17.5")
async def test_pages_mark_an_operation_whose_row_is_quarantined(door: Door):
    await door.declare()
    await door.operate(source("s-1"))
    name = row_of(door.ledger, 2)["operation_id"]
    assert "uarantined" not in (await door.http.get(f"/operations/{name}")).text
    quarantined(door.ledger, 2)
    assert "It is quarantined" in (await door.http.get(f"/operations/{name}")).text
    listed = (await door.http.get("/operations")).text
    assert listed.count("<strong>quarantined</strong>") == 1


async def test_a_refused_operation_has_a_page_with_its_receipts(door: Door):
    await door.declare(SESSION, "a", "b")
    taint: dict[str, Any] = {"source_visibility_taint": ["public_open", "sealed"]}
    taint["resolved_output_visibility_class"] = "public_open"
    document = create("n-1", "SourceArtifact", envelope=taint)
    refused = await door.post("envelopes", document)
    page = (await door.http.get(f"/operations/{document['operation_id']}")).text.replace(
        "<wbr>", ""
    )
    assert "It was refused" in page
    assert refused.json()["error"]["code"] in page


async def test_the_requests_of_all_queues_are_searched_on_a_page(door: Door):
    await enqueued(door, BINDINGS, *(binding(f"k{number:02}") for number in range(55)))
    first = (await door.http.get("/requests", params={"state": "open"})).text
    assert "k54" in first
    assert "k04" not in first
    [older] = re.findall(r'/requests([?]state=open&amp;after=[^"]*)"', first)
    assert "k04" in (await door.http.get(f"/requests{html.unescape(older)}")).text
    named = (await door.http.get("/requests", params={"request_key": "k07"})).text
    assert "k07" in named
    assert "k08" not in named


async def test_dead_letters_go_on_on_further_pages(door: Door):
    requests = await enqueued(door, BINDINGS, *(binding(f"k{number:02}") for number in range(52)))
    ids = [request["request_id"] for request in requests][::-1]
    for request_id in ids:
        await given_up(door, BINDING_QUEUE, request_id, "broken")
    first = (await door.http.get(QUEUE, params={"state": "open"})).text
    assert page_of(ids[0]) in first
    assert page_of(ids[51]) not in first
    following = first.partition("?dead=")[2].partition("#")[0]
    second = (await door.http.get(f"{QUEUE}?state=open&dead={following}")).text
    assert page_of(ids[51]) in second
    assert page_of(ids[0]) not in second


async def test_the_interface_is_read_without_anything_from_elsewhere(door: Door):
    index = await door.http.get("/docs")
    assert "default-src 'none'" in index.headers["content-security-policy"]
    assert "Ask for work" in index.text
    enqueue = "/docs/routes/enqueue_v1_queues__queue__requests_post"
    assert f'{enqueue}"' in index.text
    assert '/docs/schemas/EnqueueBody"' in (await door.http.get(enqueue)).text
    body = (await door.http.get("/docs/schemas/RequestBody")).text
    assert '/docs/schemas/BindingEvaluation"' in body
    for path in ("/docs/routes/none", "/docs/schemas/none"):
        assert (await door.http.get(path)).status_code == 404


async def test_hostile_text_stays_text(door: Door):
    [request] = await enqueued(door, BINDINGS, binding("k", binding_id=HOSTILE))
    await door.declare(SESSION, HOSTILE, "b")
    hostile = quote(HOSTILE, safe="")
    things = [f"/{name}/{hostile}" for name in ("workers", "sessions", "operations")]
    lists = ["/requests", "/sessions", "/operations", f"/sessions/{SESSION}"]
    for path in (QUEUE, page_of(request["request_id"]), *things, *lists):
        params = dict.fromkeys(("words", "done", "entity", "request_id", "after"), HOSTILE)
        text = (await door.http.get(path, params=params)).text
        assert "<script>" not in text
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


async def test_the_runtimes_own_run_is_on_the_pages_of_runs(door: Door):
    await door.declare(SESSION, "a", "b")
    await door.operate(source("s-1"))
    page = await door.http.get("/runs")
    assert "runtime:000000000001-open" in page.text
    run = await door.http.get("/runs/runtime:000000000001-open")
    assert run.status_code == 200
    assert "relationship_resolution" in run.text


async def test_the_number_that_fits_is_that_of_sql_and_files_have_the_same_requests(door: Door):
    requests = await enqueued(door, BINDINGS, *(binding(f"k{number:02}") for number in range(60)))
    ids = [request["request_id"] for request in requests]
    for request_id in ids[:7]:
        await given_up(door, BINDING_QUEUE, request_id, f"broken {HOSTILE}")
    await given_up(door, BINDING_QUEUE, ids[7], "odd")
    await submit(door, "dismiss", request_id=ids[0], reason="known")
    with door.ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.outbox))
    for query, fits in (
        ({}, lambda row: row["request_id"]),
        ({"state": "open"}, lambda row: row["open"]),
        ({"state": "dead_letter"}, lambda row: row["state"] in (DEAD_LETTER, SETTLED)),
        ({"state": "standing"}, lambda row: row["state"] == DEAD_LETTER),
        ({"content_words": "E-K1"}, lambda row: row["item_key"].startswith("e-k1")),
        ({"priority": "critical"}, lambda row: row["priority"] == "critical"),
    ):
        expected = {row["request_id"] for row in rows if fits(row)}
        page = (await door.http.get("/requests", params=query)).text
        assert f"<strong>{len(expected)}</strong>" in page, query
        lines = (await door.http.get("/requests.jsonl", params=query)).text.splitlines()
        assert {json.loads(line)["request_id"] for line in lines} == expected
        table = await door.http.get("/requests.csv", params=query)
        assert "attachment" in table.headers["content-disposition"]
        assert len([*csv.reader(table.text.splitlines())]) == len(expected) + 1
        assert "\u202e" not in table.text
    for bad in ({"state": "odd"}, {"since": "never"}, {"other": "x"}, {"numbers": "1-2"}):
        assert (await door.http.get("/requests.csv", params=bad)).status_code == 422
    failures = (await door.http.get("/failures")).text
    for row in (f'<td class="num">{count}<td' for count in (6, 1)):
        assert row in failures
    assert "<script>" not in failures
    group = re.findall(r'href="([^"]*/requests\?[^"]*odd[^"]*)"', failures)[0]
    assert "<strong>1</strong> fits" in (await door.http.get(html.unescape(group)[1:])).text


async def test_ready_lists_begin_with_the_oldest_and_a_list_has_a_name_in_its_link(door: Door):
    await enqueued(door, BINDINGS, *(binding(f"k{number:02}") for number in range(55)))
    waiting = (await door.http.get("/requests?view=waiting")).text
    assert waiting.index(">k00<") < waiting.index(">k49<")
    assert ">k50<" not in waiting
    following = html.unescape(
        re.findall(r'href="\./requests(\?view=waiting&amp;after[^"]*)"', waiting)[0]
    )
    rest = (await door.http.get(f"/requests{following}")).text
    assert ">k54<" in rest
    assert ">k49<" not in rest
    assert "No worker has anything in hand." in (await door.http.get("/requests?view=in-hand")).text
    queue = door.services.work.queues[BINDING_QUEUE]
    item = route_of(BINDING_QUEUE).item
    with door.ledger.view() as view:
        await queue.enqueue_many([item(request) for request in view.open_requests(limit=3)])
    await queue.claim(2, 60_000)
    in_hand = (await door.http.get("/requests?view=in-hand")).text
    shown = [key for key in ("k00", "k01", "k02") if f">{key}<" in in_hand]
    assert len(shown) == len(await queue.peek(9, state="in_flight")) == 2
    assert in_hand.index(f">{shown[0]}<") < in_hand.index(f">{shown[1]}<")
    titled = (await door.http.get("/requests", params={"title": HOSTILE, "state": "open"})).text
    assert "<script>" not in titled
    for link in re.findall(r'href="\.(/(?:requests|failures|bulk-operations)[^"]*)"', waiting):
        assert (await door.http.get(html.unescape(link))).status_code == 200, link


async def test_workers_say_what_they_have_in_hand_and_who_holds_capacity(door: Door):
    await enqueued(door, BINDINGS, *(binding(f"k{number:02}") for number in range(3)))
    token = token_of("worker-0badcafe", door.ledger.host.now_us() // 1000, 7)
    queue = WorkQueue(door.services.work.redis, BINDING_QUEUE, new_token=lambda: token)
    with door.ledger.view() as view:
        item = route_of(BINDING_QUEUE).item
        await queue.enqueue_many([item(request) for request in view.open_requests(limit=3)])
    await queue.claim(2, 60_000)
    work = door.services.work
    for name in ("worker-0badcafe", "worker-1badcafe"):
        beat = WorkerBeat(name, 1, (BINDING_QUEUE,), 2, 0, 12, 3, 2, HOSTILE, HOSTILE, HOSTILE)
        await work.heartbeats.beat(beat, 60_000)
    work.slots[BINDING_QUEUE] = 1
    await work.leases.acquire(BINDING_QUEUE, 1, "holder:1", 60_000)
    page = (await door.http.get("/workers")).text
    assert "1&nbsp;of&nbsp;1" in page
    assert "<strong>full</strong>" in page
    assert "No worker serves <a" in page
    first = (await door.http.get("/workers/worker-0badcafe")).text
    assert len(re.findall(r">k0[0-2]<", first)) == 2
    assert "It has claimed nothing." in (await door.http.get("/workers/worker-1badcafe")).text
    await Crons(work.redis).note(CronFiring("parcels/nightly", 0, 1, worker_id=HOSTILE))
    schedules = (await door.http.get("/schedules")).text
    assert "<strong>overdue</strong>" in schedules
    fleet = (await door.http.get("/fleet")).text
    for text in (page, first, schedules, fleet):
        assert "<script>" not in text
        assert "<img" not in text
        assert "\u202e" not in text


async def test_the_fleet_has_its_shards_and_the_log_what_operators_did(door: Door):
    await submit(door, "pause", name=HOSTILE[:40], reason=HOSTILE)
    await submit(door, "resume", name="bob")
    log = (await door.http.get("/operator-log")).text
    assert log.index("queue resume</a>") < log.index("queue pause</a>")
    assert "<script>" not in log
    assert "\u202e" not in log
    by_bob = (await door.http.get("/operator-log?who=BOB")).text
    assert "queue resume</a>" in by_bob
    assert "queue pause</a>" not in by_bob
    paused = (await door.http.get("/operator-log?verb=queue_pause")).text
    assert "queue resume</a>" not in paused
    for link in re.findall(r'href="\.(/operations/[^"]+|/queues/[^"]+)"', log):
        assert (await door.http.get(link)).status_code == 200
    assert (await door.http.get("/fleet")).status_code == 200


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([7], "7"), ([3, 1, 2, 0, 7, 9, 8], "0-3, 7-9")]
)
def test_shards_are_shown_as_ranges(numbers: list[int], text: str):
    assert ranges_of(numbers) == text
