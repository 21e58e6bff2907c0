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
    inputs_along,
)
from kernel.authority.strategy import WEIGHTS, BetaPosteriorMean
from kernel.model.authority_strategy import AuthorityInput
from kernel.values.canonical import canonicalize
from kernel.values.visibility import VISIBILITY_CLASSES
from kernel.verify import verify
from tests.kernel.build import (
    accept,
    adapt,
    code_of,
    create,
    drain,
    link,
    memory_ledger,
    recompute,
    unlink,
    work,
)

pytestmark = pytest.mark.spec("K33")

UNDERSTANDING, CLAIM = "ConsolidatedUnderstanding", "VersionedClaim"
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
    stated_inputs = StatedInputs()
    brought = [*inputs_along(iter(edges), stated_inputs)]
    return stated_inputs, brought


@pytest.mark.slow
@given(st.lists(EDGES, max_size=2 * EXCERPT_INPUTS))
def test_the_digest_is_that_of_the_canonical_array_of_all_inputs(edges):
    inputs, brought = stated(edges)
    array = [
        [
            edge.edge_id,
            edge.brings.parent_node_id,
            edge.brings.parent_version,
            edge.brings.edge_essentiality,
            edge.brings.captured_at_authority,
        ]
        for edge in edges
    ]
    assert inputs.digest == hashlib.sha256(canonicalize(array)).hexdigest()
    assert (inputs.count, brought) == (len(edges), [edge.brings for edge in edges])


@given(st.lists(EDGES, max_size=2 * EXCERPT_INPUTS))
def test_the_excerpt_is_bounded_and_has_an_input_of_every_visibility_class(edges):
    inputs, _ = stated(edges)
    assert inputs.excerpt[:EXCERPT_INPUTS] == [edge.brings for edge in edges[:EXCERPT_INPUTS]]
    assert len(inputs.excerpt) <= EXCERPT_INPUTS + len(VISIBILITY_CLASSES)
    classes = {edge.visibility_class for edge in edges if edge.brings in inputs.excerpt}
    assert classes == {edge.visibility_class for edge in edges}


@pytest.mark.spec("K13")
@given(st.lists(EDGES, max_size=200), st.randoms(use_true_random=False))
def test_a_stream_of_inputs_gives_the_bits_of_the_exact_sum(edges, random):
    inputs = [edge.brings for edge in edges]
    alpha = 1 + sum(
        Fraction(WEIGHTS[input_.edge_essentiality] * input_.captured_at_authority)
        for input_ in inputs
    )
    total = 2 + sum(int(WEIGHTS[input_.edge_essentiality]) for input_ in inputs)
    random.shuffle(inputs)
    assert BetaPosteriorMean().compute(iter(inputs)) == float(alpha) / total


def test_any_number_of_inputs_is_stated_in_bounded_memory():
    def edges(count):
        for number in range(count):
            brings = AuthorityInput(f"claim-{number}", "1", "core", 0.5)
            yield InputEdge(f"edge-{number:07}", "public_open", brings)

    tracemalloc.start()
    stated_inputs = StatedInputs()
    value = BetaPosteriorMean().compute(inputs_along(edges(20_000), stated_inputs))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (stated_inputs.count, value) == (20_000, 0.5)
    assert peak < 2_000_000


# On the record


@pytest.fixture
def wide(monkeypatch):
    """An understanding of more inputs than a page of anything, one of them restricted."""
    monkeypatch.setattr("kernel.ledger.ledger.EDGES_AT_ONCE", 16)
    monkeypatch.setattr("kernel.ledger.ledger.NODES_KEPT", 8)
    monkeypatch.setattr("kernel.authority.graph.PAGE_INPUTS", 20)
    ledger = memory_ledger()
    accept(ledger, create("u", UNDERSTANDING), create("below", UNDERSTANDING))
    names = [f"c{number:03}" for number in range(EXCERPT_INPUTS + 16)]
    for name in names:
        fields = {"visibility_class": "sealed"} if name == names[-1] else {}
        accept(ledger, create(name, CLAIM, authority=int(name[1:]) / 100, **fields))
        accept(ledger, link(f"e{name}", name, "u", "core" if name < "c040" else "tangential"))
    accept(ledger, link("down", "u", "below"))
    return ledger, names


def test_what_many_inputs_give_is_recorded_verified_and_the_same_as_of_a_snapshot(wide):
    ledger, names = wide
    weights = [4 if name < "c040" else 1 for name in names]
    values = [Fraction(int(name[1:]) / 100) for name in names]
    alpha = 1 + sum(weight * value for weight, value in zip(weights, values, strict=True))
    with ledger.view() as view:
        before = recompute(view, "u")
    accept(ledger, adapt("c000", authority=1), unlink("ec001"), adapt(names[-1], authority=0))
    accept(ledger, create("a", CLAIM, authority=1), link("a", "a", "u"))
    assert code_of(work(ledger, before)) is None
    with ledger.view() as view:
        payload = view.node("u")["payload"]
        assert payload["cu_authority_inputs"]["count"] == len(names)
        assert payload["cu_authority"] == pytest.approx(
            float(alpha / (2 + sum(weights))), rel=1e-15
        )
        named = [version["parent_node_id"] for version in payload["cu_authority_input_versions"]]
        assert named == [*names[:EXCERPT_INPUTS], names[-1]]
    drain(ledger)
    with ledger.view() as view:
        assert view.node("u")["payload"]["cu_authority_inputs"]["count"] == len(names)
        assert verify(view).findings == ()


@pytest.mark.parametrize("beyond", [EXCERPT_INPUTS, EXCERPT_INPUTS + 10])
def test_an_input_beyond_the_excerpt_cannot_be_forged(wide, beyond):
    """Whoever read another value there states another digest."""
    ledger, names = wide
    with ledger.view() as view:
        as_of = view.head().ec_sequence_number
    accept(ledger, adapt(names[beyond], authority=1))
    with ledger.view() as view:
        false = recompute(view, "u", as_of)
        true = recompute(view, "u")
    result = work(ledger, false)
    assert code_of(result) == "cu_authority_inputs_mismatch"
    assert result.rejection.field.endswith("payload.cu_authority_inputs")
    assert code_of(work(ledger, true)) is None
