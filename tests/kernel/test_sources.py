"""What an operation is made of counts, wherever it says so and however it is called."""

import pytest

from kernel.algebra.effects import EFFECT_KINDS
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction
from kernel.model.node_kinds import UNDERSTANDING
from kernel.records.sources import MAX_SOURCES_WALKED, SourceClasses, sources_of
from kernel.transaction.outbound import RESTRICTED
from kernel.values.visibility import VISIBILITY_CLASSES, max_visibility_class
from tests.kernel.build import (
    FakeHost,
    adapt,
    advance_policy,
    answered,
    code_of,
    create,
    drawn_from,
    effect,
    envelope,
    memory_ledger,
    overlay,
    recompute,
    scope_of,
    spans,
    submit,
    taking,
    twin,
    unavailable,
)
from tests.kernel.every import every_kind, own
from tests.kernel.reports import TEXT, TEXT_HASH, artifact, grant

RESOLUTION = "envelope_taint_resolution_invalid"
OUTBOUND = "envelope_sealed_outbound_unauthorized"
OVERLAID = "envelope_access_overlay_blocked"

pytestmark = pytest.mark.spec("INV-A-TAINT-INFECTIOUS-1", "§7.3")


def reclassify(node_id, visibility):
    change = effect("visibility_change", node_id, visibility_class=visibility)
    return envelope("visibility_change", [change])


@pytest.fixture(scope="module")
def written():
    """A sealed source S, an open one O, and what was drawn from D before it was sealed."""
    fake = FakeHost()
    ledger = memory_ledger(fake)
    results = submit(
        ledger,
        create("S", "SourceArtifact", content=TEXT, visibility_class="sealed"),
        create("O", "SourceArtifact", content="open text"),
        create("D", "SourceArtifact", content="sealed later"),
        create("claim", "VersionedClaim", span={"source_ref": "D", "offset": 0, "length": 3}),
        create("memory", "Memory", source_refs=["claim"]),
        create("gone", "Note"),
    )
    assert [code_of(result) for result in results] == [None] * 6
    submit(ledger, reclassify("D", "sealed"))
    return ledger, fake


@pytest.fixture
def ledger(written):
    return twin(*written)[0]


SEALED = {
    "itself": "S",
    "a stretch": "S#0-9",
    "a stretch the wrong way round": "S#9-0",
    "a stretch without length": "S#3-3",
    "a stretch of a stretch": "S#0-9#2-3",
    "a stretch far behind its end": "S#999999999999998-999999999999999",
    "drawn from what was sealed later": "claim",
    "drawn from that": "memory",
    "a stretch of that": "memory#0-1",
    "a stretch of more stretches than are searched": "O" + "#0-1" * 9,
    "unknown": "nowhere",
    "a stretch of the unknown": "nowhere#0-9",
    "another case": "s",
    "a space behind": "S ",
    "a space before": " S#0-9",
    "a space in the stretch": "S#0 -9",
    "percent": "S%230-9",
    "a wide number sign": "S\uff030-9",
    "wide digits": "S#\uff10-\uff19",
    "a wide letter": "\uff33",
    "another dash": "S#0\u20139",
    "an invisible character": "S\u200b",
    "a preview that never was": "preview:op-0",
}
"""References that nobody may take for something open."""


def citing(place, ref):
    if place in ("source_refs", "read_set_refs"):
        return create("out", "Note", envelope={place: [ref]})
    payloads = {
        "source_ref": ref,
        "refs": None,
        "span": {"source_ref": ref, "offset": 0, "length": 1},
        "source_spans": [{"source_ref": ref, "offset": 0, "length": 1}],
    }
    if place == "refs":
        return create("out", "Note", source_refs=["O", ref])
    if place == "source_doc_refs":
        explained = unavailable("out", source_doc_refs=[ref])
        fields = {"source_spans": [], "display_kind": "synthesis_summary_no_spans"}
        return create("out", UNDERSTANDING, explained, **fields)
    return create("out", "Note", **{place: payloads[place]})


PLACES = (
    "source_refs",
    "read_set_refs",
    "source_ref",
    "refs",
    "span",
    "source_spans",
    "source_doc_refs",
)


