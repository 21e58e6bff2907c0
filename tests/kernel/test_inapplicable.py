"""Every reason for which the state does not admit an effect: the code and the field it names."""

import ast
import importlib
from pathlib import Path

import pytest

import kernel.authority
import kernel.records
from kernel.authority.recompute_checks import REFUSALS
from kernel.model.receipt import RECEIPT_KINDS, STATED_BY_ENVELOPES
from tests.kernel.build import (
    ABSENT,
    FakeHost,
    adapt,
    changed,
    code_of,
    create,
    effect,
    envelope,
    link,
    memory_ledger,
    recompute,
    relink,
    scope_of,
    submit,
    twin,
)
from tests.kernel.every import HASH, attempt, binding, dated, move, own
from tests.kernel.reports import REPORTS

UNDERSTANDING, CLAIM = "ConsolidatedUnderstanding", "VersionedClaim"
FIRST = "primitive_effects.0"
TARGET, SOURCE = "target_ref", "payload.source_node_id"
METADATA = "payload.edge_metadata"


def aimless(document):
    return changed(document, {f"{FIRST}.target_ref": ABSENT})


def joined(**payload):
    """A new node with a further membership, which a merge brings along whatever it is."""
    ends = {"source_node_id": "free", "target_node_id": "note", "edge_type": "same_as"}
    return envelope(
        "merge",
        [
            effect("membership_write", "free", **{"corpus_id": "c"} | payload),
            effect("node_write", "free"),
            effect("edge_create", "e:merged", **ends),
            effect("materialized_view_invalidation", "v"),
        ],
    )


def indexed(target, **payload):
    return create("new", "Note", effect("index_update", target, **payload))


def edge(**changes):
    return changed(
        link("new", "claim", "cu"),
        {f"{FIRST}.payload.{name}": value for name, value in changes.items()},
    )


def reclassified(**payload):
    return envelope("document_relationship_update", [effect("edge_reclassify", "edge", **payload)])


def unmatched(**payload):
    return own(
        "filing_relationship_write",
        "r",
        relationship_type="amends",
        source_filing_unit_id="x",
        lifecycle_state="candidate",
        **payload,
    )


def move_in(corpus_id):
    [primitive_effect] = move("note", "candidate", "confirmed", "user_reject_event")[
        "primitive_effects"
    ]
    return [changed(primitive_effect, {"payload.corpus_id": corpus_id})]


def artifact(**payload):
    payload = {"source_artifact_kind": "pdf", "content_hash": HASH, **payload}
    return own("document_artifact_write", "a", **payload)


