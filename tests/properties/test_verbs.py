"""PT-2: a verb admits what its row of §3.3 says and more, never what contradicts it or too little.

The cases come from `tests/kernel/verb_meanings.py`, which the specification wrote and no registry.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.build import effect, envelope
from tests.kernel.verb_meanings import (
    CONTRADICTING,
    DECOMPOSITION,
    FORBIDDEN,
    OWN_RECEIPT,
    UNSPOKEN,
    composed,
    spoken,
)
from tests.properties.course import KERNEL, standing_at
from tests.properties.family import BESIDE, FAMILY

pytestmark = pytest.mark.spec("PT-2", "§3.6")

COMPOSITION = "envelope_verb_composition_invalid"
MISSING = "envelope_verb_decomposition_missing_primitive"
REFUSED = "envelope_verb_decomposition_forbidden_primitive"
SHARE = settings(FAMILY, max_examples=FAMILY.max_examples // len(DECOMPOSITION) + 1)
"""What each verb gets of the family's examples."""

OBSERVING = frozenset({"simulate", "search_run_record", "binding_fire_record"})
"""Verbs of §3.3 that are receipts alone; `extraction_state_change` has its step beside them."""

COMPANIONS = ("index_update", "materialized_view_invalidation", "edge_create", "receipt_only")
"""What §3.5, §3.6 and §4.3.5 have beside the row's own effects."""

VERBS = st.sampled_from(sorted(DECOMPOSITION))
FORBIDDEN_PAIRS = [
    *((verb, kind) for verb, kinds in FORBIDDEN.items() for kind in kinds),
    *UNSPOKEN,
]


@st.composite
def companions(draw, verb):
    """Effects beside the row's own that do not contradict it."""
    if verb in OBSERVING:
        return []
    kinds = ("receipt_only",) if verb == "extraction_state_change" else COMPANIONS
    effects = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=4))):
        stated_effect = spoken(verb, kind, 100 + number, index_name="i")
        if kind == "receipt_only":
            stated_effect["receipt_subkind"] = draw(
                st.sampled_from(["source_span_unavailable", "access_overlay_override"])
            )
        elif kind == "edge_create":
            stated_effect["payload"].setdefault("edge_type", draw(st.text(min_size=1, max_size=4)))
        effects.append(stated_effect)
    return effects


@st.composite
def operations(draw, verb, *also):
    """The row of a verb, with more and with what a test adds, in any order."""
    return draw(st.permutations([*composed(verb), *draw(companions(verb)), *also]))


def answer(verb, effects):
    """The check that refused, and its code; None where every check let it pass."""
    with standing_at(0) as transaction:
        result = KERNEL.submit(transaction, envelope(verb, list(effects)), "orchestrator")
    rejection = getattr(result, "rejection", None)
    return (None, None) if rejection is None else (rejection.check, rejection.reason_code)


@pytest.mark.parametrize("verb", DECOMPOSITION)
@SHARE
@given(data=st.data())
def test_what_a_verb_is_composed_of_passes_with_more_that_does_not_contradict_it(verb, data):
    check, code = answer(verb, data.draw(operations(verb)))
    assert check not in ("V1", "V3"), code


@FAMILY
@given(st.sampled_from(FORBIDDEN_PAIRS), st.data())
def test_a_forbidden_kind_is_refused_wherever_it_stands(pair, data):
    verb, kind = pair
    forbidden = effect(kind, "n") | {"effect_id": "forbidden"}
    assert answer(verb, data.draw(operations(verb, forbidden))) == ("V3", REFUSED)


@BESIDE
@given(VERBS, st.data())
def test_a_required_kind_that_is_left_out_is_missed_whatever_else_is_there(verb, data):
    left_out = data.draw(st.sampled_from(DECOMPOSITION[verb]))
    effects = [step for step in data.draw(operations(verb)) if step["effect_kind"] != left_out]
    assert answer(verb, effects) == ("V3", MISSING)


@BESIDE
@given(st.sampled_from(CONTRADICTING), st.data())
def test_an_effect_that_contradicts_its_verb_is_refused_wherever_it_stands(case, data):
    verb, kind, payload = case
    contradicting = effect(kind, "n") | {"payload": payload, "effect_id": "contradicting"}
    assert answer(verb, data.draw(operations(verb, contradicting))) == ("V3", COMPOSITION)


@BESIDE
@given(st.sampled_from(sorted(OWN_RECEIPT)), st.data())
def test_no_receipt_stands_for_the_one_that_a_verb_has(verb, data):
    others = sorted(
        {kind for kinds in OWN_RECEIPT.values() for kind in kinds} - {*OWN_RECEIPT[verb]}
    )
    effects = data.draw(operations(verb))
    for stated_effect in effects:
        if stated_effect.get("receipt_subkind") in OWN_RECEIPT[verb]:
            stated_effect["receipt_subkind"] = data.draw(
                st.sampled_from([*others, "source_span_unavailable"])
            )
    assert answer(verb, effects) == ("V3", COMPOSITION)


@BESIDE
@given(st.sampled_from(["merge", "annotate", "topic_assign"]), st.data())
def test_a_topic_assignment_without_its_index_entry_is_refused(verb, data):
    assignment = effect("topic_assignment_write", "a") | {"effect_id": "assignment"}
    effects = data.draw(operations(verb, assignment))
    effects = [
        stated_effect for stated_effect in effects if stated_effect["effect_kind"] != "index_update"
    ]
    assert answer(verb, effects) == ("V3", MISSING)
