"""V12: writes that had not seen each other, and the queue of what a person settles (§15.5, §19)."""

import ast
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel.transaction.checks.conflicts as v12
from kernel.audit.adjudications import adjudications
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import SubmissionResult
from kernel.records.conflicts.adjudications import ITEM_KIND
from kernel.records.conflicts.compared import COMPARED
from kernel.records.conflicts.differences import PROVENANCE_FIELDS, differences
from kernel.records.conflicts.existing import WRITERS_MAX
from kernel.records.conflicts.policy import DEFAULT_STRATEGIES
from kernel.records.conflicts.resolution import authority_of_fields
from kernel.transaction.kernel import Kernel
from tests.kernel.build import (
    advance_policy,
    changed,
    code_of,
    create,
    effect,
    envelope,
    findings,
    op_id,
    taking,
)
from tests.kernel.every import HASH, attempt, dated, own, ruling, snapshot
from tests.world import World

FIRST_WRITER = "envelope_conflict_first_writer_wins"
LOWER = "envelope_conflict_lower_authority"
DEFERRED = "envelope_conflict_deferred_for_merge"
REVIEW = "envelope_conflict_user_review_required"
UNKNOWN = "envelope_adjudication_unknown"
RESOLVED = "envelope_adjudication_resolved"

WINDOW_US = 5_000_000


class ConflictWorld(World):
    def state(self, conflict_class, strategy, **fields):
        """Put a policy of one class in force."""
        stated = {"conflict_class": conflict_class, "default_strategy": strategy, **fields}
        self.advance_policy(semantic_conflict_policies=[stated])

    def submit(self, document, **options):
        """Submit as somebody who has seen what the envelope names, and nothing else."""
        document["policy_generation_id"] = self.policy
        return super().submit(document, unseen=True, **options)

    def contradictions(self):
        with self.ledger.view() as view:
            rows = view.tables.scan(TableQuery(schema.edges))
        records = [orjson.loads(row["record"]) for row in rows]
        return [record for record in records if record["edge_type"] == "contradicts"]

    def log(self):
        with self.ledger.view() as view:
            return [row["operation_id"] for row in view.log_rows()]

    def items(self, state="open"):
        with self.ledger.view() as view:
            return adjudications(view, state).items

    def receipt(self, result):
        with self.ledger.view() as view:
            where = {"receipt_id": result.receipt_id}
            [row] = view.tables.scan(TableQuery(schema.receipts, where))
        return orjson.loads(row["receipt_bytes"])

    def pair(self, before, after, **options):
        """Nodes to refer to, and one with two writes of which neither had seen the other."""
        made = create("n", options.pop("node_kind", "Note"), **options.pop("made", {}))
        assert code_of(self.submit(made)) is None
        for source in (*"abc", *options.pop("sources", ())):
            assert code_of(self.submit(create(source, "Note"))) is None
        self.host.time_us += 2 * WINDOW_US
        first = adapt("n", before)
        assert code_of(self.submit(first)) is None
        second = adapt("n", after, **options)
        return first, second, self.submit(second)


def adapt(node_id, fields, **changes):
    return envelope("field_adapt", [effect("node_write", node_id, **fields)], **changes)


@pytest.fixture
def world():
    world = ConflictWorld()
    yield world
    world.check()


def refused(result, code, field=None):
    rejection = result.rejection
    assert (rejection.check, rejection.reason_code) == ("V12", code), rejection
    assert field in (None, rejection.field)


# The worked example


def chain(node_id, **fields):
    identity = {"identity_key": f"case:12345|motion:{fields['motion_id']}"}
    return create(node_id, "MotionChain", **identity, **fields)


@pytest.mark.spec("§19.3")
def test_five_briefs_converge_on_one_motion_chain(world):
    documents = {
        "MC-1": chain("MC-1", motion_id="M-1", opposition_id="O-1"),
        "MC-2": chain("MC-2", motion_id="M-1", opposition_id="O-1", reply_id="R-1"),
        "MC-3": chain("MC-3", motion_id="M-1", opposition_id="O-2"),
        "MC-4": chain("MC-4", motion_id="M-2"),
        "MC-5": chain(
            "MC-5", motion_id="M-1", opposition_id="O-1", reply_id="R-1", surreply_id="SR-1"
        ),
    }
    results = {name: world.submit(document) for name, document in documents.items()}
    assert {name: code_of(result) for name, result in results.items()} == {
        "MC-1": None,
        "MC-2": REVIEW,
        "MC-3": None,
        "MC-4": None,
        "MC-5": REVIEW,
    }
    assert {name for name in documents if world.node(name)} == {"MC-1", "MC-3", "MC-4"}
    [edge] = world.contradictions()
    assert (edge["source_node_id"], edge["target_node_id"]) == ("MC-3", "MC-1")
    queued = world.items()
    assert [queued_item.receipt["operation_id"] for queued_item in queued] == [
        documents["MC-2"]["operation_id"],
        documents["MC-5"]["operation_id"],
    ]
    item = queued[0].receipt
    assert item["conflict_class"] == "cardinality_conflict"
    assert item["existing_record_ids"] == ["MC-1"]
    assert item["existing_operation_ids"] == [documents["MC-1"]["operation_id"]]
    assert item["envelope"] == documents["MC-2"]

    # A reviewer decides that the second chain is the first one, extended.
    extended = adapt(
        "MC-1", {"reply_id": "R-1"}, adjudicates_receipt_ids=[results["MC-2"].receipt_id]
    )
    assert code_of(world.submit(extended)) is None
    assert world.node("MC-1")["payload"]["reply_id"] == "R-1"
    assert [listed_item.receipt["operation_id"] for listed_item in world.items()] == [
        documents["MC-5"]["operation_id"]
    ]
    [settled] = world.items("resolved")
    assert settled.receipt["receipt_id"] == results["MC-2"].receipt_id
    assert settled.resolved_by_operation_id == extended["operation_id"]