STORES = [
    ("identity_key_invalid", "payload.identity_key", create("new", "Note", identity_key=7)),
    ("field_lock_invalid", "payload.field_lock", create("new", "Note", field_lock="title")),
    # typed records
    ("effect_target_missing", TARGET, own("filing_unit_write", "a|b", **dated("filing_date"))),
    ("effect_payload_invalid", "payload.filing_date_utc", own("filing_unit_write", "u")),
    ("effect_payload_invalid", "payload", unmatched()),
    ("effect_payload_invalid", "payload", unmatched(target_filing_unit_id="x")),
    (
        "effect_payload_invalid",
        "payload.materialized_path",
        own("materialization_emit", "m", materialized_path="../x", content_hash=HASH),
    ),
    (
        "effect_payload_invalid",
        "payload.source_artifact_kind",
        own("document_artifact_write", "a", source_artifact_kind="../x", content_hash=HASH),
    ),
    ("effect_payload_invalid", "payload", artifact(content="x", content_node_ref="note")),
    ("effect_payload_invalid", "payload.content_base64", artifact(content_base64="é")),
    ("content_hash_mismatch", "payload.content", artifact(content="x")),
    ("content_hash_mismatch", "payload.content_base64", artifact(content_base64="eA==")),
    ("content_hash_mismatch", "payload.content_node_ref", artifact(content_node_ref="note")),
    ("record_reference_missing", "payload.content_node_ref", artifact(content_node_ref="none")),
    ("record_not_found", TARGET, own("filing_unit_retract", "u")),
    ("record_not_found", TARGET, own("share_link_revoke", "l", revocation_reason="r")),
    ("record_not_found", TARGET, own("binding_generation_revert", "b")),
    ("record_not_found", TARGET, own("policy_snapshot_revert", "PG-1")),
    (
        "record_reference_missing",
        "payload.filing_unit_id",
        own("filing_unit_text_version_write", "t", filing_unit_id="u", text_hash=HASH),
    ),
    ("record_reference_missing", TARGET, own("anchor_node_promotion", "note")),
    (
        "record_already_exists",
        TARGET,
        own("policy_snapshot_advance", "PG-1", prior_policy_generation_id="PG-1"),
    ),
    (
        "policy_generation_stale",
        "payload.prior_policy_generation_id",
        own("policy_snapshot_advance", "PG-2", prior_policy_generation_id="PG-0"),
    ),
    (
        "binding_generation_not_next",
        "payload.binding_generation_id",
        envelope("binding_generation_advance", [binding(2)]),
    ),
    (
        "extraction_state_transition_invalid",
        "payload.current_state",
        envelope("extraction_state_change", [attempt(1, "pending", "succeeded")]),
    ),
    (
        "extraction_attempt_invalid",
        "payload.attempt_number",
        envelope("extraction_state_change", [attempt(2, "pending", "running")]),
    ),
    (
        "court_disposition_transition_disallowed",
        "payload.lifecycle_state",
        own(
            "court_disposition_observation_write",
            "o",
            disposition="d",
            lifecycle_state="confirmed",
            **dated("docket_entry_date"),
        ),
    ),
    ("anchor_state_unchanged", TARGET, own("anchor_node_demotion", "topic")),
    (
        "membership_trigger_invalid",
        "payload.triggered_by",
        move("note", "candidate", "confirmed", "user_reject_event")
        | {"primitive_effects": move_in("corpus:test")},
    ),
    ("node_not_found", TARGET, own("quarantine", "nobody", quarantine_reason="r")),
    ("binding_verb_required", "semantic_intent", create("new", "SourceBinding")),
    (
        "binding_verb_required",
        "semantic_intent",
        envelope("source_binding_disable", [effect("node_write", "note", state="disabled")]),
    ),
    ("node_access_unchanged", "payload.grantee", own("revoke_access", "note", grantee="g")),
    ("node_state_disallowed", TARGET, own("unquarantine", "note", quarantine_reason="r")),
    (
        "node_state_disallowed",
        "payload.state",
        envelope("restore", [effect("node_write", "note", state="active")]),
    ),
    (
        "metadata_field_locked",
        "payload.title",
        envelope("metadata_field_set", [effect("node_write", "locked", title="t")]),
    ),
    # nodes
    ("node_not_found", TARGET, adapt("nobody")),
    ("node_not_found", TARGET, envelope("annotate", [effect("node_write", "nobody")])),
    ("node_already_exists", TARGET, create("note", "Note")),
    ("effect_target_missing", TARGET, aimless(adapt("note"))),
    ("node_kind_missing", "payload.node_kind", create("new", None)),
    ("node_kind_missing", "payload.node_kind", create("new", "")),
    ("node_kind_missing", "payload.node_kind", create("new", 7)),
    (
        "node_kind_missing",
        "payload.node_kind",
        changed(create("new", "Note"), {f"{FIRST}.payload.node_kind": ABSENT}),
    ),
    ("node_kind_changed", "payload.node_kind", adapt("note", node_kind="Letter")),
    ("node_kind_changed", "payload.node_kind", adapt("note", node_kind=None)),
    (
        "visibility_class_lowered",
        "payload.visibility_class",
        adapt("secret", visibility_class="firewalled"),
    ),
    # authorities
    (
        "cu_authority_strategy_non_conformant",
        "payload.cu_authority_strategy",
        adapt("cu", cu_authority_strategy="lazy_on_query"),
    ),
    (
        "cu_authority_strategy_invalid",
        "payload.cu_authority_strategy",
        adapt("cu", cu_authority_strategy="whenever"),
    ),
    ("last_decay_at_invalid", "payload.last_decay_at", adapt("claim", last_decay_at="late")),
    *(
        ("authority_out_of_range", f"payload.{field}", document)
        for bad in (-0.01, 1.01, 7, "high", True, [0.5], {})
        for field, document in (
            ("authority", adapt("claim", authority=bad)),
            ("authority", create("new", CLAIM, authority=bad)),
            ("override_authority", adapt("cu", override_authority=bad)),
        )
    ),
    *(
        ("computed_field_written", f"payload.{field}", document)
        for field in (
            "cu_authority",
            "cu_authority_computed_at",
            "cu_authority_input_versions",
            "cu_authority_inputs",
        )
        for document in (
            adapt("cu", **{field: 0.5}),
            create("new", UNDERSTANDING, **{field: 0.5}),
        )
    ),
    # edges
    ("effect_target_missing", TARGET, aimless(link("new", "claim", "cu"))),
    ("edge_already_exists", TARGET, link("edge", "claim", "cu")),
    ("edge_not_found", TARGET, relink(effect("edge_remove", "nowhere"))),
    ("edge_not_found", TARGET, relink(effect("edge_reclassify", "nowhere"))),
    ("edge_endpoint_missing", SOURCE, link("new", "nobody", "cu")),
    ("edge_endpoint_missing", "payload.target_node_id", link("new", "claim", "nobody")),
    ("edge_endpoint_missing", SOURCE, edge(source_node_id=ABSENT)),
    ("edge_endpoint_missing", SOURCE, edge(source_node_id=None)),
    ("edge_endpoint_missing", SOURCE, edge(source_node_id=5)),
    ("edge_endpoint_missing", SOURCE, edge(source_node_id=["claim"])),
    ("edge_type_missing", "payload.edge_type", edge(edge_type=ABSENT)),
    ("edge_type_missing", "payload.edge_type", edge(edge_type="")),
    ("edge_type_missing", "payload.edge_type", edge(edge_type=3)),
    ("edge_type_missing", "payload.edge_type", reclassified(edge_type="")),
    ("edge_type_missing", "payload.edge_type", reclassified(edge_type=None)),
    *(
        ("edge_metadata_invalid", METADATA, document)
        for bad in ([], None, "core", [["essentiality", "core"]])
        for document in (edge(edge_metadata=bad), reclassified(edge_metadata=bad))
    ),
    *(
        ("edge_essentiality_invalid", f"{METADATA}.essentiality", document)
        for bad in ("vital", None, ["core"])
        for document in (
            link("new", "claim", "cu", bad),
            reclassified(edge_metadata={"essentiality": bad}),
        )
    ),
    # memberships
    ("membership_incomplete", "payload.corpus_id", joined(corpus_id=None)),
    ("membership_incomplete", "payload.corpus_id", joined(corpus_id=7)),
    ("membership_incomplete", "payload.corpus_id", joined(corpus_id="a|b")),
    ("membership_incomplete", "payload.corpus_id", aimless(joined())),
    *(
        ("membership_transition_disallowed", "payload.to_state", joined(to_state=bad))
        for bad in ("nonsense", None, 7, ["candidate"], {})
    ),
    ("record_not_found", TARGET, joined(to_state="confirmed")),
    *(
        ("membership_reference_invalid", "payload.split_from", joined(split_from=bad))
        for bad in ("c|free", "corpus:test|note", "nothing", 7, None)
    ),
    (
        "record_reference_missing",
        "payload.split_from",
        joined(corpus_id="c", split_from="c|nobody"),
    ),
    ("membership_transition_disallowed", "payload.to_state", joined(from_state="candidate")),
    ("membership_transition_disallowed", "payload.to_state", joined(from_state=["candidate"])),
    # projections
    ("index_entry_incomplete", "payload.index_name", indexed("x")),
    ("index_entry_incomplete", "payload.index_name", indexed("x", index_name=7)),
    ("index_entry_incomplete", "payload.index_name", indexed("x", index_name="a|b")),
    ("index_entry_incomplete", "payload.index_name", indexed(None, index_name="i")),
    (
        "effect_target_missing",
        TARGET,
        create("new", "Note", effect("materialized_view_invalidation")),
    ),
    (
        "view_node_not_found",
        "payload.node_ref",
        create("new", "Note", effect("materialized_view_invalidation", "v", node_ref="nowhere")),
    ),
    (
        "receipt_kind_unknown",
        "receipt_subkind",
        create("new", "Note", effect("receipt_only")),
    ),
    (
        "receipt_kind_unknown",
        "receipt_subkind",
        create("new", "Note", effect("receipt_only") | {"receipt_subkind": "gossip"}),
    ),
    (
        "receipt_body_invalid",
        "payload.query",
        envelope("search_run_record", [effect("receipt_only")]),
    ),
    *(
        (
            "receipt_kind_unknown",
            "receipt_subkind",
            create("new", "Note", effect("receipt_only") | {"receipt_subkind": kernels_own}),
        )
        for kernels_own in sorted(set(RECEIPT_KINDS) - STATED_BY_ENVELOPES)
    ),
]


