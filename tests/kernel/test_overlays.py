"""V9: what overlays let be written (§12, INV-B2-OVERLAY-RESOLUTION-1, INV-B2-CACHING-1)."""

from typing import get_args

import orjson
import pytest

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import SubmissionResult
from kernel.records.overlays import containment
from kernel.records.overlays.overlay import GRANULARITIES, Restriction
from kernel.transaction.checks import overlays
from kernel.transaction.kernel import Kernel
from tests.kernel.build import (
    FakeHost,
    abandoned,
    adapt,
    answered,
    belief_anchor,
    changed,
    code_of,
    create,
    drain,
    effect,
    envelope,
    findings,
    link,
    memory_ledger,
    overlay,
    submit,
    taking,
    twin,
    unlink,
    work,
)
from tests.kernel.every import dated, own

BLOCKED = "envelope_access_overlay_blocked"
INVALID = "access_overlay_construction_invalid"
FIRST = "primitive_effects.0"
POLICY = {
    "policy_id": "RP-1",
    "redacted_artifact_ref": "redacted",
    "redaction_policy_ref": "rules",
    "redaction_provenance_ref": "origin",
    "schema_version": 1,
}

RESTRICTIONS = get_args(Restriction)


@pytest.fixture(scope="module")
def written():
    fake = FakeHost()
    ledger = memory_ledger(fake)
    put(
        ledger,
        create("FU-123", "Filing"),
        create("memory", "Memory", source_spans=[span("FU-123", 25, 5)]),
        create("free", "Note"),
        create("redacted", "Note", document_ref="D"),
    )
    return ledger, fake


@pytest.fixture
def ledger(written):
    return twin(*written)[0]


def span(ref, offset, length):
    return {"source_ref": ref, "offset": offset, "length": length}


def put(ledger, *documents):
    for document in documents:
        assert code_of(work(ledger, document)) is None, document


def lay(ledger, node_id, restriction, kind, ref, **fields):
    put(ledger, overlay(node_id, restriction, kind, ref, **fields))


def outcome(ledger, document, submitter="orchestrator"):
    rejection = getattr(submit(ledger, document, submitter=submitter), "rejection", None)
    return None if rejection is None else (rejection.check, rejection.reason_code, rejection.field)


def note_on(ref, **changes):
    """An annotation of something by way of a note: it says that it writes what it names."""
    fields = {"write_set_refs": [ref], **changes}
    return envelope("annotate", [effect("node_write", "free", note="x")], **fields)


# The worked example


@pytest.mark.spec("§12.7", "INV-B2-OVERLAY-RESOLUTION-1")
def test_the_worked_example(ledger):
    lay(ledger, "O1", "blocked", "filing_unit", "FU-123")
    lay(ledger, "O2", "preview_only", "source_span", "FU-123", offset=17, length=25)
    document = note_on("FU-123#25-30")
    result = work(ledger, document)
    assert (result.rejection.check, result.rejection.reason_code) == ("V9", BLOCKED)
    assert result.rejection.message == (
        "FU-123#25-30: preview_only by overlay O2 (granularity: source_span)"
    )
    with ledger.view() as view:
        receipt = view.receipts_of(document["operation_id"])[0]
        assert view.log_row_of(document["operation_id"]) is None
    assert receipt["receipt_kind"] == "envelope_validation_failed"
    assert receipt["message"] == result.rejection.message

    # "If the user wanted to override: edit O2 to allow writes", a separate operation.
    put(ledger, adapt("O2", access_restriction="none"))
    assert outcome(ledger, note_on("FU-123#25-30")) is None
    # Outside the span it is the filing unit that counts.
    assert outcome(ledger, note_on("FU-123#2-9")) == ("V9", BLOCKED, "write_set_refs.0")


@pytest.mark.spec("§21.1")
def test_a_new_node_has_no_overlay_of_its_own(ledger):
    lay(ledger, "O", "blocked", "document", "D")
    assert outcome(ledger, create("cu", "ConsolidatedUnderstanding")) is None


# Restrictions


@pytest.mark.spec("§12.2")
@pytest.mark.parametrize("granularity", GRANULARITIES[1:])
@pytest.mark.parametrize(
    ("restriction", "permits"),
    [
        ("blocked", False),
        ("preview_only", False),
        ("redacted_only", False),
        ("not_shareable", True),
        ("explicit_access_required", False),
        ("none", True),
    ],
)
def test_a_restriction_at_every_granularity(ledger, granularity, restriction, permits):
    lay(ledger, "O", restriction, granularity, "free", redacted_access_policy=POLICY)
    expected = None if permits else ("V9", BLOCKED, "write_set_refs.0")
    assert outcome(ledger, adapt("free", title="t")) == expected
    message = f"free: {restriction} by overlay O (granularity: {granularity})"
    if not permits:
        assert work(ledger, adapt("free", title="t")).rejection.message == message


