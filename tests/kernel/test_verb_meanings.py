"""A verb does what it says: what its effects may state, from where, and with which receipts."""

import itertools

import pytest

from kernel.algebra.verbs import SEMANTIC_VERBS
from kernel.ledger import schema
from kernel.model.receipt import STATED_BY_ENVELOPES
from tests.kernel.build import (
    FakeHost,
    adapt,
    code_of,
    create,
    effect,
    envelope,
    memory_ledger,
    op_id,
    submit,
    taking,
    twin,
)
from tests.kernel.every import binding, own
from tests.kernel.verb_meanings import (
    CARRIED,
    CONTRADICTING,
    DECOMPOSITION,
    FORBIDDEN,
    OWN_RECEIPT,
    UNSPOKEN,
    composed,
    spoken,
)

_names = itertools.count()

COMPOSITION = "envelope_verb_composition_invalid"
REFUSED = "envelope_verb_decomposition_forbidden_primitive"


@pytest.fixture(scope="module")
def written():
    fake = FakeHost()
    ledger = memory_ledger(fake)
    for node_id in ("n", "m"):
        assert code_of(submit(ledger, create(node_id, "Note", title="t"))) is None
    return ledger, fake


@pytest.fixture
def ledger(written):
    return twin(*written)[0]


def record(ledger, table, key):
    with ledger.view() as view:
        return view.record(table, key)


def refusal(ledger, verb, effects):
    result = submit(ledger, envelope(verb, effects), submitter="orchestrator")
    rejection = getattr(result, "rejection", None)
    return (None, None) if rejection is None else (rejection.check, rejection.reason_code)


def move(verb, state, node="n"):
    return envelope(verb, [effect("node_write", node, state=state)])


RETRACT = taking("retract", "n")
BACK = [
    effect("node_write", "n", state="active"),
    effect("membership_write", "n", corpus_id="corpus:test", to_state="candidate"),
]
RESTORE = envelope("restore", BACK)
"""The node, and its membership as what it was before it was confirmed."""


def done(ledger, *documents):
    """The code with which the last one was refused; the others were accepted."""
    codes = [code_of(submit(ledger, dict(document))) for document in fresh(documents)]
    assert codes[:-1] == [None] * (len(codes) - 1), codes
    return codes[-1]


def fresh(documents):
    for document in documents:
        name = f"again-{next(_names)}"
        yield document | {"operation_id": op_id(name), "idempotency_key": name}


@pytest.mark.spec("§3.3")
@pytest.mark.parametrize("verb", DECOMPOSITION)
def test_what_a_row_of_the_table_says_is_admitted(ledger, verb):
    assert refusal(ledger, verb, composed(verb))[0] not in ("V1", "V3")


@pytest.mark.spec("§3.3", "§3.6", "K4")
@pytest.mark.parametrize(("verb", "kind", "payload"), CONTRADICTING)
def test_an_effect_that_says_something_else_than_its_verb_is_refused(ledger, verb, kind, payload):
    contradicting = spoken(verb, kind, 9) | {"payload": payload}
    whole = composed(verb)
    assert refusal(ledger, verb, [*whole, contradicting]) == ("V3", COMPOSITION)
    rest = [stated_effect for stated_effect in whole if stated_effect["effect_kind"] != kind]
    if len(rest) < len(whole):
        assert refusal(ledger, verb, [contradicting, *rest]) == ("V3", COMPOSITION)


@pytest.mark.spec("§3.3", "§13.2")
def test_a_binding_may_say_that_it_waits_for_its_intake(ledger):
    effects = composed("source_binding_create")
    effects[0]["payload"]["lifecycle_state"] = "pending_intake"
    assert refusal(ledger, "source_binding_create", effects)[0] not in ("V1", "V3")


@pytest.mark.spec("§3.6")
@pytest.mark.parametrize(
    ("verb", "kind"),
    [*((verb, kind) for verb, kinds in FORBIDDEN.items() for kind in kinds), *UNSPOKEN],
)
def test_a_kind_that_means_something_else_is_refused(ledger, verb, kind):
    assert refusal(ledger, verb, [*composed(verb), effect(kind, "n")]) == ("V3", REFUSED)


@pytest.mark.spec("§3.3", "§3.6")
@pytest.mark.parametrize(("verb", "kind"), CARRIED)
def test_what_takes_or_brings_back_a_node_carries_what_hangs_on_it(ledger, verb, kind):
    assert refusal(ledger, verb, [*composed(verb), spoken(verb, kind, 9)])[1] != REFUSED


@pytest.mark.spec("§3.3", "INV-J-METADATA-LOCK-1")
@pytest.mark.parametrize("verb", OWN_RECEIPT)
def test_a_verb_with_a_receipt_is_satisfied_by_its_own_alone(ledger, verb):
    [place] = [
        n
        for n, stated_effect in enumerate(composed(verb))
        if stated_effect["effect_kind"] == "receipt_only"
    ]
    for subkind in STATED_BY_ENVELOPES:
        effects = composed(verb)
        effects[place]["receipt_subkind"] = subkind
        expected = subkind in OWN_RECEIPT[verb]
        assert (refusal(ledger, verb, effects) == ("V3", COMPOSITION)) != expected, subkind