# What is concurrent


def test_a_number_that_cannot_be_read_back_is_refused_where_writes_are_compared(world):
    """It is whole in canonical form, and read back it is beyond what canonical form has."""
    _, _, result = world.pair({"note": 1}, {"note": 1e17})
    assert (result.rejection.check, code_of(result)) == ("V1", "envelope_schema_invalid")


@pytest.mark.spec("K10")
def test_what_was_seen_is_no_conflict(world):
    first, _, result = world.pair({"title": "a"}, {"title": "b"})
    refused(result, FIRST_WRITER, "primitive_effects.0.payload.title")
    parents = [first["operation_id"]]
    assert (
        code_of(world.submit(adapt("n", {"title": "b"}, causal_parent_operation_ids=parents)))
        is None
    )


@pytest.mark.spec("K10")
def test_who_saw_the_last_write_saw_those_before_it(world):
    first, _, _ = world.pair({"title": "a"}, {"other": 1})
    second = adapt("n", {"title": "b"}, causal_parent_operation_ids=[first["operation_id"]])
    assert code_of(world.submit(second)) is None
    third = adapt("n", {"title": "c"}, causal_parent_operation_ids=[second["operation_id"]])
    assert code_of(world.submit(third)) is None
    late = adapt("n", {"title": "d"}, causal_parent_operation_ids=[first["operation_id"]])
    refused(world.submit(late), FIRST_WRITER)


@pytest.mark.spec("K10", "§19.2")
@pytest.mark.parametrize(("after_us", "code"), [(-2, FIRST_WRITER), (0, None)])
def test_what_was_committed_before_the_window_is_no_conflict(world, after_us, code):
    world.pair({"title": "a"}, {"other": 1})
    with world.ledger.view() as view:
        world.host.time_us = view.head().committed_at_us + WINDOW_US + after_us
    assert code_of(world.submit(adapt("n", {"title": "b"}))) == code


@pytest.mark.spec("K10")
def test_the_window_is_the_kernels_parameter(world):
    world.pair({"title": "a"}, {"other": 1})
    world.host.time_us += 100_000
    again = adapt("n", {"title": "b"})
    assert code_of(world.submit(again, kernel=Kernel(conflict_window_ms=200))) == FIRST_WRITER
    assert code_of(world.submit(again, kernel=Kernel(conflict_window_ms=50))) is None


@pytest.mark.spec("§19.2")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"title": "a"}, {"title": "a"}),
        ({"title": "a"}, {"subtitle": "b"}),
        ({"opposition_id": "O"}, {"reply_id": "R"}),
        ({"cites_refs": ["a", "b"]}, {"cites_refs": ["b", "a"]}),
        ({"valid_from": "2026-01-01", "valid_to": "2026-02-01"}, {"valid_from": "2026-01-01"}),
        ({"visibility_class": "sealed"}, {"visibility_class": "sealed", "title": "x"}),
    ],
)
def test_writes_that_agree_or_touch_other_fields_are_no_conflict(world, before, after):
    assert code_of(world.pair(before, after)[2]) is None


@pytest.mark.spec("§19.2")
def test_an_earlier_unseen_writer_is_found_behind_a_later_one(world):
    world.pair({"title": "a"}, {"subtitle": "b"})
    refused(world.submit(adapt("n", {"title": "c"})), FIRST_WRITER)


@pytest.mark.spec("§19.2")
def test_behind_the_writers_that_are_walked_every_field_counts_as_written(world):
    world.pair({"title": "a"}, {"subtitle": "b"})
    for number in range(WRITERS_MAX):
        assert code_of(world.submit(adapt("n", {f"f-{number}": number}))) is None
    refused(world.submit(adapt("n", {"title": "c"})), FIRST_WRITER)


@pytest.mark.spec("§19.2")
def test_two_new_nodes_are_one_entity_only_by_their_identity_and_kind(world):
    results = [
        world.submit(create("a", "Note", identity_key="i", title="a")),
        world.submit(create("b", "Other", identity_key="i", title="b")),
        world.submit(create("c", "Note", identity_key="j", title="c")),
        world.submit(create("d", "Note", title="d")),
        world.submit(create("e", "Note", identity_key="i", title="e")),
    ]
    assert [code_of(result) for result in results] == [None, None, None, None, FIRST_WRITER]


@pytest.mark.spec("§19.2")
def test_an_entity_that_was_taken_back_is_no_rival(world):
    made = create("a", "Note", identity_key="i", title="a")
    world.submit(made)
    gone = taking("collapse", "a")
    gone["causal_parent_operation_ids"] = [made["operation_id"]]
    assert code_of(world.submit(gone)) is None
    assert code_of(world.submit(create("b", "Note", identity_key="i", title="b"))) is None


@pytest.mark.parametrize("identity", ["", 7, "x" * 513, ["i"]])
def test_an_identity_is_a_text(world, identity):
    result = world.submit(create("a", "Note", identity_key=identity))
    assert code_of(result) == "identity_key_invalid"