@pytest.mark.parametrize("ref", SEALED.values(), ids=SEALED)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_sealed_taints_wherever_and_however_it_is_named(ledger, place, ref):
    document = citing(place, ref)
    result = submit(ledger, document)
    assert (code_of(result), result.rejection.check) == (RESOLUTION, "V8")
    document["primitive_effects"][0]["payload"]["visibility_class"] = "sealed"
    assert code_of(submit(ledger, drawn_from(document, "sealed"))) is None


@pytest.mark.parametrize("ref", ["S\x00", "S\x00#0-1", "O\x00"])
@pytest.mark.parametrize("place", PLACES[2:])
def test_a_name_that_no_store_can_be_asked_for_is_unknown(ledger, place, ref):
    assert code_of(submit(ledger, citing(place, ref))) == RESOLUTION


@pytest.mark.parametrize("value", ["S", ["S"], {"source_ref": "S"}, [{"source_ref": "S"}]])
@pytest.mark.parametrize("field", ["source_ref", "source_refs", "span", "source_spans"])
def test_a_source_counts_in_whatever_shape_it_stands(ledger, field, value):
    result = submit(ledger, create("out", "Note", **{field: value}))
    # A text is no list of spans, and names none.
    assert code_of(result) == (None if (field, value) == ("source_spans", "S") else RESOLUTION)


@pytest.mark.parametrize("ref", ["O", "O#0-4", "O#0-4#1-2"])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_open_taints_nothing(ledger, place, ref):
    assert code_of(submit(ledger, citing(place, ref))) is None


@pytest.mark.parametrize("state", ["retracted", "soft_deleted"])
def test_what_was_taken_back_is_as_restricted_as_it_was(ledger, state):
    verb = {"retracted": "retract", "soft_deleted": "soft_delete"}[state]
    submit(ledger, taking(verb, "S"))
    assert code_of(submit(ledger, citing("source_refs", "S#0-4"))) == RESOLUTION


def test_what_is_called_like_a_stretch_is_no_way_around_the_whole(ledger):
    # Somebody makes an open node of that name.
    assert code_of(submit(ledger, create("S#0-9", "Note", content="open"))) is None
    assert code_of(submit(ledger, citing("source_refs", "S#0-9"))) == RESOLUTION


@pytest.mark.parametrize("place", ["source_refs", "read_set_refs", "source_ref"])
def test_a_source_of_the_same_envelope_counts(ledger, place):
    first = effect("node_write", "first", node_kind="Note", visibility_class="sealed", content="s")
    document = _writing_first(first, citing(place, "first#0-1"))
    assert code_of(submit(ledger, document)) == RESOLUTION


def test_what_a_source_of_the_same_envelope_was_drawn_from_counts(ledger):
    first = effect("node_write", "first", node_kind="Note", source_ref="S")
    document = _writing_first(first, create("out", "Note", source_ref="first"))
    assert code_of(submit(ledger, document)) == RESOLUTION


def _writing_first(first, document):
    effects = [first, *document["primitive_effects"]]
    return document | {
        "primitive_effects": effects,
        "affected_subgraph_descriptor": scope_of(effects),
    }


def test_a_typed_record_is_as_restricted_as_the_operation_that_wrote_it(ledger):
    copied = drawn_from(artifact("copy"), "public_open") | {"source_refs": ["O"]}
    assert code_of(submit(ledger, copied)) is None
    assert code_of(submit(ledger, citing("source_refs", "copy"))) is None
    linked = envelope("document_relationship_create", [_edge("edge", "O", "claim")])
    assert code_of(submit(ledger, drawn_from(linked, "sealed"))) is None
    assert code_of(submit(ledger, citing("source_refs", "edge"))) == RESOLUTION


def _edge(edge_id, source, target):
    ends = {"source_node_id": source, "target_node_id": target}
    return effect("edge_create", edge_id, **ends, edge_type="informs")


