"""Sessions through time, operations with what is around them, undoing, bindings, manifests."""

import re
from typing import Any
from urllib.parse import quote

import pytest

from tests.workers.api.door import SESSION, URL, Door, claim, source, understanding
from tests.workers.dashboard.page_elements import elements_of
from workers.views.operation_graph import LAYER_MAX, LAYERS_MAX, operation_graph
from workers.views.session_course import session_course

pytestmark = pytest.mark.anyio

FIRST_LOAD_BYTES_MAX = 100_000
HOSTILE = "<script>alert(1)</script>\u202e\"'><img src=x>"


async def shown(door: Door, path: str, **query: Any) -> str:
    answer = await door.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    for text in ("<script>", "<img", "\u202e"):
        assert text not in answer.text
    return answer.text


async def strike(door: Door, name: str, *hypotheses: str, **justification: Any) -> None:
    body = {"source_id": "s", "observation_id": name, "eliminated": hypotheses}
    answer = await door.post("eliminate", body | {"justification": justification})
    assert answer.status_code == 200, answer.text


@pytest.fixture
async def session(door: Door) -> Door:
    """A session of five hypotheses, of which three fall in two steps."""
    await door.declare(SESSION, "a", "b", "c", HOSTILE, "e")
    await door.operate(source("s-1", f"The motion is DENIED. {HOSTILE}"))
    span = {"source_node_id": "s-1", "offset": 14, "length": 6}
    await strike(door, "o-1", "b", rule="motion_denied", reason="It was denied.", **span)
    await strike(door, "o-2", "a", HOSTILE, rule=HOSTILE, **span | {"offset": 15, "length": 40})
    return door


async def test_each_step_shows_what_is_left_and_on_which_words_others_fell(session: Door) -> None:
    for step, left, gone in (("0", 5, 0), ("1", 4, 1), ("2", 2, 3), ("9" * 30, 2, 3), ("x", 2, 3)):
        page = await shown(session, f"/sessions/{SESSION}", step=step)
        assert f'">{left}</b> of 5 are left' in page
        assert page.count(" data-gone>") == gone
        assert 'data-left="5 4 2"' in page
    assert "motion_denied" in page
    assert "<mark>DENIED</mark>" in page
    answer = await session.http.get(f"/sessions/{SESSION}?hypothesis=2")
    assert answer.headers["location"] == f"../explain?id={SESSION}&hypothesis=b"
    explained = await shown(session, "/explain", id=SESSION, hypothesis="b")
    assert "motion_denied" in explained
    with session.ledger.view() as view:
        course = session_course(view, SESSION, None)
        assert session_course(view, "none", None) is None
    assert course is not None
    assert course.fell_at == {"a": 2, "b": 1, "c": None, HOSTILE: 2, "e": None}
    assert not course.is_cut


async def test_whatever_names_are_in_a_session_its_page_is_small(door: Door) -> None:
    """Names as long as they may be, each sign of which takes five bytes, in every part of it."""
    long = f"{'&' * 400}{HOSTILE}" + "x" * 60
    names = [f"{number:03}{long}" for number in range(120)]
    await door.declare(SESSION, *names, metadata={"case_name": long})
    await door.operate(source("s-1", long * 4))
    span = {"source_node_id": "s-1", "offset": 0, "length": 500}
    for number in range(30):
        fallen = names[4 * number : 4 * number + 4]
        await strike(door, f"{number} {long}", *fallen, rule=long[:200], reason=long, **span)
    queries = ({}, {"step": "1"}, {"from": "110"}, {"before": "20"})
    for query in queries:
        page = await shown(door, f"/sessions/{SESSION}", **query)
        files = [f"/sessions/{each}" for each in elements_of(page).loaded]
        sizes = [len((await door.http.get(each)).content) for each in files]
        assert len(page.encode()) + sum(sizes) < FIRST_LOAD_BYTES_MAX
    page = await shown(door, f"/sessions/{SESSION}")
    seen, further = 0, 0
    while further is not None:
        page = await shown(door, f"/sessions/{SESSION}", **{"from": further})
        seen += page.count("?hypothesis=", 0, page.index("</ul>", page.index('id="fates"')))
        link = re.search(r"from=(\d+)#course", page)
        further = None if link is None else int(link[1])
    assert seen == len(names)


@pytest.mark.spec("002 merkle_finalize")
async def test_thoughts_are_shown_until_they_are_sealed(session: Door) -> None:
    path = f"/v1/thoughts/{SESSION}"

    async def post(step: str, **body: Any) -> None:
        answer = await session.http.post(f"{path}{step}", json=body)
        assert answer.status_code == 200, answer.text

    assert "Thoughts</h2>" not in await shown(session, f"/sessions/{SESSION}")
    await post("/start", task_id="task")
    await post("", thought_id="t-1", thought_type="plan", content=f"first {HOSTILE}")
    page = await shown(session, f"/sessions/{SESSION}")
    assert "not sealed yet" in page
    assert "first &lt;script&gt;" in page
    await post("/verify")
    await post("", thought_id="t-2", thought_type="reflection", content="done")
    await post("/finalize")
    page = await shown(session, f"/sessions/{SESSION}")
    assert "over 2 thoughts" in page
    assert "first &lt;" not in page.partition("Thoughts</h2>")[2].partition("</table>")[0]