# Classes


FIELDS = [
    ("field_value_disagree", "title", "a", "b"),
    ("metadata_provenance_conflict", "source_refs", ["a"], ["b"]),
    ("metadata_provenance_conflict", "extraction_run_id", "a", "b"),
    ("cardinality_conflict", "cites_refs", ["a"], ["a", "b"]),
    ("cardinality_conflict", "reply_id", "R", None),
    ("relationship_target_conflict", "reply_id", "R-1", "R-2"),
    ("relationship_target_conflict", "cites_refs", ["a", "c"], ["a", "b"]),
    ("temporal_validity_overlap", "valid_to", "2026-02-01", "2026-03-01T00:00:00Z"),
    ("temporal_validity_overlap", "valid_from", "not a date", "2026-03-01"),
]
CODES = {
    "field_value_disagree": FIRST_WRITER,
    "metadata_provenance_conflict": DEFERRED,
    "cardinality_conflict": REVIEW,
    "relationship_target_conflict": None,
    "temporal_validity_overlap": REVIEW,
}


@pytest.mark.spec("§15.5")
def test_the_defaults_are_those_of_the_specification():
    assert DEFAULT_STRATEGIES == {
        "field_value_disagree": "first_writer_wins",
        "metadata_provenance_conflict": "merge_with_provenance",
        "cardinality_conflict": "user_review_required",
        "relationship_target_conflict": "emit_contradiction_edge",
        "temporal_validity_overlap": "user_review_required",
    }


@pytest.mark.spec("§15.5")
@pytest.mark.parametrize(("conflict_class", "field", "before", "after"), FIELDS)
def test_a_difference_has_its_class_and_the_default_of_it(
    world, conflict_class, field, before, after
):
    [difference] = differences({field: before}, {field: after}, {}, whole=False)
    assert (difference.conflict_class, difference.field) == (conflict_class, field)
    result = world.pair({field: before}, {field: after})[2]
    assert code_of(result) == CODES[conflict_class]
    if code_of(result) is not None:
        receipt = world.receipt(result)
        assert receipt["conflict_class"] == conflict_class
        assert [conflict["field"] for conflict in receipt["conflicts"]] == [field]


@pytest.mark.spec("§15.5")
def test_windows_that_do_not_overlap_are_no_conflict(world):
    first = {"valid_from": "2026-01-01", "valid_to": "2026-02-01"}
    second = {"valid_from": "2026-02-01", "valid_to": "2026-03-01"}
    assert code_of(world.pair(first, second)[2]) is None


@pytest.mark.spec("§15.5")
def test_a_bound_that_a_write_leaves_alone_is_the_standing_one(world):
    made = {"valid_from": "2026-01-01", "valid_to": "2026-06-01"}
    moved, ended = {"valid_from": "2026-02-01"}, {"valid_from": "2026-03-01"}
    refused(world.pair(moved, ended, made=made)[2], REVIEW)


@pytest.mark.spec("§15.5")
@pytest.mark.parametrize("field", sorted(PROVENANCE_FIELDS))
def test_a_field_of_origin_is_no_relationship_whatever_its_name_ends_with(field):
    [difference] = differences({field: "a"}, {field: "b"}, {}, whole=True)
    assert difference.conflict_class == "metadata_provenance_conflict"
    assert differences({field: "a"}, {}, {}, whole=True) == ()


# Strategies


@pytest.mark.spec("§15.5")
@pytest.mark.parametrize("conflict_class", DEFAULT_STRATEGIES)
@pytest.mark.parametrize(
    ("strategy", "code"),
    [
        ("first_writer_wins", FIRST_WRITER),
        ("last_writer_wins", None),
        ("highest_authority_wins", None),
        ("merge_with_provenance", DEFERRED),
        ("user_review_required", REVIEW),
        ("emit_contradiction_edge", None),
    ],
)
def test_a_policy_gives_each_class_each_strategy(world, conflict_class, strategy, code):
    world.state(conflict_class, strategy)
    field, before, after = next(case[1:] for case in FIELDS if case[0] == conflict_class)
    assert code_of(world.pair({field: before}, {field: after})[2]) == code
    assert len(world.contradictions()) == (strategy == "emit_contradiction_edge")
    assert len(world.items()) == (strategy == "user_review_required")


@pytest.mark.spec("§19.2")
def test_the_last_writer_overwrites(world):
    world.state("field_value_disagree", "last_writer_wins")
    world.pair({"title": "a"}, {"title": "b"})
    assert world.node("n")["payload"]["title"] == "b"


@pytest.mark.spec("§19.2")
@pytest.mark.parametrize(
    ("existing", "written", "code"),
    [(0.5, 0.4, LOWER), (0.5, 0.5, None), (0.5, 0.6, None), (0.5, None, LOWER), (None, None, None)],
)
def test_the_higher_authority_wins(world, existing, written, code):
    world.state("field_value_disagree", "highest_authority_wins")
    made = {} if existing is None else {"authority": existing}
    after = {"title": "b"} | ({} if written is None else {"authority": written})
    result = world.pair({"title": "a"}, after, node_kind="VersionedClaim", made=made)[2]
    assert code_of(result) == code
    assert world.node("n")["payload"]["title"] == ("b" if code is None else "a")


