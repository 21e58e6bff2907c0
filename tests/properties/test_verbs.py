"""PT-2: a verb admits what it is composed of and more, never what contradicts it or too little."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import OPERATION_KINDS, ROLLBACK, SEMANTIC_VERBS
from kernel.model.receipt import SIMULATION_RECEIPTS, STATED_BY_ENVELOPES
from tests.kernel.build import effect, envelope
from tests.properties.course import KERNEL, standing_at
from tests.properties.family import FAMILY

pytestmark = pytest.mark.spec("PT-2", "§3.6")

MISSING = "envelope_verb_decomposition_missing_primitive"
FORBIDDEN = "envelope_verb_decomposition_forbidden_primitive"
SIMULATE = "simulate"
SHARE = settings(FAMILY, max_examples=FAMILY.max_examples // len(SEMANTIC_VERBS) + 1)
"""What each verb gets of the family's examples."""

HASH = "ab" * 32
UNDONE = {
    "operation_id": "undone",
    "effect_id": "0",
    "store": "nodes",
    "record_key": "n",
    "restores_hash": HASH,
    "replaces_hash": HASH,
}
VERBS = st.sampled_from(sorted(SEMANTIC_VERBS.values(), key=lambda verb: verb.name))


def companions_of(verb, names):
    """What the kinds ask for beside them; what an inverse undoes brings its own."""
    found = {EFFECT_KINDS[name].companion for name in names} - {None}
    return set() if verb.name == ROLLBACK else found


def admissible(verb):
    """The kinds that the verb admits with everything that they ask for."""
    return sorted(
        name
        for name in EFFECT_KINDS
        if name not in verb.forbids and not companions_of(verb, [name]) & verb.forbids
    )


def ways(verb, required):
    """The names under which a required kind is declared."""
    return sorted(
        name for name in admissible(verb) if verb.satisfied_by(required, frozenset({name}))
    )


@st.composite
def decompositions(draw, verb, without=frozenset()):
    """Kinds that the verb is composed of, with more that it admits, in any order."""
    rest = [name for name in admissible(verb) if name not in without]
    names = [
        draw(st.sampled_from(ways(verb, required)))
        for required in verb.requires
        if required not in without
    ]
    names += draw(st.lists(st.sampled_from(rest), max_size=4)) if rest else []
    names += companions_of(verb, names) - set(names)
    return draw(st.permutations([name for name in names if name not in without]))


def subkinds(verb):
    if verb.name == SIMULATE:
        return st.sampled_from(sorted(SIMULATION_RECEIPTS))
    return st.none() | st.sampled_from(sorted(STATED_BY_ENVELOPES - SIMULATION_RECEIPTS))


@st.composite
def spoken(draw, verb, names):
    """An envelope of the verb, by any kind that speaks it, with effects of these kinds."""
    effects = []
    for place, name in enumerate(names):
        one = effect(name, f"target-{place}") | {"effect_id": str(place)}
        if name == "receipt_only":
            subkind = draw(subkinds(verb))
            one |= {"receipt_subkind": subkind} if subkind else {}
        elif verb.name == ROLLBACK:
            one |= {"undoes": UNDONE}
        effects.append(one)
    kinds = sorted(one.name for one in OPERATION_KINDS.values() if one.verb == verb.name)
    return envelope(verb.name, effects, operation_kind=draw(st.sampled_from(kinds)))


def answer(document):
    """The check that refused, and its code; None where every check let it pass."""
    with standing_at(0) as transaction:
        result = KERNEL.submit(transaction, document, "orchestrator")
    rejection = getattr(result, "rejection", None)
    return (None, None) if rejection is None else (rejection.check, rejection.reason_code)


@pytest.mark.parametrize("verb", SEMANTIC_VERBS.values(), ids=SEMANTIC_VERBS)
@SHARE
@given(data=st.data())
def test_whatever_a_verb_is_composed_of_passes_with_whatever_more_it_admits(verb, data):
    document = data.draw(spoken(verb, data.draw(decompositions(verb))))
    check, code = answer(document)
    assert check not in ("V1", "V3"), code


@FAMILY
@given(VERBS, st.data())
def test_a_forbidden_kind_is_refused_wherever_it_stands(verb, data):
    if not verb.forbids:
        return
    names = data.draw(decompositions(verb))
    names.insert(
        data.draw(st.integers(0, len(names))), data.draw(st.sampled_from(sorted(verb.forbids)))
    )
    assert answer(data.draw(spoken(verb, names))) == ("V3", FORBIDDEN)


@FAMILY
@given(VERBS.filter(lambda verb: verb.requires), st.data())
def test_a_required_kind_that_is_left_out_is_missed_whatever_else_is_there(verb, data):
    required = data.draw(st.sampled_from(verb.requires))
    names = data.draw(decompositions(verb, frozenset({required, *ways(verb, required)})))
    assert answer(data.draw(spoken(verb, names))) == ("V3", MISSING)


@FAMILY
@given(VERBS, st.data())
def test_a_kind_without_its_companion_is_refused_under_every_verb_that_admits_both(verb, data):
    paired = [name for name in admissible(verb) if companions_of(verb, [name])]
    if not paired:
        return
    name = data.draw(st.sampled_from(paired))
    companion = frozenset({EFFECT_KINDS[name].companion})
    names = [*data.draw(decompositions(verb, companion)), name]
    assert answer(data.draw(spoken(verb, names))) == ("V3", MISSING)


def test_every_kind_is_forbidden_by_some_verb_or_only_observes():
    forbidden = {name for verb in SEMANTIC_VERBS.values() for name in verb.forbids}
    assert set(EFFECT_KINDS) - forbidden == {"receipt_only"}
