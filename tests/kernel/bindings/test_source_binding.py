"""A source binding on the record (§13.8, §14.3, §15.3): created, changed, disabled, enabled."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.algebra.arguments import BINDING_MEANING
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.bindings import source_binding
from kernel.model.bindings.selectors import NOT_SUPPORTED, BindingRefused, read_selector_list
from kernel.model.bindings.source_binding import read_source_binding
from kernel.records.bindings import generation_in_force, generation_of, last_generation
from kernel.rollback.execute import rollback_operation
from kernel.transaction.kernel import Kernel
from tests.kernel.build import (
    code_of,
    create,
    effect,
    envelope,
    findings,
    link,
    memory_ledger,
    op_id,
    submit,
)
from tests.kernel.every import binding, snapshot

generations = pytest.mark.spec("004 §15.3")
selectors = pytest.mark.spec("INV-K-SELECTOR-1")
capacity = pytest.mark.spec("004 §14.3")

SNAPSHOT = "payload.binding_snapshot"
APPROVAL = {"approved_by": "u", "approver_role": "user", "reason": "the hearing is today"}
CRITICAL = {"resource_policy": {"capacity_priority": "critical"}}


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    assert code_of(submit(ledger, create("corpus", "Corpus"))) is None
    return ledger


def generation(number=1, meaning=None, **fields):
    advance = binding(number, "b", **fields)
    if meaning is not None:
        advance["payload"]["binding_snapshot"] = meaning
    return advance


def created(*advances):
    edge = link("e", "b", "corpus")["primitive_effects"]
    written = effect("node_write", "b", node_kind="SourceBinding", title="t")
    return envelope("source_binding_create", [written, *edge, *advances])


def updated(*advances, **fields):
    return envelope("source_binding_update", [effect("node_write", "b", **fields), *advances])


DISABLED = envelope("source_binding_disable", [effect("node_write", "b", state="disabled")])


def refused(ledger, document, **submitting):
    rejection = submit(ledger, document, **submitting).rejection
    return rejection.check, rejection.reason_code, rejection.field


def in_force(ledger):
    with ledger.view() as view:
        return generation_in_force(view, "b")


def state_of(ledger):
    with ledger.view() as view:
        return view.node("b")["state"]


def rows_of(ledger):
    with ledger.view() as view:
        return view.tables.scan(
            TableQuery(schema.binding_generation_snapshots, {"binding_id": "b"})
        )


def writer_of(ledger, number):
    """Return the operation that wrote a generation last."""
    with ledger.view() as view:
        return generation_of(view, "b", str(number))["updated_by_operation_id"]


def undo(ledger, operation_id):
    with ledger.transaction() as transaction:
        rollback_operation(Kernel(), transaction, operation_id)


def accepted(ledger, *documents):
    for number, document in enumerate(documents):
        name = f"{document['semantic_intent']}-{number}-{len(rows_of(ledger))}"
        named = document | {"operation_id": op_id(name), "idempotency_key": name}
        assert code_of(submit(ledger, named)) is None


# --- generations (§15.3) ----------------------------------------------------------------------


@generations
def test_a_binding_begins_in_its_first_generation(ledger):
    assert refused(ledger, created())[1] == "envelope_verb_decomposition_missing_primitive"
    accepted(ledger, created(generation()))
    assert in_force(ledger)["binding_generation_id"] == "1"
    assert in_force(ledger)["supersedes"] is None
    assert state_of(ledger) == "active"


@generations
def test_a_change_is_the_next_generation_and_the_one_before_stays_as_it_was(ledger):
    accepted(ledger, created(generation()))
    [first] = rows_of(ledger)
    accepted(ledger, updated(generation(2), title="another"))
    rows = sorted(rows_of(ledger), key=lambda row: row["generation"])
    assert rows[0] == first
    assert [row["generation"] for row in rows] == [1, 2]
    assert in_force(ledger)["supersedes"] == "1"
    assert in_force(ledger)["binding_snapshot"] == snapshot("court-2")
    assert refused(ledger, updated(generation(2)))[1] == "binding_generation_not_next"


def reverted():
    revert = effect("binding_generation_revert", "b")
    return envelope("binding_generation_revert", [revert])


def as_read(ledger):
    """Return the state of each generation that there is, and which one supersedes it."""
    with ledger.view() as view:
        read = {number: generation_of(view, "b", str(number)) for number in range(1, 5)}
    return {
        number: (record["state"], record["superseded_by"])
        for number, record in read.items()
        if record is not None
    }


@generations
@pytest.mark.spec("K14")
def test_a_superseded_generation_says_so_and_names_the_next(ledger):
    accepted(ledger, created(generation()))
    assert as_read(ledger) == {1: ("effective", None)}
    accepted(ledger, updated(generation(2)), updated(generation(3)))
    assert as_read(ledger) == {
        1: ("superseded", "2"),
        2: ("superseded", "3"),
        3: ("effective", None),
    }
    assert in_force(ledger)["superseded_by"] is None
    assert not findings(ledger)


@generations
def test_what_was_reverted_supersedes_nothing(ledger):
    accepted(ledger, created(generation()), updated(generation(2)))
    accepted(ledger, reverted())
    assert as_read(ledger) == {1: ("effective", None), 2: ("reverted", None)}
    with ledger.view() as view:
        assert last_generation(view, "b")["state"] == "reverted"
    accepted(ledger, updated(generation(3)))
    assert as_read(ledger) == {
        1: ("superseded", "3"),
        2: ("reverted", None),
        3: ("effective", None),
    }


@generations
def test_what_was_undone_supersedes_nothing_and_a_revert_that_was_undone_does(ledger):
    accepted(ledger, created(generation()), updated(generation(2)))
    undo(ledger, writer_of(ledger, 2))
    assert as_read(ledger) == {1: ("effective", None)}
    accepted(ledger, updated(generation(2, title="again")), reverted())
    revert = writer_of(ledger, 2)
    accepted(ledger, updated(generation(3)))
    undo(ledger, revert)
    assert as_read(ledger) == {
        1: ("superseded", "2"),
        2: ("superseded", "3"),
        3: ("effective", None),
    }
    assert not findings(ledger)


@generations
def test_a_caller_does_not_say_what_supersedes_a_generation(ledger):
    accepted(ledger, created(generation(superseded_by="7")))
    assert as_read(ledger) == {1: ("effective", None)}
    assert in_force(ledger)["superseded_by"] is None


@generations
def test_what_people_call_a_binding_changes_without_a_generation(ledger):
    accepted(ledger, created(generation()), updated(title="another"))
    assert in_force(ledger)["binding_generation_id"] == "1"


@generations
@pytest.mark.spec("004 §13.2")
def test_disabling_keeps_the_generation_and_enabling_again_is_the_next(ledger):
    accepted(ledger, created(generation()), DISABLED)
    assert (state_of(ledger), in_force(ledger)["binding_generation_id"]) == ("disabled", "1")
    enabling = updated(state="active")
    assert refused(ledger, enabling)[:2] == ("V3", "envelope_verb_composition_invalid")
    accepted(ledger, updated(generation(2), state="active"))
    assert (state_of(ledger), in_force(ledger)["binding_generation_id"]) == ("active", "2")


@generations
def test_a_disabled_binding_that_is_changed_stays_disabled(ledger):
    accepted(ledger, created(generation()), DISABLED, updated(generation(2)))
    assert (state_of(ledger), in_force(ledger)["binding_generation_id"]) == ("disabled", "2")


@generations
def test_a_generation_is_of_the_binding_that_is_written(ledger):
    accepted(ledger, created(generation()))
    document = updated(binding(1, "other"))
    assert refused(ledger, document)[1:] == (
        "binding_generation_of_another",
        "primitive_effects.1.target_ref",
    )
    assert len(rows_of(ledger)) == 1


def test_no_other_verb_writes_a_binding_and_no_verb_of_bindings_anything_else(ledger):
    accepted(ledger, created(generation()))
    for verb in ("field_adapt", "annotate", "metadata_field_set"):
        document = envelope(verb, [effect("node_write", "b", title="t")])
        assert refused(ledger, document)[1] == "binding_verb_required"


@generations
def test_a_ledger_with_bindings_verifies(ledger):
    accepted(ledger, created(generation()), DISABLED, updated(generation(2), state="active"))
    assert not findings(ledger)


def test_the_fields_of_a_snapshot_are_those_that_no_node_write_states():
    stated = source_binding._Meaning.model_fields.keys() - {"schema_version"}  # noqa: SLF001
    assert stated | {source_binding.SELECTOR_LIST} == BINDING_MEANING


# --- selectors (§13.8) ------------------------------------------------------------------------


@selectors
@pytest.mark.parametrize("made", [created, updated])
@pytest.mark.parametrize(
    ("kind", "code"),
    [("page_count", NOT_SUPPORTED), ("size_band", "binding_size_band_deferred_v17")],
)
def test_a_selector_that_is_not_structural_is_refused_with_a_durable_receipt(
    ledger, made, kind, code
):
    number = 1
    if made is updated:
        accepted(ledger, created(generation()))
        number = 2
    chosen = {"include": [{"kind": "court_id", "value": "v"}, {"kind": kind, "value": "v"}]}
    document = made(generation(number, snapshot(selector_list=chosen)))
    result = submit(ledger, document)
    place = len(document["primitive_effects"]) - 1
    field = f"primitive_effects.{place}.{SNAPSHOT}.selector_list.include.1.kind"
    assert (result.rejection.check, result.rejection.reason_code) == ("V3", code)
    assert result.rejection.field == field
    with ledger.view() as view:
        of_kind = NOT_SUPPORTED if code == NOT_SUPPORTED else "envelope_validation_failed"
        [receipt] = view.receipts_of_kind(of_kind, limit=9)
    assert (receipt["receipt_id"], receipt["reason_code"]) == (result.receipt_id, code)
    assert len(rows_of(ledger)) == number - 1
    assert not findings(ledger)


POLICY = "resource_policy"


def drawing(**policy):
    return snapshot(resource_policy=policy)


@selectors
@pytest.mark.parametrize(
    ("meaning", "code", "field"),
    [
        ({}, "binding_invalid", "selector_list"),
        ([], "binding_invalid", ""),
        (snapshot(selector_list={}), "binding_selector_list_empty", "selector_list.include"),
        (snapshot(target_kind="email"), "binding_invalid", "target_kind"),
        (snapshot(corpus_id=""), "binding_invalid", "corpus_id"),
        (snapshot(priority=-1), "binding_invalid", "priority"),
        (snapshot(priority=True), "binding_invalid", "priority"),
        (drawing(capacity_priority="vital"), "binding_invalid", f"{POLICY}.capacity_priority"),
        (drawing(on_limit_exceeded="ignore"), "binding_invalid", f"{POLICY}.on_limit_exceeded"),
        (snapshot(schema_version=2), "binding_invalid", "schema_version"),
    ],
)
def test_a_snapshot_that_is_no_binding_is_refused(meaning, code, field):
    with pytest.raises(BindingRefused) as refusal:
        read_source_binding(meaning)
    assert (refusal.value.code, refusal.value.field) == (code, field)


@pytest.mark.spec("004 §14.2")
def test_a_binding_draws_as_background_unless_it_says_otherwise():
    meaning = read_source_binding(snapshot())
    assert meaning.resource_policy.capacity_priority == "background"
    assert meaning.resource_policy.on_limit_exceeded == "log_warning"
    assert meaning.priority == 0
    assert meaning.selectors == read_selector_list(snapshot()["selector_list"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@selectors
@given(st.dictionaries(st.sampled_from([*BINDING_MEANING, "schema_version"]), JSON) | JSON)
def test_any_document_is_a_binding_or_refused_by_code(document):
    with suppress(BindingRefused):
        read_source_binding(document)


# --- what is critical (§14.3) -----------------------------------------------------------------


@capacity
def test_what_runs_as_critical_is_approved_and_the_approval_is_on_record(ledger):
    document = created(generation(1, snapshot(**CRITICAL)))
    assert refused(ledger, document)[1:] == (
        "binding_critical_approval_missing",
        "primitive_effects.2.payload.critical_approval",
    )
    accepted(ledger, created(generation(1, snapshot(**CRITICAL), critical_approval=APPROVAL)))
    with ledger.view() as view:
        [receipt] = view.receipts_of_kind("binding_generation_snapshot", limit=9)
    assert receipt["critical_approval"] == APPROVAL
    assert in_force(ledger)["critical_approval"] == APPROVAL


@capacity
def test_each_generation_that_runs_as_critical_is_approved(ledger):
    accepted(ledger, created(generation(1, snapshot(**CRITICAL), critical_approval=APPROVAL)))
    document = updated(generation(2, snapshot("ca2", **CRITICAL)))
    assert refused(ledger, document)[1] == "binding_critical_approval_missing"


@capacity
@pytest.mark.parametrize("actor", ["system", "agent", "migration"])
def test_a_user_alone_approves(ledger, actor):
    document = created(generation(1, snapshot(**CRITICAL), critical_approval=APPROVAL))
    code = refused(ledger, document | {"actor": actor}, submitter="orchestrator")[1]
    assert code == "envelope_actor_unauthorized"


@capacity
@pytest.mark.parametrize(
    ("approval", "field"),
    [
        ({}, ".approved_by"),
        (APPROVAL | {"approved_by": ""}, ".approved_by"),
        (APPROVAL | {"approver_role": "agent"}, ".approver_role"),
        (APPROVAL | {"reason": None}, ".reason"),
        ("yes", ""),
    ],
)
def test_an_approval_says_who_and_why(ledger, approval, field):
    document = created(generation(1, snapshot(**CRITICAL), critical_approval=approval))
    place = f"primitive_effects.2.payload.critical_approval{field}"
    assert refused(ledger, document)[1:] == ("binding_invalid", place)


@capacity
def test_what_is_not_critical_has_no_approval(ledger):
    document = created(generation(critical_approval=APPROVAL))
    assert refused(ledger, document)[1] == "binding_invalid"