async def test_an_operation_is_drawn_with_its_causes_and_consequences(session: Door) -> None:
    made = await session.operate(understanding("u-1", "s-1"), claim("c-1", "s-1", "u-1"))
    first, second = (result["operation_id"] for result in made)
    page = await shown(session, f"/operations/{second}")
    graph = page.partition("<svg")[2].partition("</svg>")[0]
    assert f"/operations/{first}" in graph
    assert 'aria-current="page"' in graph
    tree = page.partition("<h3>Caused by</h3>")[2].partition("</div>")[0]
    assert f"/operations/{first}" in tree
    with session.ledger.view() as view:
        drawn = operation_graph(view, second)
        assert operation_graph(view, "none") is None
    assert drawn is not None
    assert len(drawn.nodes) <= LAYER_MAX * (2 * LAYERS_MAX + 1)
    places = {(node.x, node.y) for node in drawn.nodes}
    assert len(places) == len(drawn.nodes)


async def undo(door: Door, page: str, operation_id: str, **changes: str) -> Any:
    going = re.findall(r'name="going" value="([^"]*)"', page)
    fields = {"going": going[0], "reason": "a mistake", "name": "ada", **changes}
    path = f"/operations/{operation_id}/undo"
    return await door.http.post(path, data=fields, headers={"Origin": URL})


@pytest.mark.spec("K21")
async def test_an_operation_is_undone_with_what_has_to_go_before_it(session: Door) -> None:
    [made] = await session.operate(source("s-2"))
    first = made["operation_id"]
    fields = {"intent_kind": "field_adapt", "node_id": "s-2", "fields": {"note": "n"}}
    [later] = await session.operate({"intent_key": "k", **fields})
    second = later["operation_id"]
    alone = await shown(session, f"/operations/{second}")
    assert "It alone goes" in alone
    page = await shown(session, f"/operations/{first}")
    assert "1 other has to go before it" in page
    untyped = await undo(session, page, first)
    assert (untyped.status_code, "type the operation" in untyped.text) == (422, True)
    assert (await undo(session, page, first, typed=first, reason=" ")).status_code == 422
    assert (await undo(session, alone, second)).status_code == 303
    changed = await undo(session, page, first, typed=first)
    assert (changed.status_code, "changed meanwhile" in changed.text) == (422, True)
    page = await shown(session, f"/operations/{first}")
    answer = await undo(session, page, first)
    assert answer.status_code == 303, answer.text
    page = await shown(session, f"/operations/{first}", done="undo")
    assert "Undone: the inverse is an operation of its own" in page
    assert "It was undone by" in page
    inverse = page.partition("It was undone by")[2].partition("/operations/")[2].partition('"')[0]
    said = await shown(session, f"/operations/{inverse}")
    assert "decided by ada at 127.0.0.1: a mistake" in said


async def test_what_cannot_be_undone_says_why(session: Door) -> None:
    listed = (await session.http.get("/v1/audit/operations?semantic_intent=belief_anchor")).json()
    name = listed["operations"][0]["operation_id"]
    page = await shown(session, f"/operations/{name}")
    assert "what a belief session has struck stays struck" in page
    refused = await session.http.post(
        f"/operations/{name}/undo", data={"reason": "r", "going": ""}, headers={"Origin": URL}
    )
    assert refused.status_code >= 400
    assert (await session.http.post(f"/operations/{name}/undo", data={})).status_code == 403


async def test_pages_of_bindings_say_what_there_is_and_what_to_do(session: Door) -> None:
    assert "No binding is on the record." in await shown(session, "/bindings")
    for path in ("/bindings/none", f"/manifests/{quote(HOSTILE, safe='')}"):
        answer = await session.http.get(path)
        assert answer.status_code == 404
        assert "<script>" not in answer.text
    created = {
        "intent_kind": "source_binding_create",
        "intent_key": "b",
        "binding_id": "b-1",
        "title": HOSTILE,
        "selector_list": {"include": [{"kind": "source_kind", "value": HOSTILE}]},
        "target_kind": "corpus_document_membership",
        "corpus_id": "corpus:x",
    }
    [made] = await session.operate(created)
    assert made["validation_result"] == "accepted", made
    assert "/bindings/b-1" in await shown(session, "/bindings")
    page = await shown(session, "/bindings/b-1")
    assert "documents whose source kind is" in page
    assert "It was not evaluated in the newest manifests." in page
    activity = (await session.http.get("/v1/audit/binding-activity/b-1")).json()
    assert (activity["binding_id"], activity["fired"]) == ("b-1", [])
    unknown = await session.http.get("/v1/audit/binding-activity/none")
    assert unknown.status_code == 404
