"""What each effect does to its store, the state before that is kept, and the receipts beside it."""

import hashlib
import itertools
import json

import pytest

from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.records.memberships import TRANSITIONS
from kernel.values.host import iso_time
from tests.kernel.build import (
    START_US,
    accept,
    adapt,
    changed,
    code_of,
    create,
    effect,
    envelope,
    everything,
    ledger_on,
    link,
    relink,
    submit,
    taking,
    unlink,
)

FIRST = "primitive_effects.0"


@pytest.fixture
def founded():
    return ledger_on(MemoryStore())


@pytest.fixture
def ledger(founded):
    return founded[0]


def record(ledger, table, key):
    with ledger.view() as view:
        return view.record(table, key)


def at(later_us=0):
    return iso_time(START_US + later_us)


# Nodes

LATTICE = PUBLIC, INTERNAL, WALLED, SEALED = (
    "public_open",
    "work_product_internal",
    "firewalled",
    "sealed",
)


@pytest.mark.spec("§4.3.1")
def test_a_create_writes_the_first_version_of_a_node(ledger):
    by = accept(ledger, create("n", "Note", title="t", deep={"a": [1]}))
    assert record(ledger, schema.nodes, "n") == {
        "node_id": "n",
        "node_kind": "Note",
        "state": "active",
        "visibility_class": "public_open",
        "version": 1,
        "payload": {"title": "t", "deep": {"a": [1]}},
        "created_by_operation_id": by,
        "updated_by_operation_id": by,
        "updated_at": at(),
    }
    [row] = everything(ledger)["nodes"]
    assert row["node_kind"] == "Note"


@pytest.mark.spec("§4.3.1")
def test_a_write_merges_its_fields_and_leaves_the_others(ledger):
    first = accept(ledger, create("n", "Note", title="t", deep={"a": 1, "b": 2}))
    by = accept(ledger, adapt("n", node_kind="Note", deep={"c": 3}, more=None))
    stored_record = record(ledger, schema.nodes, "n")
    assert stored_record["payload"] == {"title": "t", "deep": {"c": 3}, "more": None}
    assert stored_record["version"] == 2
    assert stored_record["created_by_operation_id"] == first
    assert (stored_record["updated_by_operation_id"], stored_record["updated_at"]) == (by, at(1))


@pytest.mark.spec("INV-PROV-TAINT-1")
@pytest.mark.parametrize(
    ("before", "after"),
    list(itertools.product(LATTICE, repeat=2)),
)
def test_a_visibility_class_rises_or_stays(ledger, before, after):
    accept(ledger, create("n", "Note", visibility_class=before))
    result = submit(ledger, adapt("n", visibility_class=after))
    raised = LATTICE.index(after) >= LATTICE.index(before)
    assert code_of(result) == (None if raised else "visibility_class_lowered")
    stored_record = record(ledger, schema.nodes, "n")
    assert stored_record["visibility_class"] == (after if raised else before)
    assert "visibility_class" not in stored_record["payload"]


@pytest.mark.spec("§4.3.1")
def test_a_retraction_marks_the_node_and_keeps_it(ledger):
    accept(ledger, create("n", "Note", title="t"))
    taken = changed(taking("collapse", "n"), {f"{FIRST}.payload": {"why": "w"}})
    by = accept(ledger, taken)
    stored_record = record(ledger, schema.nodes, "n")
    assert (stored_record["state"], stored_record["retracted_by_operation_id"]) == ("retracted", by)
    assert stored_record["payload"] == {"title": "t", "why": "w"}


# Edges


@pytest.fixture
def joined(ledger):
    accept(
        ledger,
        create("claim", "VersionedClaim"),
        create("cu", "ConsolidatedUnderstanding"),
        link("e", "claim", "cu", "supporting"),
    )
    return ledger


@pytest.mark.spec("§4.3.2")
def test_an_edge_is_created_between_its_ends(joined):
    stored_record = record(joined, schema.edges, "e")
    assert stored_record == stored_record | {
        "edge_id": "e",
        "source_node_id": "claim",
        "target_node_id": "cu",
        "edge_type": "informs",
        "edge_metadata": {"essentiality": "supporting"},
        "state": "active",
        "version": 1,
        "updated_at": at(2),
    }
    [row] = everything(joined)["edges"]
    ends = (row["source_node_id"], row["target_node_id"], row["input_from"])
    assert ends == ("claim", "cu", "VersionedClaim")