@pytest.fixture(scope="module")
def written():
    fake = FakeHost()
    ledger = memory_ledger(fake)
    results = submit(
        ledger,
        create("note", "Note"),
        create("free", "Note"),
        create("topic", "Topic"),
        create("locked", "Note", field_lock=["title"]),
        create("5", "Note"),
        create("secret", "Note", visibility_class="sealed"),
        create("claim", CLAIM, authority=0.75),
        create("cu", UNDERSTANDING),
        create("below", UNDERSTANDING),
        link("edge", "claim", "cu"),
        link("edge2", "cu", "below"),
    )
    assert [code_of(result) for result in results] == [None] * 11
    return ledger, fake


@pytest.fixture
def ledger(written):
    return twin(*written)[0]


@pytest.mark.parametrize(("code", "field", "document"), STORES)
def test_an_effect_that_does_not_fit_the_state_is_refused(ledger, code, field, document):
    result = submit(ledger, document, submitter="orchestrator")
    rejection = result.rejection
    assert (rejection.check, rejection.reason_code, rejection.field) == ("apply", code, field)


# Recomputes

VALUE = f"{FIRST}.payload.cu_authority"
VERSIONS = f"{FIRST}.payload.cu_authority_input_versions"
INPUTS = f"{FIRST}.payload.cu_authority_inputs"
MISMATCH = ("cu_authority_mismatch", f"{FIRST}.payload.cu_authority")
INPUTS_DIFFER = ("cu_authority_inputs_mismatch", VERSIONS)
OUT_OF_RANGE = ("authority_out_of_range", f"{FIRST}.payload.cu_authority")
ENTRY = "primitive_effects.1.payload.entry.cu_authority"
WRITES_MORE = "recompute_writes_more"