@pytest.mark.spec("§12.2")
def test_a_share_link_session_does_not_write_what_is_not_shareable(ledger):
    lay(ledger, "O", "not_shareable", "document", "free")
    for kind, refused in (
        ("share_link_session", True),
        ("dashboard_session", False),
        (None, False),
    ):
        document = adapt("free", envelope_changes={"actor_session_kind": kind}, title="t")
        assert (outcome(ledger, document) is not None) == refused


@pytest.mark.spec("§12.6")
def test_under_redacted_only_the_redacted_artifact_alone_is_written(ledger):
    put(ledger, create("plain", "Note", document_ref="D"))
    lay(ledger, "O", "redacted_only", "document", "D", redacted_access_policy=POLICY)
    assert outcome(ledger, adapt("redacted", title="t")) is None
    assert outcome(ledger, note_on("redacted#3-4")) is None
    assert outcome(ledger, adapt("plain", title="t")) == ("V9", BLOCKED, "write_set_refs.0")
    assert outcome(ledger, note_on("D")) == ("V9", BLOCKED, "write_set_refs.0")


@pytest.mark.spec("§12.6")
def test_two_redactions_of_one_thing_permit_neither(ledger):
    other = POLICY | {"redacted_artifact_ref": "another"}
    lay(ledger, "O1", "redacted_only", "document", "D", redacted_access_policy=POLICY)
    lay(ledger, "O2", "redacted_only", "document", "D", redacted_access_policy=other)
    assert outcome(ledger, adapt("redacted", title="t")) is not None


@pytest.mark.spec("§12.2")
@pytest.mark.parametrize(
    ("who", "permits"),
    [
        ({"session_id": "S-1"}, True),
        ({"session_id": "S-2"}, False),
        ({"actor": "system"}, True),
        ({"actor": "user"}, False),
        # A session that is called like an actor is not taken for one.
        ({"session_id": "system"}, False),
        ({"session_id": "S-2", "actor": "system"}, False),
    ],
)
def test_explicit_access_is_that_of_a_session_or_of_an_actor_without_one(ledger, who, permits):
    lay(
        ledger,
        "O",
        "explicit_access_required",
        "document",
        "free",
        access_grants=["S-1", "system"],
    )
    assert (outcome(ledger, adapt("free", envelope_changes=who, title="t")) is None) == permits


@pytest.mark.spec("§12.2")
def test_access_that_was_authorized_on_the_node_is_a_grant(ledger):
    put(ledger, own("authorize_access", "free", grantee="S-1"))
    lay(ledger, "O", "explicit_access_required", "document", "free")
    mine = {"session_id": "S-1"}
    assert outcome(ledger, adapt("free", envelope_changes=mine, title="t")) is None
    assert outcome(ledger, adapt("free", title="t")) is not None
    let_in = own("authorize_access", "free", grantee="S-2") | {"session_id": "S-2"}
    assert outcome(ledger, let_in) == ("V9", BLOCKED, "write_set_refs.0")


@pytest.mark.spec("§12.2")
def test_two_overlays_that_ask_for_access_both_have_to_grant_it(ledger):
    for name, grants in (("O1", ["S-1", "S-2"]), ("O2", ["S-2"])):
        lay(ledger, name, "explicit_access_required", "document", "free", access_grants=grants)
    for session, permits in (("S-1", False), ("S-2", True)):
        document = adapt("free", envelope_changes={"session_id": session}, title="t")
        assert (outcome(ledger, document) is None) == permits


@pytest.mark.spec("K9")
@pytest.mark.parametrize("restriction", RESTRICTIONS[:-1])
@pytest.mark.parametrize("other", RESTRICTIONS[:-1])
def test_two_different_limits_at_one_granularity_block(ledger, restriction, other):
    access = {"redacted_access_policy": POLICY, "access_grants": ["S-1"]}
    lay(ledger, "O1", restriction, "document", "D", **access)
    lay(ledger, "O2", other, "document", "D", **access)
    document = adapt("redacted", envelope_changes={"session_id": "S-1"}, title="t")
    result = work(ledger, document)
    if restriction == other and restriction not in ("blocked", "preview_only"):
        assert isinstance(result, SubmissionResult)
    else:
        held = restriction if restriction == other else "blocked"
        assert f"{held} by overlay O1, O2 (" in result.rejection.message


# Containment