@pytest.mark.spec("§4.3.2")
def test_an_edge_that_is_removed_is_marked_and_feeds_nothing(joined):
    by = accept(joined, unlink("e"))
    stored_record = record(joined, schema.edges, "e")
    assert (
        stored_record["state"],
        stored_record["removed_by_operation_id"],
        stored_record["removed_at"],
    ) == (
        "removed",
        by,
        at(3),
    )
    [row] = everything(joined)["edges"]
    assert row["input_from"] is None
    for again in (unlink("e"), relink(effect("edge_reclassify", "e"))):
        assert code_of(submit(joined, again)) == "edge_not_found"


@pytest.mark.spec("§4.3.2")
def test_a_removed_edge_can_be_made_anew_between_other_ends(joined):
    accept(joined, unlink("e"), create("other", "ConsolidatedUnderstanding"))
    accept(joined, link("e", "cu", "other"))
    stored_record = record(joined, schema.edges, "e")
    assert (
        stored_record["source_node_id"],
        stored_record["target_node_id"],
        stored_record["state"],
    ) == (
        "cu",
        "other",
        "active",
    )
    assert "removed_at" not in stored_record
    assert stored_record["version"] == 4


@pytest.mark.spec("§4.3.2")
def test_a_reclassification_changes_type_and_metadata_and_no_more(joined):
    effect_ = effect("edge_reclassify", "e", edge_type="refutes", edge_metadata={"note": "n"})
    before = record(joined, schema.edges, "e")
    by = accept(joined, envelope("document_relationship_update", [effect_]))
    assert record(joined, schema.edges, "e") == before | {
        "edge_type": "refutes",
        "edge_metadata": {"essentiality": "supporting", "note": "n"},
        "version": 2,
        "updated_by_operation_id": by,
        "updated_at": at(3),
    }


@pytest.mark.spec("K1")
def test_an_edge_may_be_created_under_its_canonical_kind(joined):
    document = changed(link("e2", "claim", "cu"), {f"{FIRST}.effect_kind": "edge_write"})
    by = accept(joined, document)
    assert record(joined, schema.edges, "e2")["state"] == "active"
    rows = [effect_of(row) for row in everything(joined)["applied_effects"]]
    assert (rows[-1]["effect_kind"], rows[-1]["canonical_kind"]) == ("edge_write", "edge_write")
    with joined.view() as view:
        row = json.loads(view.log_row_of(by)["row_bytes"])
    assert row["effect_kind_set"] == row["canonical_effect_kind_set"] == ["edge_write"]


# Memberships

STATES = ("candidate", "confirmed", "rejected", "soft_deleted")
WAYS = {
    None: (),
    "candidate": ("candidate",),
    "confirmed": ("candidate", "confirmed"),
    "rejected": ("candidate", "rejected"),
    "soft_deleted": ("candidate", "confirmed", "soft_deleted"),
}
LEGAL = {
    None: {"candidate"},
    "candidate": {"confirmed", "rejected"},
    "confirmed": {"rejected", "soft_deleted"},
    "rejected": {"candidate"},
    "soft_deleted": {"confirmed"},
}


_merges = itertools.count()

VERB_OF_STATE = {
    "candidate": "corpus_membership_add",
    "confirmed": "corpus_membership_confirm",
    "rejected": "corpus_membership_reject",
}


def member(**payload):
    """A membership write by the verb of its state; a cascade has no verb but that of its cause."""
    effect_ = effect("membership_write", "n", corpus_id="c", **payload)
    verb = VERB_OF_STATE.get(payload.get("to_state", "candidate"))
    if verb is not None:
        return envelope(verb, [effect_])
    name = f"merged-{next(_merges)}"
    ends = {"source_node_id": name, "target_node_id": name, "edge_type": "same_as"}
    effects = [
        effect("node_write", name, node_kind="Note"),
        effect("edge_create", f"edge:{name}", **ends),
        effect("materialized_view_invalidation", "v"),
    ]
    return envelope("merge", [*effects, effect_])


def membership(ledger):
    return record(ledger, schema.corpus_membership_records, "c|n")


def refused(before, after):
    """The code of a transition that is not in the table."""
    follows = after in ("confirmed", "rejected", "soft_deleted")
    never_was = before is None and follows
    return "record_not_found" if never_was else "membership_transition_disallowed"


