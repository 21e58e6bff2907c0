"""A page of recomputes is one envelope; each of them is asked for, found and undone by itself."""

from dataclasses import replace

import orjson
import pytest

from actors.commit.batch import Waiting, run_units, whole
from actors.commit.recompute_units import RecomputeUnit
from actors.commit.unit_context import CommitContext
from actors.orchestrator.intents import InputsStated, RecalculateAuthority, RecalculatePage
from actors.orchestrator.orchestrator import Orchestrator
from kernel.audit.lineage import authority_grounds, causal_ancestors
from kernel.audit.operations import AuditFilter, find_operations
from kernel.audit.preview import preview_rollback
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.replay.judgement import replay_all, replay_one
from kernel.rollback.confirmation import Confirmations
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_epoch, rollback_operation
from kernel.rollback.plan import plan_operation
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import digest
from kernel.values.model_registry import ActiveModels
from kernel.work.reports import SuccessfulAttempt
from kernel.work.request_history import request_history
from kernel.work.requests import outcome_of, status_of
from tests.kernel.build import (
    accept,
    adapt,
    changed,
    create,
    drain,
    everything,
    findings,
    link,
    memory_ledger,
    receipts_of_kind,
)

UNDERSTANDING, CLAIM = "ConsolidatedUnderstanding", "VersionedClaim"
K32 = pytest.mark.spec("K32")
NAMES = ["u1", "u2", "u3", "u4"]
KEYS = Confirmations({"user": b"u" * 32, "architect": b"a" * 32})
NO_MODELS = ActiveModels({})


@pytest.fixture
def ledger():
    """Four understandings below a claim each, whose claims have changed; u5 rests on u1 and u2."""
    made_ledger = memory_ledger()
    accept(made_ledger, *(create(f"k{name}", CLAIM, authority=0.5) for name in NAMES))
    accept(made_ledger, *(create(name, UNDERSTANDING) for name in [*NAMES, "u5"]))
    accept(made_ledger, *(link(f"k{name}>{name}", f"k{name}", name) for name in NAMES))
    accept(made_ledger, link("u1>u5", "u1", "u5"), link("u2>u5", "u2", "u5"))
    drain(made_ledger)
    change(made_ledger, 0.9)
    return made_ledger


def change(ledger, value, names=NAMES):
    accept(ledger, *(adapt(f"k{name}", authority=value) for name in names))


def reported(ledger, names, session_id=None, **stated):
    """What a worker reports of these understandings, read at one moment."""
    units = []
    with ledger.view() as view:
        sequence = view.head().ec_sequence_number
        for name in names:
            value, inputs = authority_of(view, BetaPosteriorMean(), view.node(name))
            [request, *_] = view.open_requests_of(AUTHORITY_QUEUE, name)
            intent = RecalculateAuthority(
                intent_key=digest([request.request_id, sequence]),
                target_cu_id=name,
                as_of_sequence=sequence,
                cu_authority=stated.get(name, value),
                inputs=InputsStated.model_validate(inputs.document()),
            )
            units.append(RecomputeUnit(intent, session_id))
    return units


def record(ledger, units, kernel=None, orchestrator=None):
    [part] = whole([Waiting(units)])
    with ledger.transaction() as transaction:
        orchestrator = orchestrator or Orchestrator(ledger.host)
        return run_units(part, CommitContext(transaction, kernel or Kernel(), orchestrator))


def page(ledger, names=NAMES):
    """Record a page; return its operation."""
    results = record(ledger, reported(ledger, names))
    assert [outcome for outcome, _ in results] == ["completed"] * len(names)
    [operation_id] = {result.operation_id for _, result in results}
    return operation_id


def requests_of(ledger, operation_id):
    """The requests that an operation answered, by their understandings."""
    rows = everything(ledger)
    items = {row["request_id"]: row["item_key"] for row in rows["outbox"]}
    return {
        items[row["request_id"]]: row["request_id"]
        for row in rows["outbox_outcomes"]
        if row["operation_id"] == operation_id
    }


