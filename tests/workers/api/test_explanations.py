"""One question for whatever has an id, and its answer: the way back to the words of sources."""

from collections import Counter

import anyio.to_thread
import pytest
from sqlalchemy import Table

from kernel.audit.provenance_steps import provenance_of
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from tests.kernel.binding_world import EVENT, ask, bound, furnish, work
from tests.workers.api.door import SESSION, Door, claim, error_of, rows, source, understanding
from tests.workers.api.test_worker_reports import computed

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L1")]

WORDS = "The motion is DENIED."


@pytest.fixture
async def decided(door: Door) -> Door:
    """A session with a struck hypothesis, and an authority that was computed of a claim."""
    await door.declare(SESSION, "won", "lost", "open")
    await door.operate(source("s-1", WORDS), understanding("u-1", "s-1"))
    await door.operate(claim("c-1", "s-1", "u-1", text="DENIED", span=span(14, 6)))
    recorded = await door.reporter("recomputed", {"results": [computed(door)]})
    assert recorded.json() == {"outcomes": [{"outcome": "completed"}]}
    justification = {"rule": "denied", "reason": "It was denied.", "words": "DENIED"}
    justification |= {"source_node_id": "s-1", "offset": 14, "length": 6}
    body = {"eliminated": ["won"], "observation_id": "o-1", "source_id": "s-1"}
    struck = await door.post("eliminate", body | {"justification": justification})
    assert struck.status_code == 200, struck.text
    return door


def span(offset: int, length: int) -> dict[str, object]:
    return {"source_ref": "s-1", "offset": offset, "length": length}


async def explained(door: Door, record_id: str, **query: str) -> dict:
    answer = await door.http.get("/v1/explain", params={"record_id": record_id, **query})
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert document["lineage"] is None
    return document["provenance"]


def words_of(provenance) -> set:
    return {
        (words["source_ref"], words["offset"], words["length"], words["text"])
        for step in provenance["steps"]
        for words in step["words"]
    }


def kinds_of(provenance) -> set:
    return {step["kind"] for step in provenance["steps"]}


async def test_an_authority_leads_back_to_the_entry_and_its_words(decided: Door):
    provenance = await explained(decided, "u-1")
    subject = provenance["steps"][0]
    assert (subject["kind"], subject["says"]["inputs"]) == ("authority", 1)
    assert subject["says"]["authority"] == pytest.approx(4 / 7, abs=0.2)
    assert {"kind": "record", "record_id": "c-1"} in subject["because"]
    assert kinds_of(provenance) == {"authority", "record", "request", "operation", "source"}
    assert ("s-1", 14, 6, "DENIED") in words_of(provenance)
    assert ("s-1", 0, len(WORDS), WORDS) in words_of(provenance)
    [recompute] = [step for step in provenance["steps"] if step["says"].get("stage") == "recompute"]
    assert {cause["kind"] for cause in recompute["because"]} == {"request"}


async def test_every_step_is_named_by_another_and_no_cause_is_left_out(decided: Door):
    provenance = await explained(decided, "u-1")
    steps = {(step["kind"], step["record_id"]) for step in provenance["steps"]}
    named = {
        (cause["kind"], cause["record_id"])
        for step in provenance["steps"]
        for cause in step["because"]
    }
    assert named == steps - {("authority", "u-1")}
    assert len(steps) == len(provenance["steps"])
    assert provenance["is_cut"] is False


async def test_a_survivor_stands_because_of_what_struck_the_others(decided: Door):
    survivor = await explained(decided, SESSION, hypothesis="lost")
    assert survivor["steps"][0]["says"]["state"] == "survives"
    [elimination] = [step for step in survivor["steps"] if step["kind"] == "elimination"]
    assert (elimination["says"]["struck"], elimination["says"]["rule"]) == (["won"], "denied")
    assert ("s-1", 14, 6, "DENIED") in words_of({"steps": [elimination]})
    assert {"kind": "source", "record_id": "s-1"} in elimination["because"]
    assert await explained(decided, f"{SESSION}/lost") == survivor
    struck = await explained(decided, SESSION, hypothesis="won")
    assert struck["steps"][0]["says"]["state"] == "struck"
    session = await explained(decided, SESSION)
    assert session["steps"][0]["says"]["n_survivors"] == 2
    anchors = {step["says"].get("semantic_intent") for step in session["steps"]}
    assert "belief_anchor" in anchors