@pytest.mark.spec("§19.2")
def test_a_computed_authority_counts_for_the_one_who_has_it():
    assert authority_of_fields({"cu_authority": 0.9, "authority": 0.1}) == 0.9
    assert authority_of_fields({"override_authority": True, "authority": 0.2}) == 0.2


@pytest.mark.spec("§19.2")
def test_a_merge_keeps_both_values_and_who_wrote_them(world):
    first, second, result = world.pair(
        {"source_refs": ["a"], "model_version": "m-1"},
        {"source_refs": ["b"], "subtitle": "new", "visibility_class": "sealed"},
    )
    refused(result, DEFERRED)
    receipt = world.receipt(result)
    merged_by = receipt["merge_operation_id"]
    assert merged_by in result.rejection.message
    assert receipt["envelope"] == second
    assert world.log()[-1] == merged_by
    assert second["operation_id"] not in world.log()
    node = world.node("n")
    assert node["updated_by_operation_id"] == merged_by
    assert node["visibility_class"] == "sealed"
    assert node["payload"]["source_refs"] == ["a"]
    assert node["payload"]["subtitle"] == "new"
    assert node["payload"]["merge_provenance"] == {
        "source_refs": [
            {"value": ["a"], "operation_id": first["operation_id"]},
            {"value": ["b"], "operation_id": second["operation_id"]},
        ]
    }
    with world.ledger.view() as view:
        merge = view.envelope(merged_by)
    assert merge["actor"] == "system"
    assert merge["causal_parent_operation_ids"] == [first["operation_id"]]


@pytest.mark.spec("§19.2")
def test_the_same_envelope_is_merged_once(world):
    _, second, result = world.pair({"source_refs": ["a"]}, {"source_refs": ["b"]})
    length = len(world.log())
    again = world.submit(second)
    refused(again, DEFERRED)
    assert len(world.log()) == length
    assert world.receipt(again)["merge_operation_id"] == world.receipt(result)["merge_operation_id"]


@pytest.mark.spec("§19.2")
def test_a_third_value_is_merged_beside_the_two(world):
    world.pair({"source_refs": ["a"]}, {"source_refs": ["b"]})
    refused(world.submit(adapt("n", {"source_refs": ["c"]})), DEFERRED)
    kept = world.node("n")["payload"]["merge_provenance"]["source_refs"]
    assert [alternative["value"] for alternative in kept] == [["a"], ["b"], ["c"]]


@pytest.mark.spec("§19.2")
def test_what_is_merged_too_often_is_for_a_person(world):
    sources = [*map(str, range(63)), "one more"]
    world.pair({"source_refs": ["a"]}, {"source_refs": ["0"]}, sources=sources)
    for number in range(1, 63):
        refused(world.submit(adapt("n", {"source_refs": [str(number)]})), DEFERRED)
    refused(world.submit(adapt("n", {"source_refs": ["one more"]})), REVIEW)


@pytest.mark.spec("§19.2")
def test_a_merge_that_the_state_does_not_admit_refuses_the_envelope_for_that(world):
    made, before = {"authority": 0.5}, {"authority": 0.6, "model_version": "a"}
    world.state("metadata_provenance_conflict", "merge_with_provenance")
    after = {"model_version": "b", "override_authority": 2, "cu_authority": 1}
    result = world.pair(before, after, node_kind="VersionedClaim", made=made)[2]
    assert (result.rejection.check, code_of(result)) == ("apply", "computed_field_written")
    assert "merge_provenance" not in world.node("n")["payload"]


@pytest.mark.spec("§19.2")
def test_accepting_both_records_that_they_contradict(world):
    first, second, result = world.pair({"reply_id": "R-1"}, {"reply_id": "R-2"})
    assert isinstance(result, SubmissionResult)
    assert world.log()[-2] == second["operation_id"]
    with world.ledger.view() as view:
        follow_up = view.envelope(world.log()[-1])
    assert follow_up["actor"] == "system"
    parents = [first["operation_id"], second["operation_id"]]
    assert follow_up["causal_parent_operation_ids"] == parents
    [edge] = world.contradictions()
    assert (edge["source_node_id"], edge["target_node_id"]) == ("n", "n")
    [conflict] = edge["edge_metadata"]["conflicts"]
    assert (conflict["field"], conflict["existing_operation_id"]) == (
        "reply_id",
        first["operation_id"],
    )
    assert b"R-1" not in orjson.dumps(edge)


@pytest.mark.spec("§19.2")
def test_a_write_that_cannot_be_applied_leaves_no_contradiction(world):
    made = create("a", "Note", reply_id="R-1")
    assert code_of(world.submit(made)) is None
    result = world.submit(create("a", "Note", reply_id="R-2"))
    assert (result.rejection.check, code_of(result)) == ("apply", "node_already_exists")
    assert world.contradictions() == []
    assert world.log() == [made["operation_id"]]


@pytest.mark.spec("§15.5")
def test_the_most_cautious_outcome_wins(world):
    before = {"reply_id": "R-1", "source_refs": ["a"], "title": "a", "cites_refs": ["a"]}
    after = {"reply_id": "R-2"}
    steps = [
        ({"source_refs": ["b"]}, DEFERRED),
        ({"title": "b"}, FIRST_WRITER),
        ({"cites_refs": ["a", "b"]}, REVIEW),
    ]
    world.pair(before, {"unrelated": 1})
    for change, code in steps:
        after = after | change
        refused(world.submit(adapt("n", after)), code)
    assert world.contradictions() == []