def envelope_of(ledger, operation_id):
    with ledger.view() as view:
        return view.envelope(operation_id)


def log_length(ledger):
    with ledger.view() as view:
        return view.head().ec_sequence_number


def written(ledger, name):
    """Everything that a recompute writes of an understanding, as it stands."""
    rows = everything(ledger)
    return {
        "node": next(row["record"] for row in rows["nodes"] if row["node_id"] == name),
        "index": [
            row["record"]
            for row in rows["derived_indexes"]
            if orjson.loads(row["record"])["target_ref"] == name
        ],
        "view": [
            row["record"]
            for row in rows["materialized_views"]
            if orjson.loads(row["record"]).get("node_ref") == name
        ],
    }


def undo(ledger, name):
    with ledger.transaction() as transaction:
        return rollback_operation(Kernel(), transaction, name).submission.operation_id


def undo_epoch(ledger, name):
    with ledger.transaction() as transaction:
        return rollback_epoch(Kernel(), transaction, name, confirmations=KEYS)


def refusal(ledger, do, name):
    before = everything(ledger)
    with pytest.raises(RollbackRefused) as caught:
        do(ledger, name)
    assert everything(ledger) == before
    return caught.value


# One envelope, and each recompute in it


@K32
def test_a_page_is_one_operation_that_names_each_understanding_its_inputs_and_its_request(ledger):
    before = log_length(ledger)
    units = reported(ledger, NAMES)
    operation_id = page(ledger)
    assert log_length(ledger) == before + 1
    envelope = envelope_of(ledger, operation_id)
    assert envelope["target_refs"] == NAMES
    requests = requests_of(ledger, operation_id)
    assert sorted(requests) == NAMES
    for unit in units:
        name = unit.intent.target_cu_id
        write, index = (
            next(
                effect["payload"]
                for effect in envelope["primitive_effects"]
                if (effect["effect_kind"], effect["target_ref"]) == (kind, name)
            )
            for kind in ("node_write", "index_update")
        )
        assert write["cu_authority_inputs"]["digest"] == unit.intent.inputs.digest
        assert index["request_ids"] == [requests[name]]
    assert not findings(ledger)


@pytest.mark.parametrize("count", [1, len(NAMES)])
def test_of_each_recompute_it_is_known_who_computed_it_and_how_long_it_took(ledger, count):
    attempt = SuccessfulAttempt(took_ms=40, worker="worker-1")
    units = [replace(unit, attempt=attempt) for unit in reported(ledger, NAMES[:count])]
    [(_, result), *_] = record(ledger, units)
    requests = requests_of(ledger, result.operation_id)
    assert len(requests) == count
    with ledger.view() as view:
        for request_id in requests.values():
            status, outcome = (
                status_of(view, request_id),
                outcome_of(view, AUTHORITY_QUEUE, request_id),
            )
            for stands in (status, outcome):
                assert (stands.state, stands.took_ms, stands.worker) == (
                    "completed",
                    40,
                    "worker-1",
                )
            [begun] = [
                event for event in request_history(view, status).events if event.what == "begun"
            ]
            assert (begun.took_ms, begun.who) == (40, "worker-1")
    assert not findings(ledger)


def test_recomputes_of_two_attempts_are_no_page(ledger):
    first, second = reported(ledger, NAMES[:2])
    attempt = SuccessfulAttempt(took_ms=40, worker="worker-1")
    results = record(ledger, [replace(first, attempt=attempt), second])
    operations = [result.operation_id for _, result in results]
    assert len(set(operations)) == 2
    with ledger.view() as view:
        for operation_id, worker in zip(operations, ("worker-1", None), strict=True):
            [request_id] = requests_of(ledger, operation_id).values()
            assert status_of(view, request_id).worker == worker