CONTAINERS = {
    "document_ref": ("document", "D-9"),
    "filing_part_id": ("filing_part", "P-9"),
    "artifact_segment_ref": ("artifact_segment", "G-9"),
    "source_artifact_ref": ("source_artifact", "A-9"),
    "corpus_ref": ("corpus", "C-9"),
    "derived_memory_ref": ("derived_memory", "M-9"),
}


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
@pytest.mark.parametrize("field", CONTAINERS)
def test_what_lies_in_something_is_under_its_overlays(ledger, field):
    kind, ref = CONTAINERS[field]
    put(ledger, create("inside", "Note", **{field: ref}))
    put(ledger, create("deep", "Note", document_refs=["elsewhere", "inside"]))
    lay(ledger, "O", "blocked", kind, ref)
    for node_id in ("inside", "deep"):
        assert outcome(ledger, adapt(node_id, title="t")) == ("V9", BLOCKED, "write_set_refs.0")
    assert outcome(ledger, create("new", "Note", **{field: ref})) == (
        "V9",
        BLOCKED,
        f"{FIRST}.target_ref",
    )
    moved_in = adapt("free", **{field: ref})
    assert outcome(ledger, moved_in) == ("V9", BLOCKED, f"{FIRST}.target_ref")
    assert outcome(ledger, adapt("inside", **{field: "elsewhere"})) is not None


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
def test_a_corpus_covers_its_members_and_who_becomes_one(ledger):
    lay(ledger, "O", "blocked", "corpus", "corpus:test")
    # Everything that `create` makes is proposed to this corpus.
    assert outcome(ledger, adapt("free", title="t")) == ("V9", BLOCKED, "write_set_refs.0")
    assert outcome(ledger, create("new", "Note")) == (
        "V9",
        BLOCKED,
        "primitive_effects.1.payload.corpus_id",
    )


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
@pytest.mark.parametrize(("state", "covered"), [("confirmed", True), ("rejected", False)])
def test_who_is_no_member_any_more_is_not_covered(ledger, state, covered):
    move = effect("membership_write", "free", corpus_id="corpus:test", to_state=state)
    put(ledger, envelope(f"corpus_membership_{state.removesuffix('ed')}", [move]))
    lay(ledger, "O", "blocked", "corpus", "corpus:test")
    assert (outcome(ledger, adapt("free", title="t")) is not None) == covered


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
def test_a_version_of_a_filing_lies_in_its_unit(ledger):
    version = {"filing_unit_id": "unit", "version_label": "1", **dated("filing_date")}
    put(
        ledger,
        own("filing_unit_write", "unit", **dated("filing_date"), document_ref="D-9"),
        own("filing_unit_version_write", "v1", **version),
    )
    lay(ledger, "O", "blocked", "document", "D-9")
    for node_id, document in (
        ("unit", own("filing_unit_retract", "unit")),
        ("v1", own("filing_unit_version_retract", "v1")),
    ):
        result = work(ledger, document)
        assert result.rejection.message.startswith(f"{node_id}: blocked by overlay O (")
    new = own("filing_unit_version_write", "v2", **version)
    assert outcome(ledger, new) == ("V9", BLOCKED, f"{FIRST}.target_ref")
    lay(ledger, "O2", "none", "filing_unit_version", "v1")
    assert outcome(ledger, own("filing_unit_version_retract", "v1")) is None


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
def test_an_edge_lies_in_the_node_that_it_leads_to(ledger):
    put(ledger, link("edge", "free", "memory"))
    lay(ledger, "O", "blocked", "derived_memory", "memory")
    assert outcome(ledger, link("edge2", "free", "memory"))[1] == BLOCKED
    assert outcome(ledger, unlink("edge"))[1] == BLOCKED
    assert outcome(ledger, link("edge3", "memory", "free")) is None


