"""The routing index (§13.4): the same answer as asking each binding, whatever happened to them."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kernel.model.bindings.glob_index import GlobIndex
from kernel.model.bindings.globs import parse_glob
from kernel.model.bindings.routing import RoutingIndex
from kernel.model.bindings.selectors import (
    SELECTOR_KINDS,
    Selector,
    SelectorList,
    read_selector_list,
)
from tests.kernel.bindings.test_globs import GLOBS, PATHS

spec = pytest.mark.spec("004 §13.4")

VALUES = st.sampled_from(["", "a", "b", "c"])
IDS = st.sampled_from(["b1", "b2", "b3", "b4", "b5"])
INTAKE = ("source_kind", "source_id")
LATER = [kind for kind, phase in SELECTOR_KINDS.items() if phase != "intake_time"]

SELECTORS = st.one_of(
    st.fixed_dictionaries({"kind": st.sampled_from(INTAKE), "value": st.sampled_from("abc")}),
    st.fixed_dictionaries({"kind": st.just("source_path"), "value": GLOBS.filter(bool)}),
    st.fixed_dictionaries({"kind": st.sampled_from(LATER), "value": st.sampled_from("abc")}),
)
LISTS = st.fixed_dictionaries(
    {
        "include": st.lists(SELECTORS, min_size=1, max_size=4),
        "exclude": st.lists(SELECTORS, max_size=2),
    }
).map(read_selector_list)
EVENTS = st.fixed_dictionaries(
    {}, optional={**dict.fromkeys(INTAKE, VALUES), "source_path": PATHS, "content_type": VALUES}
)


def routed(bindings):
    index = RoutingIndex()
    for binding_id, selectors in bindings.items():
        index.put(binding_id, selectors)
    return index


def one_by_one(bindings, event):
    return sorted(
        binding_id
        for binding_id, selectors in bindings.items()
        if selectors.until("intake_time").matches(event)
    )


@spec
@given(st.dictionaries(st.text("xyz", min_size=1, max_size=3), LISTS, max_size=8), EVENTS)
def test_the_index_answers_as_if_each_binding_had_been_asked(bindings, event):
    assert sorted(routed(bindings).match(event)) == one_by_one(bindings, event)


class Bindings(RuleBasedStateMachine):
    """Bindings that are created, changed, disabled and enabled again, in any order."""

    def __init__(self):
        super().__init__()
        self.index = RoutingIndex()
        self.bindings = {}

    @rule(binding_id=IDS, selectors=LISTS)
    def put(self, binding_id, selectors):
        self.index.put(binding_id, selectors)
        self.bindings[binding_id] = selectors

    @rule(binding_id=IDS)
    def discard(self, binding_id):
        self.index.discard(binding_id)
        self.bindings.pop(binding_id, None)

    @rule(event=EVENTS)
    def match(self, event):
        assert sorted(self.index.match(event)) == one_by_one(self.bindings, event)

    @invariant()
    def it_holds_the_active_ones(self):
        assert len(self.index) == len(self.bindings)

    def teardown(self):
        for binding_id in self.bindings:
            self.index.discard(binding_id)
        assert pickle.dumps(self.index) == pickle.dumps(RoutingIndex()), "something is left"


TestBindings = pytest.mark.spec("004 §13.4")(Bindings.TestCase)
TestBindings.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=15)


@given(st.lists(GLOBS, max_size=8), st.lists(PATHS, min_size=1, max_size=4), st.data())
def test_globs_at_once_match_as_each_of_them(globs, paths, data):
    index = GlobIndex()
    for place, glob in enumerate(globs):
        index.add(parse_glob(glob), str(place))
    kept = {place for place in range(len(globs)) if data.draw(st.booleans())}
    for place in range(len(globs)):
        if place not in kept:
            index.discard(parse_glob(globs[place]), str(place))
    for path in paths:
        matching = {str(place) for place in kept if parse_glob(globs[place]).matches(path)}
        assert set(index.match(path)) == matching


def test_globs_that_are_taken_away_leave_nothing():
    index = GlobIndex()
    for glob in ("a/*.pdf", "a/*.txt", "a/**", "a"):
        index.add(parse_glob(glob), glob)
    index.discard(parse_glob("b/*"), "b/*")
    for glob in ("a/*.pdf", "a/*.txt", "a/**", "a"):
        assert index
        index.discard(parse_glob(glob), glob)
    assert not index


class Untouched(Selector):
    def matches(self, _fields):
        raise AssertionError("a binding of another source was looked at")


def test_an_event_looks_at_no_binding_of_another_source():
    index = RoutingIndex()
    for value in "ab":
        index.put(value, SelectorList((Selector("source_id", value),)))
    for number, glob in enumerate(["x/*", "y/**"]):
        include = (Selector("source_id", "b"), Selector("source_path", glob, parse_glob(glob)))
        exclude = (Untouched("source_kind", "docket"),)
        index.put(str(number), SelectorList(include, exclude))
    event = {"source_kind": "docket", "source_path": "x/1"}
    assert index.match({**event, "source_id": "a"}) == ["a"]
    with pytest.raises(AssertionError):
        index.match({**event, "source_id": "b"})