@K32
def test_each_recompute_of_a_page_has_its_own_outcome_and_receipt(ledger):
    requests = {
        row["item_key"]: row["request_id"] for row in everything(ledger)["outbox"] if row["open"]
    }
    operation_id = page(ledger)
    completed = [
        receipt
        for receipt in receipts_of_kind(ledger, "authority_recompute_completed")
        if receipt["operation_id"] == operation_id
    ]
    with ledger.view() as view:
        assert [
            (receipt["request_id"], receipt["target_cu_id"], receipt["new_authority_value"])
            for receipt in completed
        ] == [(requests[name], name, view.node(name)["payload"]["cu_authority"]) for name in NAMES]
        for name in NAMES:
            outcome = view.outcome_of(requests[name])
            assert (outcome["outcome"], outcome["operation_id"]) == ("completed", operation_id)
            assert not view.open_requests_of(AUTHORITY_QUEUE, name)


@K32
def test_a_recompute_alone_has_the_form_of_a_page_of_one(ledger):
    operation_id = page(ledger, ["u3"])
    envelope = envelope_of(ledger, operation_id)
    assert envelope["target_refs"] == ["u3"]
    assert envelope["affected_subgraph_descriptor"]["scope_kind"] == "single_node"
    assert undo(ledger, operation_id)
    assert not findings(ledger)


@K32
def test_a_page_holds_one_visibility_class(ledger):
    accept(ledger, create("sealed", CLAIM, authority=0.5, visibility_class="sealed"))
    accept(ledger, link("sealed>u3", "sealed", "u3"))
    results = record(ledger, reported(ledger, NAMES))
    operations = {name: result[1].operation_id for name, result in zip(NAMES, results, strict=True)}
    assert operations["u1"] == operations["u2"] == operations["u4"] != operations["u3"]
    with ledger.view() as view:
        classes = {name: view.node(name)["visibility_class"] for name in NAMES}
    assert classes == {
        **dict.fromkeys(NAMES, "public_open"),
        "u3": "sealed",
    }
    assert not findings(ledger)


@pytest.mark.spec("K32", "K7")
def test_each_restricted_recompute_of_a_page_says_what_it_was_made_of(ledger):
    accept(ledger, create("sealed", CLAIM, authority=0.5, visibility_class="sealed"))
    accept(ledger, *(link(f"sealed>{name}", "sealed", name) for name in ("u3", "u4")))
    operation_id = page(ledger, ["u3", "u4"])
    stated = [
        (receipt["output_node_ref"], receipt["source_node_count_per_class"])
        for receipt in receipts_of_kind(ledger, "taint_propagation")
        if receipt["operation_id"] == operation_id
    ]
    # Its own claim, the sealed one, and itself as it is written.
    made_of = {"public_open": 1, "sealed": 2}
    assert stated == [("u3", made_of), ("u4", made_of)]
    assert not findings(ledger)


@K32
def test_what_differs_in_session_moment_or_urgency_is_in_another_page(ledger):
    [urgent] = reported(ledger, ["u1"], "s")
    accept(ledger, adapt("ku3", authority=0.1, envelope_changes={"recompute_priority": URGENT}))
    units = [urgent, *reported(ledger, NAMES[1:], "s"), *reported(ledger, ["u5"], "t")]
    results = record(ledger, units)
    assert [outcome for outcome, _ in results] == ["completed"] * 4 + ["input_pending"]
    operations = [result.operation_id for _, result in results[:4]]
    assert len(set(operations)) == 3
    assert operations[1] == operations[3]
    stated = [envelope_of(ledger, name)["recompute_priority"] for name in operations]
    assert stated == ["background_normal", "background_normal", URGENT, "background_normal"]


URGENT = "user_initiated_critical"


@K32
def test_a_page_ends_where_an_envelope_has_no_room(ledger, monkeypatch):
    monkeypatch.setattr("actors.commit.recompute_units.PAGE_MAX", 3)
    results = record(ledger, reported(ledger, NAMES))
    operations = [result.operation_id for _, result in results]
    assert operations[0] == operations[1] == operations[2] != operations[3]