@pytest.mark.spec("K9", "INV-B2-OVERLAY-RESOLUTION-1")
@pytest.mark.parametrize(("on_span", "on_memory"), [("none", "blocked"), ("blocked", "none")])
def test_the_overlay_of_a_span_wins_over_that_of_the_memory_drawn_from_it(
    ledger, on_span, on_memory
):
    lay(ledger, "O1", on_memory, "derived_memory", "memory")
    lay(ledger, "O2", on_span, "source_span", "FU-123", offset=17, length=25)
    result = work(ledger, adapt("memory", title="t"))
    assert isinstance(result, SubmissionResult) == (on_span == "none")
    if on_span == "blocked":
        assert "O2 (granularity: source_span)" in result.rejection.message


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
@pytest.mark.parametrize(
    ("ref", "limited"),
    [
        ("FU-123#17-42", True),
        ("FU-123#25-30", True),
        ("FU-123#30-25", True),
        ("FU-123#20-20", True),
        ("FU-123#41-42", True),
        ("FU-123#42-43", False),
        ("FU-123#16-17", False),
        ("FU-123#10-18", True),
        ("FU-123#0-100", True),
        ("FU-123", False),
        ("FU-123#x", False),
        ("FU-124#25-30", False),
        ("FU-123#25-30#1-2", True),
    ],
)
def test_a_limit_on_a_span_holds_where_anything_of_it_is_written(ledger, ref, limited):
    lay(ledger, "O", "blocked", "source_span", "FU-123", offset=17, length=25)
    assert (outcome(ledger, note_on(ref)) is not None) == limited


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
@pytest.mark.parametrize(("ref", "permitted"), [("FU-123#25-30", True), ("FU-123#10-18", False)])
def test_a_permission_on_a_span_is_one_for_what_lies_in_it_whole(ledger, ref, permitted):
    lay(ledger, "O1", "blocked", "filing_unit", "FU-123")
    lay(ledger, "O2", "none", "source_span", "FU-123", offset=17, length=25)
    assert (outcome(ledger, note_on(ref)) is None) == permitted


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
def test_a_permission_on_one_source_is_none_on_another(ledger):
    both = [span("FU-123", 25, 5), span("other", 0, 5)]
    put(ledger, create("other", "Note"), create("mixed", "Memory", source_spans=both))
    lay(ledger, "O1", "blocked", "document", "other")
    lay(ledger, "O2", "none", "source_span", "FU-123", offset=17, length=25)
    assert outcome(ledger, adapt("mixed", title="t")) is not None
    assert outcome(ledger, adapt("memory", title="t")) is None


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
@pytest.mark.parametrize(
    "drawn", [{"source_ref": "FU-123"}, {"source_spans": [{"source_ref": "FU-123", "page": 4}]}]
)
def test_what_does_not_say_from_where_it_was_drawn_was_drawn_from_all(ledger, drawn):
    put(ledger, create("vague", "Memory", **drawn))
    lay(ledger, "O1", "none", "source_span", "FU-123", offset=0, length=10**6)
    assert outcome(ledger, adapt("vague", title="t")) is None
    lay(ledger, "O2", "blocked", "source_span", "FU-123", offset=900, length=1)
    assert outcome(ledger, adapt("vague", title="t")) is not None


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
def test_stating_a_permitted_place_does_not_leave_a_blocked_one(ledger):
    put(ledger, create("inside", "Note", document_ref="D"))
    lay(ledger, "O1", "blocked", "document", "D")
    lay(ledger, "O2", "none", "source_span", "FU-123", offset=17, length=25)
    escape = adapt("inside", document_ref="", source_spans=[span("FU-123", 20, 1)])
    assert outcome(ledger, escape) == ("V9", BLOCKED, "write_set_refs.0")


@pytest.mark.spec("INV-B2-OVERLAY-RESOLUTION-1")
def test_things_may_lie_in_each_other_in_a_circle(ledger):
    put(ledger, create("a", "Note", document_ref="b"), create("b", "Note", document_ref="a"))
    put(
        ledger, create("c", "Note"), create("d", "Note", source_ref="c"), adapt("c", source_ref="d")
    )
    lay(ledger, "O", "blocked", "document", "b")
    assert outcome(ledger, adapt("a", title="t")) is not None
    assert outcome(ledger, adapt("c", title="t")) is None


@pytest.mark.spec("§12.2")
@pytest.mark.parametrize("limit", ["MAX_REFS_WALKED", "MAX_OVERLAYS_EXAMINED"])
def test_what_lies_in_more_than_is_searched_is_refused(ledger, monkeypatch, limit):
    lay(ledger, "O", "none", "document", "D")
    document = adapt("redacted", title="t")
    monkeypatch.setattr(containment, limit, 0)
    assert outcome(ledger, document) == ("V9", BLOCKED, "write_set_refs.0")
    monkeypatch.setattr(containment, limit, 10)
    assert outcome(ledger, document) is None


# What is written


@pytest.mark.spec("§2.6", "§12.2")
@pytest.mark.parametrize("declared", [["elsewhere"], ["somewhere", "elsewhere"]])
def test_what_an_envelope_writes_counts_whether_it_is_declared_or_not(ledger, declared):
    lay(ledger, "O", "blocked", "document", "free")
    document = adapt("free", envelope_changes={"write_set_refs": declared}, title="t")
    assert outcome(ledger, document) == ("V9", BLOCKED, f"{FIRST}.target_ref")


@pytest.mark.spec("§8.2", "INV-A-AUTHORITY-EAGER-1")
def test_an_authority_follows_its_inputs_whatever_lies_over_it(ledger):
    put(
        ledger,
        create("claim", "VersionedClaim", authority=0.75),
        create("cu", "ConsolidatedUnderstanding"),
        link("edge", "claim", "cu"),
    )
    lay(ledger, "O", "blocked", "derived_memory", "cu")
    assert drain(ledger) == ["cu"]
    assert outcome(ledger, adapt("cu", title="t")) is not None