@pytest.mark.spec("§3.3")
@pytest.mark.parametrize(
    "kind", [effect_kind for kinds in OWN_RECEIPT.values() for effect_kind in kinds]
)
def test_no_other_verb_states_the_receipt_that_makes_a_verb(ledger, kind):
    effect_ = effect("receipt_only") | {"receipt_subkind": kind}
    for verb in set(DECOMPOSITION) - {"simulate"}:
        if kind not in OWN_RECEIPT.get(verb, ()):
            assert refusal(ledger, verb, [*composed(verb), effect_])[0] == "V3", verb


@pytest.mark.spec("§3.3")
def test_restore_restores_what_retract_and_soft_delete_took(ledger):
    for take in (RETRACT, taking("soft_delete", "n"), collapse("n")):
        assert done(ledger, take, RESTORE) is None
        node = record(ledger, schema.nodes, "n")
        assert node["state"] == "active"
        assert "retracted_by_operation_id" not in node


def collapse(node):
    return taking("collapse", node)


@pytest.mark.spec("§3.3", "§3.2")
def test_restore_does_not_restore_what_it_did_not_take(ledger):
    assert done(ledger, move("restore", "active")) == "node_state_disallowed"
    quarantine = own("quarantine", "n", quarantine_reason="doubt")
    assert done(ledger, quarantine, move("restore", "active")) == "node_state_disallowed"
    assert done(ledger, RETRACT) == "node_state_disallowed"
    assert done(ledger, collapse("n")) == "node_state_disallowed"
    new = [effect("node_write", "b", node_kind="SourceBinding"), binding(1, "b")]
    bound = effect("edge_create", "e", source_node_id="b", target_node_id="m", edge_type="binds")
    create_it = envelope("source_binding_create", [*new, bound])
    disable = move("source_binding_disable", "disabled", "b")
    restore = move("restore", "active", "b")
    assert done(ledger, create_it, disable, restore) == "node_state_disallowed"


@pytest.mark.spec("§4.3.1")
def test_a_retraction_by_either_kind_names_its_operation(ledger):
    for node, document in (("n", RETRACT), ("m", collapse("m"))):
        assert done(ledger, document) is None
        stored_record = record(ledger, schema.nodes, node)
        assert (
            stored_record["retracted_by_operation_id"] == stored_record["updated_by_operation_id"]
        )


WRITERS = {
    "field_adapt": adapt("n", title="u"),
    "annotate": envelope("annotate", [effect("node_write", "n", title="u")]),
    "metadata_field_set": envelope("metadata_field_set", [effect("node_write", "n", title="u")]),
    "rescope": own("rescope", "n", visibility_scope="s"),
    "review_disposition": own("review_disposition", "n", review_disposition="r"),
    "authorize_access": own("authorize_access", "n", grantee="u"),
    "mark_contested": envelope(
        "mark_contested",
        [
            effect("node_write", "n", title="u"),
            effect(
                "edge_create",
                "e",
                source_node_id="n",
                target_node_id="m",
                edge_type="contradicts",
            ),
        ],
    ),
}
LOCKED = ["title", "visibility_scope", "review_disposition", "authorized_access"]


def lock(*names):
    return envelope("field_lock", [effect("node_write", "n", field_lock=list(names))])


def override(**fields):
    receipt = effect("receipt_only") | {"receipt_subkind": "metadata_field_override"}
    return envelope("metadata_field_override", [effect("node_write", "n", **fields), receipt])


@pytest.mark.spec("§4.3", "INV-J-METADATA-LOCK-1")
@pytest.mark.parametrize("verb", WRITERS)
def test_a_locked_field_is_locked_for_every_verb_that_writes_it(ledger, verb):
    assert done(ledger, lock(*LOCKED), WRITERS[verb]) == "metadata_field_locked"


@pytest.mark.spec("§4.3", "INV-J-METADATA-LOCK-1")
def test_a_locked_field_is_written_by_the_override_alone_and_others_by_anybody(ledger):
    assert done(ledger, lock("title"), override(title="u"), adapt("n", other="o")) is None
    assert record(ledger, schema.nodes, "n")["payload"]["title"] == "u"


@pytest.mark.spec("§4.3", "INV-J-METADATA-LOCK-1")
def test_a_lock_grows_and_only_an_override_takes_it_off(ledger):
    assert done(ledger, lock("title"), lock("title", "more")) is None
    for less in (lock(), lock("title"), lock("more", "other")):
        assert done(ledger, less) == "metadata_field_locked"
    assert done(ledger, override(field_lock=[]), adapt("n", title="u")) is None


@pytest.mark.spec("§4.3")
@pytest.mark.parametrize(
    "locked",
    [
        *("title", None, {"title": 1}, [7], [""], [[]]),
        *(["cu_authority"], ["visibility_class"], ["title", "node_kind"]),
    ],
)
def test_a_lock_is_a_list_of_fields_that_a_lock_can_bind(ledger, locked):
    document = envelope("field_lock", [effect("node_write", "n", field_lock=locked)])
    assert done(ledger, document) == "field_lock_invalid"


def test_every_verb_of_the_specification_is_in_the_registry_and_no_row_is_missing():
    assert set(DECOMPOSITION) <= set(SEMANTIC_VERBS)
    for verb, kinds in DECOMPOSITION.items():
        assert set(SEMANTIC_VERBS[verb].requires) == set(kinds)
