"""Where workers hand in: only with the token, and each result has its own outcome."""

import hmac
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.commit.work_units import RequestWorkUnit
from actors.errors import MailboxFull
from actors.sessions.runtime import SessionRuntime
from kernel.authority.inputs import StatedInputs
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.ledger import schema
from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.requests import WorkRequest
from tests.bench.bench_authority import edge_row, node_row
from tests.extraction_steps import extraction_step
from tests.kernel import attempts
from tests.kernel.build import FakeHost, findings
from tests.workers.api.door import (
    SESSION,
    TOKEN,
    Door,
    claim,
    error_of,
    log_length,
    rows,
    running_door,
    source,
    understanding,
)
from workers.api import access
from workers.api.routes.worker_reports import RESULTS_MAX
from workers.client.typed.worker_proof import WorkerProof, proof_of

pytestmark = pytest.mark.anyio

BINDING = {"binding_id": "b-1", "source_event_id": "event-1"}

PATHS = [
    ("recomputed", {"results": []}),
    (
        "retry-policy",
        {"queue": "binding-evaluation", "policy": {"attempts": 3}},
    ),
    ("work", {"queue": "binding-evaluation", "reports": []}),
    ("crons/retention-sweep", {}),
    ("crons/log-archival", {}),
    (
        "crons/chain-audit",
        {
            "ec_sequence_number": 0,
            "row_hash": "0" * 64,
            "receipt_sequence": 0,
            "receipt_hash": "0" * 64,
        },
    ),
]


@pytest.fixture(autouse=True)
async def _declared(door: Door) -> None:
    await door.declare(SESSION, "a", "b")
    await door.operate(source("s-1"), understanding("u-1", "s-1"), claim("c-1", "s-1", "u-1"))


def computed(door: Door, node_id: str = "u-1", **changes: Any) -> dict[str, Any]:
    """What a worker that reads the ledger now would hand in."""
    with door.ledger.view() as view:
        node = view.node(node_id)
        value, inputs = (
            authority_of(view, BetaPosteriorMean(), node)
            if node
            else (0.5, StatedInputs(digest="0" * 64))
        )
        sequence = view.head().ec_sequence_number
    intent = {
        "intent_kind": "recalculate_authority",
        "intent_key": f"{node_id}@{sequence}",
        "target_cu_id": node_id,
        "as_of_sequence": sequence,
        "cu_authority": value,
        "inputs": inputs.document(),
        **changes,
    }
    return {"session_id": SESSION, "intent": intent}


@pytest.mark.parametrize(("path", "body"), PATHS)
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "tökén"])
async def test_without_the_token_nothing_is_taken(door: Door, path, body, token):
    requests = rows(door.ledger, schema.outbox)
    headers = {} if token is None else {"Authorization": f"Bearer {token}".encode("latin-1")}
    response = await door.http.post(f"/internal/{path}", json=body, headers=headers)
    error_of(response, 401, "unauthorized")
    assert rows(door.ledger, schema.outbox) == requests


def proven(token: str, path: str, content: bytes) -> httpx.Request:
    request = httpx.Request("POST", f"http://gateway/internal/{path}", content=content)
    return next(WorkerProof(token).auth_flow(request))


@pytest.mark.parametrize(("path", "body"), PATHS)
async def test_who_proves_that_it_knows_the_token_need_not_show_it(door: Door, path, body):
    content = orjson.dumps(body)
    for token, status in ((TOKEN, 200), ("x" + TOKEN, 401)):
        headers = {"authorization": proven(token, path, content).headers["authorization"]}
        headers |= {"content-type": "application/json"}
        answer = await door.http.post(f"/internal/{path}", content=content, headers=headers)
        assert answer.status_code == status


@given(
    token=st.text(min_size=1),
    first=st.tuples(st.sampled_from(("GET", "POST")), st.binary(), st.binary()),
    other=st.tuples(st.sampled_from(("GET", "POST")), st.binary(), st.binary()),
)
def test_a_proof_is_of_one_request_alone(token, first, other):
    same = proof_of(token, *first) == proof_of(token, *other)
    assert same is (first == other)
    assert proof_of(token + "x", *first) != proof_of(token, *first)


@pytest.mark.parametrize(("path", "body"), PATHS)
async def test_a_gateway_without_a_token_takes_nothing_from_anybody(path, body):
    async with running_door(host=FakeHost().host, token=None) as door:
        for token in (None, "", "None"):
            error_of(await door.reporter(path, body, token), 401, "unauthorized")