@pytest.mark.spec("§19.2")
def test_a_field_may_have_a_strategy_of_its_own(world):
    world.state(
        "field_value_disagree",
        "first_writer_wins",
        per_field_overrides={"title": "last_writer_wins", "motto": "user_review_required"},
    )
    world.pair({"title": "a", "name": "a", "motto": "a"}, {"title": "b"})
    assert world.node("n")["payload"]["title"] == "b"
    refused(world.submit(adapt("n", {"name": "b"})), FIRST_WRITER)
    refused(world.submit(adapt("n", {"motto": "b", "name": "b"})), REVIEW)


@pytest.mark.spec("§15.5")
def test_a_policy_of_a_kind_goes_before_that_of_all(world):
    stated = [
        {"conflict_class": "field_value_disagree", "default_strategy": "user_review_required"},
        {
            "conflict_class": "field_value_disagree",
            "node_kind": "Note",
            "default_strategy": "last_writer_wins",
        },
    ]
    world.policy = "PG-2"
    advance_policy(world.ledger, "PG-2", semantic_conflict_policies=stated)
    assert code_of(world.pair({"title": "a"}, {"title": "b"})[2]) is None
    world.submit(create("o", "Other"))
    world.host.time_us += WINDOW_US
    world.submit(adapt("o", {"title": "a"}))
    refused(world.submit(adapt("o", {"title": "b"})), REVIEW)


@pytest.mark.parametrize(
    "policies",
    [
        [{"conflict_class": "quarrel", "default_strategy": "last_writer_wins"}],
        [{"conflict_class": "cardinality_conflict", "default_strategy": "toss_a_coin"}],
        [{"conflict_class": "cardinality_conflict"}],
        [{"conflict_class": "cardinality_conflict", "default_strategy": "last_writer_wins"}] * 2,
        "none",
    ],
)
def test_a_generation_with_policies_that_are_none_does_not_come_into_force(world, policies):
    kind = "policy_snapshot_advance"
    stated = {"prior_policy_generation_id": "PG-1", "semantic_conflict_policies": policies}
    result = world.submit(
        envelope(kind, [effect(kind, "PG-2", **stated)]), submitter="orchestrator"
    )
    assert code_of(result) == "effect_payload_invalid"


# Edges


def edge_world(world):
    for name in ("a", "b", "c"):
        world.submit(create(name, "Note"))
    made = envelope("document_relationship_create", [edge_effect("edge_create", "b")])
    assert code_of(world.submit(made)) is None
    world.host.time_us += WINDOW_US
    return made


def edge_effect(kind, target, **metadata):
    fields = {"source_node_id": "a", "target_node_id": target, "edge_type": "cites"}
    return effect(kind, "e", **fields, edge_metadata=metadata)


def reclassified(**metadata):
    verb = "document_relationship_update"
    return envelope(verb, [effect("edge_reclassify", "e", edge_metadata=metadata)])


@pytest.mark.spec("§19.2")
def test_an_edge_that_two_reclassify_is_the_first_ones(world):
    edge_world(world)
    assert code_of(world.submit(reclassified(essentiality="core"))) is None
    assert code_of(world.submit(reclassified(note="x"))) is None
    refused(world.submit(reclassified(essentiality="supporting")), FIRST_WRITER)


@pytest.mark.spec("§19.2")
def test_what_is_said_of_an_edges_origin_is_merged_into_it(world):
    edge_world(world)
    world.submit(reclassified(model_version="m-1"))
    refused(world.submit(reclassified(model_version="m-2", page=3)), DEFERRED)
    with world.ledger.view() as view:
        metadata = view.record(schema.edges, "e")["edge_metadata"]
    assert (metadata["model_version"], metadata["page"]) == ("m-1", 3)
    kept = metadata["merge_provenance"]["model_version"]
    assert [alternative["value"] for alternative in kept] == ["m-1", "m-2"]


@pytest.mark.spec("§19.2")
def test_what_would_be_merged_into_a_node_and_an_edge_at_once_is_for_a_person(world):
    edge_world(world)
    origin = {"model_version": "m-1"}, {"model_version": "m-2"}
    results = [
        world.submit(
            envelope(
                "document_relationship_update",
                [
                    effect("edge_reclassify", "e", edge_metadata=fields),
                    effect("node_write", "a", **fields),
                ],
            )
        )
        for fields in origin
    ]
    assert [code_of(result) for result in results] == [None, REVIEW]
    [item] = world.items()
    assert item.receipt["existing_record_ids"] == ["e", "a"]


@pytest.mark.spec("§19.2")
def test_an_edge_with_two_targets_says_that_they_contradict(world):
    edge_world(world)
    removed = envelope(
        "document_relationship_update",
        [effect("edge_reclassify", "e"), effect("edge_remove", "e")],
    )
    assert code_of(world.submit(removed)) is None
    again = [edge_effect("edge_create", "b"), edge_effect("edge_create", "c")]
    documents = [envelope("document_relationship_create", [effect_again]) for effect_again in again]
    assert code_of(world.submit(documents[0])) is None
    gone = changed(removed, {"operation_id": op_id("gone"), "idempotency_key": "gone"})
    gone["causal_parent_operation_ids"] = [documents[0]["operation_id"]]
    assert code_of(world.submit(gone)) is None
    assert code_of(world.submit(documents[1])) is None
    [edge] = world.contradictions()
    assert (edge["source_node_id"], edge["target_node_id"]) == ("c", "b")


# Every typed store