@pytest.mark.spec("K32", "§2.7")
def test_a_page_names_all_causes_of_its_recomputes(ledger, monkeypatch):
    monkeypatch.setattr("actors.commit.recompute_units.MAX_CAUSAL_PARENTS", 4)
    results = record(ledger, reported(ledger, NAMES))
    operations = [result.operation_id for _, result in results]
    assert len(set(operations)) == 2
    for name, operation_id in zip(NAMES, operations, strict=True):
        with ledger.view() as view:
            causes = {view.node(f"k{name}")["updated_by_operation_id"]}
        assert causes <= {*envelope_of(ledger, operation_id)["causal_parent_operation_ids"]}


# Refusals


@K32
def test_a_refused_recompute_does_not_refuse_the_others_of_its_page(ledger):
    results = record(ledger, reported(ledger, NAMES, u2=0.123))
    assert [outcome for outcome, _ in results] == [
        "completed",
        "rejected",
        "completed",
        "completed",
    ]
    assert results[1][1].rejection.reason_code == "cu_authority_mismatch"
    [rejection] = receipts_of_kind(ledger, "envelope_validation_failed")
    assert rejection["reason_code"] == "cu_authority_mismatch"
    with ledger.view() as view:
        assert [len(view.open_requests_of(AUTHORITY_QUEUE, name)) for name in NAMES] == [0, 1, 0, 0]
    assert not findings(ledger)


@K32
def test_a_recompute_that_cannot_be_carried_out_is_answered_alone(ledger):
    class Failing(Orchestrator):
        def construct(self, intent, *arguments, **options):
            document = super().construct(intent, *arguments, **options)
            if "u2" in document["target_refs"]:
                raise ZeroDivisionError
            return document

    results = record(ledger, reported(ledger, NAMES), orchestrator=Failing(ledger.host))
    assert getattr(results[1], "code", None) == "request_unprocessable"
    assert [outcome for outcome, _ in [results[0], *results[2:]]] == ["completed"] * 3
    assert not findings(ledger)


@K32
def test_the_same_recompute_twice_is_recorded_once(ledger):
    units = reported(ledger, NAMES)
    results = record(ledger, [*units, units[0]])
    assert [outcome for outcome, _ in results] == ["completed"] * 4 + ["closed"]
    assert [outcome for outcome, _ in record(ledger, units)] == ["closed"] * 4


@K32
@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("primitive_effects.1.payload.request_ids", ["request:1:other"], "recompute_incomplete"),
        ("primitive_effects.4.payload.request_ids", [], "recompute_incomplete"),
        (
            "primitive_effects.1.payload.causal_parent_operation_ids",
            ["nobody"],
            "recompute_incomplete",
        ),
        ("primitive_effects.3.target_ref", "u1", "recompute_writes_more"),
        ("primitive_effects.0.payload.title", "t", "recompute_writes_more"),
        ("primitive_effects.5.payload.node_ref", "u4", "recompute_writes_more"),
        ("target_refs", ["u1", "u1"], "recompute_writes_more"),
        ("primitive_effects.3.payload.cu_authority", 0.25, "cu_authority_mismatch"),
    ],
)
def test_a_page_is_refused_that_is_not_a_page_of_recomputes(ledger, path, value, code):
    intents = tuple(unit.intent for unit in reported(ledger, ["u1", "u2"]))
    with ledger.transaction() as transaction:
        document = Orchestrator(ledger.host).construct(
            page_intent(intents), transaction, actor="system", session_id=None
        )
        result = Kernel().submit(transaction, changed(document, {path: value}), "orchestrator")
    assert result.rejection.reason_code == code


def page_intent(intents):
    return RecalculatePage(intent_key="page", recomputes=intents)