async def test_the_token_is_compared_in_constant_time(door: Door, monkeypatch):
    compared: list[tuple[bytes, bytes]] = []

    def compare(received: bytes, expected: bytes) -> bool:
        compared.append((received, expected))
        return hmac.compare_digest(received, expected)

    monkeypatch.setattr(access, "hmac", SimpleNamespace(compare_digest=compare))
    await door.reporter("recomputed", {"results": []}, "wrong")
    assert compared == [(b"wrong", TOKEN.encode())]


async def test_a_result_that_is_due_is_recorded_and_closes_its_requests(door: Door):
    response = await door.reporter("recomputed", {"results": [computed(door)]})
    assert response.json() == {"outcomes": [{"outcome": "completed"}]}
    node = (await door.http.get("/v1/nodes/u-1")).json()
    # Beta(1, 1) and one supporting claim of 0.75 with weight 2.
    assert node["payload"]["cu_authority"] == 2.5 / 4
    assert [row["open"] for row in rows(door.ledger, schema.outbox)] == [0, 0]
    outcomes = rows(door.ledger, schema.outbox_outcomes)
    assert [row["outcome"] for row in outcomes] == ["completed", "completed"]
    [*_, row] = rows(door.ledger, schema.kernel_event_log)
    assert (row["semantic_intent"], row["session_id"]) == ("recalculate_authority", SESSION)


async def test_a_result_that_nobody_asks_for_any_more_leaves_no_trace(door: Door):
    late = computed(door)
    await door.reporter("recomputed", {"results": [computed(door)]})
    length = log_length(door.ledger)
    response = await door.reporter("recomputed", {"results": [late]})
    assert response.json() == {"outcomes": [{"outcome": "closed"}]}
    assert log_length(door.ledger) == length


@pytest.mark.spec("K12")
async def test_a_result_whose_input_still_waits_is_told_so(door: Door):
    link = {
        "intent_kind": "link_input",
        "intent_key": "link",
        "source_node_id": "u-1",
        "target_node_id": "u-2",
        "essentiality": "core",
    }
    await door.operate(understanding("u-2", "s-1"), link)
    response = await door.reporter("recomputed", {"results": [computed(door, "u-2")]})
    assert response.json() == {"outcomes": [{"outcome": "input_pending"}]}


WIDE = 9_000


@pytest.mark.slow
@pytest.mark.spec("K33")
async def test_an_authority_of_nine_thousand_inputs_is_handed_in(door: Door):
    """More than once fitted into an envelope, and the report of it is small."""
    with door.ledger.transaction() as transaction:
        for number in range(WIDE):
            name = f"wide-{number:05}"
            transaction.tables.append(schema.nodes, node_row(name, "VersionedClaim", authority=1))
            edge = edge_row(name, "u-1") | {"input_from": "VersionedClaim"}
            transaction.tables.append(schema.edges, edge)
    result = computed(door)
    assert len(orjson.dumps(result)) < 32_000
    assert result["intent"]["inputs"]["count"] == WIDE + 1
    response = await door.reporter("recomputed", {"results": [result]})
    assert response.json() == {"outcomes": [{"outcome": "completed"}]}
    with door.ledger.view() as view:
        assert view.node("u-1")["payload"]["cu_authority"] > 0.999


async def test_each_result_of_a_batch_has_its_own_outcome_in_its_place(door: Door):
    await door.operate(understanding("u-2", "s-1"))
    results = [
        computed(door, "nowhere"),
        computed(door, "u-1", cu_authority=0.123),
        computed(door, "u-2"),
        computed(door, "u-2") | {"session_id": "system"},
    ]
    outcomes = (await door.reporter("recomputed", {"results": results})).json()["outcomes"]
    assert outcomes[0] == {"outcome": "closed"}
    assert outcomes[1] == {"outcome": "rejected", "code": "cu_authority_mismatch"}
    # Two sessions hand in the same: whoever comes first completes it, and only once.
    assert sorted(outcome["outcome"] for outcome in outcomes[2:]) == ["closed", "completed"]
    assert findings(door.ledger) == ()