def test_the_anchor_of_a_session_is_nobodys_access(ledger):
    put(ledger, create("s", "Note"))
    lay(ledger, "O", "blocked", "document", "s")
    assert outcome(ledger, belief_anchor("s")) is None


# Overrides


def overriding(ids, reason="the court ordered it", **changes):
    receipt = effect("receipt_only", overlay_ids=ids, reason=reason)
    receipt |= {"receipt_subkind": "access_overlay_override"}
    return envelope("annotate", [effect("node_write", "free", note="x"), receipt], **changes)


@pytest.mark.spec("§2.2 V9")
def test_an_override_names_the_overlays_that_it_speaks_for_and_stays_on_record(ledger):
    lay(ledger, "O1", "blocked", "document", "free")
    lay(ledger, "O2", "blocked", "corpus", "corpus:test")
    for ids in ([], ["O2"], ["O1"], "O1 O2", [["O1", "O2"]]):
        assert outcome(ledger, overriding(ids)) == ("V9", BLOCKED, "write_set_refs.0")
    for reason in ("", None, 7):
        assert outcome(ledger, overriding(["O1", "O2"], reason)) is not None
    document = overriding(["O1", "O2"])
    assert outcome(ledger, document) is None
    with ledger.view() as view:
        kinds = [receipt["receipt_kind"] for receipt in view.receipts_of(document["operation_id"])]
    assert kinds == ["access_overlay_override"]


@pytest.mark.spec("§2.2 V9", "K18")
@pytest.mark.parametrize(
    ("submitter", "changes"),
    [
        ("caller", {}),
        ("orchestrator", {"actor": "agent"}),
        ("orchestrator", {"actor_session_kind": "share_link_session"}),
    ],
)
def test_whom_an_overlay_keeps_out_does_not_override_it(ledger, submitter, changes):
    document = overriding(["O"], **changes)
    field = "primitive_effects.1.receipt_subkind"
    assert outcome(ledger, document, submitter) == ("V9", BLOCKED, field)


# Overlays as nodes


TARGET = {"target_kind": "document", "target_ref": "D"}
STRETCH = {"target_kind": "source_span", "target_ref": "D", "offset": 0, "length": 1}
MALFORMED = [
    ("access_restriction", {"access_restriction": "closed"}),
    ("access_restriction", {"access_restriction": None}),
    ("target", {"target": None}),
    ("target", {"target": "D"}),
    ("target", {"target": STRETCH | {"target_kind": "document"}}),
    ("target", {"target": TARGET | {"target_kind": "source_span"}}),
    ("target", {"target": TARGET | {"target_kind": "source_span", "offset": 1}}),
    ("target.offset", {"target": STRETCH | {"offset": -1}}),
    ("target.length", {"target": STRETCH | {"length": 0}}),
    ("target.offset", {"target": STRETCH | {"offset": "1"}}),
    ("target.target_kind", {"target": {"target_ref": "D"}}),
    ("target.target_kind", {"target": TARGET | {"target_kind": "page"}}),
    ("target.target_ref", {"target": {"target_kind": "document"}}),
    ("target.target_ref", {"target": TARGET | {"target_ref": ""}}),
    ("", {"access_restriction": "redacted_only"}),
    (
        "redacted_access_policy.redacted_artifact_ref",
        {"redacted_access_policy": POLICY | {"redacted_artifact_ref": None}},
    ),
    (
        "redacted_access_policy.redaction_method",
        {"redacted_access_policy": POLICY | {"redaction_method": "scissors"}},
    ),
    ("access_grants.0", {"access_grants": [7]}),
    ("overlay_id", {"overlay_id": "another"}),
]


@pytest.mark.spec("§12.4")
@pytest.mark.parametrize(("field", "fields"), MALFORMED)
@pytest.mark.parametrize("way", ["created", "changed", "annotated"])
def test_an_overlay_that_cannot_be_read_is_not_laid(ledger, way, field, fields):
    whole = {"target": TARGET, "access_restriction": "blocked", **fields}
    place = f"{FIRST}.payload"
    if way == "created":
        document = create("O", "AccessOverlay", **whole)
    elif way == "changed":
        lay(ledger, "O", "blocked", "document", "D")
        document = adapt("O", **fields)
    else:
        document = envelope("annotate", [effect("node_write", "free", access_overlay=whole)])
        place += ".access_overlay"
    expected = ("V9", INVALID, f"{place}.{field}".rstrip("."))
    assert outcome(ledger, document) == expected