@pytest.mark.spec("K32", "INV-A-TAINT-INFECTIOUS-1")
def test_a_page_of_two_classes_is_refused(ledger):
    accept(ledger, create("sealed", CLAIM, authority=0.5, visibility_class="sealed"))
    accept(ledger, link("sealed>u2", "sealed", "u2"))
    intents = tuple(unit.intent for unit in reported(ledger, ["u1", "u2"]))
    with ledger.transaction() as transaction:
        document = Orchestrator(ledger.host).construct(
            page_intent(intents), transaction, actor="system", session_id=None
        )
        result = Kernel().submit(transaction, document, "orchestrator")
    assert result.rejection.reason_code == "envelope_taint_output_node_mismatch"


# What an auditor asks


@pytest.mark.spec("K32", "§8.5")
def test_what_informed_an_authority_is_told_of_each_recompute(ledger):
    operation_id = page(ledger)
    requests = requests_of(ledger, operation_id)
    with ledger.view() as view:
        for name in NAMES:
            grounds = authority_grounds(view, name)
            assert [edge["parent_node_id"] for edge in grounds.inputs] == [f"k{name}"]
            assert grounds.operation.operation_id == operation_id
            assert grounds.request_ids == (requests[name],)
            operations = find_operations(view, AuditFilter(entity=name), after=0, limit=100)
            assert operation_id in [entry.operation_id for entry in operations.entries]


@pytest.mark.spec("K32", "§3.7")
def test_the_ancestors_of_a_recompute_are_its_own(ledger):
    operation_id = page(ledger)
    requests = requests_of(ledger, operation_id)
    child_id = page(ledger, ["u5"])
    with ledger.view() as view:
        changes = {name: view.node(f"k{name}")["updated_by_operation_id"] for name in NAMES}

        def ancestors(name):
            lineage = causal_ancestors(view, name)
            assert lineage.complete
            return {entry.operation_id for entry in lineage.page.entries}

        for name in NAMES:
            others = {changes[other] for other in NAMES if other != name}
            assert changes[name] in ancestors(requests[name])
            assert not others & ancestors(requests[name])
        assert {*changes.values()} <= ancestors(operation_id)
        # u5 has read u1 and u2 of the page, and not the others.
        of_child = ancestors(child_id)
        assert {operation_id, changes["u1"], changes["u2"]} <= of_child
        assert not {changes["u3"], changes["u4"]} & of_child


@pytest.mark.spec("K32", "INV-A-REPLAY-LLM-1")
def test_a_recompute_replays_alone(ledger):
    operation_id = page(ledger)
    requests = requests_of(ledger, operation_id)
    change(ledger, 0.2)
    page(ledger)
    with ledger.view() as view:
        for name in (operation_id, *requests.values()):
            verdict = replay_one(view, name, "record_only", NO_MODELS)
            assert verdict.output_reproduced, verdict
            assert verdict.operation_id == operation_id
        assert (
            replay_one(view, requests["u2"], "record_only", NO_MODELS).request_id
            == (requests["u2"])
        )
        last = view.head().ec_sequence_number
        assert all(
            replay.output_reproduced
            for replay in replay_all(view, 1, last, "record_only", NO_MODELS)
        )


@K32
def test_the_replay_of_a_recompute_names_the_effect_of_its_own_that_differs(ledger):
    operation_id = page(ledger)
    requests = requests_of(ledger, operation_id)
    with ledger.view() as view:
        sequence = view.log_row_of(operation_id)["ec_sequence_number"]
        [damaged, *_] = [
            row
            for row in view.tables.scan(
                TableQuery(
                    schema.applied_effects, {"ec_sequence_number": sequence}, order_by="ordinal"
                )
            )
            if row["record_key"] == "u2"
        ]
    with ledger.store.transaction() as tables:
        tables.delete(schema.applied_effects, sequence, damaged["ordinal"])
        tables.insert(schema.applied_effects, {**damaged, "post_image_hash": b"\0" * 32})
    with ledger.view() as view:
        mismatches = {
            name: replay_one(view, requests[name], "record_only", NO_MODELS).difference
            for name in NAMES
        }
    assert mismatches.pop("u2") == "effect 3 is recorded otherwise"
    assert {*mismatches.values()} == {"the row commits to other effects"}


# Undoing


