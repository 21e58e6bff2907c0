"""Envelopes through the door: a refusal names check, reason and field, and applies nothing."""

import copy
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.commit.refusal_recorder import RefusalRecorder
from actors.errors import CommitFailed
from kernel.ledger import schema
from kernel.ledger.store.memory import MemoryStore
from kernel.model.envelope import MAX_ENVELOPE_BYTES
from kernel.transaction.checks.schema import ENTRIES_MAX
from kernel.transaction.kernel import Kernel
from kernel.transaction.refusal_runs import EACH_RECEIPTS, RefusalReason, RefusalRuns
from kernel.values.canonical import canonicalize
from kernel.values.idempotency_keys import runtime_key
from kernel.verify import verify
from tests.kernel.build import (
    FakeHost,
    adapt,
    advance_policy,
    belief_anchor,
    changed,
    create,
    effect,
    envelope,
    everything,
    findings,
    link,
)
from tests.kernel.every import binding, snapshot
from tests.workers.api.door import (
    ANY_JSON,
    SESSION,
    Door,
    error_of,
    log_length,
    rows,
    running_door,
    source,
    understanding,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _declared(door: Door) -> None:
    await door.declare(SESSION, "a", "b")


def node(node_id: str = "n-1", **changes: Any) -> dict[str, Any]:
    return create(node_id, "SourceArtifact", envelope=changes)


def state_of(door: Door) -> dict[str, Any]:
    """Every table but those that a refusal may write."""
    free = {"receipts", "chain_head"}
    return {name: stored for name, stored in everything(door.ledger).items() if name not in free}


async def refused(door: Door, document: Any, reason_code: str, check: str, field: str) -> None:
    """The envelope is refused for this reason; one durable receipt says so and nothing else."""
    before, receipts = state_of(door), len(rows(door.ledger, schema.receipts))
    response = await door.post("envelopes", document)
    details = error_of(response, 422, reason_code)["details"]
    assert (details["check"], details["field"]) == (check, field)
    assert details["validation_result"] == "rejected"
    assert state_of(door) == before
    *_, receipt = rows(door.ledger, schema.receipts)
    assert len(rows(door.ledger, schema.receipts)) == receipts + 1
    assert receipt["receipt_id"] == details["receipt_id"]
    body = orjson.loads(receipt["receipt_bytes"])
    assert (body["check"], body["reason_code"]) == (check, reason_code)
    assert body["session_id"] == SESSION


async def test_an_accepted_envelope_is_on_the_record_in_the_name_of_its_session(door: Door):
    document = node()
    response = await door.post("envelopes", document)
    assert response.status_code == 200
    result = response.json()
    assert result["operation_id"] == document["operation_id"]
    [*_, row] = rows(door.ledger, schema.kernel_event_log)
    assert row["session_id"] == SESSION
    assert result["ec_sequence_number"] == str(row["ec_sequence_number"])
    again = await door.post("envelopes", document)
    assert again.json() == result


async def test_an_envelope_cannot_speak_in_the_name_of_another_session(door: Door):
    other = "00000000-0000-4000-8000-00000000000f"
    await door.post("envelopes", node(session_id=other))
    [*_, row] = rows(door.ledger, schema.kernel_event_log)
    assert row["session_id"] == SESSION


@pytest.mark.spec("INV-15.7.8", "§20.1")
@pytest.mark.parametrize("actor", ["specialist", "worker", "User", "us\u0435r", "", "agent"])
async def test_who_is_not_authorized_to_write_is_refused_as_that(door: Door, actor):
    code = "envelope_actor_unauthorized"
    await refused(door, node(actor=actor), code, "V1", "actor")


@pytest.mark.spec("INV-A-TAINT-INFECTIOUS-1")
async def test_a_taint_that_is_resolved_too_low_is_refused_by_v8(door: Door):
    document = node(
        source_visibility_taint=["public_open", "sealed"],
        resolved_output_visibility_class="public_open",
    )
    await refused(
        door,
        document,
        "envelope_taint_resolution_invalid",
        "V8",
        "resolved_output_visibility_class",
    )


@pytest.mark.spec("INV-A-TAINT-INFECTIOUS-1")
async def test_a_source_whose_class_the_taint_leaves_out_is_refused_by_v8(door: Door):
    await door.operate(source("s-1", visibility_class="sealed"))
    document = node(
        source_refs=["s-1"],
        source_visibility_taint=["public_open"],
        resolved_output_visibility_class="public_open",
    )
    await refused(door, document, "envelope_taint_resolution_invalid", "V8", "source_refs.0")


@pytest.mark.spec("INV-A-SCOPE-1")
async def test_an_envelope_without_its_scope_is_refused_by_v4(door: Door):
    document = node()
    del document["affected_subgraph_descriptor"]
    await refused(
        door, document, "envelope_scope_descriptor_missing", "V4", "affected_subgraph_descriptor"
    )


@pytest.mark.spec("K18")
@pytest.mark.parametrize("actor", ["agent", "system", "migration"])
async def test_nobody_outside_may_act_as_anything_but_a_user(door: Door, actor):
    await refused(door, node(actor=actor), "envelope_actor_unauthorized", "V1", "actor")


@pytest.mark.spec("§2.5", "K6")
async def test_nobody_states_a_key_of_the_runtimes(door: Door):
    own = node(idempotency_key=runtime_key("tier_1_inverse", "an operation"))
    await refused(door, own, "envelope_idempotency_key_reserved", "V2", "idempotency_key")


async def test_an_effect_that_does_not_apply_undoes_those_before_it(door: Door):
    await door.post("envelopes", node("n-1"))
    document = create("n-2", "SourceArtifact", node("n-1")["primitive_effects"][0])
    await refused(door, document, "node_already_exists", "apply", "target_ref")
    assert (await door.http.get("/v1/nodes/n-2")).status_code == 404


async def test_an_authority_is_not_a_callers_to_write(door: Door):
    await door.operate(source("s-1"), understanding("u-1", "s-1"))
    stated = adapt("u-1", cu_authority=0.99)
    await refused(door, stated, "computed_field_written", "apply", "payload.cu_authority")


@pytest.mark.spec("B6")
async def test_a_sessions_anchor_is_not_a_callers_to_write(door: Door):
    forged = belief_anchor(SESSION, actor="user")
    await refused(door, forged, "envelope_actor_unauthorized", "V1", "semantic_intent")


async def test_fields_that_nobody_knows_are_kept_as_they_came(door: Door):
    document = node() | {"x-note": {"kept": [1, "two", None]}}
    document["primitive_effects"][0]["x-more"] = "kept too"
    await door.post("envelopes", document)
    path = f"/v1/operations/{document['operation_id']}"
    envelope = (await door.http.get(path)).json()["envelope"]
    assert envelope == document | {"session_id": SESSION}


@pytest.mark.parametrize("body", [None, [], "envelope", 7, True, [{}]])
async def test_what_is_no_object_is_no_envelope(door: Door, body):
    length = log_length(door.ledger)
    error_of(await door.post("envelopes", body), 422, "INVALID_REQUEST")
    assert log_length(door.ledger) == length


async def test_an_envelope_nested_too_deeply_is_refused_with_a_receipt(door: Door):
    deep: Any = "end"
    for _ in range(200):
        deep = [deep]
    await refused(door, node() | {"deep": deep}, "envelope_schema_invalid", "V1", "")


def _paths(value: Any, before: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    paths = []
    for name, inner in items:
        path = f"{before}{name}"
        paths += [path, *(_paths(inner, f"{path}.") if isinstance(inner, dict | list) else [])]
    return paths


def _examples() -> list[dict[str, Any]]:
    """Valid ones; what is mutated is so much the deeper in the kernel."""
    edge = {
        "source_node_id": "s-1",
        "target_node_id": "u-1",
        "edge_type": "informs",
        "edge_metadata": {"essentiality": "core"},
    }
    linking = node("n-9")
    effect = copy.deepcopy(linking["primitive_effects"][0])
    effect |= {"effect_id": "e", "effect_kind": "edge_create", "target_ref": "edge-1"}
    effect |= {"inverse_operation_kind": "edge_remove", "payload": edge}
    linking["primitive_effects"].append(effect)
    linking["affected_subgraph_descriptor"]["affected_edge_refs"] = ["edge-1"]
    return [
        node("n-7"),
        create("u-9", "ConsolidatedUnderstanding"),
        adapt("s-1", note="x"),
        linking,
    ]


@st.composite
def _mutated(draw: st.DrawFn) -> Any:
    document = copy.deepcopy(draw(st.sampled_from(_examples())))
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(_paths(document)))
        try:
            document = changed(document, {path: draw(ANY_JSON)})
        except (KeyError, IndexError, TypeError, ValueError):
            continue
    return document


async def test_any_json_as_an_envelope_is_answered_and_the_record_stays_whole():
    async with running_door(MemoryStore(), host=FakeHost().host) as door:
        await door.declare(SESSION, "a", "b")
        await door.operate(source("s-1"), understanding("u-1", "s-1"))
        documents: list[Any] = []

        # Hypothesis is not asynchronous: it finds the documents, and they are posted afterwards.
        @settings(max_examples=settings().max_examples * 3)
        @given(st.one_of(ANY_JSON, _mutated(), _mutated()))
        def collect(document: Any) -> None:
            documents.append(document)

        collect()
        accepted = 0
        for number, document in enumerate(documents):
            if isinstance(document, dict) and "idempotency_key" in document:
                document["idempotency_key"] = f"key-{number}"
            length, receipts = log_length(door.ledger), len(rows(door.ledger, schema.receipts))
            response = await door.post("envelopes", document)
            if response.status_code == 200:
                accepted += 1
                # Edges that say that it contradicts another are an operation of their own.
                assert log_length(door.ledger) - length in (1, 2), document
                continue
            assert 400 <= response.status_code < 500, (document, response.text)
            code = response.json()["error"]["code"]
            error_of(response, response.status_code, code)
            merged = code == "envelope_conflict_deferred_for_merge"
            assert log_length(door.ledger) == length + merged
            refusals = len(rows(door.ledger, schema.receipts)) - receipts
            assert refusals == (0 if code == "INVALID_REQUEST" else 1), document
        with door.ledger.view() as view:
            verification = verify(view)
        assert verification.ok, verification.findings
        assert accepted
        assert accepted < len(documents)


@pytest.mark.spec("§18.1")
async def test_what_was_put_off_says_when_it_may_be_sent_again(door: Door):
    governance = {
        "daily_write_quota_per_kind": {"create": 0},
        "on_quota_exceeded": "queue_pending",
    }
    advance_policy(door.ledger, kernel_cost_governance=governance)
    response = await door.post("envelopes", node(policy_generation_id="PG-2"))
    details = error_of(response, 429, "quota_exceeded")["details"]
    assert 0 < details["retry_after_s"] <= 24 * 3600
    assert response.headers["retry-after"] == str(details["retry_after_s"])
    [result] = await door.operate(source("s-2"))
    assert result["retry_after_s"] == details["retry_after_s"]


@pytest.mark.spec("§2.2 V1")
@pytest.mark.parametrize("path", sorted(ENTRIES_MAX))
@pytest.mark.parametrize("kind", ["envelopes", "simulations"])
async def test_a_list_that_is_too_long_is_refused_before_it_is_read(
    door: Door, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], kind: str
):
    """The entries are no entries at all, and nobody has looked at them."""
    monkeypatch.setattr("actors.sessions.session_actor.SessionActor.handle", None)
    limit, before = ENTRIES_MAX[path], everything(door.ledger)
    document: Any = [{}] * (limit + 1)
    for name in reversed(path):
        document = {name: document}
    response = await door.post(kind, document if kind == "envelopes" else {"envelope": document})
    error = error_of(response, 422, "envelope_too_large")
    details = {"field": ".".join(path), "limit": limit, "actual": limit + 1}
    assert error["details"] == details
    assert all(str(value) in error["message"] for value in details.values())
    assert everything(door.ledger) == before