def also(further):
    return lambda document: document["primitive_effects"].append(further)


RECOMPUTES = [
    (*MISMATCH, "cu", {VALUE: 0.9}),
    *((*OUT_OF_RANGE, "cu", {VALUE: bad}) for bad in (None, 1.5, -0.5, True, "0.5", [], 1e308)),
    (*MISMATCH, "cu", {ENTRY: 0.9}),
    (*OUT_OF_RANGE, "cu", {ENTRY: 2}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.parent_version": "2"}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.parent_node_id": "note"}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.captured_at_authority": 1e308}),
    # Honest arithmetic over inputs that the record does not have.
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.captured_at_authority": 0.0, VALUE: 1 / 6}),
    (*INPUTS_DIFFER, "cu", {VERSIONS: [], VALUE: 0.5}),
    *(
        ("cu_authority_inputs_mismatch", INPUTS, "cu", {path: bad})
        for path, bad in (
            (INPUTS, ABSENT),
            (INPUTS, 1),
            (f"{INPUTS}.count", 2),
            (f"{INPUTS}.count", "1"),
            (f"{INPUTS}.digest", "0" * 64),
            (f"{INPUTS}.digest", None),
            (f"{INPUTS}.more", 1),
        )
    ),
    (*INPUTS_DIFFER, "cu", {VERSIONS: ABSENT}),
    (*INPUTS_DIFFER, "cu", {VERSIONS: []}),
    (*INPUTS_DIFFER, "cu", {VERSIONS: None}),
    (*INPUTS_DIFFER, "cu", {VERSIONS: ["claim"]}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.more": 1}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.parent_version": ABSENT}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.captured_at_authority": 0.6}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.captured_at_authority": "0.75"}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.captured_at_authority": None}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.edge_essentiality": "vital"}),
    (*INPUTS_DIFFER, "cu", {f"{VERSIONS}.0.edge_essentiality": ["core"]}),
    ("recompute_request_closed", "target_refs.0", "cu", {"recompute_as_of_sequence": 7}),
    ("recompute_request_closed", "target_refs.0", "cu", {"target_refs": ["note"]}),
    ("recompute_request_closed", "target_refs.0", "cu", {"target_refs": ["nobody"]}),
    ("recompute_input_pending", "target_refs.0", "below", {}),
    ("recompute_incomplete", "recompute_as_of_sequence", "cu", {"recompute_as_of_sequence": None}),
    ("recompute_incomplete", "recompute_as_of_sequence", "cu", {"target_refs": []}),
    ("recompute_incomplete", "primitive_effects", "cu", {VALUE: ABSENT}),
    ("recompute_incomplete", "primitive_effects", "cu", {f"{FIRST}.target_ref": "claim"}),
    (
        "recompute_as_of_ahead",
        "recompute_as_of_sequence",
        "cu",
        {"recompute_as_of_sequence": 12},
    ),
    (WRITES_MORE, "primitive_effects", "cu", {f"{FIRST}.payload.override_authority": 0.9}),
    (WRITES_MORE, "primitive_effects", "cu", also(effect("node_write", "claim", authority=1))),
    (WRITES_MORE, "primitive_effects", "cu", also(effect("edge_remove", "edge"))),
    (
        WRITES_MORE,
        "primitive_effects",
        "cu",
        also(effect("node_write", "cu", cu_authority=0.9) | {"effect_id": "again"}),
    ),
]


