"""The belief protocol through the door (seed 001 §3)."""

import anyio
import pytest

from kernel.ledger import schema
from tests.workers.api.door import ONTOLOGY, SESSION, Door, error_of, log_length, rows

pytestmark = pytest.mark.anyio

OTHER = "00000000-0000-4000-8000-000000000002"
PATH = f"/v1/sessions/{SESSION}"
VERBS = {
    "eliminate": {"source_id": "s", "observation_id": "o", "eliminated": ["a"]},
    "obligations": {"obligation_id": "ob-2", "min_total_eliminations": 0},
    "obligations/ob/exit": {},
    "conclusions": {"conclusion_id": "c"},
    "terminate": {},
}


async def entered(door: Door, *hypotheses: str, least: int = 0, **options):
    """A session over some hypotheses with the obligation `ob`."""
    await door.declare(SESSION, *hypotheses, **options)
    body = {"obligation_id": "ob", "min_total_eliminations": least}
    response = await door.post("obligations", body)
    assert response.status_code == 200, response.text
    return response.json()


async def audit(door: Door) -> list:
    events: list = (await door.http.get(f"{PATH}/audit")).json()["events"]
    return events


CONCLUSION = {"conclusion_id": "c"}


@pytest.mark.spec("seed001-HTTP")
async def test_a_session_goes_through_every_verb(door: Door):
    body = await entered(door, "a", "b", least=1)
    assert body["snapshot"]["active_obligation_id"] == "ob"
    refused = (await door.post("obligations/ob/exit", {})).json()
    assert (refused["approved"], refused["reason"]) == (False, "minimum eliminations not met")
    held = (await door.post("conclusions", {"conclusion_id": "c"})).json()
    assert (held["accepted"], held["reason"]) == (False, "active obligation blocks conclusion")
    await door.post("eliminate", VERBS["eliminate"])
    left = (await door.post("obligations/ob/exit", {"context": {"by": "me"}})).json()
    accepted = (await door.post("conclusions", {"conclusion_id": "c"})).json()
    ended = (await door.post("terminate", {})).json()
    assert (left["approved"], accepted["accepted"], ended["approved"]) == (True, True, True)
    assert ended["snapshot"]["terminated"]
    answered = [body, refused, held, left, accepted, ended]
    events = await audit(door)
    assert [event["event_id"] for event in events if event["verb"] not in _QUIET] == [
        answer["audit_event_id"] for answer in answered
    ]
    assert events[5]["payload"]["context"] == {"by": "me"}
    assert ended["snapshot"] == (await door.http.get(PATH)).json()


_QUIET = ("DECLARE_SESSION", "ELIMINATE")


@pytest.mark.parametrize("path", ["obligations/ob/exit", "terminate"])
async def test_a_missing_body_is_an_empty_one_where_every_field_is_optional(door: Door, path):
    await entered(door, "a", "b")
    missing = await door.http.post(f"{PATH}/{path}")
    assert missing.status_code == 200, missing.text
    assert (await audit(door))[-1]["payload"]["context"] == {}


@pytest.mark.parametrize("path", ["eliminate", "obligations", "conclusions"])
async def test_a_missing_body_is_refused_where_a_field_is_needed(door: Door, path):
    await entered(door, "a", "b")
    length = len(await audit(door))
    error_of(await door.http.post(f"{PATH}/{path}"), 422, "INVALID_REQUEST")
    assert len(await audit(door)) == length


@pytest.mark.spec("seed001-errors")
@pytest.mark.parametrize("path", VERBS)
async def test_a_verb_on_a_session_that_nobody_declared_is_not_found(door: Door, path):
    response = await door.send(f"/v1/sessions/{OTHER}/{path}", VERBS[path])
    error_of(response, 404, "SESSION_NOT_FOUND")
    assert log_length(door.ledger) == 0


@pytest.mark.spec("seed001-errors")
@pytest.mark.parametrize("path", VERBS)
async def test_a_verb_after_the_end_is_refused_and_leaves_no_trace(door: Door, path):
    await door.declare(SESSION, "a")
    assert (await door.post("terminate", {})).json()["approved"]
    length = log_length(door.ledger)
    error_of(await door.post(path, VERBS[path]), 409, "SESSION_TERMINATED")
    assert log_length(door.ledger) == length
    assert (await door.http.get(PATH)).json()["terminated"]