UNIT = {"filing_unit_id": "unit"}
LATER = {"originating_tz": "America/New_York", "originating_calendar_date": "2026-02-10"}


def later(prefix):
    return {f"{prefix}_utc": "2026-02-11T01:30:00Z"} | {
        f"{prefix}_{name}": value for name, value in LATER.items()
    }


def assigned(topic_id):
    stated = effect("topic_assignment_write", "a", topic_id=topic_id, node_id="n")
    index = effect("index_update", "n", index_name="topics", entry={"topic_id": topic_id})
    return envelope("topic_assignment_write", [stated, index])


def of_generation(court_id):
    payload = {
        "binding_snapshot": snapshot(court_id),
        "effective_at": "2026-02-09T00:00:00Z",
    }
    return own("binding_generation_advance", "b", binding_generation_id="1", **payload)


def of_attempt(current, **fields):
    return envelope("extraction_state_change", [attempt(1, "pending", current, **fields)])


def member(to_state, **fields):
    verb = {"candidate": "add", "confirmed": "confirm", "rejected": "reject"}[to_state]
    stated = {"corpus_id": "c", "to_state": to_state, **fields}
    return envelope(f"corpus_membership_{verb}", [effect("membership_write", "n", **stated)])


def ruled(disposition, *targets):
    return ruling(disposition, targets, observation="held")


def observed(disposition, name="seen"):
    stated = {"disposition": disposition, "lifecycle_state": "observed"}
    return own("court_disposition_observation_write", name, **stated, **dated("docket_entry_date"))


def resolved(*case_refs):
    stated = {"event_kind": "ConsolidationEvent", "resolved_case_identity": "1"}
    return own(
        "case_resolution_event_write",
        "event",
        **stated,
        case_refs=[*case_refs],
        **dated("event_date"),
    )


def related(target):
    ends = {"source_filing_unit_id": "unit", "target_filing_unit_id": target}
    ends["lifecycle_state"] = "candidate"
    return own("filing_relationship_write", "r", relationship_type="responds_to", **ends)


def shared(recipient):
    stated = {"shared_corpus_view_id": "view", "share_token_policy_id": "policy"}
    return own("share_link_grant", "link", recipient_email_hash=recipient * 32, **stated)


def file_at(kind, **stated):
    return own(kind, "file", content_hash=HASH, **stated)


def version(dates):
    return own("filing_unit_version_write", "v", **UNIT, **dates, version_label="1")


def text_version(text_hash):
    return own("filing_unit_text_version_write", "t", **UNIT, text_hash=text_hash * 32)


def filed(unit, dates, **fields):
    return own("filing_unit_write", unit, **dates, **fields)


PAIRS = {
    "nodes": (adapt("n", {"title": "a"}), adapt("n", {"title": "b"}), FIRST_WRITER),
    "edges": (
        envelope(
            "edge_write",
            [effect("edge_write", "e", source_node_id="n", target_node_id="m", edge_type="a")],
        ),
        envelope(
            "edge_write",
            [effect("edge_write", "e", source_node_id="n", target_node_id="m", edge_type="b")],
        ),
        FIRST_WRITER,
    ),
    "corpus_membership_records": (member("candidate"), member("confirmed"), FIRST_WRITER),
    "filing_units": (
        filed("u", dated("filing_date")),
        filed("u", later("filing_date")),
        FIRST_WRITER,
    ),
    "filing_unit_versions": (
        version(dated("filing_date")),
        version(later("filing_date")),
        FIRST_WRITER,
    ),
    "filing_unit_text_versions": (text_version("ab"), text_version("cd"), FIRST_WRITER),
    "filing_relationships": (related("other"), related("third"), REVIEW),
    "ruling_dispositions": (ruled("granted", "u"), ruled("denied", "u"), FIRST_WRITER),
    "court_disposition_observations": (observed("granted"), observed("denied"), FIRST_WRITER),
    "case_resolution_events": (resolved("1", "2"), resolved("1", "2", "3"), REVIEW),
    "topic_assignments": (assigned("topic"), assigned("topic-2"), REVIEW),
    "binding_generation_snapshots": (of_generation("a"), of_generation("b"), FIRST_WRITER),
    "extraction_attempts": (of_attempt("running"), of_attempt("cancelled"), FIRST_WRITER),
    "document_artifacts": (
        file_at("document_artifact_write", source_artifact_kind="pdf"),
        file_at("document_artifact_write", source_artifact_kind="txt"),
        FIRST_WRITER,
    ),
    "materializations": (
        file_at("materialization_emit", materialized_path="a/b.pdf"),
        file_at("materialization_emit", materialized_path="a/c.pdf"),
        FIRST_WRITER,
    ),
    "share_links": (shared("ab"), shared("cd"), FIRST_WRITER),
}
"""By store: two writes of one record, and what becomes of the second, which had not seen the
first."""

FOLLOWING = {
    "policy_snapshots",
    "derived_indexes",
    "materialized_views",
    "membership_state_transitions",
    "recorded_model_outputs",
}


@pytest.mark.spec("§15.5", "§19.2")
def test_every_typed_store_is_compared_or_says_from_what_its_records_follow():
    assert {table.name for table in COMPARED} == PAIRS.keys()
    assert PAIRS.keys() | FOLLOWING == schema.STORES.keys()