def spoiled(document, changes):
    if callable(changes):
        document = changed(document, {})
        changes(document)
        return document
    if changes.get(f"{FIRST}.effect_kind") == "node_retract":
        changes = changes | {f"{FIRST}.inverse_operation_kind": "node_write"}
        document = document | {
            "primitive_effects": [
                *document["primitive_effects"],
                effect("node_write", "cu") | {"effect_id": "idle"},
            ]
        }
    return changed(document, changes)


@pytest.mark.spec("INV-A-AUTHORITY-EAGER-1")
@pytest.mark.parametrize(("code", "field", "target", "changes"), RECOMPUTES)
def test_a_recompute_that_is_not_due_or_does_not_add_up_is_refused(
    ledger, code, field, target, changes
):
    with ledger.view() as view:
        document = spoiled(recompute(view, target), changes)
    written = scope_of(document["primitive_effects"], document["write_set_refs"])
    document["affected_subgraph_descriptor"] = written
    result = submit(ledger, document, submitter="orchestrator")
    rejection = result.rejection
    assert (rejection.check, rejection.reason_code, rejection.field) == ("apply", code, field)


@pytest.mark.spec("§8.2")
def test_the_recompute_that_the_cases_spoil_is_accepted_once(ledger):
    with ledger.view() as view:
        document = recompute(view, "cu")
        recompute_effect = effect("materialized_view_recompute", "view:cu")
        document["primitive_effects"].append(recompute_effect)
    assert code_of(submit(ledger, document, submitter="orchestrator")) is None
    again = document | {"operation_id": "again", "idempotency_key": "again"}
    result = submit(ledger, again, submitter="orchestrator")
    assert code_of(result) == "recompute_request_closed"


# Nothing is left out


def stated_codes(package):
    """The codes of every EffectInapplicable that a package raises, read from its source."""
    for path in sorted(Path(package.__file__).parent.glob("*.py")):
        module = importlib.import_module(f"{package.__name__}.{path.stem}")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "EffectInapplicable":
                [code] = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                if isinstance(code, ast.Constant):
                    yield code.value
                elif ast.unparse(code) == "TextNotStorable.code":
                    continue  # proved with the stores that cannot hold it
                elif ast.unparse(code) == "refused.code":
                    continue  # of phases that do not fit: bindings/test_pair_routing.py
                elif ast.unparse(code) == "error.code":
                    continue  # of a broken strategy or ledger: test_authority_as_of.py
                else:
                    assert ast.unparse(code) == "refusal[0]"
                    yield from (name for name, _ in module.REFUSALS.values())


UNDOING = {
    "rollback_superseded_by_later_write",
    "rollback_pre_image_missing",
    "rollback_pre_image_corrupt",
    "rollback_under_way",
    "rollback_needs_what_is_undone",
    "rollback_history_too_long",
    "envelope_erased",
    "envelope_effect_reversibility_invalid",
}
"""Met by inverses, and while an epoch is undone; proved with them, in test_rollback.py and
test_undoing.py."""


SHOWN_ELSEWHERE = {
    "recorded_model_output_conflict",
    "binding_manifest_cycle_not_next",
    "filing_relationship_transition_disallowed",
    "key_handover_invalid",
    "operator_decision_invalid",
    "receipts_seal_invalid",
}
"""What needs more on the ledger: test_model_outputs.py, test_manifests.py, test_adjudication.py,
test_key_handover.py, test_operator_decisions.py, test_receipt_seals.py."""


def test_every_code_in_the_stores_has_a_case():
    stated = set(stated_codes(kernel.records))
    assert len(stated) > 12
    assert stated - UNDOING - SHOWN_ELSEWHERE == {code for code, _, _ in (*STORES, *REPORTS)}


ENQUEUES = {
    "authority_enqueue_invalid",
    "authority_target_unknown",
    "authority_cascade_closed",
}


def test_every_code_in_authority_has_a_case():
    stated = set(stated_codes(kernel.authority))
    assert stated >= {code for code, _ in REFUSALS.values()}
    # What asks for recomputes is not a recompute: test_authority_triggers.py has those cases.
    # To be too old takes a long log, or a lower limit: test_authority_as_of.py.
    assert stated - ENQUEUES - {"recompute_as_of_too_old"} == {code for code, _, _, _ in RECOMPUTES}