@pytest.mark.spec("§4.3.3")
@pytest.mark.parametrize(
    ("before", "after"), list(itertools.product(WAYS, (*STATES, "policy_blocked", "nonsense")))
)
def test_every_pair_of_membership_states_is_a_transition_or_refused(ledger, before, after):
    for state in WAYS[before]:
        accept(ledger, member(to_state=state))
    standing = membership(ledger)
    result = submit(ledger, member(to_state=after, from_state=before))
    if after in LEGAL[before]:
        assert code_of(result) is None
        assert membership(ledger)["state"] == after
        assert membership(ledger)["version"] == len(WAYS[before]) + 1
    else:
        assert code_of(result) == refused(before, after)
        assert membership(ledger) == standing


@pytest.mark.spec("§4.3.3")
def test_the_transitions_that_the_specification_disallows_are_not_in_the_table():
    disallowed = {
        ("confirmed", "candidate"),
        ("rejected", "confirmed"),
        ("soft_deleted", "candidate"),
    }
    assert not disallowed & TRANSITIONS


@pytest.mark.spec("§4.3.3")
@pytest.mark.parametrize("before", WAYS)
def test_a_revocation_is_a_rejection(ledger, before):
    for state in WAYS[before]:
        accept(ledger, member(to_state=state))
    revocation = effect("membership_revoke", "n", corpus_id="c", to_state="confirmed")
    document = envelope("membership_revoke", [revocation])
    result = submit(ledger, document)
    legal = "rejected" in LEGAL[before]
    assert code_of(result) == (None if legal else refused(before, "rejected"))
    if legal:
        assert membership(ledger)["state"] == "rejected"


@pytest.mark.spec("§4.3.3")
@pytest.mark.parametrize("stated", [None, *STATES])
def test_the_state_that_an_effect_starts_from_must_be_the_one_that_is(ledger, stated):
    accept(ledger, member())
    result = submit(ledger, member(to_state="confirmed", from_state=stated))
    expected = None if stated == "candidate" else "membership_transition_disallowed"
    assert code_of(result) == expected


def test_a_membership_says_which_transition_made_it(ledger):
    by = accept(ledger, member())
    assert membership(ledger) == {
        "corpus_id": "c",
        "node_id": "n",
        "state": "candidate",
        "transition_kind": "corpus_membership_add",
        "version": 1,
        "updated_by_operation_id": by,
        "updated_at": at(),
    }
    accept(ledger, member(to_state="confirmed", transition_kind="user_confirm_event"))
    assert membership(ledger)["transition_kind"] == "user_confirm_event"


# Projections


@pytest.mark.spec("§4.3.5")
def test_an_index_entry_is_kept_by_index_and_target(ledger):
    by = accept(
        ledger,
        create(
            "n",
            "Note",
            effect("index_update", "x", index_name="i", entry={"a": 1}),
            effect("index_update", "y", index_name="i"),
        ),
    )
    rows = everything(ledger)["derived_indexes"]
    assert [row["entry_id"] for row in rows] == ["i|x", "i|y"]
    assert record(ledger, schema.derived_indexes, "i|x") == {
        "index_name": "i",
        "target_ref": "x",
        "entry": {"a": 1},
        "updated_by_operation_id": by,
        "updated_at": at(),
    }
    assert record(ledger, schema.derived_indexes, "i|y")["entry"] == {}


@pytest.mark.spec("K3")
def test_a_view_is_stale_until_it_is_computed_again(ledger):
    accept(ledger, create("n", "Note", effect("materialized_view_invalidation", "v")))
    assert record(ledger, schema.materialized_views, "v")["stale"] is True
    accept(ledger, create("m", "Note", effect("materialized_view_recompute", "v")))
    assert record(ledger, schema.materialized_views, "v")["stale"] is False


# Pre-images


@pytest.mark.spec("K2")
def test_the_bytes_of_the_state_before_are_kept_under_their_hash(joined):
    confirmed = effect("membership_write", "claim", corpus_id="corpus:test", to_state="confirmed")
    steps = [
        (schema.nodes, "claim", adapt("claim", title="t")),
        (schema.nodes, "claim", adapt("claim", title="u")),
        (schema.edges, "e", relink(effect("edge_reclassify", "e", edge_type="x"))),
        (
            schema.corpus_membership_records,
            "corpus:test|claim",
            envelope("corpus_membership_confirm", [confirmed]),
        ),
    ]
    for table, key, document in steps:
        with joined.view() as view:
            before = view.tables.get(table, key)["record"]
        accept(joined, document)
        with joined.view() as view:
            after = view.tables.get(table, key)["record"]
            sequence = view.head().ec_sequence_number
            rows = view.tables.scan(
                TableQuery(schema.applied_effects, {"ec_sequence_number": sequence})
            )
            applied = [effect_of(row) for row in rows]
            first_hash = applied[0]["pre_image_hash"]
            assert first_hash == hashlib.sha256(before).hexdigest()
            assert view.tables.get(schema.pre_images, first_hash)["content"] == before
        assert applied[-1]["post_image_hash"] == hashlib.sha256(after).hexdigest()
        assert {(row["store"], row["record_key"]) for row in rows} == {(table.name, key)}


