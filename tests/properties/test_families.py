"""Every family of §3.8.1 that this package proves is there, and looks as long as §3.8.2 asks."""

import importlib
import pkgutil

import pytest

import tests.properties
from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import ROLLBACK, SEMANTIC_VERBS
from tests.properties.course import COURSE
from tests.properties.family import FAMILY, NIGHTLY
from tests.properties.test_rollback import PLACES

FAMILIES = ("PT-1", "PT-2", "PT-3", "PT-4", "PT-5", "PT-6", "PT-7", "PT-8", "PT-10")


def properties():
    """Each property with the rules that it and its module are marked with."""
    for iter_module in pkgutil.iter_modules(tests.properties.__path__):
        if not iter_module.name.startswith("test_"):
            continue
        module = importlib.import_module(f"tests.properties.{iter_module.name}")
        of_module = getattr(module, "pytestmark", [])
        marks = of_module if isinstance(of_module, list) else [of_module]
        for name, function in vars(module).items():
            if name.startswith("test_") and hasattr(function, "hypothesis"):
                own = [*marks, *getattr(function, "pytestmark", [])]
                yield function, {rule for mark in own if mark.name == "spec" for rule in mark.args}


def examples(function):
    settings = function._hypothesis_internal_use_settings  # noqa: SLF001 - told nowhere else
    return settings.max_examples


@pytest.mark.spec("§3.8.1", "§3.8.2")
@pytest.mark.parametrize("rule", FAMILIES)
def test_a_family_has_a_property_with_its_number_of_examples(rule):
    looked = [examples(function) for function, rules in properties() if rule in rules]
    assert looked, f"nothing is marked {rule}"
    assert max(looked) >= FAMILY.max_examples


@pytest.mark.slow  # not slow itself: the profile of `make test-fast` draws fewer
@pytest.mark.spec("§3.8.2")
def test_a_family_looks_at_a_thousand_and_nightly_at_ten_thousand():
    assert FAMILY.max_examples == (10_000 if NIGHTLY else 1_000)


def admissible(verb):
    """The kinds that a verb admits with the companion that they ask for."""

    def companion(name):
        # What an inverse undoes brings its own.
        return None if verb.name == ROLLBACK else EFFECT_KINDS[name].companion

    return [name for name in EFFECT_KINDS if not {name, companion(name)} & set(verb.forbids)]


@pytest.mark.spec("§3.8.2", "PT-1", "PT-2")
def test_every_primitive_is_undone_and_every_verb_is_composed():
    undone = {
        effect["effect_kind"] for place in PLACES for effect in COURSE[place]["primitive_effects"]
    }
    assert undone == set(EFFECT_KINDS)
    for verb in SEMANTIC_VERBS.values():
        for required in verb.requires:
            assert any(
                verb.is_satisfied_by(required, frozenset({name})) for name in admissible(verb)
            ), verb.name
    assert {kind for verb in SEMANTIC_VERBS.values() for kind in admissible(verb)} == set(
        EFFECT_KINDS
    )