@pytest.mark.spec("§2.2 V1")
@pytest.mark.parametrize("kind", ["envelopes", "simulations"])
async def test_an_envelope_that_is_too_large_is_refused_before_it_is_read(door: Door, kind: str):
    document = node(notes=["x" * 1000] * 1060)
    body = document if kind == "envelopes" else {"envelope": document}
    before = everything(door.ledger)
    details = error_of(await door.post(kind, body), 422, "envelope_too_large")["details"]
    assert details["field"] == ""
    assert details["limit"] == MAX_ENVELOPE_BYTES
    assert details["actual"] == len(canonicalize(document))
    body = node(notes="x" * (3 << 20))
    response = await door.post(kind, body if kind == "envelopes" else {"envelope": body})
    error_of(response, 413, "request_too_large")
    assert everything(door.ledger) == before


async def test_a_body_full_of_empty_effects_costs_what_counting_it_costs(door: Door):
    """Eight megabytes of them took most of a minute, and gigabytes."""
    for count in (600_000, 2_700_000):
        content = b'{"primitive_effects":[' + b"{}," * count + b"{}]}"
        began_s = time.process_time()
        baseline = json.dumps("x" * len(content)), json.loads(json.dumps([0] * count))
        baseline_s = time.process_time() - began_s
        del baseline
        headers = {"Content-Type": "application/json"}
        path = f"/v1/sessions/{SESSION}/envelopes"
        began_s = time.process_time()
        response = await door.http.post(path, content=content, headers=headers)
        error_of(response, 413, "request_too_large")
        assert time.process_time() - began_s < 5 * baseline_s
    assert log_length(door.ledger) == 1