def test_an_operation_hands_on_what_it_resolved(ledger):
    sealed = drawn_from(create("x", "Note", visibility_class="sealed"), "sealed")
    submit(ledger, sealed)
    assert code_of(submit(ledger, citing("source_refs", sealed["operation_id"]))) == RESOLUTION
    with ledger.transaction() as transaction:
        row = transaction.log_row_of(sealed["operation_id"])
        transaction.tables.delete(schema.blobs, row["envelope_payload_blob_ref"])
    assert code_of(submit(ledger, citing("source_refs", sealed["operation_id"]))) == RESOLUTION


@pytest.mark.spec("EC3")
def test_what_frames_is_read_without_taint_and_cited_with_it(ledger):
    submit(ledger, create("rollup", "RecentActivityRollup", visibility_class="sealed"))
    assert code_of(submit(ledger, citing("read_set_refs", "rollup"))) is None
    assert code_of(submit(ledger, citing("source_refs", "rollup"))) == RESOLUTION


def test_what_only_observes_may_have_looked_for_what_is_not_there(ledger):
    observed = envelope("search_run_record", [effect("receipt_only", query="q")])
    assert code_of(submit(ledger, observed | {"read_set_refs": ["nowhere"]})) is None
    observed = envelope("search_run_record", [effect("receipt_only", query="q")])
    assert code_of(submit(ledger, observed | {"read_set_refs": ["S#0-1"]})) == RESOLUTION


def test_what_was_drawn_from_too_much_is_as_restricted_as_anything(ledger, monkeypatch):
    with ledger.view() as view:
        assert SourceClasses(view).of_ref("O") == "public_open"
        monkeypatch.setattr("kernel.records.sources.MAX_SOURCES_WALKED", 1)
        assert SourceClasses(view).of_ref("memory") == "sealed"
    assert MAX_SOURCES_WALKED > 1


def test_provenance_in_a_circle_ends(ledger):
    submit(ledger, create("a", "Note"), create("b", "Note", source_ref="a"))
    assert code_of(submit(ledger, adapt("a", source_ref="b"))) is None
    assert code_of(submit(ledger, citing("source_refs", "a"))) is None


# Counts


def test_whoever_submits_it_counts_what_a_source_was_drawn_from(ledger):
    document = citing("source_refs", "claim")
    assert code_of(submit(ledger, document, submitter="orchestrator")) == RESOLUTION


@pytest.mark.spec("§8.2")
def test_a_recompute_reads_numbers_and_nothing_of_what_its_inputs_were_drawn_from(ledger):
    submit(ledger, create("cu", UNDERSTANDING, **spans("O")))
    with ledger.view() as view:
        document = recompute(view, "cu", read_set_refs=["claim"])
    assert code_of(submit(ledger, document, submitter="orchestrator")) is None


@pytest.mark.spec("K7", "§7.4")
@pytest.mark.parametrize(
    "stated",
    [
        ["public_open", "sealed"],
        ["sealed"] * 9 + ["public_open"],
        ["public_open", "sealed", "sealed", "public_open"],
    ],
)
def test_the_counts_of_a_taint_receipt_are_computed(ledger, stated):
    document = create("out", "Note", visibility_class="sealed", source_ref="O#0-2")
    document |= {"source_refs": ["S#0-1", "S#2-3", "O"], "read_set_refs": ["S", "memory"]}
    by = submit(ledger, drawn_from(document, *stated) | {_RESOLVED: "sealed"})
    with ledger.view() as view:
        [receipt] = view.receipts_of(by.operation_id)
    assert receipt["source_node_count_per_class"] == {"sealed": 2, "public_open": 1}
    assert sorted(receipt["source_visibility_taint"]) == ["public_open", "sealed", "sealed"]
    assert receipt["resolved_output_visibility_class"] == "sealed"


_RESOLVED = "resolved_output_visibility_class"


# What goes outside


def sends(kind, ref):
    payload = {"content_node_ref": ref, "content_hash": TEXT_HASH}
    if kind == "document_artifact_write":
        return own(kind, "art", source_artifact_kind="pdf", **payload)
    return own(kind, "mat", materialized_path="a/b.txt", **payload)


SENDING = ("document_artifact_write", "materialization_emit")


