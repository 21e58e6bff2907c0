"""PT-5: visibility classes form a lattice, and an operation's class is exactly the maximum."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.values.visibility import LEAST_RESTRICTIVE, VISIBILITY_CLASSES, max_visibility_class
from tests.kernel.build import (
    abandoned,
    create,
    effect,
    envelope,
    informed,
    memory_ledger,
    submit,
)
from tests.properties.course import KERNEL
from tests.properties.family import BESIDE, FAMILY

pytestmark = pytest.mark.spec("PT-5", "INV-A-TAINT-INFECTIOUS-1")

RESOLUTION = "envelope_taint_resolution_invalid"
OUTPUT = "envelope_taint_output_node_mismatch"
CLASSES = st.sampled_from(VISIBILITY_CLASSES)
TAINTS = st.lists(CLASSES, min_size=1, max_size=6)
UNKNOWN = st.text(max_size=20).filter(lambda name: name not in VISIBILITY_CLASSES)


@pytest.fixture(scope="module")
def ledger():
    """One node of each class is on record, called like it."""
    ledger = memory_ledger()
    made = (create(name, "Note", visibility_class=name) for name in VISIBILITY_CLASSES)
    submit(ledger, *made)
    return ledger


@pytest.mark.spec("§7.2")
@BESIDE
@given(CLASSES, st.integers(1, 6))
def test_a_class_mixed_with_itself_stays_what_it_is(restriction, times):
    assert max_visibility_class([restriction] * times) == restriction


@pytest.mark.spec("§7.2")
@BESIDE
@given(st.data(), TAINTS)
def test_the_order_of_the_sources_does_not_matter(data, taint):
    mixed = data.draw(st.permutations(taint))
    assert max_visibility_class(mixed) == max_visibility_class(taint)


@pytest.mark.spec("§7.2")
@BESIDE
@given(TAINTS, TAINTS, TAINTS)
def test_sources_may_be_mixed_in_steps(first, other, third):
    inner = max_visibility_class([*other, *third])
    left = max_visibility_class([max_visibility_class([*first, *other]), *third])
    whole = max_visibility_class([*first, *other, *third])
    assert max_visibility_class([*first, inner]) == whole == left


@pytest.mark.spec("§7.2")
@FAMILY
@given(TAINTS)
def test_the_result_is_one_of_the_sources_and_none_is_more_restricted(taint):
    order = ("public_open", "work_product_internal", "firewalled", "sealed")
    assert max_visibility_class(taint) == max(taint, key=order.index)


@pytest.mark.spec("§7.2")
@BESIDE
@given(st.lists(CLASSES, max_size=3), UNKNOWN, st.lists(CLASSES, max_size=3))
def test_an_unknown_class_is_refused_wherever_it_stands(before, unknown, after):
    with pytest.raises(ValueError, match="unknown visibility class"):
        max_visibility_class([*before, unknown, *after])


def judged(ledger, taint, resolved, stated=None, sources=()):
    declared = {
        "source_visibility_taint": list(taint),
        "resolved_output_visibility_class": resolved,
        "source_refs": list(sources),
    }
    document = create("output", "Note", visibility_class=stated or resolved, envelope=declared)
    with abandoned(ledger.transaction()) as transaction:
        result = KERNEL.submit(transaction, document, "orchestrator")
        rejection = getattr(result, "rejection", None)
        if rejection is not None:
            return rejection.check, rejection.reason_code
        return transaction.node("output")["visibility_class"]


@pytest.mark.spec("§7.3")
@FAMILY
@given(taint=TAINTS, sources=st.lists(CLASSES, max_size=4))
def test_the_kernel_accepts_the_maximum_of_every_source_and_nothing_else(ledger, taint, sources):
    left_out = set(sources) - {*taint, LEAST_RESTRICTIVE}
    for resolved in VISIBILITY_CLASSES:
        right = resolved == max_visibility_class(taint) and not left_out
        expected = resolved if right else ("V8", RESOLUTION)
        assert judged(ledger, taint, resolved, sources=sources) == expected


@pytest.mark.spec("§7.3")
@BESIDE
@given(taint=TAINTS, stated=CLASSES | UNKNOWN)
def test_the_node_that_comes_out_has_the_resolved_class_and_no_other(ledger, taint, stated):
    resolved = max_visibility_class(taint)
    expected = resolved if stated in ("", resolved) else ("V8", OUTPUT)
    assert judged(ledger, taint, resolved, stated) == expected


@pytest.mark.spec("§7.3")
@BESIDE
@given(taint=st.lists(CLASSES, max_size=3), unknown=UNKNOWN.filter(bool), place=st.integers(0, 3))
def test_the_kernel_refuses_a_class_outside_the_lattice(ledger, taint, unknown, place):
    taint.insert(place, unknown)
    expected = ("V1", "envelope_schema_invalid") if "\x00" in unknown else ("V8", RESOLUTION)
    assert judged(ledger, taint, "sealed") == expected


# Whatever an operation was made of, however far back and wherever it is named


ORDER = ("public_open", "work_product_internal", "firewalled", "sealed")
"""§7.2, the least restrictive first."""

NAMES = ("a", "b", "c", "d")
CITED = {
    "source_refs": lambda ref: ({"source_refs": [ref]}, {}),
    "read_set_refs": lambda ref: ({"read_set_refs": [ref]}, {}),
    "payload.source_refs": lambda ref: ({}, {"source_refs": [ref]}),
    "payload.source_ref": lambda ref: ({}, {"source_ref": ref}),
    "payload.source_spans": lambda ref: ({}, {"source_spans": [_span(ref)]}),
    "payload.span": lambda ref: ({}, {"span": _span(ref)}),
}
"""Where an operation says what it was made of (§2.6, §7.6)."""

STRETCHES = st.sampled_from(["", "#0-1", "#1-0", "#2-2", "#0-9#1-2", "#0-1#0-1#0-1"])
"""How a stretch of a source is called (§12.7)."""


def _span(ref):
    return {"source_ref": ref, "offset": 0, "length": 1}


@st.composite
def histories(draw):
    """Four nodes, each drawn from some before it, and classes to which they were raised since."""
    drawn_from_ = {
        name: draw(st.lists(st.sampled_from(NAMES[:place]), max_size=2)) if place else []
        for place, name in enumerate(NAMES)
    }
    raised = {name: draw(CLASSES) for name in NAMES}
    return drawn_from_, raised


def effective(name, history):
    """§7: as restricted as itself and as everything that it was drawn from."""
    drawn, raised = history
    return max(
        [raised[name], *(effective(source, history) for source in drawn[name])], key=ORDER.index
    )


@pytest.mark.spec("§7.3", "§7.6", "K7")
@BESIDE
@given(
    history=histories(),
    cited=st.lists(
        st.tuples(st.sampled_from(sorted(CITED)), st.sampled_from(NAMES), STRETCHES),
        min_size=1,
        max_size=3,
    ),
    taint=st.sets(CLASSES, min_size=1),
)
def test_a_class_counts_however_far_back_and_wherever_it_is_named(history, cited, taint):
    ledger = memory_ledger()
    with abandoned(ledger.transaction()) as transaction:
        for name in NAMES:
            fields = {"source_refs": [f"{source}#0-1" for source in history[0][name]]}
            _accepted(transaction, create(name, "Note", **fields))
        for name in NAMES:
            change = effect("visibility_change", name, visibility_class=history[1][name])
            # A class may not be raised to less than a source has by now.
            KERNEL.submit(transaction, envelope("visibility_change", [change]), "orchestrator")
        now = {name: transaction.node(name)["visibility_class"] for name in NAMES}
        resolved = max(taint, key=ORDER.index)
        stated = {
            "source_visibility_taint": sorted(taint),
            "resolved_output_visibility_class": resolved,
        }
        payload = {}
        for place, name, stretch in cited:
            stated_fields, fields = CITED[place](f"{name}{stretch}")
            stated |= stated_fields
            payload |= fields
        document = create("out", "Note", visibility_class=resolved, envelope=stated, **payload)
        # What a later place has replaced is cited no longer.
        last = {place: name for place, name, _ in cited}
        needed = {effective(name, (history[0], now)) for name in last.values()}
        result = KERNEL.submit(transaction, informed(transaction, document), "orchestrator")
        right = needed - {LEAST_RESTRICTIVE} <= taint
        rejection = getattr(result, "rejection", None)
        refusal = None if rejection is None else (rejection.check, rejection.reason_code)
        assert refusal == (None if right else ("V8", RESOLUTION))
        if not right:
            return
        named = {name: effective(name, (history[0], now)) for name in last.values()}
        receipts = transaction.receipts_of(result.operation_id)
        for receipt in (
            stored_receipt
            for stored_receipt in receipts
            if stored_receipt["receipt_kind"] == "taint_propagation"
        ):
            counts = receipt["source_node_count_per_class"]
            assert counts == {
                name: list(named.values()).count(name) for name in {*named.values(), *taint}
            }


def _accepted(transaction, document):
    result = KERNEL.submit(transaction, document, "orchestrator")
    assert not hasattr(result, "rejection"), result