@pytest.fixture
def runs() -> RefusalRuns:
    return RefusalRuns()


@pytest.fixture
async def bounded(runs: RefusalRuns, anyio_backend: str) -> AsyncIterator[Door]:
    async with running_door(host=FakeHost().host, kernel=Kernel(refusals=runs)) as door:
        await door.declare(SESSION, "a", "b")
        yield door


@pytest.mark.spec("§17.6")
async def test_beyond_a_rate_a_refusal_is_a_429_and_what_is_good_goes_through(
    bounded: Door, runs: RefusalRuns
):
    first = node("n-0")
    accepted = await bounded.post("envelopes", first)
    answers = [
        await bounded.post("envelopes", node(f"n-{number}", semantic_intent="nothing"))
        for number in range(EACH_RECEIPTS + 5)
    ]
    assert [answer.status_code for answer in answers] == [422] * EACH_RECEIPTS + [429] * 5
    for answer in answers[EACH_RECEIPTS:]:
        details = error_of(answer, 429, "refusals_too_many")["details"]
        assert details["reason_code"] == "envelope_unknown_semantic_verb"
        assert (details["check"], details["receipt_id"]) == ("V3", None)
        assert int(answer.headers["Retry-After"]) > 0
    again = await bounded.post("envelopes", first)
    assert again.json() == accepted.json()
    assert (await bounded.post("envelopes", node("n-good"))).status_code == 200
    assert len(await bounded.operate(source("s-1"))) == 1

    receipts = len(rows(bounded.ledger, schema.receipts))
    recorder = RefusalRecorder(runs, bounded.services.write)
    await recorder.record()
    await recorder.record()
    stored_rows = rows(bounded.ledger, schema.receipts)
    assert len(stored_rows) == receipts + 1
    counted = orjson.loads(stored_rows[-1]["receipt_bytes"])
    assert (counted["refusals"], counted["session_id"]) == (5, SESSION)
    assert findings(bounded.ledger) == ()