@pytest.mark.spec("§4.3.4", "§4.3.11", "§12.5")
@pytest.mark.parametrize("kind", SENDING)
def test_the_text_of_a_sealed_node_is_not_sent_out(ledger, kind):
    result = submit(ledger, sends(kind, "S"))
    assert code_of(result) == RESOLUTION
    assert result.rejection.field == "primitive_effects.0.payload.content_node_ref"
    declared = drawn_from(sends(kind, "S"), "sealed")
    assert code_of(submit(ledger, declared)) == OUTBOUND
    with ledger.view() as view:
        assert view.open_requests() == []
    advance_policy(ledger, propa_authorizations=[{"actor": "user", "scope": "sealed_outbound"}])
    declared = drawn_from(sends(kind, "S"), "sealed") | {"policy_generation_id": "PG-2"}
    assert code_of(submit(ledger, declared)) is None


@pytest.mark.spec("§12.5")
@pytest.mark.parametrize("kind", SENDING)
@pytest.mark.parametrize("named", ["source_refs", "read_set_refs", "payload"])
def test_content_that_was_drawn_from_what_is_sealed_is_not_sent_out_either(ledger, kind, named):
    payload = {"content": TEXT, "content_hash": TEXT_HASH}
    payload |= {"source_artifact_kind": "pdf", "materialized_path": "a/b.txt"}
    if named == "payload":
        document = own(kind, "x", source_refs=["memory#0-1"], **payload)
    else:
        document = own(kind, "x", **payload) | {named: ["memory#0-1"]}
    assert code_of(submit(ledger, document)) == RESOLUTION
    assert code_of(submit(ledger, drawn_from(document, "sealed"))) == OUTBOUND


@pytest.mark.spec("§12.5")
@pytest.mark.parametrize("visibility", VISIBILITY_CLASSES)
def test_only_what_is_sealed_or_firewalled_is_kept_here(ledger, visibility):
    submit(ledger, create("n", "Note", content=TEXT, visibility_class=visibility))
    document = drawn_from(sends("materialization_emit", "n"), visibility)
    assert (code_of(submit(ledger, document)) == OUTBOUND) == (visibility in RESTRICTED)


READ = {
    "blocked": OVERLAID,
    "preview_only": OVERLAID,
    "redacted_only": OVERLAID,
    "explicit_access_required": OVERLAID,
    "not_shareable": None,
    "none": None,
}
"""What a restriction says of sending out the text of what it lies over (§12.2)."""

POLICY = {
    "policy_id": "p",
    "redacted_artifact_ref": "redacted",
    "redaction_policy_ref": "p",
    "redaction_provenance_ref": "p",
}


@pytest.mark.spec("§12.2", "INV-B2-OVERLAY-RESOLUTION-1")
@pytest.mark.parametrize(("restriction", "code"), READ.items())
@pytest.mark.parametrize("kind", SENDING)
def test_what_an_overlay_keeps_from_writing_is_not_sent_out(ledger, kind, restriction, code):
    submit(ledger, create("n", "Note", content=TEXT), create("redacted", "Note", content=TEXT))
    policy = {"redacted_access_policy": POLICY} if restriction == "redacted_only" else {}
    laid = overlay("over", restriction, "source_artifact", "n", **policy)
    assert code_of(submit(ledger, laid, submitter="orchestrator")) is None
    result = submit(ledger, sends(kind, "n"))
    assert code_of(result) == code
    if code is not None:
        assert result.rejection.check == "V9"
        assert result.rejection.field == "primitive_effects.0.payload.content_node_ref"
    assert code_of(submit(ledger, sends(kind, "redacted") | {"session_id": "s"})) is None


@pytest.mark.spec("§12.2")
def test_what_may_not_be_shared_is_in_no_link(ledger):
    submit(ledger, create("view", "SharedCorpusView"))
    assert code_of(submit(ledger, grant("before"))) is None
    laid = overlay("over", "not_shareable", "corpus", "view")
    assert code_of(submit(ledger, laid, submitter="orchestrator")) is None
    shared = grant("link")["primitive_effects"][0]["payload"] | {"shared_corpus_view_id": "view"}
    document = own("share_link_grant", "link", **shared)
    assert code_of(submit(ledger, document)) == OVERLAID
    submit(ledger, reclassify("view", "sealed"))
    assert code_of(submit(ledger, document)) == RESOLUTION
    assert code_of(submit(ledger, drawn_from(document, "sealed"))) == OUTBOUND


