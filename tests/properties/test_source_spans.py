"""PT-7: a new understanding points at its sources, or says on the record that it cannot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.algebra.verbs import OPERATION_KINDS
from kernel.model.receipt import SIMULATION_RECEIPTS, STATED_BY_ENVELOPES
from tests.kernel.build import ABSENT, changed, create, effect
from tests.properties.course import KERNEL, standing_at
from tests.properties.family import FAMILY

pytestmark = pytest.mark.spec("PT-7", "INV-MVC-CU-1", "§9.8", "V4-AT-38")

UNDERSTANDING = "ConsolidatedUnderstanding"
WITH, WITHOUT = "synthesis_with_spans", "synthesis_summary_no_spans"
MISSING = ("V6", "envelope_cu_source_spans_missing")
MISMATCH = ("V6", "envelope_cu_display_kind_mismatch")
UNAVAILABLE = "source_span_unavailable"

SPANS = st.lists(
    st.fixed_dictionaries(
        {"source_ref": st.text(min_size=1, max_size=8).filter(lambda ref: "\x00" not in ref)},
        optional={"offset": st.integers(0, 9), "length": st.integers(1, 9)},
    ),
    min_size=1,
    max_size=4,
)
NO_SPANS = st.sampled_from([ABSENT, None, [], {}, "", "spans", 0, False])
SHOWN = st.sampled_from([WITH, WITHOUT, ABSENT, None]) | st.text(max_size=9)
OTHERS = st.lists(
    st.sampled_from(sorted(STATED_BY_ENVELOPES - SIMULATION_RECEIPTS - {UNAVAILABLE})), max_size=2
)
SPOKEN = st.sampled_from([one.name for one in OPERATION_KINDS.values() if one.verb == "create"])


def judged(spans, shown, receipts, spoken="create", payload=None):
    """The refusal of a new understanding, None where it was accepted."""
    stated = [
        effect("receipt_only") | {"receipt_subkind": name, "effect_id": f"receipt:{place}"}
        for place, name in enumerate(receipts)
    ]
    document = create("cu", UNDERSTANDING, *stated, **(payload or {}))
    place = "primitive_effects.0.payload"
    changes = {f"{place}.source_spans": spans, f"{place}.display_kind": shown}
    document = changed(document, changes | {"operation_kind": spoken})
    with standing_at(0) as transaction:
        result = KERNEL.submit(transaction, document, "orchestrator")
        rejection = getattr(result, "rejection", None)
        if rejection is not None:
            return rejection.check, rejection.reason_code
        assert transaction.node("cu")["payload"].get("display_kind") == shown
        emitted = [one["receipt_kind"] for one in transaction.receipts_of(result.operation_id)]
        assert (UNAVAILABLE in emitted) == (UNAVAILABLE in receipts)
    return None


@FAMILY
@given(NO_SPANS, OTHERS, st.booleans(), SPOKEN)
def test_without_spans_nothing_is_shown_as_if_it_had_some(spans, others, explained, spoken):
    receipts = [*others, *([UNAVAILABLE] if explained else [])]
    assert judged(spans, WITH, receipts, spoken) == MISSING


@FAMILY
@given(NO_SPANS, SHOWN, OTHERS, st.integers(0, 2), SPOKEN)
def test_without_spans_it_takes_the_framing_and_the_receipt(spans, shown, others, place, spoken):
    others.insert(place, UNAVAILABLE)
    assert judged(spans, shown, others, spoken) == (None if shown == WITHOUT else MISSING)
    others.remove(UNAVAILABLE)
    assert judged(spans, shown, others, spoken) == MISSING


@FAMILY
@given(SPANS, SHOWN, OTHERS, st.booleans(), SPOKEN)
def test_with_spans_it_is_shown_with_spans(spans, shown, others, explained, spoken):
    receipts = [*others, *([UNAVAILABLE] if explained else [])]
    assert judged(spans, shown, receipts, spoken) == (None if shown == WITH else MISMATCH)
