"""An authority has any number of inputs: a digest states them all, an excerpt some (§8.5, K33)."""

import hashlib
import tracemalloc
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.authority.inputs import (
    EXCERPT_INPUTS,
    InputEdge,
    StatedInputs,
    stated_along,
)
from kernel.authority.strategy import WEIGHTS, AuthorityInput, BetaPosteriorMean
from kernel.canonical import canonicalize
from kernel.visibility import VISIBILITY_CLASSES
from tests.kernel.build import (
    effect,
)

pytestmark = pytest.mark.spec("K33")

UNDERSTANDING, CLAIM = "ConsolidatedUnderstanding", "VersionedClaim"
PAIR = {"visibility_class": "public_open"}
EDGES = st.builds(
    InputEdge,
    st.text(min_size=1, max_size=5),
    st.sampled_from(VISIBILITY_CLASSES),
    st.builds(
        AuthorityInput,
        st.text(min_size=1, max_size=5),
        st.integers(1, 10**9).map(str),
        st.sampled_from(sorted(WEIGHTS)),
        st.floats(0, 1),
    ),
)


def stated(edges):
    """What is stated of edges, and what they bring."""
    found = StatedInputs()
    brought = [*stated_along(iter(edges), found)]
    return found, brought


@given(st.lists(EDGES, max_size=2 * EXCERPT_INPUTS))
def test_the_digest_is_that_of_the_canonical_array_of_all_inputs(edges):
    found, brought = stated(edges)
    array = [
        [
            one.edge_id,
            one.brings.parent_node_id,
            one.brings.parent_version,
            one.brings.edge_essentiality,
            one.brings.captured_at_authority,
        ]
        for one in edges
    ]
    assert found.digest == hashlib.sha256(canonicalize(array)).hexdigest()
    assert (found.count, brought) == (len(edges), [one.brings for one in edges])


@given(st.lists(EDGES, max_size=2 * EXCERPT_INPUTS))
def test_the_excerpt_is_bounded_and_has_an_input_of_every_visibility_class(edges):
    found, _ = stated(edges)
    assert found.excerpt[:EXCERPT_INPUTS] == [one.brings for one in edges[:EXCERPT_INPUTS]]
    assert len(found.excerpt) <= EXCERPT_INPUTS + len(VISIBILITY_CLASSES)
    classes = {one.visibility_class for one in edges if one.brings in found.excerpt}
    assert classes == {one.visibility_class for one in edges}


@pytest.mark.spec("K13")
@given(st.lists(EDGES, max_size=200), st.randoms(use_true_random=False))
def test_a_stream_of_inputs_gives_the_bits_of_the_exact_sum(edges, random):
    inputs = [one.brings for one in edges]
    alpha = 1 + sum(
        Fraction(WEIGHTS[one.edge_essentiality] * one.captured_at_authority) for one in inputs
    )
    total = 2 + sum(int(WEIGHTS[one.edge_essentiality]) for one in inputs)
    random.shuffle(inputs)
    assert BetaPosteriorMean().compute(iter(inputs)) == float(alpha) / total


def test_a_million_inputs_are_stated_in_bounded_memory():
    def edges(count):
        for number in range(count):
            brings = AuthorityInput(f"claim-{number}", "1", "core", 0.5)
            yield InputEdge(f"edge-{number:07}", "public_open", brings)

    tracemalloc.start()
    found = StatedInputs()
    value = BetaPosteriorMean().compute(stated_along(edges(20_000), found))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.count, value) == (20_000, 0.5)
    assert peak < 2_000_000


# On the record

WIDE = 9_000
AT_ONCE = 200


def pairs(first, last):
    """Claims and the edges from them to `u`, each in an envelope of many effects."""
    for start in range(first, last, AT_ONCE):
        names = [f"c{number:05}" for number in range(start, min(start + AT_ONCE, last))]
        claims = [
            effect("node_write", name, node_kind=CLAIM, authority=int(name[1:]) % 101 / 100)
            for name in names
        ]
        edges = [
            effect(
                "edge_create",
                f"e{name}",
                source_node_id=name,
                target_node_id="u",
                edge_type="informs",
                edge_metadata={"essentiality": ("core", "supporting")[int(name[1:]) % 2]},
            )
            for name in names
        ]
        yield claims, edges