@pytest.mark.spec("INV-B2-CACHING-1")
@pytest.mark.parametrize("ref", ["N#0-1", "memory", "nowhere"])
def test_a_provider_outside_is_judged_by_what_the_sources_are(ledger, ref):
    submit(ledger, create("N", "Note", content="n", visibility_class="sealed"))
    document = answered(create("out", "Note", visibility_class="sealed"), model_provider="p")
    document |= {"source_refs": [ref]}
    assert code_of(submit(ledger, document, submitter="orchestrator")) == RESOLUTION
    document = drawn_from(document, "sealed")
    assert code_of(submit(ledger, document, submitter="orchestrator")) == OUTBOUND


# The registry


class _Asked:
    """Which nodes were looked up while effects were applied."""

    def __init__(self):
        self.refs = set()


@pytest.fixture
def lookups(monkeypatch):
    noted, record = _Asked(), LedgerTransaction.record

    def spied(self, table, key):
        noted.refs.add(key)
        return record(self, table, key)

    monkeypatch.setattr(LedgerTransaction, "record", spied)
    return noted


def named_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from named_in(value.get("source_ref"))
    elif isinstance(value, list):
        for entry in value:
            yield from named_in(entry)


def undeclared(effects, looked_up):
    """Fields of payloads that name something on the record, and are not in the registry."""
    for stated_effect in effects:
        declared = EFFECT_KINDS[stated_effect["effect_kind"]].references
        for name, value in stated_effect["payload"].items():
            suffix = name.endswith(("_ref", "_refs", "_node_id", "_node_ref"))
            if name not in declared and (suffix or looked_up & set(named_in(value))):
                yield stated_effect["effect_kind"], name


FREE = frozenset({"entry", "edge_type", "node_kind"})
"""Fields whose values only happen to be called like something on the record."""


@pytest.mark.spec("K1", "§2.6")
def test_every_field_that_names_something_says_in_the_registry_what_it_does(lookups):
    ledger = memory_ledger()
    spoken = set()
    for document in every_kind():
        lookups.refs.clear()
        submit(ledger, document, submitter="orchestrator")
        effects = document["primitive_effects"]
        undeclared_fields = [
            field for field in undeclared(effects, lookups.refs) if field[1] not in FREE
        ]
        assert undeclared_fields == []
        spoken |= {stated_effect["effect_kind"] for stated_effect in effects}
    assert spoken == set(EFFECT_KINDS), "a new kind is spoken in tests/kernel/every.py"


@pytest.mark.spec("K1")
def test_a_field_that_the_registry_leaves_out_is_noticed():
    payload = {"node_kind": "Note", "drawn_ref": "S"}
    assert list(undeclared([{"effect_kind": "node_write", "payload": payload}], set())) == [
        ("node_write", "drawn_ref")
    ]
    payload = {"likeness": ["S"]}
    assert list(undeclared([{"effect_kind": "node_write", "payload": payload}], {"S"})) == [
        ("node_write", "likeness")
    ]


@pytest.mark.spec("K1")
@pytest.mark.parametrize("kind", EFFECT_KINDS.values(), ids=EFFECT_KINDS)
def test_every_kind_reads_what_its_fields_call_a_source(kind):
    reading = {name for name, role in kind.references.items() if role != "link"}
    payload = {name: ["S"] for name in kind.references}
    fields = {
        source.field.rsplit(".", 1)[1] for source in sources_of((), (), [(kind.name, payload)])
    }
    assert fields == reading


def test_the_class_of_several_is_the_most_restrictive(ledger):
    with ledger.view() as view:
        classes = SourceClasses(view)
        taints = [classes.of_ref(ref) for ref in ("O", "S", "D")]
    assert max_visibility_class(taint for taint in taints if taint) == "sealed"