@pytest.mark.spec("seed001-errors")
async def test_only_the_open_obligation_can_be_left(door: Door):
    await entered(door, "a", "b")
    error_of(await door.post("obligations/other/exit", {}), 404, "OBLIGATION_NOT_FOUND")
    second = await door.post("obligations", VERBS["obligations"])
    details = error_of(second, 409, "CONFLICT")["details"]
    assert details == {"active_obligation_id": "ob"}
    assert len(await audit(door)) == 2


async def test_an_obligation_may_be_called_what_a_path_is(door: Door):
    await door.declare(SESSION, "a")
    body = {"obligation_id": "case/7 ä?#/exit", "min_total_eliminations": 0}
    await door.post("obligations", body)
    left = await door.post("obligations/case%2F7%20%C3%A4%3F%23%2Fexit/exit", {})
    assert left.json()["approved"]


@pytest.mark.spec("seed001-If-Match")
@pytest.mark.parametrize("path", VERBS)
async def test_a_verb_with_if_match_happens_on_that_head_alone(door: Door, path):
    first = await entered(door, "a", "b")
    await door.post("conclusions", {"conclusion_id": "in between"})
    before = await audit(door)
    if path == "obligations":
        await door.post("obligations/ob/exit", {})
        before = await audit(door)
    stale = await door.post(path, VERBS[path], **{"If-Match": f'"{first["audit_event_id"]}"'})
    details = error_of(stale, 409, "CONFLICT")["details"]
    assert details["head_event_id"] == before[-1]["event_id"]
    assert await audit(door) == before
    head = before[-1]["event_id"]
    passed = await door.post(path, VERBS[path], **{"If-Match": f'"{head}"'})
    assert passed.status_code == 200, passed.text
    assert len(await audit(door)) == len(before) + 1


@pytest.mark.parametrize(("head", "passes"), [("*", True), ("", False), ('""', False)])
async def test_if_match_of_a_star_is_any_head_and_of_nothing_is_none(door: Door, head, passes):
    await door.declare(SESSION, "a", "b")
    response = await door.post("terminate", {}, **{"If-Match": head})
    assert response.status_code == (200 if passes else 409)
    assert len(await audit(door)) == (2 if passes else 1)


@pytest.mark.parametrize("path", VERBS)
async def test_a_session_in_the_body_is_the_one_in_the_path(door: Door, path):
    await entered(door, "a", "b")
    length = len(await audit(door))
    wrong = await door.post(path, {**VERBS[path], "session_id": OTHER})
    error_of(wrong, 422, "INVALID_REQUEST")
    assert len(await audit(door)) == length
    if path == "obligations":
        await door.post("obligations/ob/exit", {})
    right = await door.post(path, {**VERBS[path], "session_id": SESSION})
    assert right.status_code == 200, right.text


async def test_an_obligation_in_the_body_is_the_one_in_the_path(door: Door):
    await entered(door, "a", "b")
    wrong = await door.post("obligations/ob/exit", {"obligation_id": "other"})
    error_of(wrong, 422, "INVALID_REQUEST")
    assert len(await audit(door)) == 2
    assert (await door.post("obligations/ob/exit", {"obligation_id": "ob"})).json()["approved"]


@pytest.mark.parametrize("path", VERBS)
async def test_a_minimal_answer_has_no_list_of_survivors(door: Door, path):
    await door.declare(SESSION, *(f"h{number}" for number in range(500)), "a")
    await door.post("obligations", {"obligation_id": "ob", "min_total_eliminations": 0})
    if path == "obligations":
        await door.post("obligations/ob/exit", {})
    response = await door.post(path, VERBS[path], Prefer="respond-async, return=minimal")
    assert response.headers["Preference-Applied"] == "return=minimal"
    assert "survivors" not in response.json()["snapshot"]
    assert response.json()["snapshot"]["n_survivors"] >= 500
    assert len(response.content) < 1000