@pytest.mark.spec("§12.4")
@pytest.mark.parametrize("way", ["created", "changed", "annotated", "in two steps"])
def test_a_ceremony_is_refused_by_a_code_of_its_own(ledger, way):
    ceremony = {"access_restriction": "access_ceremony_required"}
    whole = {"target": TARGET, **ceremony}
    lay(ledger, "there", "blocked", "document", "D")
    documents = {
        "created": create("O", "AccessOverlay", **whole),
        "changed": adapt("there", **ceremony),
        "annotated": envelope("annotate", [effect("node_write", "free", access_overlay=whole)]),
        "in two steps": envelope(
            "supersede",
            [
                effect(
                    "node_write",
                    "O",
                    node_kind="AccessOverlay",
                    target=TARGET,
                    access_restriction="none",
                ),
                effect("node_write", "O", **ceremony) | {"effect_id": "second"},
                effect(
                    "edge_create",
                    "e",
                    source_node_id="free",
                    target_node_id="redacted",
                    edge_type="supersedes",
                ),
            ],
        ),
    }
    result = work(ledger, documents[way])
    assert (result.rejection.check, result.rejection.reason_code) == ("V9", "b1_not_yet_supported")
    assert INVALID in result.rejection.message


@pytest.mark.spec("§12.4")
def test_an_annotation_with_an_overlay_lays_it(ledger):
    whole = {"target": TARGET, "access_restriction": "blocked"}
    put(ledger, envelope("annotate", [effect("node_write", "free", access_overlay=whole)]))
    assert "by overlay free (" in work(ledger, adapt("redacted", title="t")).rejection.message
    put(ledger, envelope("annotate", [effect("node_write", "free", access_overlay=None)]))
    assert outcome(ledger, adapt("redacted", title="t")) is None


@pytest.mark.spec("§12.4")
def test_an_overlay_carries_no_other(ledger):
    whole = {"target": TARGET, "access_restriction": "blocked"}
    document = overlay("O", "blocked", "document", "D", access_overlay=whole)
    field = f"{FIRST}.payload.access_overlay"
    assert outcome(ledger, document) == ("V9", INVALID, field)


@pytest.mark.spec("§12.4")
def test_the_overlays_over_one_thing_are_limited(ledger, monkeypatch):
    monkeypatch.setattr(overlays, "MAX_OVERLAYS_OF_TARGET", 2)
    for number in range(2):
        lay(ledger, f"O{number}", "none", "document", "D")
    full = overlay("O2", "none", "document", "D")
    assert outcome(ledger, full) == ("V9", INVALID, f"{FIRST}.payload")
    put(ledger, adapt("O1", access_restriction="blocked"))
    put(
        ledger,
        adapt("O1", target=TARGET | {"target_ref": "E"}),
        overlay("O3", "none", "document", "D"),
    )


@pytest.mark.spec("§12.7")
def test_editing_an_overlay_is_under_the_overlays_over_it(ledger):
    lay(ledger, "O", "blocked", "document", "D")
    lay(ledger, "guard", "blocked", "document", "O")
    lifted = adapt("O", access_restriction="none")
    assert outcome(ledger, lifted) == ("V9", BLOCKED, "write_set_refs.0")
    put(ledger, adapt("guard", access_restriction="none"), lifted)


@pytest.mark.spec("§12.7")
@pytest.mark.parametrize(
    ("lift", "restore"),
    [
        (
            taking("retract", "O"),
            envelope("restore", [effect("node_write", "O", state="active")]),
        ),
        (
            taking("collapse", "O"),
            envelope("restore", [effect("node_write", "O", state="active")]),
        ),
        (
            adapt("O", target=TARGET | {"target_ref": "E"}),
            adapt("O", target=TARGET),
        ),
        (
            adapt("O", access_restriction="none"),
            adapt("O", access_restriction="preview_only"),
        ),
    ],
    ids=["retracted", "collapsed", "moved", "opened"],
)
def test_an_overlay_holds_as_long_as_it_is_in_force(ledger, lift, restore):
    lay(ledger, "O", "blocked", "document", "D")
    for document, held in ((lift, False), (restore, True)):
        put(ledger, document | {"operation_id": f"op:{held}", "idempotency_key": f"key:{held}"})
        assert (outcome(ledger, adapt("redacted", title="t")) is not None) == held


@pytest.mark.spec("§12.7")
def test_a_quarantined_overlay_is_in_force(ledger):
    lay(ledger, "O", "blocked", "document", "D")
    put(ledger, own("quarantine", "O", quarantine_reason="doubt"))
    assert outcome(ledger, adapt("redacted", title="t")) is not None


@pytest.mark.spec("§12.4", "K18")
@pytest.mark.parametrize("restriction", RESTRICTIONS)
def test_a_caller_may_lay_blocks_alone(ledger, restriction):
    document = overlay("O", restriction, "document", "D", redacted_access_policy=POLICY)
    expected = None if restriction == "blocked" else ("V9", BLOCKED, f"{FIRST}.payload")
    assert outcome(ledger, document, "caller") == expected


