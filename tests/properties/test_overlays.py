"""Whatever overlays there are: what they come to (INV-B2-OVERLAY-RESOLUTION-1, K9)."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.records.overlays.overlay import (
    GRANULARITIES,
    AccessOverlay,
    OverlayTarget,
    Restriction,
)
from kernel.records.overlays.resolution import Writer, resolve
from kernel.values.canonical import canonicalize
from kernel.values.spans import Span, sources_in, span_named_by, spans_in
from tests.kernel.build import adapt, code_of, create, memory_ledger, overlay, submit

pytestmark = pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1", "K9")

NAMES = ("S-1", "S-2")
REFS = ("redacted", "other")
WRITERS = [Writer(name, kind) for name in (*NAMES, None) for kind in ("share_link_session", None)]
LEVELS = st.integers(0, len(GRANULARITIES) - 1)


def laid(number, level, restriction, grants=frozenset(), redacted="redacted"):
    kind = GRANULARITIES[level]
    stretch = {"offset": 0, "length": 10} if kind == "source_span" else {}
    target = OverlayTarget(target_kind=kind, target_ref="T", **stretch)
    return AccessOverlay(f"O{number}", target, restriction, frozenset(grants), redacted)


OVERLAYS = st.builds(
    laid,
    st.integers(0, 10**6),
    LEVELS,
    st.sampled_from(get_args(Restriction)),
    st.frozensets(st.sampled_from(NAMES)),
    st.sampled_from(REFS),
)
SETS = st.lists(OVERLAYS, max_size=6, unique_by=lambda laid_overlay: laid_overlay.overlay_id)


def permitted(overlays, granted=frozenset()):
    """Everything that may be written, and by whom."""
    resolution = resolve(overlays)
    return {
        (ref, writer)
        for ref in REFS
        for writer in WRITERS
        if resolution is None or resolution.permits(ref, writer, granted)
    }


@given(SETS.flatmap(lambda overlays: st.tuples(st.just(overlays), st.permutations(overlays))))
def test_the_order_of_the_overlays_does_not_matter(case):
    overlays, other = case
    assert resolve(overlays) == resolve(other)


@given(SETS, SETS)
def test_finding_an_overlay_twice_is_finding_it_once(first, second):
    overlays = list({x.overlay_id: x for x in (*first, *second)}.values())
    assert resolve(overlays + overlays) == resolve(overlays)


@given(SETS.filter(bool), OVERLAYS, st.frozensets(st.sampled_from(NAMES)))
def test_another_overlay_at_the_winning_granularity_never_permits_more(overlays, further, granted):
    winning = GRANULARITIES.index(resolve(overlays).granularity)
    another = laid("new", winning, further.restriction, further.grants, further.redacted_ref)
    assert permitted([*overlays, another], granted) <= permitted(overlays, granted)


@given(SETS.filter(bool), OVERLAYS, LEVELS)
def test_a_less_specific_overlay_changes_nothing(overlays, further, level):
    winning = GRANULARITIES.index(resolve(overlays).granularity)
    if level <= winning:
        level = winning + 1
    if level < len(GRANULARITIES):
        broader = laid("new", level, further.restriction, further.grants, further.redacted_ref)
        assert resolve([*overlays, broader]) == resolve(overlays)


@given(SETS, OVERLAYS)
def test_a_more_specific_overlay_decides_alone(overlays, further):
    broader = [
        laid_overlay for laid_overlay in overlays if laid_overlay.granularity != "source_span"
    ]
    sharp = laid("new", 0, further.restriction, further.grants, further.redacted_ref)
    assert resolve([*broader, sharp]) == resolve([sharp])


@given(SETS.filter(bool))
def test_the_outcome_is_one_of_the_restrictions_at_hand_or_blocked(overlays):
    resolution = resolve(overlays)
    level = [
        laid_overlay
        for laid_overlay in overlays
        if laid_overlay.granularity == resolution.granularity
    ]
    limits = {laid_overlay.restriction for laid_overlay in level} - {"none"}
    expected = limits.pop() if len(limits) == 1 else ("blocked" if limits else "none")
    assert resolution.restriction == expected
    # Deny wins: nothing that one of them refuses is permitted by all of them together.
    for laid_overlay in level:
        assert permitted(overlays) <= permitted([laid_overlay])


# Spans

POINTS = st.integers(0, 12)
SPANS = st.builds(
    lambda source, start, length: Span(source, start, None if length is None else start + length),
    st.sampled_from(["S", "T", "S#1-2"]),
    POINTS,
    st.one_of(st.none(), st.integers(1, 8)),
)


def points(span):
    end = 40 if span.end is None else span.end
    return {(span.source_ref, point) for point in range(span.start, end)}


@given(SPANS, SPANS)
def test_spans_are_the_places_that_they_cover(span, other):
    assert span.overlaps(other) == bool(points(span) & points(other))
    assert span.encompasses(other) == (points(span) >= points(other))


@given(SPANS)
def test_a_reference_names_the_span_that_it_was_made_from(span):
    if span.end is not None:
        assert span_named_by(span.ref) == span


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 99), st.text(max_size=4), st.just("S#1-9")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["source_ref", "offset", "length", "source_spans", "span", "source_refs", "page"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["source_spans", "span", "source_refs", "source_ref"]), JSON)
)
def test_every_span_of_a_payload_is_of_a_source_of_it(payload):
    sources = sources_in(payload)
    assert len(set(sources)) == len(sources)
    for span in spans_in(payload):
        assert span.source_ref in sources
        assert span.start >= 0
        assert span.end is None or span.end > span.start


@given(
    st.dictionaries(
        st.sampled_from(["target", "access_restriction", "access_grants", "overlay_id"]), JSON
    ),
    JSON,
)
def test_whatever_is_called_an_overlay_is_refused_or_can_be_read(stated, target):
    ledger = memory_ledger()
    for document in (
        create("O", "AccessOverlay", **{"target": target} | stated),
        create("n", "Note", access_overlay=stated),
    ):
        result = submit(ledger, document, submitter="orchestrator")
        code = code_of(result)
        # An embedded overlay that is null is none.
        assert code in (None, "access_overlay_construction_invalid"), canonicalize(stated)
    assert code_of(submit(ledger, create("later", "Note"))) is None


@given(st.lists(st.tuples(LEVELS, st.sampled_from(get_args(Restriction))), min_size=1, max_size=4))
def test_the_kernel_refuses_what_the_resolution_does(stated):
    ledger = memory_ledger()
    assert code_of(submit(ledger, create("n", "Note", source_refs=["n#0-10"]))) is None
    policy = {
        "policy_id": "p",
        "redacted_artifact_ref": "redacted",
        "redaction_policy_ref": "r",
        "redaction_provenance_ref": "o",
    }
    overlays = []
    for number, (level, restriction) in enumerate(stated):
        overlays.append(laid(number, level, restriction))
        stretch = {"offset": 0, "length": 10} if level == 0 else {}
        document = overlay(
            f"O{number}",
            restriction,
            GRANULARITIES[level],
            "n",
            redacted_access_policy=policy,
            **stretch,
        )
        assert code_of(submit(ledger, document, submitter="orchestrator")) is None
    permits = resolve(overlays).permits("n", Writer("user"), frozenset())
    result = submit(ledger, adapt("n", title="t"))
    assert code_of(result) == (None if permits else "envelope_access_overlay_blocked")