async def test_a_session_that_is_corrupt_fails_its_own_results_alone(door: Door):
    event = {"event_id": "e", "event_hash": "0" * 64, "event_bytes": b"no event"}
    with door.ledger.store.transaction() as tables:
        tables.insert(schema.belief_events, {"session_id": "broken", "event_index": 0} | event)
    results = [computed(door) | {"session_id": "broken"}, computed(door)]
    outcomes = (await door.reporter("recomputed", {"results": results})).json()["outcomes"]
    assert outcomes == [{"outcome": "failed", "code": "session_corrupt"}, {"outcome": "completed"}]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"results": [{}]},
        {"results": [{"intent": source("s-9")}]},
        {"results": [{"intent": {"target_cu_id": "u-1"}, "extra": 1}]},
    ],
)
async def test_a_body_that_is_no_result_is_refused_whole(door: Door, body):
    length = log_length(door.ledger)
    error_of(await door.reporter("recomputed", body), 422, "INVALID_REQUEST")
    assert log_length(door.ledger) == length


async def test_more_results_than_one_request_may_hold_are_refused(door: Door):
    body = {"results": [computed(door)] * (RESULTS_MAX + 1)}
    error_of(await door.reporter("recomputed", body), 422, "INVALID_REQUEST")


async def test_an_item_that_is_given_up_has_its_outcome_and_a_receipt(door: Door):
    request_ids = [row["request_id"] for row in rows(door.ledger, schema.outbox)]
    first, *joined = request_ids
    last = given_up(first, joined=tuple(joined))
    assert await report(door, AUTHORITY_QUEUE, last) == [{"outcome": "completed"}]
    outcomes = rows(door.ledger, schema.outbox_outcomes)
    assert [row["outcome"] for row in outcomes] == ["dead_letter"] * 2
    kinds = [row["receipt_kind"] for row in rows(door.ledger, schema.receipts)]
    assert kinds.count("authority_recompute_dead_lettered") == 2
    assert await report(door, AUTHORITY_QUEUE, last) == [{"outcome": "closed"}]


async def test_an_attempt_at_what_nobody_asked_for_closes_nothing(door: Door):
    assert await report(door, AUTHORITY_QUEUE, given_up("nobody")) == [{"outcome": "unknown"}]
    assert {row["open"] for row in rows(door.ledger, schema.outbox)} == {1}


def given_up(request_id: str, **fields: Any) -> dict[str, Any]:
    report = attempts.failed(request_id, code="broken", final=True, **fields)
    return report.model_dump(mode="json")


async def test_an_attempt_that_failed_waits_and_says_how_long(door: Door):
    [request] = [row for row in rows(door.ledger, schema.outbox) if row["item_key"] == "u-1"][:1]
    failed = attempts.failed(request["request_id"]).model_dump(mode="json")
    outcomes = await report(door, AUTHORITY_QUEUE, failed)
    assert outcomes == [{"outcome": "waits", "pause_ms": 5_000}]
    body = {"queue": AUTHORITY_QUEUE, "policy": {"attempts": 3}}
    answer = await door.reporter("retry-policy", body)
    assert answer.json() == {"given_up": 0}
    assert findings(door.ledger) == ()


# --- asked-for work -------------------------------------------------------------------------------

STEP = extraction_step("run-1")


async def ask(door: Door, queue: str, key: str, content: dict[str, Any]) -> str:
    [result] = await door.services.write(RequestWorkUnit((WorkRequest(queue, key, content),)))
    return str(result.request_id)


def due(request_id: str) -> dict[str, Any]:
    return {"report_kind": "transition_due", "request_id": request_id}


async def report(door: Door, queue: str, *reports: dict[str, Any]) -> list[dict[str, Any]]:
    response = await door.reporter("work", {"queue": queue, "reports": list(reports)})
    assert response.status_code == 200, response.text
    outcomes: list[dict[str, Any]] = response.json()["outcomes"]
    return outcomes


@pytest.mark.spec("§16.5")
async def test_each_report_has_its_own_outcome_in_its_place(door: Door):
    first = await ask(door, EXTRACTION_QUEUE, "1", STEP)
    wrong = await ask(door, EXTRACTION_QUEUE, "wrong", STEP | {"current_state": "succeeded"})
    last = given_up(wrong)
    third = await ask(door, EXTRACTION_QUEUE, "3", STEP | {"attempt_number": 3})
    outcomes = await report(
        door, EXTRACTION_QUEUE, due(wrong), due(third), due(first), due(first), last, due("no")
    )
    assert [(outcome["outcome"], outcome.get("code")) for outcome in outcomes] == [
        ("rejected", "extraction_state_transition_invalid"),
        ("early", None),
        ("completed", None),
        ("closed", None),
        ("completed", None),
        ("unknown", None),
    ]
    assert findings(door.ledger) == ()


