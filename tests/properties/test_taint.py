"""PT-5: visibility classes form a lattice, and an operation's class is exactly the maximum."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.visibility import LEAST_RESTRICTIVE, VISIBILITY_CLASSES, max_visibility_class
from tests.kernel.build import abandoned, create, memory_ledger, submit
from tests.properties.course import KERNEL
from tests.properties.family import FAMILY

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
@FAMILY
@given(CLASSES, st.integers(1, 6))
def test_a_class_mixed_with_itself_stays_what_it_is(one, times):
    assert max_visibility_class([one] * times) == one


@pytest.mark.spec("§7.2")
@FAMILY
@given(st.data(), TAINTS)
def test_the_order_of_the_sources_does_not_matter(data, taint):
    mixed = data.draw(st.permutations(taint))
    assert max_visibility_class(mixed) == max_visibility_class(taint)


@pytest.mark.spec("§7.2")
@FAMILY
@given(TAINTS, TAINTS, TAINTS)
def test_sources_may_be_mixed_in_steps(one, other, third):
    inner = max_visibility_class([*other, *third])
    left = max_visibility_class([max_visibility_class([*one, *other]), *third])
    whole = max_visibility_class([*one, *other, *third])
    assert max_visibility_class([*one, inner]) == whole == left


@pytest.mark.spec("§7.2")
@FAMILY
@given(TAINTS)
def test_the_result_is_one_of_the_sources_and_none_is_more_restricted(taint):
    order = ("public_open", "work_product_internal", "firewalled", "sealed")
    assert max_visibility_class(taint) == max(taint, key=order.index)


@pytest.mark.spec("§7.2")
@FAMILY
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
@FAMILY
@given(taint=TAINTS, stated=CLASSES | UNKNOWN)
def test_the_node_that_comes_out_has_the_resolved_class_and_no_other(ledger, taint, stated):
    resolved = max_visibility_class(taint)
    expected = resolved if stated in ("", resolved) else ("V8", OUTPUT)
    assert judged(ledger, taint, resolved, stated) == expected


@pytest.mark.spec("§7.3")
@FAMILY
@given(taint=st.lists(CLASSES, max_size=3), unknown=UNKNOWN.filter(bool), place=st.integers(0, 3))
def test_the_kernel_refuses_a_class_outside_the_lattice(ledger, taint, unknown, place):
    taint.insert(place, unknown)
    expected = ("V1", "envelope_schema_invalid") if "\x00" in unknown else ("V8", RESOLUTION)
    assert judged(ledger, taint, "sealed") == expected
