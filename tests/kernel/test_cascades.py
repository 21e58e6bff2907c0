"""What takes a node takes what hangs on it: stated whole, brought back whole (§3.3, §4.3.1)."""

import pytest

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import MAX_EFFECTS
from kernel.rollback.execute import rollback_operation
from kernel.transaction.checks.verbs import NAMED_MAX
from kernel.transaction.kernel import Kernel
from tests.kernel.build import (
    changed,
    code_of,
    create,
    effect,
    envelope,
    link,
    memory_ledger,
    submit,
    taking,
    unlink,
)

pytestmark = pytest.mark.spec("§3.3", "§4.3.1")

INCOMPLETE, TOO_WIDE = "envelope_cascade_incomplete", "envelope_cascade_too_wide"
VERBS = pytest.mark.parametrize("verb", ["retract", "soft_delete", "collapse"])
MEMBERSHIP = "corpus:test|n"


@pytest.fixture
def ledger():
    """A node with an edge that leaves it, one that leads to it, and a membership."""
    ledger = memory_ledger()
    made = [create("n", "Note"), create("m", "Note"), link("out", "n", "m"), link("in", "m", "n")]
    assert {code_of(result) for result in submit(ledger, *made)} == {None}
    return ledger


def everything(ledger):
    with ledger.view() as view:
        return {
            table.name: [bytes(row["record"]) for row in view.tables.scan(TableQuery(table))]
            for table in (schema.nodes, schema.edges, schema.corpus_membership_records)
        }


def refused(ledger, document):
    rejection = submit(ledger, document).rejection
    with ledger.view() as view:
        [receipt] = view.receipts_of_kind("envelope_validation_failed", limit=1)
    return rejection.check, rejection.reason_code, rejection.field, receipt.get("hanging_refs")


def beside(document, *effects):
    """The operation with further effects, which its scope names as well."""
    return envelope(document["semantic_intent"], [*document["primitive_effects"], *effects])


def without(document, place):
    effects = [*document["primitive_effects"]]
    del effects[place]
    return document | {"primitive_effects": effects}


@VERBS
@pytest.mark.parametrize(
    ("place", "left"), [(1, "out"), (2, "in"), (3, MEMBERSHIP)], ids=["out", "in", "membership"]
)
def test_what_is_left_hanging_on_a_taken_node_is_named(ledger, verb, place, left):
    before = everything(ledger)
    document = without(taking(verb, "n", "out", "in"), place)
    assert refused(ledger, document) == ("V3", INCOMPLETE, "primitive_effects", [left])
    assert everything(ledger) == before


@VERBS
def test_a_bare_retraction_names_all_that_hangs_on_the_node(ledger, verb):
    document = taking(verb, "n", corpora=())
    assert refused(ledger, document)[3] == ["in", "out", MEMBERSHIP]


@VERBS
def test_the_whole_cascade_takes_all_and_undoing_it_brings_all_back(ledger, verb):
    before = everything(ledger)
    whole = changed(
        taking(verb, "n", "out", "in"),
        {"affected_subgraph_descriptor.scope_kind": "node_with_neighbors"},
    )
    result = submit(ledger, whole)
    assert code_of(result) is None
    with ledger.view() as view:
        assert view.standing_edges("n", limit=9) == view.standing_memberships("n", limit=9) == []
    with ledger.transaction() as transaction:
        rollback_operation(Kernel(), transaction, result.operation_id)
    assert everything(ledger) == before


def test_what_was_removed_before_no_longer_hangs_on_the_node(ledger):
    rejected = effect("membership_write", "n", corpus_id="corpus:test", to_state="rejected")
    submit(ledger, unlink("out"), unlink("in"))
    assert code_of(submit(ledger, envelope("corpus_membership_reject", [rejected]))) is None
    assert code_of(submit(ledger, taking("retract", "n", corpora=()))) is None


