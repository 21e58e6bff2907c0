"""Auditing over HTTP, on a ledger file: filters, pages, causes, previews, grounds."""

import anyio.to_thread
import pytest

from kernel.model.numbers import SEQUENCE_MAX
from tests.kernel.binding_world import EVENT, ask, bound, furnish, work
from tests.kernel.build import adapt, changed, unmeasured
from tests.workers.api.door import SESSION, Door, claim, error_of, source, understanding
from workers.questions.fields import PAGE_MAX

pytestmark = pytest.mark.anyio


@pytest.fixture
async def door(door_on_file: Door) -> Door:
    await door_on_file.declare(SESSION, "a", "b")
    await door_on_file.operate(source("s-1"), understanding("u/1", "s-1"))
    await door_on_file.operate(claim("c-1", "s-1", "u/1"))
    return door_on_file


async def audited(door: Door, path, **params):
    response = await door.http.get(f"/v1/audit/{path}", params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def numbers(door: Door, **params):
    page = await audited(door, "operations", **params)
    assert page["next_after"] is None
    return [operation["ec_sequence_number"] for operation in page["operations"]]


async def test_operations_are_filtered_by_either_layer(door: Door):
    everything = await numbers(door)
    assert len(everything) >= 4
    assert await numbers(door, entity="c-1") == [everything[-1]]
    assert set(await numbers(door, entity="u/1", declared=True)) >= set(
        await numbers(door, entity="u/1")
    )
    assert await numbers(door, semantic_intent="create", session_id=SESSION)
    assert everything[-1] in await numbers(door, effect_kind="edge_write")
    assert await numbers(door, actor="migration") == []
    assert await numbers(door, reversibility="irreversible_external_effect") == []
    assert await numbers(door, from_sequence=2, to_sequence=3) == ["2", "3"]
    assert await numbers(door, since="2000-01-01T00:00:00Z") == everything
    assert await numbers(door, until="2000-01-01T00:00:00+02:00") == []


async def test_pages_go_on_while_there_is_a_next(door: Door):
    whole, joined, after = await numbers(door), [], "0"
    while after is not None:
        page = await audited(door, "operations", after=after, limit=2)
        joined += [operation["ec_sequence_number"] for operation in page["operations"]]
        after = page["next_after"]
    assert joined == whole
    newest, before = [], "0"
    while before is not None:
        page = await audited(door, "operations", order="newest", after=before, limit=2)
        newest += [operation["ec_sequence_number"] for operation in page["operations"]]
        before = page["next_after"]
    assert newest == whole[::-1]


@pytest.mark.parametrize(
    "params",
    [
        {"limit": PAGE_MAX + 1},
        {"limit": 0},
        {"after": -1},
        {"after": SEQUENCE_MAX + 1},
        {"since": "2000-01-01T00:00:00"},
        {"since": "yesterday"},
        {"since": "9999-12-31T23:59:59-23:59"},
        {"until": "0001-01-01T00:00:00+23:59"},
        {"since": "1700000000"},
        {"until": "0.75"},
        {"entity": ""},
        {"colour": "blue"},
    ],
    ids=str,
)
async def test_a_filter_that_is_none_is_refused(door: Door, params):
    response = await door.http.get("/v1/audit/operations", params=params)
    error_of(response, 422, "INVALID_REQUEST")


async def test_the_ancestors_of_an_operation_end_with_it(door: Door):
    page = await audited(door, "operations", entity="c-1")
    [operation] = page["operations"]
    ancestry = await audited(door, f"ancestors/{operation['operation_id']}")
    assert ancestry["operations"][-1] == operation
    assert ancestry["missing"] == []
    assert ancestry["complete"] is True
    assert len(ancestry["operations"]) > 1


async def test_a_preview_undoes_nothing_and_says_so(door: Door):
    [operation] = (await audited(door, "operations", entity="c-1"))["operations"]
    before = await numbers(door)
    preview = await audited(door, f"rollback-preview/{operation['operation_id']}")
    assert (preview["executable"], preview["refused_by"]) == (True, None)
    assert preview["lowest_tier"] == 1
    assert {effect["store"] for effect in preview["effects"]} >= {"nodes", "edges"}
    assert await numbers(door) == before


async def test_the_grounds_of_an_authority_are_told_before_there_are_any(door: Door):
    grounds = await audited(door, "authority/u/1")
    assert grounds["node_id"] == "u/1"
    assert (grounds["inputs"], grounds["operation"]) == ([], None)


@pytest.mark.parametrize("path", ["ancestors/x", "rollback-preview/x", "authority/c-1"])
async def test_what_is_on_no_record_is_not_found(door: Door, path):
    error_of(await door.http.get(f"/v1/audit/{path}"), 404, "not_found")


async def test_what_waits_for_a_person_is_told_with_its_envelope(door: Door):
    documents = [adapt("u/1", cites_refs=refs) for refs in (["a"], ["a", "b"])]
    responses = [await door.post("envelopes", document) for document in documents]
    assert [response.status_code for response in responses] == [200, 422]
    [item] = (await audited(door, "adjudications"))["items"]
    receipt = item["receipt"]
    assert (item["state"], receipt["conflict_class"]) == ("open", "cardinality_conflict")
    assert receipt["envelope"]["operation_id"] == documents[1]["operation_id"]
    named = {"adjudicates_receipt_ids": [receipt["receipt_id"]]}
    settled = adapt("u/1", cites_refs=["a", "b"], envelope_changes=named)
    assert (await door.post("envelopes", settled)).status_code == 200
    assert (await audited(door, "adjudications"))["items"] == []
    [done] = (await audited(door, "adjudications", state="resolved"))["items"]
    assert done["resolved_by_operation_id"] == settled["operation_id"]
    response = await door.http.get("/v1/audit/adjudications", params={"state": "lost"})
    error_of(response, 422, "INVALID_REQUEST")


async def test_costs_come_page_by_page(door: Door):
    page = await audited(door, "costs", limit=1)
    [entry] = page["entries"]
    rest = await audited(door, "costs", after=page["next_after"])
    assert rest["next_after"] is None
    operations = [operation["operation_id"] for operation in [entry, *rest["entries"]]]
    assert len(operations) == len(await numbers(door))
    assert entry["estimated_cost"] > 0


@pytest.mark.spec("§18.3")
async def test_costs_are_summed_up_by_intent_and_actor_page_by_page(door: Door):
    entries = (await audited(door, "costs"))["entries"]
    whole = await audited(door, "costs/totals")
    assert whole["next_after"] is None
    first = await audited(door, "costs/totals", limit=2)
    rest = await audited(door, "costs/totals", after=first["next_after"])
    for totals in (whole["totals"], first["totals"] + rest["totals"]):
        assert {total["actor"] for total in totals} <= {"user", "system"}
        assert sum(total["operations"] for total in totals) == len(entries)
        assert sum(total["estimated_cost"] for total in totals) == pytest.approx(
            sum(entry["estimated_cost"] for entry in entries)
        )


async def test_a_page_of_sums_is_over_so_many_operations_and_no_more(door: Door):
    for limit, status in ((10_000, 200), (10_001, 422)):
        response = await door.http.get("/v1/audit/costs/totals", params={"limit": limit})
        assert response.status_code == status


async def test_costs_of_a_time_are_asked_for_by_its_bounds(door: Door):
    entries = (await audited(door, "costs"))["entries"]
    middle = entries[2]["recorded_at"]
    before = await audited(door, "costs", until=middle)
    since = await audited(door, "costs", since=middle)
    assert before["entries"] == entries[:2]
    assert since["entries"] == entries[2:]
    assert await audited(door, "costs/totals", until="2000-01-01T00:00:00Z") == {
        "totals": [],
        "next_after": None,
    }
    page = await audited(door, "costs", until=middle, limit=1)
    assert page["next_after"] == "1"
    assert (await audited(door, "costs", until=middle, limit=2))["next_after"] is None


@pytest.mark.spec("§15.1", "§15.6")
async def test_the_manifests_of_an_event_are_shown_in_the_order_of_its_cycles(door: Door):
    def evaluate() -> None:
        bindings = (bound("b", "extraction_task"), bound("c", "corpus_document_membership"))
        furnish(door.ledger, *bindings)
        for binding_id in ("b", "c"):
            for request_id in ask(door.ledger, binding_id):
                work(door.ledger, request_id)

    await anyio.to_thread.run_sync(evaluate)
    page = await audited(door, f"manifests/{EVENT}".replace("#", "%23"), limit=1)
    [first] = page["manifests"]
    assert (first["cycle"], page["next_after"]) == (1, "1")
    assert first["manifest"]["source_event_id"] == EVENT
    page = await audited(door, f"manifests/{EVENT}".replace("#", "%23"), after=1)
    assert [manifest["cycle"] for manifest in page["manifests"]] == [2]
    error_of(await door.http.get("/v1/audit/manifests/nothing"), 404, "binding_manifest_unknown")


@pytest.mark.spec("§18.3", "INV-A-COST-1")
async def test_costs_of_any_size_that_are_on_the_record_are_summed_up(door: Door):
    cost = "affected_subgraph_descriptor.estimated_capacity_cost"
    documents = [changed(adapt("u/1", **{name: name}), {cost: 1e308}) for name in "ab"]
    error = error_of(await door.post("envelopes", documents[0]), 422, "envelope_schema_invalid")
    assert error["details"]["field"] == cost
    with unmeasured():
        for document in documents:
            assert (await door.post("envelopes", document)).status_code == 200
    totals = (await audited(door, "costs/totals"))["totals"]
    [total] = [total for total in totals if "operations_over_limit" in total]
    assert total["operations_over_limit"] == 2
    assert 2e9 <= total["estimated_cost"] < 3e9
    entries = (await audited(door, "costs"))["entries"]
    assert [entry["estimated_cost"] for entry in entries].count(1e308) == 2
