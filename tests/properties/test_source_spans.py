"""PT-7: an understanding points at its sources whenever it is written, or says that it cannot.

The cases are §9's own: what a span is (§9.1), when it is asked for (§9.2), what the receipt of
their absence says (§9.3), and how the understanding is shown (§9.4).
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.algebra.verbs import OPERATION_KINDS
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_operation
from tests.kernel.build import (
    ABSENT,
    abandoned,
    adapt,
    changed,
    code_of,
    create,
    effect,
    envelope,
    informed,
    memory_ledger,
    scope_of,
    spans,
    submit,
    taking,
    unavailable,
)
from tests.properties.course import KERNEL
from tests.properties.family import BESIDE, FAMILY

pytestmark = pytest.mark.spec("PT-7", "INV-MVC-CU-1", "§9.8", "V4-AT-38")

UNDERSTANDING = "ConsolidatedUnderstanding"
WITH, WITHOUT = "synthesis_with_spans", "synthesis_summary_no_spans"
MISSING = ("V6", "envelope_cu_source_spans_missing")
MISMATCH = ("V6", "envelope_cu_display_kind_mismatch")

TEXT = "Grün 🙂 <b>&amp;</b>"
"""Eight of its characters are escaped where it stands wrapped, two take more than a byte."""

WRAPPED = (
    '<UNTRUSTED_CONTENT source="wrapped" kind="k">\n'
    "Grün 🙂 &lt;b&gt;&amp;amp;&lt;/b&gt;"
    "\n</UNTRUSTED_CONTENT>"
)
SOURCES = {"plain": TEXT, "wrapped": WRAPPED, "one": "x"}
LENGTHS = {"plain": len(TEXT), "wrapped": len(TEXT), "one": 1}

REASONS = (
    "abstractive_synthesis_across_many_spans",
    "extraction_degraded_no_spans_available",
    "model_output_no_span_anchors",
    "user_marked_synthesis_no_spans",
)
"""§9.3's list, in §9.5's order T1 to T4."""


@pytest.fixture(scope="module")
def ledger():
    """Three sources with a text and one without, and an understanding of each kind."""
    ledger = memory_ledger()
    results = submit(
        ledger,
        *(create(name, "SourceArtifact", content=text) for name, text in SOURCES.items()),
        create("textless", "Note"),
        create("rollup", "RecentActivityRollup", content=TEXT),
        create("with", UNDERSTANDING, **spans("plain")),
        create("without", UNDERSTANDING),
    )
    assert {code_of(result) for result in results} == {None}
    return ledger


def judged(ledger, document):
    """The refusal of an envelope, None where it was accepted; nothing stays."""
    # Effects were added to some: what they write is named as well.
    document["affected_subgraph_descriptor"] = scope_of(document["primitive_effects"])
    with abandoned(ledger.transaction()) as transaction:
        result = KERNEL.submit(transaction, informed(transaction, document), "orchestrator")
        rejection = getattr(result, "rejection", None)
        return None if rejection is None else (rejection.check, rejection.reason_code)


@st.composite
def good_spans(draw):
    source = draw(st.sampled_from(sorted(LENGTHS)))
    start = draw(st.integers(0, LENGTHS[source] - 1))
    length = draw(st.integers(1, LENGTHS[source] - start))
    return {"source_ref": source, "offset": start, "length": length}


NOWHERE = ("", 7, ABSENT, None, "one#0-2", "one#1-2", "plain#5-999", "cu", "with")
COUNTS_WRONG = st.sampled_from([None, True, False, 0.0, 1.0, 0.5, "0", [], {}, ABSENT])


@st.composite
def bad_spans(draw):
    """One thing wrong with a span that is otherwise right."""
    span = draw(good_spans())
    whole = LENGTHS[span["source_ref"]]
    name, value = draw(
        st.one_of(
            st.tuples(st.just("offset"), COUNTS_WRONG),
            st.tuples(st.just("length"), COUNTS_WRONG),
            st.tuples(st.just("offset"), st.integers(-(10**9), -1)),
            st.tuples(st.just("length"), st.integers(-(10**9), 0)),
            st.tuples(st.just("offset"), st.integers(whole, 2**53 - 1)),
            st.tuples(st.just("length"), st.integers(whole + 1, 2**53 - 1)),
            st.tuples(
                st.just("source_ref"),
                st.sampled_from(
                    ["nowhere", "textless", "rollup", "PLAIN", "plain ", "plain%230-1", *NOWHERE]
                ),
            ),
        )
    )
    span[name] = value
    return {key: part for key, part in span.items() if part is not ABSENT}


NO_SPAN = st.sampled_from([None, "plain", 0, True, [], ["plain"], {}])
NO_SPANS = st.sampled_from([ABSENT, None, [], {}, "", "spans", 0, False])
SHOWN = st.sampled_from([WITH, WITHOUT, ABSENT, None]) | st.text(max_size=9)
SPOKEN = st.sampled_from(
    [event.name for event in OPERATION_KINDS.values() if event.verb == "create"]
)


def stated(fields):
    return {name: value for name, value in fields.items() if value is not ABSENT}


def written(way, fields, *receipts):
    """A write of an understanding in each of the ways that there are (§3.3, §9.2)."""
    fields = stated(fields)
    if way == "create":
        return create("cu", UNDERSTANDING, *receipts, **{"source_spans": None, **fields})
    if way == "supersede":
        new = effect("node_write", "cu", node_kind=UNDERSTANDING, **fields)
        return envelope("supersede", [new, _edge(), *receipts])
    if way == "merge":
        merged = effect("node_write", "with", **{"source_spans": None, **fields})
        view = effect("materialized_view_invalidation", "view")
        return envelope("merge", [merged, _edge(), view, *receipts])
    verb = {"update": "field_adapt", "annotate": "annotate"}[way]
    return envelope(verb, [effect("node_write", "with", **fields), *receipts])


def _edge():
    ends = {"source_node_id": "plain", "target_node_id": "with"}
    return effect("edge_create", "edge", **ends, edge_type="supersedes")


MAKES = ("create", "supersede")
UPDATES = ("merge", "update", "annotate")
WAYS = st.sampled_from([*MAKES, *UPDATES])
NAMES = {"create": "cu", "supersede": "cu", "merge": "with", "update": "with", "annotate": "with"}


@BESIDE
@given(WAYS, st.lists(good_spans(), min_size=1, max_size=4), SPOKEN)
def test_spans_inside_of_their_sources_are_accepted_at_every_write(ledger, way, good, spoken):
    document = written(way, {"source_spans": good, "display_kind": WITH})
    if way == "create":
        document = changed(document, {"operation_kind": spoken})
    assert judged(ledger, document) is None


@BESIDE
@given(st.data(), WAYS, st.lists(good_spans(), max_size=2), bad_spans() | NO_SPAN)
def test_a_span_that_is_none_is_refused_wherever_it_stands(ledger, data, way, good, bad):
    good.insert(data.draw(st.integers(0, len(good))), bad)
    document = written(way, {"source_spans": good, "display_kind": WITH})
    # A source that is not on the record is refused as one too, which comes later.
    assert judged(ledger, document) == MISSING


WITHOUT_A_SOURCE = ("", 7, ABSENT, None, "nowhere", "textless", "rollup", "cu", "plain#5-999")
"""What a span may have in place of a source with a text; §9.1 asks for one that is there."""

GROUNDED = {"source_ref": "plain", "offset": 0, "length": 1}

CASES = [
    (way, place, ref) for way in (*MAKES, *UPDATES) for place in (0, 1) for ref in WITHOUT_A_SOURCE
]
"""Every way of writing an understanding with every span without a source, alone and beside one."""


@pytest.mark.parametrize(("way", "place", "ref"), CASES)
def test_no_write_takes_a_span_without_a_source(ledger, way, place, ref):
    groundless = stated({**GROUNDED, "source_ref": ref})
    fields = {"source_spans": [GROUNDED] * place + [groundless], "display_kind": WITH}
    assert judged(ledger, written(way, fields)) == MISSING
    fields["source_spans"] = [GROUNDED] * (place + 1)
    assert judged(ledger, written(way, fields)) is None


def test_the_cases_update_understandings_and_use_spans_without_a_source(ledger):
    with ledger.view() as view:
        there = {way for way, *_ in CASES if view.node(NAMES[way]) is not None}
        unsourced = {
            ref if isinstance(ref, str) else type(ref).__name__
            for *_, ref in CASES
            if not isinstance(ref, str) or view.node(ref) is None
        }
    assert there == {"merge", "update", "annotate"}
    assert {way for way, *_ in CASES} - there == {"create", "supersede"}
    assert unsourced >= {"", "nowhere", "NoneType", type(ABSENT).__name__}
    # Each way is drawn with each of them, and the random families draw the ways from the same list.
    assert {(way, place) for way, place, _ in CASES} == {
        (way, place) for way in NAMES for place in (0, 1)
    }
    assert len(CASES) == len(NAMES) * 2 * len(WITHOUT_A_SOURCE)


@BESIDE
@given(WAYS, st.lists(good_spans(), min_size=1, max_size=2), SHOWN)
def test_with_spans_it_is_shown_with_spans(ledger, way, good, shown):
    document = written(way, {"source_spans": good, "display_kind": shown})
    kept = shown is ABSENT and way in ("merge", "update", "annotate")
    assert judged(ledger, document) == (None if shown == WITH or kept else MISMATCH)


@FAMILY
@given(WAYS, NO_SPANS.filter(lambda spans: spans is not ABSENT), SHOWN, st.sampled_from(REASONS))
def test_without_spans_it_takes_the_framing_and_the_receipt(ledger, way, none, shown, reason):
    fields = {"source_spans": none, "display_kind": shown}
    receipt = unavailable(NAMES[way], reason=reason)
    expected = None if shown == WITHOUT else MISSING
    assert judged(ledger, written(way, fields, receipt)) == expected
    assert judged(ledger, written(way, fields)) == MISSING


@pytest.mark.spec("§9.3", "§9.5")
@BESIDE
@given(
    st.sampled_from(["cu_node_ref", "reason", "source_doc_refs"]),
    st.sampled_from([ABSENT, None, "", "another", "USER_MARKED_SYNTHESIS_NO_SPANS", 7, [7], {}]),
)
def test_the_receipt_names_its_understanding_and_one_of_the_reasons(ledger, name, value):
    receipt = unavailable("cu", source_doc_refs=["plain"])
    receipt["payload"] = stated({**receipt["payload"], name: value})
    fields = {"source_spans": [], "display_kind": WITHOUT}
    assert judged(ledger, written("create", fields, receipt)) == MISSING


def test_two_understandings_take_two_receipts(ledger):
    second = effect(
        "node_write", "cu2", node_kind=UNDERSTANDING, source_spans=[], display_kind=WITHOUT
    )
    both = create("cu", UNDERSTANDING, second)
    assert judged(ledger, both) == MISSING
    both["primitive_effects"].append(unavailable("cu2"))
    assert judged(ledger, both) is None


def test_a_source_that_the_envelope_has_written_before_is_there(ledger):
    first = effect("node_write", "new", node_kind="Note", content="abc")
    fields = {"source_spans": [{"source_ref": "new", "offset": 0, "length": 3}]}
    document = create("cu", UNDERSTANDING, **fields, display_kind=WITH)
    document["primitive_effects"].insert(0, first)
    assert judged(ledger, document) is None
    document["primitive_effects"].insert(1, document["primitive_effects"].pop(0))
    assert judged(ledger, document) == MISSING


@pytest.mark.parametrize("kind", ["node_retract", "node_revert_to_prior_authority"])
def test_no_kind_that_merges_a_payload_takes_the_spans_away(ledger, kind):
    ends = {"source_node_id": "plain", "target_node_id": "with", "edge_type": "supersedes"}
    effects = [effect("node_write", "plain", t=1), effect("edge_create", "e:new", **ends)]
    document = envelope("supersede", effects)
    effect_ = effect(kind, "with", source_spans=[])
    document["primitive_effects"].append(effect_)
    assert judged(ledger, document) == MISSING


def test_what_says_nothing_of_the_grounding_is_not_asked_for_it(ledger):
    for target in ("with", "without"):
        assert judged(ledger, adapt(target, title="t")) is None
        retract = taking("retract", target)
        assert judged(ledger, retract) is None


# What comes back


@pytest.fixture
def eroded():
    """An understanding that was taken back, whose source has lost its text since."""
    ledger = memory_ledger()
    submit(ledger, create("source", "Note", content="abc"))
    submit(ledger, create("cu", UNDERSTANDING, **spans("source")))
    moved = submit(ledger, adapt("cu", source_spans=[], display_kind=WITHOUT))
    assert moved.rejection.reason_code == MISSING[1]
    return ledger


def test_what_is_restored_still_points_at_something(eroded):
    take = taking("retract", "cu")
    back = [envelope("restore", [effect("node_write", "cu", state="active")]) for _ in range(2)]
    assert code_of(submit(eroded, take)) is None
    submit(eroded, adapt("source", content=""))
    assert code_of(submit(eroded, back[0])) == MISSING[1]
    submit(eroded, adapt("source", content="abc"))
    assert code_of(submit(eroded, back[1])) is None


@pytest.mark.spec("K2")
def test_a_state_that_is_put_back_still_points_at_something(eroded):
    submit(eroded, create("other", "Note", content="abc"))
    moved = adapt("cu", **spans("other"))
    assert code_of(submit(eroded, moved)) is None
    submit(eroded, adapt("source", content=""))
    with eroded.transaction() as transaction, pytest.raises(RollbackRefused) as refused:
        rollback_operation(KERNEL, transaction, moved["operation_id"])
    assert refused.value.details["reason_code"] == MISSING[1]
    submit(eroded, adapt("source", content="abc"))
    with eroded.transaction() as transaction:
        rollback_operation(KERNEL, transaction, moved["operation_id"])