RELAXING = {
    "opened": adapt("O", access_restriction="none"),
    "shown": adapt("O", access_restriction="preview_only"),
    "moved": adapt("O", target=TARGET | {"target_ref": "E"}),
    "retracted": taking("retract", "O"),
    "collapsed": taking("collapse", "O"),
    "carried": envelope(
        "annotate",
        [
            effect(
                "node_write",
                "free",
                access_overlay={
                    "target": TARGET,
                    "access_restriction": "explicit_access_required",
                    "access_grants": ["user"],
                },
            )
        ],
    ),
}


@pytest.mark.spec("§12.7", "K18")
@pytest.mark.parametrize("document", RELAXING.values(), ids=RELAXING)
@pytest.mark.parametrize(
    ("submitter", "changes"),
    [
        ("caller", {}),
        ("orchestrator", {"actor": "agent"}),
        ("orchestrator", {"actor_session_kind": "share_link_session"}),
    ],
)
def test_whom_an_overlay_keeps_out_does_not_lift_it(ledger, document, submitter, changes):
    lay(ledger, "O", "blocked", "document", "D")
    assert outcome(ledger, document | changes, submitter)[:2] == ("V9", BLOCKED)
    assert outcome(ledger, changed(document, {})) is None


@pytest.mark.spec("§12.7")
def test_a_caller_may_say_more_of_an_overlay_and_block_again_what_was_blocked(ledger):
    lay(ledger, "O", "blocked", "document", "D")
    assert outcome(ledger, adapt("O", remark="by order"), "caller") is None
    put(ledger, taking("retract", "O"))
    again = envelope("restore", [effect("node_write", "O", state="active")])
    assert outcome(ledger, again, "caller") is None


@pytest.mark.spec("§12.4")
def test_a_retracted_overlay_is_still_not_changed_into_none(ledger):
    lay(ledger, "O", "blocked", "document", "D")
    put(ledger, taking("retract", "O"))
    document = adapt("O", access_restriction="access_ceremony_required")
    assert outcome(ledger, document)[1] == "b1_not_yet_supported"


# The index


def index_of(ledger, node_id):
    with ledger.view() as view:
        row = view.tables.get(schema.nodes, node_id)
    return row["overlay_in_force"], row["overlay_target"]


@pytest.mark.spec("§12.3")
def test_overlays_are_found_by_what_they_lie_over(ledger):
    lay(ledger, "O", "blocked", "source_span", "FU-123", offset=1, length=1)
    assert index_of(ledger, "O") == (1, "FU-123")
    assert index_of(ledger, "free") == (0, None)
    put(ledger, taking("retract", "O"))
    assert index_of(ledger, "O") == (0, None)


class CountedNodes:
    """A transaction's tables, which count what is asked of the nodes by their overlays."""

    def __init__(self, tables):
        self.tables, self.asked = tables, 0

    def __getattr__(self, name):
        return getattr(self.tables, name)

    def scan(self, query):
        self.asked += "overlay_in_force" in query.where
        return self.tables.scan(query)


@pytest.mark.spec("§12.2")
def test_a_ledger_without_overlays_is_asked_once_in_a_transaction(ledger):
    with ledger.transaction() as transaction:
        counted = transaction.tables = CountedNodes(transaction.tables)
        for _ in range(3):
            assert code_of(Kernel().submit(transaction, adapt("free", t=1), "caller")) is None
        assert counted.asked == 1


@pytest.mark.spec("§12.2")
def test_an_overlay_holds_from_the_next_envelope_of_its_transaction_on(ledger):
    with ledger.transaction() as transaction:
        results = [
            Kernel().submit(transaction, document, "orchestrator")
            for document in (
                adapt("redacted", title="1"),
                overlay("O", "blocked", "document", "D"),
                adapt("redacted", title="2"),
            )
        ]
    assert [code_of(result) for result in results] == [None, None, BLOCKED]


@pytest.mark.spec("§12.2")
def test_an_overlay_that_was_undone_does_not_hold(ledger):
    with ledger.transaction() as transaction:
        with abandoned(transaction.savepoint()):
            laid = overlay("O", "blocked", "document", "D")
            assert code_of(Kernel().submit(transaction, laid, "orchestrator")) is None
            assert transaction.has_overlays()
        assert not transaction.has_overlays()
        result = Kernel().submit(transaction, adapt("redacted", title="t"), "orchestrator")
    assert code_of(result) is None


@pytest.mark.spec("§12.2", "V4-AT-23")
def test_a_ledger_with_overlays_verifies(ledger):
    lay(ledger, "O", "blocked", "document", "D")
    assert outcome(ledger, adapt("redacted", title="t")) is not None
    put(ledger, adapt("O", access_restriction="none"), adapt("redacted", title="t"))
    assert findings(ledger) == ()