async def test_nobody_reports_of_other_queues(door: Door):
    body = {"queue": "nobody's", "reports": []}
    error_of(await door.reporter("work", body), 404, "work_queue_unknown")


async def test_a_mailbox_that_is_full_pushes_back(monkeypatch):
    async with running_door(host=FakeHost().host, mailbox_max=1) as door:
        request_id = await ask(door, EXTRACTION_QUEUE, "1", STEP)
        body = {"queue": EXTRACTION_QUEUE, "reports": [due(request_id)]}
        answers: list[Any] = []

        async def reporter() -> None:
            answers.append(await door.reporter("work", body))

        async with anyio.create_task_group() as tasks:
            for _ in range(40):
                tasks.start_soon(reporter)
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert {response.headers["Retry-After"] for response in refused} == {"1"}
        outcomes = [
            answer.json()["outcomes"][0]["outcome"] for answer in answers if answer.is_success
        ]
        assert sorted(set(outcomes)) == sorted(
            {"completed", *(outcomes if len(outcomes) > 1 else [])}
        )
        assert outcomes.count("completed") == 1


async def test_what_is_over_is_swept_when_a_worker_says_so(door: Door):
    response = await door.reporter("crons/retention-sweep", {})
    assert response.json() == {"result": {"ephemeral_receipts": 0}}
    error_of(await door.reporter("crons/nothing", {}), 404, "not_found")


@pytest.mark.spec("§17.5", "L3")
async def test_what_an_audit_finds_is_recorded_once_and_health_says_so(door: Door):
    mark = {
        "ec_sequence_number": 0,
        "row_hash": "0" * 64,
        "receipt_sequence": 0,
        "receipt_hash": "0" * 64,
    }
    assert (await door.reporter("crons/chain-audit", mark)).json()["findings"] == 0
    forged = mark | {"ec_sequence_number": 1, "row_hash": "f" * 64}
    assert (await door.reporter("crons/chain-audit", forged)).json()["findings"] == 0
    assert (await door.http.get("/readyz")).status_code == 200
    with door.ledger.store.transaction() as tables:
        tables.update(schema.kernel_event_log, (1,), {"row_hash": "f" * 64})
    first = (await door.reporter("crons/chain-audit", mark)).json()
    assert first["findings"] > 0
    again = (await door.reporter("crons/chain-audit", mark)).json()
    assert (first["receipt_id"] is None, again["receipt_id"]) == (False, None)
    kinds = [row["receipt_kind"] for row in rows(door.ledger, schema.receipts)]
    assert kinds.count("kernel_event_log_integrity_violation") == 1
    ready = (await door.http.get("/readyz")).json()
    assert (ready["status"], [*ready["problems"]]) == ("degraded", ["quarantine"])


async def test_urgent_reports_go_past_a_full_mailbox_and_come_to_the_same(door: Door):
    """Nothing but the record decides what they may do, so no order is lost."""

    async def full(*_: Any) -> Any:
        raise MailboxFull("full")

    [result] = await door.services.write(
        RequestWorkUnit((WorkRequest(BINDING_QUEUE, "k", BINDING),))
    )
    outcome = {
        "outcome_id": f"outcome:{result.request_id}",
        "source_event_id": "event-1",
        "binding_id": "b-1",
        "target_kind": "corpus_document_membership",
        "outcome_state": "abandoned",
        "outcome_reason_code": "binding_unknown",
    }
    report = {
        "report_kind": "binding_evaluated",
        "request_id": result.request_id,
        "outcome": outcome,
        "evaluated_on": {"binding": "unknown"},
    }
    work = {"queue": BINDING_QUEUE, "reports": [report]}
    results = {"results": [computed(door)]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionRuntime, "ask", full)
        assert (await door.reporter("work", work)).status_code == 429
        for path, body in (("work", work), ("recomputed", results)):
            first = await door.reporter(path, body | {"urgent": True})
            again = await door.reporter(path, body | {"urgent": True})
            assert first.json()["outcomes"][0]["outcome"] == "completed", first.text
            assert again.json()["outcomes"][0]["outcome"] == "closed"
    assert findings(door.ledger) == ()


@pytest.mark.parametrize("path", ["work", "recomputed"])
async def test_traceparents_are_as_many_as_the_parts_or_none(door: Door, path: str):
    body = dict(PATHS)[path] | {"traceparents": [["x"]]}
    error_of(await door.reporter(path, body), 422, "INVALID_REQUEST")