@pytest.mark.spec("§4.3.19")
def test_a_confirmed_or_blocked_membership_hangs_on_its_node_as_well(ledger):
    confirmed = effect("membership_write", "n", corpus_id="corpus:test", to_state="confirmed")
    submit(ledger, envelope("corpus_membership_confirm", [confirmed]))
    bare = taking("retract", "n", "out", "in", corpora=())
    assert refused(ledger, bare)[3] == [MEMBERSHIP]
    deleted = effect("membership_write", "n", corpus_id="corpus:test", to_state="soft_deleted")
    assert code_of(submit(ledger, beside(bare, deleted))) is None


@VERBS
def test_an_edge_between_two_that_go_together_is_stated_once(ledger, verb):
    other, revoke = taking(verb, "m")["primitive_effects"]
    both = beside(taking(verb, "n", "out", "in"), other, revoke | {"effect_id": "revoke:m"})
    assert code_of(submit(ledger, both)) is None


@VERBS
@pytest.mark.parametrize("kind", ["edge_create", "edge_write", "attach_source_binding"])
@pytest.mark.parametrize("ends", [("n", "m"), ("m", "n")])
def test_nothing_is_hung_on_a_node_by_the_operation_that_takes_it(ledger, verb, kind, ends):
    source, target = ends
    document = taking(verb, "n", "out", "in")
    effect_ = effect(kind, "new", source_node_id=source, target_node_id=target, edge_type="t")
    document = beside(document, effect_)
    assert refused(ledger, document)[1:] == (INCOMPLETE, "primitive_effects", ["new"])


def test_an_edge_that_is_removed_and_made_again_hangs_on_its_node(ledger):
    document = taking("retract", "n", "out", "in")
    again = effect("edge_create", "out", source_node_id="n", target_node_id="m", edge_type="t")
    document = beside(document, again)
    assert refused(ledger, document)[1:] == (INCOMPLETE, "primitive_effects", ["out"])


def test_an_edge_between_others_may_be_made_meanwhile(ledger):
    document = taking("collapse", "n", "out", "in")
    ends = {"source_node_id": "m", "target_node_id": "m", "edge_type": "t"}
    document = beside(document, effect("edge_create", "new", **ends))
    assert code_of(submit(ledger, document)) is None


def test_a_binding_may_be_detached_instead_of_removed(ledger):
    document = taking("retract", "n", "in")
    document = beside(document, effect("detach_source_binding", "out"))
    assert code_of(submit(ledger, document)) is None


def test_what_a_caller_puts_for_an_end_or_a_corpus_ends_no_process(ledger):
    document = taking("retract", "n", "out", "in")
    ends = {"source_node_id": ["n"], "target_node_id": {}, "edge_type": "t"}
    document = beside(document, effect("edge_create", "new", **ends))
    assert code_of(submit(ledger, document)) == "edge_endpoint_missing"
    document = taking("retract", "n", "out", "in", corpora=())
    document = beside(document, effect("membership_revoke", "n", corpus_id=["c"]))
    assert code_of(submit(ledger, document)) == INCOMPLETE


@pytest.mark.parametrize("kind", ["node_write", "node_retract"])
def test_only_the_verbs_with_a_cascade_have_to_state_one(ledger, kind):
    made = effect("edge_create", "new", source_node_id="m", target_node_id="n")
    made["payload"]["edge_type"] = "supersedes"
    document = envelope("supersede", [effect("node_write", "m", title="t"), made])
    document = beside(document, effect(kind, "n") | {"effect_id": "second"})
    assert code_of(submit(ledger, document)) is None


def test_a_refusal_names_few_of_many(ledger):
    submit(ledger, *(link(f"e{number:03}", "n", "m") for number in range(NAMED_MAX + 1)))
    named = refused(ledger, taking("retract", "n", corpora=()))[3]
    assert len(named) == NAMED_MAX


def test_more_than_an_operation_can_state_is_removed_before(ledger):
    many = [f"e{number:03}" for number in range(MAX_EFFECTS)]
    submit(ledger, *(link(name, "m", "m") for name in many))
    assert refused(ledger, taking("retract", "m", corpora=()))[1] == TOO_WIDE
    submit(ledger, *(unlink(name) for name in [*many[9:], "out", "in"]))
    rest = taking("retract", "m", *many[:9])
    assert code_of(submit(ledger, rest)) is None