@pytest.mark.spec("K2")
def test_what_was_not_there_has_no_pre_image(ledger):
    accept(ledger, create("n", "Note", effect("index_update", "x", index_name="i")))
    rows = everything(ledger)
    assert rows["pre_images"] == []
    applied = [effect_of(row) for row in rows["applied_effects"]]
    assert [applied_effect["pre_image_hash"] for applied_effect in applied] == ["", "", ""]


def test_two_effects_on_one_record_keep_the_state_between_them(ledger):
    accept(ledger, create("n", "Note"))
    second = effect("node_write", "n", title="b") | {"effect_id": "second"}
    accept(ledger, envelope("annotate", [effect("node_write", "n", title="a"), second]))
    applied = [effect_of(row) for row in everything(ledger)["applied_effects"]]
    first, second = applied[-2:]
    assert second["pre_image_hash"] == first["post_image_hash"]
    with ledger.view() as view:
        between = view.tables.get(schema.pre_images, second["pre_image_hash"])["content"]
    assert json.loads(between)["payload"] == {"title": "a"}


# Receipts


@pytest.mark.spec("§9.3")
def test_a_receipt_effect_emits_its_payload(ledger):
    why = effect("receipt_only", cu_node_ref="cu", reason="user_marked_synthesis_no_spans")
    why["payload"]["source_doc_refs"] = []
    document = create(
        "cu",
        "ConsolidatedUnderstanding",
        why | {"receipt_subkind": "source_span_unavailable"},
        source_spans=[],
        display_kind="synthesis_summary_no_spans",
    )
    by = accept(ledger, document)
    with ledger.view() as view:
        [receipt] = view.receipts_of(by)
    assert receipt == receipt | {
        "receipt_kind": "source_span_unavailable",
        "operation_id": by,
        "cu_node_ref": "cu",
        "reason": "user_marked_synthesis_no_spans",
        "emitted_at": at(),
    }
    applied = [effect_of(row) for row in everything(ledger)["applied_effects"]]
    assert (applied[2]["store"], applied[2]["record_key"]) == ("receipts", receipt["receipt_id"])
    assert applied[2]["pre_image_hash"] == applied[2]["post_image_hash"] == ""


def test_a_receipt_of_no_subkind_is_of_the_verbs_kind(ledger):
    by = accept(ledger, envelope("search_run_record", [effect("receipt_only", query="q")]))
    with ledger.view() as view:
        assert [receipt["receipt_kind"] for receipt in view.receipts_of(by)] == [
            "search_run_record"
        ]


@pytest.mark.spec("K7")
@pytest.mark.spec("INV-A-TAINT-INFECTIOUS-1")
@pytest.mark.parametrize(
    ("taint", "resolved", "emitted"),
    [
        ([], None, False),
        ([PUBLIC], PUBLIC, False),
        ([PUBLIC] * 3, PUBLIC, False),
        ([SEALED], SEALED, True),
        ([INTERNAL, INTERNAL], INTERNAL, True),
        ([PUBLIC, INTERNAL], INTERNAL, True),
        ([PUBLIC, SEALED, PUBLIC, PUBLIC], SEALED, True),
        ([WALLED, INTERNAL, PUBLIC], WALLED, True),
    ],
)
def test_a_mixed_or_restricted_packet_leaves_a_taint_receipt(ledger, taint, resolved, emitted):
    stated = {
        "source_visibility_taint": taint,
        "resolved_output_visibility_class": resolved,
    }
    document = create("n", "Note", visibility_class=resolved or PUBLIC, envelope=stated)
    by = accept(ledger, document)
    with ledger.view() as view:
        receipts = view.receipts_of(by)
    assert len(receipts) == emitted
    if emitted:
        assert receipts[0] == receipts[0] | {
            "receipt_kind": "taint_propagation",
            "source_visibility_taint": taint,
            "source_visibility_taint_distinct": sorted(set(taint)),
            "resolved_output_visibility_class": resolved,
            "source_node_count_per_class": {name: taint.count(name) for name in set(taint)},
            "output_node_ref": "n",
        }
    assert record(ledger, schema.nodes, "n")["visibility_class"] == (resolved or PUBLIC)