async def test_an_observation_leads_back_over_its_firing_and_evaluation(door: Door):
    await door.declare(SESSION, "a", "b")

    def observe() -> str:
        furnish(door.ledger, bound("b", "court_disposition_observation"))
        [request_id] = ask(door.ledger, "b")
        work(door.ledger, request_id)
        return request_id

    request_id = await anyio.to_thread.run_sync(observe)
    [observed] = rows(door.ledger, schema.court_disposition_observations)
    provenance = await explained(door, observed["observation_id"])
    assert provenance["steps"][0]["kind"] == "record"
    assert (EVENT, 6, 8, "granting") in words_of(provenance)
    steps = {(step["kind"], step["record_id"]): step for step in provenance["steps"]}
    assert steps[("request", request_id)]["says"]["state"] == "completed"
    stages = {step["says"].get("stage") for step in steps.values()}
    assert {"firing", "intake", "relationship_resolution"} <= stages
    again = await explained(door, request_id)
    assert again["steps"][0] == steps[("request", request_id)]


async def test_the_kind_of_an_id_is_made_out(decided: Door):
    request, *_ = rows(decided.ledger, schema.outbox)
    log = rows(decided.ledger, schema.kernel_event_log)
    for record_id, kind in (
        ("u-1", "authority"),
        ("s-1", "source"),
        ("c-1", "record"),
        (log[1]["operation_id"], "operation"),
        (request["request_id"], "request"),
        (SESSION, "session"),
        (f"{SESSION}/open", "survivor"),
    ):
        assert (await explained(decided, record_id))["steps"][0]["kind"] == kind


async def test_the_way_as_text_and_as_a_graph(decided: Door):
    query = {"record_id": "u-1"}
    text = (await decided.http.get("/v1/explain", params={**query, "format": "text"})).text
    assert text.startswith("authority u-1: authority 0.")
    assert 'words at s-1 [14:20]: "DENIED"' in text
    graph = (await decided.http.get("/v1/explain", params={**query, "format": "mermaid"})).text
    assert graph.startswith('flowchart LR\n  N0["authority u-1"]')
    assert "N0 --> N1" in graph


async def test_what_nobody_has_recorded_is_unknown(decided: Door):
    for query in (
        {"record_id": "nobody"},
        {"record_id": "/"},
        {"record_id": f"{SESSION}/nobody"},
        {"record_id": SESSION, "hypothesis": "nobody"},
        {"record_id": "u-1", "run_id": "run-1"},
    ):
        error_of(await decided.http.get("/v1/explain", params=query), 404, "landscape_unknown")
    of_no_run = await decided.http.get("/v1/explain", params={"record_id": f"{SESSION}/nobody"})
    assert "has no such hypothesis" in of_no_run.text
    for record_id in ("x" * 513, "a\x00b", ""):
        refused = await decided.http.get("/v1/explain", params={"record_id": record_id})
        error_of(refused, 422, "INVALID_REQUEST")


async def test_a_long_way_is_cut_and_says_so(decided: Door):
    with decided.ledger.view() as view:
        whole = provenance_of(view, "u-1")
        short = provenance_of(view, "u-1", steps_max=3)
    assert whole is not None
    assert short is not None
    assert (len(short.steps), short.is_cut, whole.is_cut) == (3, True, False)
    assert [*short.steps] == [*whole.steps][:3]


async def test_what_several_steps_lead_to_is_read_once(decided: Door, monkeypatch):
    reads: Counter[tuple[str, str]] = Counter()
    record = LedgerView.record

    def counted(view: LedgerView, table: Table, key: str):
        reads[table.name, key] += 1
        return record(view, table, key)

    monkeypatch.setattr(LedgerView, "record", counted)
    with decided.ledger.view() as view:
        assert provenance_of(view, "u-1") is not None
    assert reads["nodes", "s-1"] == 1
    assert reads.most_common(1)[0][1] == 1


@pytest.mark.spec("seed001-succession")
async def test_a_session_that_was_succeeded_is_told_with_the_one_that_stands(decided: Door):
    cause = {"source_node_id": "s-1", "offset": 0, "length": 10, "rule": "vacated"}
    known = {"source_id": "s-1", "observation_id": "o-1"}
    body = {"reason": "It was vacated.", "undone": [known], "cause": cause}
    successor_id = (await decided.post("succeed", body)).json()["successor_id"]
    for session_id in (SESSION, successor_id):
        document = await explained(decided, session_id)
        sessions = {
            step["record_id"]: step["says"]
            for step in document["steps"]
            if step["kind"] == "session"
        }
        assert set(sessions) == {SESSION, successor_id}
        closed, stands = sessions[SESSION], sessions[successor_id]
        assert (closed["n_survivors"], closed["stands_in"]) == (2, successor_id)
        assert (stands["n_survivors"], stands.get("stands_in")) == (3, None)
        assert ("s-1", 0, 10, WORDS[:10]) in words_of(document)
        [closing] = [step for step in document["steps"] if step["says"].get("successor_id")]
        assert closing["says"]["reason"] == "It was vacated."
    survivor = await explained(decided, SESSION, hypothesis="won")
    states = {
        step["record_id"]: step["says"]["state"]
        for step in survivor["steps"]
        if step["kind"] == "survivor"
    }
    assert states == {f"{SESSION}/won": "struck", f"{successor_id}/won": "survives"}
