"""Reading the record: operations, nodes, the log in pages, the state of the queue."""

import pytest

from kernel.ledger import schema
from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.merkle_tree import HASH_BYTES
from queues.fleet.worker_heartbeats import WorkerBeat
from tests.kernel.build import FakeHost
from tests.workers.api.door import (
    SESSION,
    Door,
    claim,
    error_of,
    integers,
    log_length,
    rows,
    running_door,
    source,
    transport_to,
    understanding,
)
from workers.client import Rotulus
from workers.questions.fields import PAGE_MAX

pytestmark = pytest.mark.anyio


@pytest.fixture
async def door(door_on_file: Door) -> Door:
    await door_on_file.declare(SESSION, "a", "b")
    return door_on_file


async def test_an_operation_is_shown_with_row_envelope_effects_and_receipts(door: Door):
    await door.operate(source("s-1"), understanding("u-1", "s-1"))
    [result] = await door.operate(claim("c-1", "s-1", "u-1"))
    path = f"/v1/operations/{result['operation_id']}"
    document = (await door.http.get(path)).json()
    assert set(document) == {
        "operation_id",
        "archived_at",
        "row",
        "envelope",
        "effects",
        "receipts",
    }
    assert document["archived_at"] is None
    assert document["row"]["row_hash"] == result["row_hash"]
    assert document["row"]["ec_sequence_number"] == result["ec_sequence_number"]
    assert document["envelope"]["target_refs"] == ["c-1"]
    effects = [effect["effect_id"] for effect in document["effects"]]
    assert effects == [effect["effect_id"] for effect in result["applied_effects"]]
    shown = {receipt["receipt_id"] for receipt in document["receipts"]}
    durable = {
        receipt["receipt_id"]
        for receipt in result["emitted_receipts"]
        if receipt["retention_class"] != "ephemeral"
    }
    assert shown == durable


async def test_a_refused_operation_is_shown_with_its_receipt_alone(door: Door):
    await door.post("envelopes", {"operation_id": "op-refused"})
    document = (await door.http.get("/v1/operations/op-refused")).json()
    assert set(document) == {"operation_id", "receipts"}
    [receipt] = document["receipts"]
    assert receipt["receipt_kind"] == "envelope_validation_failed"
    assert receipt["reason_code"] == "envelope_schema_invalid"


@pytest.mark.parametrize("path", ["/v1/log/", "/v1/queues/", "/v1//log", "/static/v/none.js"])
async def test_a_path_beside_a_route_is_not_found_and_leads_nowhere_else(door: Door, path):
    answer = await door.http.get(path)
    error_of(answer, 404, "not_found")
    assert "location" not in answer.headers


async def test_what_is_on_no_record_is_not_found(door: Door):
    error_of(await door.http.get("/v1/operations/nothing"), 404, "not_found")
    error_of(await door.http.get("/v1/nodes/nothing"), 404, "not_found")


@pytest.mark.spec("§21.4")
async def test_an_understanding_says_since_when_its_authority_is_stale(door: Door):
    await door.operate(source("s-1"))
    [result] = await door.operate(understanding("u-1", "s-1"))
    node = (await door.http.get("/v1/nodes/u-1")).json()
    assert node["authority_stale_since"] == result["committed_at"]
    assert "authority_stale_since" not in (await door.http.get("/v1/nodes/s-1")).json()


@pytest.mark.parametrize("node_id", ["s-1", "docket-entry:a/b#3", "ü 100 % ?"])
async def test_a_node_is_found_by_whatever_its_id_is_made_of(door: Door, node_id):
    await door.operate(source(node_id, visibility_class="sealed"))
    quoted = node_id.replace("%", "%25").replace("#", "%23").replace("?", "%3F")
    node = (await door.http.get(f"/v1/nodes/{quoted}")).json()
    assert node["node_id"] == node_id
    assert node["visibility_class"] == "sealed"


async def test_the_log_comes_in_pages_without_gap_or_overlap(door: Door):
    await door.operate(*(source(f"s-{number}") for number in range(10)))
    seen: list[dict] = []
    while True:
        after = seen[-1]["ec_sequence_number"] if seen else 0
        page = (await door.http.get("/v1/log", params={"after": after, "limit": 4})).json()["rows"]
        seen += page
        if len(page) < 4:
            break
    stored = [row["row_hash"] for row in rows(door.ledger, schema.kernel_event_log)]
    assert [row["row_hash"] for row in seen] == stored
    assert [row["prior_row_hash"] for row in seen[1:]] == stored[:-1]


@pytest.mark.parametrize(
    "query",
    [
        {"after": -1},
        {"after": "x"},
        {"after": 2**63},
        {"after": 10**40},
        {"limit": 0},
        {"limit": PAGE_MAX + 1},
    ],
)
async def test_a_page_beyond_its_bounds_is_refused(door: Door, query):
    error_of(await door.http.get("/v1/log", params=query), 422, "INVALID_REQUEST")