@pytest.mark.spec("K32", "§5.2", "K2")
def test_undoing_one_recompute_undoes_one(ledger):
    before = {name: written(ledger, name) for name in NAMES}
    operation_id = page(ledger)
    requests = requests_of(ledger, operation_id)
    after = {name: written(ledger, name) for name in NAMES}
    with ledger.view() as view:
        plan = plan_operation(view, requests["u2"]).document()
    assert {
        effect["record_key"] for operation in plan["operations"] for effect in operation["effects"]
    } == {
        "u2",
        "authority_index|u2",
        "view:cu_authority:u2",
    }
    undone_by = undo(ledger, requests["u2"])
    assert written(ledger, "u2") == before["u2"]
    for name in ("u1", "u3", "u4"):
        assert written(ledger, name) == after[name]
    assert envelope_of(ledger, undone_by)["target_refs"] == ["u2"]
    again = refusal(ledger, undo, requests["u2"])
    assert again.code == "rollback_already_applied"
    assert not findings(ledger)
    # What undid it is an operation like any other.
    undo(ledger, undone_by)
    assert written(ledger, "u2") == after["u2"]
    undo(ledger, requests["u2"])
    assert written(ledger, "u2") == before["u2"]
    assert not findings(ledger)


@pytest.mark.spec("K32", "§5.3")
def test_undoing_a_page_undoes_what_is_left_of_it(ledger):
    before = {name: written(ledger, name) for name in NAMES}
    operation_id = page(ledger)
    after = {name: written(ledger, name) for name in NAMES}
    requests = requests_of(ledger, operation_id)
    assert refusal(ledger, undo, operation_id).code == "tier_1_scope_too_wide"
    undo(ledger, requests["u2"])
    [inverse] = undo_epoch(ledger, operation_id).inverse_operation_ids
    assert {name: written(ledger, name) for name in NAMES} == before
    assert refusal(ledger, undo, requests["u1"]).code == "rollback_already_applied"
    assert refusal(ledger, undo_epoch, operation_id).code == "rollback_already_applied"
    undo_epoch(ledger, inverse)
    assert {name: written(ledger, name) for name in NAMES} == {**after, "u2": before["u2"]}
    undo(ledger, requests["u1"])
    assert written(ledger, "u1") == before["u1"]
    assert not findings(ledger)


@pytest.mark.spec("K32", "§5.2")
def test_a_recompute_is_held_by_later_writes_of_its_own_understanding_alone(ledger):
    first = requests_of(ledger, page(ledger))
    change(ledger, 0.2, ["u1", "u2"])
    later_id = page(ledger, ["u1", "u2"])
    later = requests_of(ledger, later_id)
    held = refusal(ledger, undo, first["u1"])
    assert held.code == "rollback_superseded_by_later_write"
    assert held.details["later_operation_ids"] == [later_id]
    undo(ledger, first["u3"])
    undo(ledger, later["u1"])
    undo(ledger, first["u1"])  # what stood in its way was undone
    assert refusal(ledger, undo, first["u2"]).code == "rollback_superseded_by_later_write"
    assert not findings(ledger)


@K32
def test_the_preview_of_a_recompute_is_its_own(ledger):
    operation_id = page(ledger)
    requests = requests_of(ledger, operation_id)
    with ledger.view() as view:
        preview = preview_rollback(view, requests["u3"])
    assert preview.operation.operation_id == operation_id
    assert preview.lowest_tier == 1
    assert {effect.record_key for effect in preview.effects} == {
        "u3",
        "authority_index|u3",
        "view:cu_authority:u3",
    }


@pytest.mark.spec("K32", "§18.4")
def test_a_page_counts_as_as_many_operations_as_it_has_recomputes(ledger):
    def counted():
        return sum(
            row["operation_count"]
            for row in everything(ledger)["daily_operation_counts"]
            if row["day_and_kind"].endswith("|recalculate_authority")
        )

    before = counted()
    page(ledger)
    assert counted() == before + len(NAMES)