def matters(world):
    """What the writes of `PAIRS` refer to, seen by everybody."""
    made = [
        *(create(name, "Note") for name in "nm"),
        *(create(name, "Topic") for name in ("topic", "topic-2")),
        *(filed(name, dated("filing_date")) for name in ("unit", "other", "third")),
        observed("granted", "held"),
    ]
    for document in made:
        assert code_of(world.submit(document, submitter="orchestrator")) is None
    world.host.time_us += 2 * WINDOW_US


def again(document, **changes):
    """The same operation of somebody else."""
    other = {"operation_id": op_id(f"{document['operation_id']}-again")}
    return changed(document, {**other, "idempotency_key": other["operation_id"], **changes})


@pytest.mark.spec("§15.5", "§19.2")
@pytest.mark.parametrize("store", PAIRS)
def test_two_writes_of_a_record_that_had_not_seen_each_other_conflict_in_every_store(world, store):
    first, second, code = PAIRS[store]
    matters(world)
    assert code_of(world.submit(again(first), submitter="orchestrator")) is None
    refused(world.submit(again(second), submitter="orchestrator"), code)


@pytest.mark.spec("§15.5", "K10")
@pytest.mark.parametrize("store", PAIRS)
def test_what_was_seen_is_no_conflict_in_any_store(world, store):
    first, second, _ = PAIRS[store]
    matters(world)
    first = again(first)
    world.submit(first, submitter="orchestrator")
    knowing = again(second, causal_parent_operation_ids=[first["operation_id"]])
    result = world.submit(knowing, submitter="orchestrator")
    assert getattr(result, "rejection", None) is None or result.rejection.check == "apply"


@pytest.mark.spec("§15.5", "§19.2")
@pytest.mark.parametrize("name", ["document_ref", "document_id"])
def test_two_filing_units_of_one_document_with_different_dates_conflict(world, name):
    of_document = {name: "D-1"}
    first = filed("u-1", dated("filing_date"), **of_document, filing_role="motion")
    assert code_of(world.submit(first)) is None
    exhibit = filed("u-2", dated("filing_date"), **of_document, filing_role="exhibit")
    assert code_of(world.submit(exhibit)) is None
    other = filed("u-3", later("filing_date"), **of_document)
    result = world.submit(other)
    refused(
        result, FIRST_WRITER, "primitive_effects.0.payload.filing_date_originating_calendar_date"
    )
    assert world.receipt(result)["existing_record_ids"] == ["u-1", "u-2"]
    assert code_of(world.submit(filed("u-4", later("filing_date"), **{name: "D-2"}))) is None
    seen = [first["operation_id"], exhibit["operation_id"]]
    assert code_of(world.submit(again(other, causal_parent_operation_ids=seen))) is None


@pytest.mark.spec("§15.5")
def test_a_policy_lets_a_person_decide_about_filing_dates(world):
    world.state("field_value_disagree", "user_review_required")
    world.submit(filed("u-1", dated("filing_date"), document_ref="D-1"))
    refused(world.submit(filed("u-2", later("filing_date"), document_ref="D-1")), REVIEW)
    assert [item.receipt["existing_record_ids"] for item in world.items()] == [["u-1"]]


@pytest.mark.spec("§15.5", "§19.2")
def test_a_record_that_one_takes_back_and_another_writes_is_in_conflict(world):
    made = filed("u", dated("filing_date"))
    world.submit(made)
    world.host.time_us += 2 * WINDOW_US
    assert code_of(world.submit(own("filing_unit_retract", "u"))) is None
    refused(world.submit(again(made)), FIRST_WRITER, "primitive_effects.0.effect_kind")


@pytest.mark.spec("§15.5", "§4.3.3")
def test_who_says_from_which_state_a_membership_goes_on_has_seen_it(world):
    matters(world)
    assert code_of(world.submit(member("candidate"))) is None
    stale = member("confirmed", from_state="rejected")
    refused(world.submit(stale), FIRST_WRITER, "primitive_effects.0.payload.to_state")
    assert code_of(world.submit(member("confirmed", from_state="candidate"))) is None
    refused(world.submit(member("rejected")), FIRST_WRITER)


@pytest.mark.spec("§15.5", "§4.3.10")
def test_a_link_is_revoked_by_whoever_has_not_seen_its_grant(world):
    assert code_of(world.submit(shared("ab"))) is None
    revoked = own("share_link_revoke", "link", revocation_reason="left")
    assert code_of(world.submit(revoked)) is None


# The queue


@pytest.mark.spec("§19.2")
def test_an_item_is_queued_once_however_often_it_is_sent(world):
    _, second, result = world.pair({"cites_refs": ["a"]}, {"cites_refs": ["a", "b"]})
    again = world.submit(second)
    refused(again, REVIEW)
    assert len(world.items()) == 1
    assert world.receipt(again)["adjudication_receipt_id"] == result.receipt_id
    other = changed(second, {"primitive_effects.0.payload.cites_refs": ["a", "c"]})
    refused(world.submit(other), REVIEW)
    assert len(world.items()) == 2


@pytest.mark.spec("§19.2")
def test_a_reviewers_operation_has_seen_what_the_item_names(world):
    _, second, result = world.pair({"cites_refs": ["a"]}, {"cites_refs": ["a", "b"]})
    settled = changed(
        second,
        {
            "operation_id": op_id("settled"),
            "idempotency_key": "settled",
            "adjudicates_receipt_ids": [result.receipt_id],
        },
    )
    late = adapt("n", {"cites_refs": ["z"]}, adjudicates_receipt_ids=[result.receipt_id])
    assert code_of(world.submit(settled)) is None
    assert world.node("n")["payload"]["cites_refs"] == ["a", "b"]
    assert world.items() == ()
    refused(world.submit(late), RESOLVED, "adjudicates_receipt_ids.0")