@pytest.mark.spec("§17.6")
async def test_intents_that_are_refused_are_counted_alike(bounded: Door):
    await bounded.operate(source("s-1"))
    bad = [source("s-1", "another", intent_key=f"k-{number}") for number in range(EACH_RECEIPTS)]
    results = await bounded.operate(*bad)
    assert {result["validation_result"] for result in results} == {"rejected"}
    assert all(result["receipt_id"] for result in results)
    [mixed, good] = await bounded.operate(source("s-1", "b", intent_key="k-x"), source("s-2"))
    assert (mixed["receipt_id"], good["validation_result"]) == (None, "accepted")
    body = {"intents": [source("s-1", "c", intent_key="k-y")]}
    details = error_of(await bounded.post("operations", body), 429, "refusals_too_many")["details"]
    assert [result["receipt_id"] for result in details["results"]] == [None]


async def test_counts_that_cannot_be_recorded_are_counted_on(runs: RefusalRuns):
    reason = RefusalReason("s", "V1", "c")
    for number in range(EACH_RECEIPTS + 2):
        runs.has_receipt(reason, number, None, "wrong")

    async def fails(_: Any) -> None:
        raise CommitFailed("the ledger is away")

    await RefusalRecorder(runs, fails).record()
    [run] = runs.take()
    assert run.count == 2


def bound(kind: str) -> dict[str, Any]:
    """A binding that selects by a kind; no node of the graph holds its selectors."""
    [edge] = link("e", "b", "corpus")["primitive_effects"]
    first = binding(1, "b")
    selectors = {"include": [{"kind": kind, "value": "v"}]}
    first["payload"]["binding_snapshot"] = snapshot(selector_list=selectors)
    made = [effect("node_write", "b", node_kind="SourceBinding"), edge, first]
    return envelope("source_binding_create", made)


@pytest.mark.spec("INV-K-SELECTOR-1")
async def test_a_binding_is_created_and_one_that_selects_by_a_predicate_is_refused(door: Door):
    assert (await door.post("envelopes", create("corpus", "Corpus"))).status_code == 200
    code = "binding_predicate_not_supported_v16"
    place = "payload.binding_snapshot.selector_list.include.0.kind"
    await refused(door, bound("page_count"), code, "V3", f"primitive_effects.2.{place}")
    assert (await door.post("envelopes", bound("source_id"))).status_code == 200
    [generation] = rows(door.ledger, schema.binding_generation_snapshots)
    assert (generation["binding_id"], generation["generation"]) == ("b", 1)
