"""Structural selectors (§13.3, §13.8): the ten kinds, what is refused, and what a list selects."""

import pytest

from kernel.model.bindings.selectors import (
    NOT_SUPPORTED,
    PHASES,
    SELECTOR_KINDS,
    SELECTORS_MAX,
    VALUE_MAX,
    BindingRefused,
    phase_of,
    read_selector_list,
)

spec = pytest.mark.spec("INV-K-SELECTOR-1")
phases = pytest.mark.spec("004 §13.3")

KIND_PHASES = {
    "intake_time": ["source_kind", "source_id", "source_path"],
    "post_doc25_conversion": ["content_type"],
    "post_group_o_normalization": [
        *("filing_unit_kind", "filing_role", "related_motion_type", "legal_profile_kind")
    ],
    "post_relationship_resolution": ["case_ref", "court_id"],
}
"""The words of §13.3."""


def selector(kind, value="v", **fields):
    return {"kind": kind, "value": value, **fields}


def selectors(*include, exclude=()):
    return read_selector_list({"include": list(include), "exclude": list(exclude)})


@spec
@phases
def test_the_kinds_and_their_phases_are_those_of_the_specification():
    assert list(PHASES) == list(KIND_PHASES)
    phase_of = {kind: phase for phase, kinds in KIND_PHASES.items() for kind in kinds}
    assert dict(SELECTOR_KINDS) == phase_of
    for kind in SELECTOR_KINDS:
        assert selectors(selector(kind)).matches({kind: "v"})
        assert not selectors(selector(kind)).matches({kind: "w"})


COURT = selector("court_id")
MANY = [selector("source_id", str(number)) for number in range(SELECTORS_MAX + 1)]
DEFERRED, EMPTY = "binding_size_band_deferred_v17", "binding_selector_list_empty"
INVALID = "binding_invalid"


def excluding(*exclude):
    return {"include": [COURT], "exclude": list(exclude)}


@spec
@pytest.mark.parametrize(
    ("document", "code", "field"),
    [
        ({"include": [selector("page_count")]}, NOT_SUPPORTED, "include.0.kind"),
        ({"include": [COURT, {"value": "v"}]}, NOT_SUPPORTED, "include.1.kind"),
        ({"include": [selector(7)]}, NOT_SUPPORTED, "include.0.kind"),
        ({"include": [selector("court_id", operator="not")]}, NOT_SUPPORTED, "include.0.operator"),
        ({"include": [COURT], "any": []}, NOT_SUPPORTED, "any"),
        (excluding(selector("x")), NOT_SUPPORTED, "exclude.0.kind"),
        ({"include": [selector("size_band")]}, DEFERRED, "include.0.kind"),
        (excluding(selector("size_band")), DEFERRED, "exclude.0.kind"),
        ({}, EMPTY, "include"),
        ({"include": [], "exclude": [COURT]}, EMPTY, "include"),
        ({"include": [selector("source_path", "[b]")]}, "binding_glob_invalid", "include.0.value"),
        ([], INVALID, ""),
        (None, INVALID, ""),
        ({"include": {}}, INVALID, "include"),
        ({"include": ["court_id"]}, INVALID, "include.0"),
        ({"include": [selector("court_id", "")]}, INVALID, "include.0.value"),
        ({"include": [selector("court_id", 9)]}, INVALID, "include.0.value"),
        ({"include": [selector("court_id", "x" * (VALUE_MAX + 1))]}, INVALID, "include.0.value"),
        ({"include": MANY}, INVALID, "include"),
        (excluding(*MANY), INVALID, "exclude"),
    ],
)
def test_what_no_binding_may_select_by_is_refused(document, code, field):
    with pytest.raises(BindingRefused) as refused:
        read_selector_list(document)
    assert (refused.value.code, refused.value.field) == (code, field)


@spec
def test_values_of_a_kind_are_alternatives_and_kinds_hold_together():
    selected = selectors(
        *(selector("court_id", value) for value in ("ca9", "ca2")),
        selector("source_kind", "docket"),
    )
    assert selected.matches({"court_id": "ca2", "source_kind": "docket"})
    assert not selected.matches({"court_id": "ca2", "source_kind": "mail"})
    assert not selected.matches({"court_id": "ca1", "source_kind": "docket"})


@spec
def test_one_selector_that_is_excluded_is_enough_and_what_is_not_there_matches_nothing():
    selected = selectors(
        selector("source_kind", "docket"),
        exclude=[selector("court_id", "ca9"), selector("source_path", "**/sealed/**")],
    )
    assert selected.matches({"source_kind": "docket"})
    assert not selected.matches({"source_kind": "docket", "court_id": "ca9"})
    assert not selected.matches({"source_kind": "docket", "source_path": "a/sealed/b"})
    assert not selected.matches({"court_id": "ca2"})


@phases
def test_a_list_needs_the_phase_of_its_latest_selector():
    assert phase_of(selectors(selector("source_id")).kinds) == "intake_time"
    later = selectors(selector("source_id"), selector("court_id"), selector("filing_role"))
    assert phase_of(later.kinds) == "post_relationship_resolution"
    excluded = selectors(selector("source_id"), exclude=[selector("content_type")])
    assert phase_of(excluded.kinds) == "post_doc25_conversion"


@phases
def test_what_a_later_phase_has_to_say_is_not_asked_before():
    selected = selectors(
        selector("source_kind", "docket"),
        selector("filing_role", "motion"),
        exclude=[selector("court_id", "ca9"), selector("source_id", "s")],
    )
    fields = {"source_kind": "docket", "court_id": "ca9"}
    assert selected.until("intake_time").matches(fields)
    assert not selected.until("post_group_o_normalization").matches(fields)
    assert not selected.until("intake_time").matches({**fields, "source_id": "s"})
    assert not selected.matches({**fields, "filing_role": "motion"})
