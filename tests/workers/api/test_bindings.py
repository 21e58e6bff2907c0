"""Bindings and phases through the door: intents that are judged, pairs that follow, a view."""

import pytest

from kernel.ledger import schema
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.bindings.routed import CONVERSION, NORMALIZATION, selector
from tests.kernel.build import findings, receipts_of_kind
from tests.workers.api.asking import BINDINGS, given_up
from tests.workers.api.door import SESSION, Door, rows
from workers.cli.binding import counts_text
from workers.client.errors import GatewayError
from workers.client.source_bindings import SourceBindings

pytestmark = [pytest.mark.anyio, pytest.mark.spec("004 §13.1")]

MEANING = {
    "selector_list": {"include": [selector("source_kind", "docket")]},
    "target_kind": "court_disposition_observation",
    "corpus_id": "corpus",
}


def brought(artifact_ref: str, **fields: str) -> dict:
    return {
        "intent_kind": "create_source",
        "intent_key": f"bring:{artifact_ref}",
        "node_id": artifact_ref,
        "corpus_id": "corpus",
        "content_kind": "docket_entry",
        "text": "ORDER granting 5 MOTION",
        **fields,
    }


def completed(artifact_ref: str, phase: str, key: str = "1", **fields: str) -> dict:
    return {
        "intent_kind": "complete_phase",
        "intent_key": f"complete:{artifact_ref}:{phase}:{key}",
        "artifact_ref": artifact_ref,
        "phase": phase,
        "fields": fields,
    }


async def test_a_binding_is_created_changed_disabled_and_enabled(door: Door):
    async with door.client() as gateway:
        bindings = SourceBindings(gateway)
        await bindings.create("b1", MEANING | {"priority": 7, "title": "Orders"})
        shown = await bindings.show("b1")
        assert (shown["state"], shown["binding_generation_id"]) == ("active", "1")
        assert shown["binding_snapshot"] == MEANING | {"priority": 7}
        await bindings.update("b1", {"priority": 9})
        assert (await bindings.show("b1"))["binding_snapshot"] == MEANING | {"priority": 9}
        await bindings.update("b1", {"title": "Rulings"})
        shown = await bindings.show("b1")
        assert (shown["title"], shown["binding_generation_id"]) == ("Rulings", "2")
        await bindings.disable("b1")
        shown = await bindings.show("b1")
        assert (shown["state"], shown["binding_generation_id"]) == ("disabled", "2")
        await bindings.enable("b1")
        shown = await bindings.show("b1")
        assert (shown["state"], shown["binding_generation_id"]) == ("active", "3")
        assert shown["binding_snapshot"] == MEANING | {"priority": 9}
    assert findings(door.ledger) == ()


@pytest.mark.spec("004 §15.3")
async def test_an_earlier_generation_is_shown_with_what_supersedes_it(door: Door):
    async with door.client() as gateway:
        bindings = SourceBindings(gateway)
        await bindings.create("b1", MEANING | {"priority": 7})
        await bindings.update("b1", {"priority": 9})
        first = await bindings.show("b1", "1")
        assert first["binding_snapshot"]["priority"] == 7
        stands = ("generation_state", "superseded_by", "is_in_force")
        assert [first[name] for name in stands] == ["superseded", "2", False]
        for shown in (await bindings.show("b1"), (await bindings.page())["bindings"][0]):
            assert shown["binding_generation_id"] == "2"
            assert [shown[name] for name in stands] == ["effective", None, True]
        for missing, code in (("3", "not_found"), ("1|2", "INVALID_REQUEST")):
            with pytest.raises(GatewayError) as refused:
                await bindings.show("b1", missing)
            assert refused.value.code == code


async def operate(door: Door, *intents: dict) -> list:
    await door.declare(SESSION, "a", "b")
    return await door.operate(*intents)


@pytest.mark.spec("004 §13.3")
async def test_a_completed_phase_asks_for_what_waited_for_it(door: Door):
    async with door.client() as gateway:
        bindings = SourceBindings(gateway)
        papers = {"include": [selector("source_kind", "docket"), selector("content_type", "x")]}
        await bindings.create("b1", MEANING | {"selector_list": papers})
        await bindings.create("b2", MEANING)
        results = await operate(door, brought("a1", source_kind="docket", source_path="a/b"))
        assert [result["validation_result"] for result in results] == ["accepted"]
        page = await bindings.page(limit=1)
        assert page["bindings"][0]["pairs"]["pending_intake"] == 1
        assert (await bindings.page(page["next_after"]))["bindings"][0]["pairs"][
            "ready_to_evaluate"
        ] == 1
        [result] = await operate(door, completed("a1", CONVERSION, content_type="x"))
        assert result["validation_result"] == "accepted"
        assert (await bindings.show("b1"))["pairs"]["ready_to_evaluate"] == 1
    queues = [row["queue"] for row in rows(door.ledger, schema.outbox)]
    assert queues == [BINDING_QUEUE, BINDING_QUEUE]
    assert findings(door.ledger) == ()