@pytest.mark.spec("§19.2")
def test_an_item_that_is_none_cannot_be_resolved(world):
    result = world.pair({"title": "a"}, {"title": "b"})[2]
    for receipt_id in ("nothing", result.receipt_id):
        document = adapt("n", {"x": 1}, adjudicates_receipt_ids=[receipt_id])
        refused(world.submit(document), UNKNOWN, "adjudicates_receipt_ids.0")


@pytest.mark.spec("§19.2")
def test_an_item_named_twice_is_not_resolved_twice(world):
    result = world.pair({"cites_refs": ["a"]}, {"cites_refs": ["a", "b"]})[2]
    named = [result.receipt_id] * 2
    twice = world.submit(adapt("n", {"x": 1}, adjudicates_receipt_ids=named))
    assert (twice.rejection.check, code_of(twice)) == ("apply", RESOLVED)
    assert len(world.items()) == 1


@pytest.mark.spec("§19.3")
def test_the_queue_goes_page_by_page(world):
    world.pair({"cites_refs": ["a"]}, {"other": 1})
    names = []
    for number in range(5):
        result = world.submit(adapt("n", {"cites_refs": ["a", str(number)]}))
        names.append(result.receipt_id)
    with world.ledger.view() as view:
        assert paged(view, "open") == names
    for name in names[:3]:
        document = envelope("search_run_record", [effect("receipt_only", query="q")])
        assert code_of(world.submit(document | {"adjudicates_receipt_ids": [name]})) is None
    with world.ledger.view() as view:
        assert paged(view, "open") == names[3:]
        assert paged(view, "resolved") == names[:3]


def paged(view, state):
    receipt_ids, after = [], 0
    while after is not None:
        page = adjudications(view, state, after=after, limit=2)
        receipt_ids += [item.receipt["receipt_id"] for item in page.items]
        after = page.next_after
    return receipt_ids


# Whatever is written


VALUES = st.sampled_from([None, "a", "b", ["a"], ["a", "b"], ["b", "a"], 1, 1.0, True, {"x": 1}])
NAMES = st.sampled_from(
    ["title", "reply_id", "cites_refs", "source_refs", "valid_from", "valid_to", "authority_note"]
)
PAYLOADS = st.dictionaries(NAMES, VALUES, min_size=1)


@pytest.mark.spec("§19.2")
@given(PAYLOADS, PAYLOADS, st.booleans(), st.randoms())
def test_the_order_of_fields_does_not_change_what_is_found(before, after, whole, random):
    def shuffled(fields):
        names = list(fields)
        random.shuffle(names)
        return {name: fields[name] for name in names}

    differing = differences(before, after, {}, whole=whole)
    assert differences(shuffled(before), shuffled(after), {}, whole=whole) == differing
    assert differences(before, before, {}, whole=whole) == ()
    turned = differences(after, before, {}, whole=whole)
    assert {(difference.conflict_class, difference.field) for difference in turned} == {
        (difference.conflict_class, difference.field) for difference in differing
    }


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["n", "m"]),
        PAYLOADS,
        st.booleans(),
        st.integers(0, 3_000_000),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.spec("§19.2", "K5")
@given(WRITES, st.randoms())
def test_whatever_is_written_blindly_verifies_and_does_not_depend_on_field_order(writes, random):
    outcomes = []
    for turn in (False, True):
        world = ConflictWorld()
        for name in ("n", "m"):
            world.submit(create(name, "Note"))
        world.host.time_us += WINDOW_US
        codes = []
        for number, (name, fields, creates, later_us, reversed_fields) in enumerate(writes):
            world.host.time_us += later_us
            names = list(fields)
            if turn and reversed_fields:
                random.shuffle(names)
            stated = {own_name: fields[own_name] for own_name in names}
            document = (
                create(f"new-{number}", "Note", identity_key=name, **stated)
                if creates
                else adapt(name, stated)
            )
            own = f"operation-{number}"
            document = changed(document, {"operation_id": op_id(own), "idempotency_key": own})
            codes.append(code_of(world.submit(document)))
        assert findings(world.ledger) == ()
        outcomes.append((codes, world.log()[2:]))
    assert outcomes[0] == outcomes[1]


# Nothing is left out


def test_every_reason_of_the_check_is_one_that_is_proven_here():
    stated = {*v12.REASONS.values(), v12.RESOLVED_CODE}
    calls = (
        node.args[0]
        for node in ast.walk(ast.parse(Path(v12.__file__).read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refusal"
    )
    stated |= {call.value for call in calls if isinstance(call, ast.Constant)}
    assert stated == {FIRST_WRITER, LOWER, DEFERRED, REVIEW, UNKNOWN, RESOLVED}
    assert ITEM_KIND == REVIEW


@pytest.mark.spec("§15.5")
def test_what_the_last_writer_wins_is_no_part_of_a_merge(world):
    world.state("field_value_disagree", "last_writer_wins")
    before = {"source_refs": ["a"], "title": "a"}
    refused(world.pair(before, {"source_refs": ["b"], "title": "b"})[2], DEFERRED)
    assert set(world.node("n")["payload"]["merge_provenance"]) == {"source_refs"}