QUEUES = ("authority-recompute", "binding-evaluation", "extraction-transition")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/sessions?words=a&words=b",
        "/v1/log?limit=1&after=0&limit=1",
        "/v1/requests?state=&state=",
    ],
)
async def test_a_parameter_that_is_given_twice_is_refused_by_name(door: Door, path):
    error = error_of(await door.http.get(path), 422, "INVALID_REQUEST")
    [problem] = error["details"]["problems"]
    name = path.partition("?")[2].partition("=")[0]
    assert problem == {"field": f"query.{name}", "problem": "the parameter is given twice"}


async def test_the_queues_say_what_the_record_asks_for_and_what_waits(door: Door):
    empty = (await door.http.get("/v1/queues")).json()
    assert empty["requests"] == {
        "recorded": 0,
        "open": 0,
        "open_by_queue": dict.fromkeys(QUEUES, 0),
        "oldest_open_at": {},
        "outcomes": {"completed": 0, "dead_letter": 0, "cancelled": 0},
    }
    await door.operate(source("s-1"), understanding("u-1", "s-1"), claim("c-1", "s-1", "u-1"))
    document = (await door.http.get("/v1/queues")).json()
    assert (document["requests"]["recorded"], document["requests"]["open"]) == (2, 2)
    assert document["requests"]["open_by_queue"]["authority-recompute"] == 2
    stands = document["queues"]["authority-recompute"]["backlog"]
    assert (stands["open"], stands["ready"], stands["held"]) == (2, 0, 2)
    assert document["requests"]["oldest_open_at"].keys() == {"authority-recompute"}
    assert {
        name: depth["in_flight"] for name, depth in document["queues"].items()
    } == dict.fromkeys(QUEUES, 0)
    assert (document["workers"], document["fleet"]) == ([], [])
    beat = WorkerBeat("w-1", 7, QUEUES, 2, 0, 10, 1, 3, "1.2.3", "a-host", "broken")
    await door.services.work.heartbeats.beat(beat, 60_000)
    document = (await door.http.get("/v1/queues")).json()
    [record] = document["fleet"]
    assert document["workers"] == [record["worker_id"]] == ["w-1"]
    assert (record["queues"], record["host"], record["last_error"]) == (
        list(QUEUES),
        "a-host",
        "broken",
    )


@pytest.mark.spec("K27")
async def test_sequences_leave_the_process_as_text_past_what_javascript_can_count(tmp_path):
    store = SqliteStore(tmp_path / "far.db")
    far = 2**53 + 7
    async with running_door(store, host=FakeHost().host) as door:
        with store.transaction() as tables:
            frontier = bytes(HASH_BYTES) * far.bit_count()
            head = {"ec_sequence_number": far, "receipt_sequence": far, "frontier": frontier}
            tables.update(schema.chain_head, ("main",), head)
        await door.declare(SESSION, "a")
        [result] = await door.operate(source("s-1"))
        assert result["ec_sequence_number"] == str(far + 2)
        response = await door.http.get(f"/v1/operations/{result['operation_id']}")
        assert response.json()["row"]["ec_sequence_number"] == str(far + 2)
        log = (await door.http.get("/v1/log", params={"after": far})).json()["rows"]
        assert [row["ec_sequence_number"] for row in log] == [str(far + 1), str(far + 2)]
        refused = await door.post("envelopes", {"operation_id": "op-refused"})
        assert max(map(abs, integers(refused.json())), default=0) < 2**53
        [receipt] = (await door.http.get("/v1/operations/op-refused")).json()["receipts"]
        # The one before it tells of the session's anchor.
        assert receipt["receipt_sequence"] == str(far + 2)
        queues = (await door.http.get("/v1/queues")).json()
        assert max(integers(queues), default=0) < 2**53
    store.close()


async def test_reading_writes_nothing(door: Door):
    await door.operate(source("s-1"))
    with door.ledger.view() as view:
        before = view.head()
    for path in ("/v1/log", "/v1/nodes/s-1", "/v1/queues", f"/v1/sessions/{SESSION}", "/readyz"):
        assert (await door.http.get(path)).status_code == 200, path
    with door.ledger.view() as view:
        assert view.head() == before
    assert log_length(door.ledger) == 2


async def test_sessions_are_listed_the_last_changed_first(door: Door):
    sessions = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(1, 6)]
    for session_id in sessions:
        await door.declare(session_id, "a", "b")
    body = {"source_id": "s", "observation_id": "o", "eliminated": ["a"]}
    assert (await door.post("eliminate", body)).status_code == 200
    first = (await door.http.get("/v1/sessions", params={"limit": 2})).json()
    assert [row["session_id"] for row in first["sessions"]] == [sessions[0], sessions[4]]
    assert first["sessions"][0]["n_survivors"] == 1
    async with Rotulus("http://127.0.0.1", transport=transport_to(door.app)) as rotulus:
        listed = [row["session_id"] async for row in rotulus.records.sessions()]
        [named] = [row async for row in rotulus.records.sessions(words=sessions[2][-3:])]
    assert listed == [sessions[0], *sessions[:0:-1]]
    assert named["session_id"] == sessions[2]