@pytest.mark.parametrize(("wanted", "listed"), [(0, None), (2, ["a", "b"]), (9, ["a", "b", "c"])])
async def test_survivors_bounds_the_list_of_an_answer(door: Door, wanted, listed):
    query = f"?survivors={wanted}"
    body = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["c", "a", "b"]}
    declared = (await door.send(f"/v1/sessions{query}", body)).json()["snapshot"]
    concluded = await door.post(f"conclusions{query}", VERBS["conclusions"])
    document = (await door.http.get(PATH + query)).json()
    for snapshot in (declared, concluded.json()["snapshot"], document):
        assert snapshot.get("survivors") == listed
        assert snapshot["n_survivors"] == 3
    error_of(await door.http.get(f"{PATH}?survivors=-1"), 422, "INVALID_REQUEST")
    for wrong in ("-1", "1000001", "x", "", "1.5"):
        response = await door.http.post(f"{PATH}/conclusions?survivors={wrong}", json=CONCLUSION)
        error = error_of(response, 422, "INVALID_REQUEST")
        assert error["details"]["problems"][0]["field"] == "query.survivors"
    response = await door.http.post(f"{PATH}/conclusions?else=1", json=CONCLUSION)
    assert response.status_code == 200


@pytest.mark.parametrize("limit", [1, 2, 4, 1000])
async def test_the_audit_comes_in_pages(door: Door, limit):
    await door.declare(SESSION, "a", "b")
    for number in range(4):
        await door.post("conclusions", {"conclusion_id": f"c-{number}"})
    whole, events, since = await audit(door), [], None
    for _ in whole:
        query = {"limit": limit} | ({"since_event_id": since} if since else {})
        page = (await door.http.get(f"{PATH}/audit", params=query)).json()
        assert len(page["events"]) <= limit
        events += page["events"]
        since = page["next_since_event_id"]
        if since is None:
            break
    assert events == whole
    assert since is None
    for wrong in (0, 1001):
        refused = await door.http.get(f"{PATH}/audit", params={"limit": wrong})
        error_of(refused, 422, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("obligations", {"obligation_id": "", "min_total_eliminations": 0}),
        ("obligations", {"obligation_id": "x" * 513, "min_total_eliminations": 0}),
        ("obligations", {"obligation_id": "x", "min_total_eliminations": -1}),
        ("obligations", {"obligation_id": "x", "min_total_eliminations": 2**53}),
        ("conclusions", {"conclusion_id": "\ud800"}),
        ("conclusions", {"conclusion_id": "c", "context": {"n": 2**60}}),
        ("terminate", {"context": []}),
        ("terminate", {"surprise": 1}),
    ],
)
async def test_what_is_no_verb_is_refused_and_leaves_no_trace(door: Door, path, body):
    await door.declare(SESSION, "a", "b")
    error_of(await door.post(path, body), 422, "INVALID_REQUEST")
    assert len(await audit(door)) == 1


async def test_fifty_clients_strike_a_thousand_times_in_one_order(door: Door):
    names = [f"h{number:04d}" for number in range(1000)]
    await door.declare(SESSION, *names)
    answers = {}

    async def client(number: int) -> None:
        for name in names[number::50]:
            body = {"source_id": f"c-{number}", "observation_id": name, "eliminated": [name]}
            response = await door.post("eliminate", body, Prefer="return=minimal")
            while response.status_code == 429:
                await anyio.sleep(0.01)
                response = await door.post("eliminate", body, Prefer="return=minimal")
            answers[name] = response.json()

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(client, number)
    assert all(answers[name]["applied_eliminated"] == [name] for name in names)
    left = sorted(answer["snapshot"]["n_survivors"] for answer in answers.values())
    assert left == list(range(1000))
    recorded = rows(door.ledger, schema.belief_events)[1:]
    by_order = sorted(answers.values(), key=lambda answer: -answer["snapshot"]["n_survivors"])
    assert [event["event_id"] for event in recorded] == [
        answer["audit_event_id"] for answer in by_order
    ]


@pytest.mark.parametrize(
    "ids", [["a", 1], ["a", None], ["a", ["b"]], ["", "a"], ["x" * 513], "ab", None, {"a": 1}]
)
async def test_what_is_no_list_of_ids_is_refused_with_its_field(door: Door, ids):
    body = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ids}
    answer = await door.send("/v1/sessions", body)
    assert "hypotheses" in str(error_of(answer, 422, "INVALID_REQUEST")["details"])
    await door.declare(SESSION, "a", "b")
    for _ in range(2):
        again = await door.send("/v1/sessions", body)
        assert "hypotheses" in str(error_of(again, 422, "INVALID_REQUEST")["details"])
        struck = {"source_id": "s", "observation_id": "o", "eliminated": ids}
        refused = await door.post("eliminate", struck)
        assert "eliminated" in str(error_of(refused, 422, "INVALID_REQUEST")["details"])