@pytest.mark.spec("004 §13.2")
async def test_a_pair_whose_request_was_given_up_is_not_counted_as_one_that_waits(door: Door):
    async with door.client() as gateway:
        bindings = SourceBindings(gateway)
        await bindings.create("b1", MEANING)
        await operate(door, *(brought(name, source_kind="docket") for name in ("a1", "a2")))
        first, _ = (row["request_id"] for row in rows(door.ledger, schema.outbox))
        shown = await bindings.show("b1")
        assert (shown["pairs"]["ready_to_evaluate"], shown["pairs_abandoned"]) == (2, 0)
        await given_up(door, BINDING_QUEUE, first, "model: away")
        [listed] = (await bindings.page())["bindings"]
        assert (listed["pairs"]["ready_to_evaluate"], listed["pairs_abandoned"]) == (2, 1)
        assert counts_text(listed) == "ready_to_evaluate 1, given_up 1"
        await door.send(f"{BINDINGS}/requeue", {"request_ids": [first]})
        assert (await bindings.show("b1"))["pairs_abandoned"] == 0


@pytest.mark.spec("004 §13.8")
@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        (
            {"selector_list": {"include": [selector("page_count", "9")]}},
            "binding_predicate_not_supported_v16",
            "selector_list.include.0.kind",
        ),
        (
            {"selector_list": {"include": [selector("size_band", "s")]}},
            "binding_size_band_deferred_v17",
            "selector_list.include.0.kind",
        ),
        ({"selector_list": {"include": []}}, "binding_selector_list_empty", "include"),
        (
            {"selector_list": {"include": [selector("source_path", "a[b")]}},
            "binding_glob_invalid",
            "selector_list.include.0.value",
        ),
        ({"target_kind": "novel"}, "binding_invalid", "target_kind"),
        (
            {"resource_policy": {"capacity_priority": "critical"}},
            "binding_critical_approval_missing",
            "critical_approval",
        ),
    ],
)
async def test_what_is_no_binding_is_refused_by_name_and_changes_nothing(
    door: Door, changes, code, field
):
    async with door.client() as gateway:
        with pytest.raises(GatewayError) as refused:
            await SourceBindings(gateway).create("b1", MEANING | changes)
        assert refused.value.code == code
        assert field in str(refused.value)
        with pytest.raises(GatewayError) as missing:
            await SourceBindings(gateway).show("b1")
        assert missing.value.code == "not_found"
    kind = code if code == "binding_predicate_not_supported_v16" else "envelope_validation_failed"
    assert [body["reason_code"] for body in receipts_of_kind(door.ledger, kind)] == [code]


@pytest.mark.spec("004 §13.3")
@pytest.mark.parametrize(
    ("intent", "code", "field"),
    [
        (completed("missing", CONVERSION), "intent_invalid", "artifact_ref"),
        (completed("a1", NORMALIZATION), "artifact_phase_not_next", "completed_phases"),
        (completed("a1", CONVERSION, court_id="ca9"), "artifact_phase_invalid", "court_id"),
        (
            completed("a1", CONVERSION) | {"source_event_id": "another"},
            "artifact_event_superseded",
            "source_event_id",
        ),
        (
            {"intent_kind": "source_binding_update", "binding_id": "none", "priority": 1},
            "intent_invalid",
            "binding_id",
        ),
        (
            {"intent_kind": "source_binding_disable", "binding_id": "a1"},
            "intent_invalid",
            "binding_id",
        ),
        (
            {"intent_kind": "source_binding_enable", "binding_id": "none"},
            "intent_invalid",
            "binding_id",
        ),
        (
            {"intent_kind": "field_adapt", "node_id": "a1", "fields": {"completed_phases": {}}},
            "intent_invalid",
            "fields",
        ),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name_and_changes_nothing(
    door: Door, intent, code, field
):
    await operate(door, brought("a1", source_kind="docket"))
    before = rows(door.ledger, schema.nodes)
    [result] = await operate(door, {"intent_key": "k"} | intent)
    rejection = result.get("rejection", result)
    assert rejection["reason_code"] == code
    assert field in rejection["field"]
    assert rows(door.ledger, schema.nodes) == before


async def test_the_same_intent_again_takes_effect_once(door: Door):
    async with door.client() as gateway:
        bindings = SourceBindings(gateway)
        await bindings.create("b1", MEANING, "key")
        again = await bindings.create("b1", MEANING, "key")
        assert again["duplicate"]
        await bindings.update("b1", {"priority": 3}, "other")
        await bindings.update("b1", {"priority": 3}, "other")
        assert (await bindings.show("b1"))["binding_generation_id"] == "2"