# Models and what is sealed

SEALED = {"resolved_output_visibility_class": "sealed", "source_visibility_taint": ["sealed"]}
CACHE, OUTBOUND = "envelope_sealed_tier_2_cache_violation", "envelope_sealed_outbound_unauthorized"


def shown(visibility, *, node_id="n", outputs_own=False, **output):
    classes = {
        "resolved_output_visibility_class": visibility,
        "source_visibility_taint": [visibility],
    }
    document = create(node_id, "Note", visibility_class=visibility, envelope=classes)
    return answered(document, **output, **(classes if outputs_own else {}))


@pytest.mark.spec("INV-B2-CACHING-1")
@pytest.mark.parametrize(
    ("visibility", "secret"),
    [
        ("public_open", False),
        ("work_product_internal", False),
        ("firewalled", True),
        ("sealed", True),
    ],
)
def test_what_is_sealed_is_shown_to_local_models_without_a_providers_cache(
    ledger, visibility, secret
):
    for output, code, field in (
        ({}, None, ""),
        ({"tier_2_prompt_cache_used": True}, CACHE, "tier_2_prompt_cache_used"),
        ({"model_provider": "anthropic_provider_api"}, OUTBOUND, "model_provider"),
        ({"model_provider": "Local"}, OUTBOUND, "model_provider"),
    ):
        expected = ("V9", code, f"recorded_model_outputs.0.{field}") if secret and code else None
        document = shown(visibility, node_id=f"n:{output}", **output)
        assert outcome(ledger, document) == expected


@pytest.mark.spec("INV-B2-CACHING-1")
def test_every_output_of_an_operation_is_looked_at(ledger):
    document = shown("sealed")
    second = document["recorded_model_outputs"][0] | {"tier_2_prompt_cache_used": True}
    document["recorded_model_outputs"].append(second)
    field = "recorded_model_outputs.1.tier_2_prompt_cache_used"
    assert outcome(ledger, document) == ("V9", CACHE, field)


@pytest.mark.spec("INV-B2-CACHING-1")
def test_an_output_that_says_more_than_its_envelope_is_believed(ledger):
    document = shown("sealed", outputs_own=True, model_provider="elsewhere")
    quiet = changed(document, {"source_visibility_taint": ["work_product_internal"]})
    assert outcome(ledger, quiet)[0] == "V8"
    assert outcome(ledger, document)[1] == OUTBOUND


@pytest.mark.spec("INV-B2-CACHING-1")
@pytest.mark.parametrize(
    ("authorizations", "permitted"),
    [
        ([{"actor": "user", "scope": "sealed_outbound"}], True),
        ([{"actor": "agent", "scope": "sealed_outbound"}], False),
        ([{"actor": "user", "scope": "outbound"}], False),
        (["user"], False),
        ({"actor": "user", "scope": "sealed_outbound"}, False),
        (None, False),
    ],
)
def test_the_policy_in_force_authorizes_what_leaves(ledger, authorizations, permitted):
    advance = own(
        "policy_snapshot_advance",
        "PG-2",
        prior_policy_generation_id="PG-1",
        propa_authorizations=authorizations,
    )
    put(ledger, advance)
    external = shown("sealed", model_provider="anthropic_provider_api")
    result = outcome(ledger, external | {"policy_generation_id": "PG-2"})
    assert (result is None) == permitted
    cached = shown("sealed", tier_2_prompt_cache_used=True) | {"policy_generation_id": "PG-2"}
    assert outcome(ledger, cached)[1] == CACHE
    put(ledger, own("policy_snapshot_revert", "PG-2") | {"policy_generation_id": "PG-2"})
    again = shown("sealed", model_provider="anthropic_provider_api")
    assert outcome(ledger, again)[1] == OUTBOUND


@pytest.mark.spec("K5", "§12.2")
def test_each_refusal_stays_on_record_with_overlay_granularity_and_restriction(ledger):
    lay(ledger, "O", "explicit_access_required", "artifact_segment", "free")
    document = adapt("free", title="t")
    outcome(ledger, document)
    with ledger.view() as view:
        rows = view.tables.scan(
            TableQuery(schema.receipts, {"operation_id": document["operation_id"]})
        )
    (receipt,) = (orjson.loads(row["receipt_bytes"]) for row in rows)
    assert (receipt["check"], receipt["reason_code"]) == ("V9", BLOCKED)
    for said in ("O", "artifact_segment", "explicit_access_required"):
        assert said in receipt["message"]


@pytest.mark.spec("§12.2")
def test_an_overlay_that_states_nothing_is_none(ledger):
    bare = create("bare", "AccessOverlay")
    assert outcome(ledger, bare) == ("V9", INVALID, f"{FIRST}.payload.target")
