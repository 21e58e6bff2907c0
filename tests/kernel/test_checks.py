"""Every reason for which an envelope is refused: the check, the code and the field it names."""

import ast
import importlib
from math import inf, nextafter
from pathlib import Path

import pytest

import kernel.transaction.checks
from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import (
    EPOCH_CLOSE,
    EPOCH_OPEN,
    EPOCH_ROLLBACK,
    OPERATION_KINDS,
    REBUILD,
    ROLLBACK,
    SEMANTIC_VERBS,
)
from kernel.model.envelope import (
    MAX_ADJUDICATED,
    MAX_CAUSAL_PARENTS,
    MAX_DEPTH,
    MAX_EFFECTS,
    MAX_ENVELOPE_BYTES,
    MAX_MODEL_OUTPUTS,
    MAX_REFS,
    Envelope,
)
from kernel.model.numbers import COST_MAX, DURATION_MS_MAX, TOKENS_MAX
from kernel.model.result import SubmissionResult
from kernel.transaction.checks import reversibility, shapes
from kernel.transaction.checks.causality import MAX_CASCADE_DEPTH_BY_KIND
from kernel.transaction.checks.check import Submission
from kernel.transaction.checks.order import CHECKS
from kernel.transaction.checks.schema import Oversize, too_many_bytes, too_many_entries
from kernel.values.canonical import canonicalize
from kernel.values.idempotency_keys import RESERVED
from tests.kernel.build import (
    ABSENT,
    FakeHost,
    adapt,
    answered,
    artifact,
    belief_anchor,
    changed,
    code_of,
    create,
    effect,
    envelope,
    findings,
    link,
    memory_ledger,
    op_id,
    overlay,
    spans,
    submit,
    twin,
)
from tests.kernel.every import binding, dated, own
from tests.kernel.lites import lite, migrated, take
from tests.kernel.verb_meanings import STATED

UNDERSTANDING = "ConsolidatedUnderstanding"
SCOPE = "affected_subgraph_descriptor"
COST = "estimated_capacity_cost"
USAGE = "recorded_model_outputs.0.recorded_token_usage"
FIRST = "primitive_effects.0"
INCOMPLETE = "envelope_scope_incomplete"
NO_SPANS = "synthesis_summary_no_spans"
ELSEWHERE = ("V11", "V12")
"""Checks whose cases are in test_capacity.py and test_conflicts.py."""


def scope(*refs):
    """The change by which a scope names several nodes."""
    return {
        f"{SCOPE}.scope_kind": "node_with_neighbors",
        f"{SCOPE}.affected_node_refs": [*refs],
    }


note = create("n", "Note")
tainted = create(
    "n",
    "Note",
    visibility_class="sealed",
    envelope={
        "source_visibility_taint": ["public_open", "sealed"],
        "resolved_output_visibility_class": "sealed",
    },
)
spanned = create("cu", UNDERSTANDING, **spans("wrapped"))
spanless = create("cu", UNDERSTANDING)
IRREVERSIBLE = {
    f"{FIRST}.reversibility": "irreversible_external_effect",
    f"{FIRST}.inverse_operation_kind": ABSENT,
    f"{FIRST}.external_effect_descriptor": "a token was issued",
}
token = changed(create("t", "ShareTokenPolicy"), IRREVERSIBLE)
shown = answered(create("n", "Note", envelope={"source_refs": ["wrapped"]}))
laid = overlay("o", "blocked", "document", "old")
search = envelope("search_run_record", [effect("receipt_only", query="q")])
preview = effect("receipt_only") | {"receipt_subkind": "simulation_preview_emit"}
simulation = envelope("simulate", [preview])
synthesis = changed(spanned, {"operation_kind": "synthesize_consolidated_understanding"})

KNOWN = op_id("known")
"""An operation of `checked_ledger`."""

WAITING, MIGRATED = 14, 12
"""Sequences of lite envelopes in `checked_ledger`: of one that waits, and of one that is done."""

of_old = {"operation_id": "op:lite", "idempotency_key": "lite", "actor": "migration"}
superseding = create("w", "Note", envelope=of_old) | {
    "supersedes": {"operation_id": "op:lite", "ec_sequence_number": str(WAITING)}
}

VALID = {
    "superseding": superseding,
    "note": note,
    "tainted": tainted,
    "spanned": spanned,
    "spanless": spanless,
    "token": token,
    "search": search,
    "synthesis": synthesis,
    "shown to a model": shown,
    "an overlay": laid,
    "adapted": adapt("old", title="t"),
    "adapted token": changed(adapt("token", title="t"), IRREVERSIBLE),
    "from sources": tainted | {"source_refs": ["old", "secret", "nowhere"]},
}


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


REQUIRED = (
    "operation_id",
    "envelope_version",
    "operation_kind",
    "semantic_intent",
    "primitive_effects",
    "causal_parent_operation_ids",
    "idempotency_key",
    "actor",
    "source_refs",
    "target_refs",
    "read_set_refs",
    "write_set_refs",
    "recorded_at",
    "schema_version",
)
EFFECT_REQUIRED = ("effect_id", "effect_kind", "reversibility", "schema_version")

UNAUTHORIZED = "envelope_actor_unauthorized"
TOO_LARGE = "envelope_too_large"
SCHEMA, UNSUPPORTED = "envelope_schema_invalid", "envelope_schema_version_unsupported"

STRANGERS = (
    *("specialist", "worker", "nobody", "MemoryAgent", "orchestrator", "root", "", " ", "*"),
    *("User", "USER", "user ", " user", "us er", "user\n", "users", "use"),
    *("us\u0435r", "\uff55ser", "user\u200b", "\u202euser", "u\u0301ser", "use\u0433"),
    *("system ", "System", "agent\t", "migrati\u043en", "x" * 513, "x" * 100_000),
)
"""Actors that nobody may be, those that only look like one included (INV-15.7.8)."""

V1 = [
    *((note, {name: ABSENT}, SCHEMA, name) for name in REQUIRED),
    *((note, {f"{FIRST}.{name}": ABSENT}, SCHEMA, f"{FIRST}.{name}") for name in EFFECT_REQUIRED),
    (note, {f"{FIRST}.schema_version": 2}, SCHEMA, f"{FIRST}.schema_version"),
    (note, {f"{FIRST}.payload": []}, SCHEMA, f"{FIRST}.payload"),
    (note, {f"{FIRST}.reversibility": 7}, SCHEMA, f"{FIRST}.reversibility"),
    (note, {"operation_id": ""}, SCHEMA, "operation_id"),
    (note, {"operation_id": 7}, SCHEMA, "operation_id"),
    (note, {"operation_id": "x" * 513}, SCHEMA, "operation_id"),
    (note, {"operation_id": "\ud800"}, SCHEMA, ""),
    (note, {"idempotency_key": None}, SCHEMA, "idempotency_key"),
    (note, {"envelope_version": "1.5"}, SCHEMA, "envelope_version"),
    *((note, {"actor": actor}, UNAUTHORIZED, "actor") for actor in STRANGERS),
    *((note, {"actor": actor}, SCHEMA, "actor") for actor in (None, 7, True, ["user"], {})),
    (note, {"actor": "user\x00"}, SCHEMA, ""),
    (superseding, {"actor": "user"}, UNAUTHORIZED, "supersedes"),
    (superseding, {"supersedes.ec_sequence_number": 5}, SCHEMA, "supersedes.ec_sequence_number"),
    (superseding, {"supersedes.ec_sequence_number": "0"}, SCHEMA, "supersedes.ec_sequence_number"),
    (
        superseding,
        {"supersedes.ec_sequence_number": "9" * 19},
        SCHEMA,
        "supersedes.ec_sequence_number",
    ),
    (note, {"session_id": "s\x00"}, SCHEMA, ""),
    (note, {"source_refs": ["S\x00"]}, SCHEMA, ""),
    (note, {f"{FIRST}.target_ref": "n\x00"}, SCHEMA, ""),
    (note, {f"{SCOPE}.affected_node_refs": ["n\x00"]}, SCHEMA, ""),
    (note, {"source_refs": "n"}, SCHEMA, "source_refs"),
    (note, {"source_refs": ["a", ""]}, SCHEMA, "source_refs.1"),
    (
        note,
        {"primitive_effects": note["primitive_effects"] * (MAX_EFFECTS // 2 + 2)},
        TOO_LARGE,
        "primitive_effects",
    ),
    (
        note,
        {"causal_parent_operation_ids": ["p"] * (MAX_CAUSAL_PARENTS + 1)},
        TOO_LARGE,
        "causal_parent_operation_ids",
    ),
    (note, {"duration_ms": -1}, SCHEMA, "duration_ms"),
    (note, {"duration_ms": nextafter(DURATION_MS_MAX, inf)}, SCHEMA, "duration_ms"),
    (note, {f"{SCOPE}.{COST}": nextafter(COST_MAX, inf)}, SCHEMA, f"{SCOPE}.{COST}"),
    (note, {f"{SCOPE}.{COST}": 1e308}, SCHEMA, f"{SCOPE}.{COST}"),
    (note, {f"{SCOPE}.{COST}": -5e-324}, SCHEMA, f"{SCOPE}.{COST}"),
    (note, {f"{SCOPE}.{COST}": "1"}, SCHEMA, f"{SCOPE}.{COST}"),
    *(
        (answered(note, recorded_token_usage={"input": count}), {}, SCHEMA, f"{USAGE}.input")
        for count in (-1, TOKENS_MAX + 1, 1.5)
    ),
    (note, {"recompute_as_of_sequence": -1}, SCHEMA, "recompute_as_of_sequence"),
    (note, {f"{SCOPE}.scope_kind": 7}, SCHEMA, f"{SCOPE}.scope_kind"),
    (note, {f"{SCOPE}.estimated_cascade_depth": -1}, SCHEMA, f"{SCOPE}.estimated_cascade_depth"),
    (note, {f"{SCOPE}.estimated_cascade_depth": 0.5}, SCHEMA, f"{SCOPE}.estimated_cascade_depth"),
    (note, {"notes": float("nan")}, SCHEMA, ""),
    (note, {"notes": 2**53}, SCHEMA, ""),
    (note, {"notes": {1: "a key that is no string"}}, SCHEMA, ""),
    (note, {"notes": {"not", "json"}}, SCHEMA, ""),
    (note, {"notes": nested(MAX_DEPTH)}, SCHEMA, ""),
    (note, {"notes": "x" * MAX_ENVELOPE_BYTES}, TOO_LARGE, ""),
    (note, {f"{FIRST}.payload.n": 1e17}, SCHEMA, ""),
    (note, {"schema_version": 2}, UNSUPPORTED, "schema_version"),
    (note, {"schema_version": "1"}, UNSUPPORTED, "schema_version"),
    (note, {"schema_version": True}, UNSUPPORTED, "schema_version"),
    (note, {f"{FIRST}.schema_version": True}, SCHEMA, f"{FIRST}.schema_version"),
    (note, {f"{SCOPE}.schema_version": 2}, SCHEMA, f"{SCOPE}.schema_version"),
    (note, {"schema_version": None}, SCHEMA, "schema_version"),
    (note, {"actor": "agent"}, "envelope_actor_unauthorized", "actor"),
    (note, {"actor": "system"}, "envelope_actor_unauthorized", "actor"),
    (note, {"actor": "migration"}, "envelope_actor_unauthorized", "actor"),
    (
        envelope("recalculate_authority", [effect("node_write", "old")]),
        {},
        "envelope_actor_unauthorized",
        "semantic_intent",
    ),
    (
        belief_anchor("s", actor="user"),
        {},
        "envelope_actor_unauthorized",
        "semantic_intent",
    ),
    (
        note,
        {f"{FIRST}.target_ref": "causal-node:n"},
        "envelope_actor_unauthorized",
        f"{FIRST}.target_ref",
    ),
    (
        note,
        {f"{FIRST}.payload.node_kind": "CausalNode"},
        "envelope_actor_unauthorized",
        f"{FIRST}.target_ref",
    ),
    *(
        (
            note,
            {f"{FIRST}.effect_kind": kind},
            "envelope_actor_unauthorized",
            f"{FIRST}.effect_kind",
        )
        for kind in ("policy_snapshot_advance", "policy_reclassify", "policy_snapshot_revert")
    ),
    *(
        (note, {f"{FIRST}.target_ref": name}, UNAUTHORIZED, f"{FIRST}.target_ref")
        for name in (f"claim:{'0' * 64}", f"edge:claim:{'0' * 64}->u", f"extraction:{'0' * 32}")
    ),
    (note, {"operation_id": KNOWN}, SCHEMA, "operation_id"),
    *(
        (note, {"operation_id": name}, "envelope_operation_id_invalid", "operation_id")
        for name in ("op-1", f"merge:{KNOWN}", KNOWN.upper(), f"{KNOWN}\n", KNOWN.replace("-", ""))
    ),
    *(
        (envelope(verb, [effect("receipt_only")]), {}, UNAUTHORIZED, "semantic_intent")
        for verb in (ROLLBACK, EPOCH_ROLLBACK, REBUILD)
    ),
    (
        note,
        {"compensates_operation_id": KNOWN},
        UNAUTHORIZED,
        "compensates_operation_id",
    ),
]

TARGET, DIFFERS = "envelope_supersession_target_invalid", "envelope_supersession_differs"

V2 = [
    (note, {"idempotency_key": "known"}, "envelope_idempotency_conflict", "idempotency_key"),
    (superseding, {"idempotency_key": "rotulus:rebuild:0"}, RESERVED, "idempotency_key"),
    (superseding, {"supersedes.ec_sequence_number": "1"}, TARGET, "supersedes"),
    (superseding, {"supersedes.ec_sequence_number": str(MIGRATED)}, TARGET, "supersedes"),
    (superseding, {"supersedes.ec_sequence_number": "9" * 18}, TARGET, "supersedes"),
    (superseding, {"supersedes.operation_id": KNOWN}, TARGET, "supersedes"),
    (superseding, {"operation_id": "other"}, TARGET, "supersedes"),
    (
        superseding,
        {
            "operation_id": "op:done",
            "supersedes": {"operation_id": "op:done", "ec_sequence_number": str(MIGRATED)},
        },
        "envelope_already_superseded",
        "supersedes",
    ),
    (superseding, {"operation_kind": "annotate"}, DIFFERS, "operation_kind"),
    (superseding, {"idempotency_key": "another"}, DIFFERS, "idempotency_key"),
    (
        superseding,
        {"causal_parent_operation_ids": [KNOWN]},
        DIFFERS,
        "causal_parent_operation_ids",
    ),
    (superseding, {"recorded_at": "then"}, DIFFERS, "recorded_at"),
    (superseding, {"actor": "system"}, UNAUTHORIZED, "actor"),
    (answered(superseding), {}, SCHEMA, "recorded_model_outputs"),
    (superseding, IRREVERSIBLE, "envelope_supersession_repeats_external_effect", FIRST),
]

RUNTIME_VERB = "recalculate_authority"
RUNTIME_VERBS = (RUNTIME_VERB, ROLLBACK, EPOCH_ROLLBACK, REBUILD)
"""Not a caller's to submit, so V1 speaks before V3; its composition has a test of its own."""

MISSING = "envelope_verb_decomposition_missing_primitive"
FORBIDDEN = "envelope_verb_decomposition_forbidden_primitive"
COMPOSITION = "envelope_verb_composition_invalid"

undoing = {
    "operation_id": KNOWN,
    "effect_id": "node_write:old",
    "store": "nodes",
    "record_key": "old",
    "restores_hash": "",
    "replaces_hash": "",
}

STRANGE_NAMES = ("node_burn", "", " ", "Create", "create ", "cr\u0435ate", "x" * 513)
"""Names that no closed set holds."""

V3 = [
    (
        note,
        {
            "primitive_effects": note["primitive_effects"] * (MAX_EFFECTS // 2)
            + [effect("node_retract")]
        },
        SCHEMA,
        "primitive_effects",
    ),
    (note, {f"{FIRST}.undoes": undoing}, COMPOSITION, f"{FIRST}.undoes"),
    (envelope(ROLLBACK, [effect("node_retract", "old")]), {}, COMPOSITION, f"{FIRST}.undoes"),
    (note, {"semantic_intent": "guess"}, "envelope_unknown_semantic_verb", "semantic_intent"),
    (note, {"operation_kind": "annotate"}, COMPOSITION, "operation_kind"),
    (note, {"operation_kind": "guess"}, COMPOSITION, "operation_kind"),
    (
        adapt("old"),
        {"operation_kind": "synthesize_consolidated_understanding"},
        COMPOSITION,
        "operation_kind",
    ),
    *(
        (note, {f"{FIRST}.effect_kind": kind}, COMPOSITION, f"{FIRST}.effect_kind")
        for kind in STRANGE_NAMES
    ),
    *((note, {"operation_kind": kind}, COMPOSITION, "operation_kind") for kind in STRANGE_NAMES),
    *(
        (note, {"semantic_intent": verb}, "envelope_unknown_semantic_verb", "semantic_intent")
        for verb in STRANGE_NAMES
    ),
    (
        search,
        {f"{FIRST}.receipt_subkind": "simulation_preview_emit"},
        COMPOSITION,
        f"{FIRST}.receipt_subkind",
    ),
    (
        simulation,
        {f"{FIRST}.receipt_subkind": "search_run_record"},
        COMPOSITION,
        f"{FIRST}.receipt_subkind",
    ),
    *(
        (
            changed(search, {"primitive_effects": [*search["primitive_effects"], effect(kind)]}),
            {},
            FORBIDDEN,
            "primitive_effects.1.effect_kind",
        )
        for kind in EFFECT_KINDS
        if kind != "receipt_only"
    ),
    (note, {"primitive_effects": []}, MISSING, "primitive_effects"),
    (note, {"primitive_effects": note["primitive_effects"][:1]}, MISSING, "primitive_effects"),
    (note, {"primitive_effects": note["primitive_effects"][1:]}, MISSING, "primitive_effects"),
    *(
        (
            envelope(verb.name, [effect(kind) for kind in verb.requires if kind != required]),
            {},
            MISSING,
            "primitive_effects",
        )
        for verb in SEMANTIC_VERBS.values()
        for required in verb.requires
        if verb.name not in RUNTIME_VERBS
    ),
]

SINGLE, DEPTH = "envelope_scope_single_node_violation", "envelope_scope_cascade_depth_exceeded"


def sweep(actor):
    return {f"{SCOPE}.scope_kind": "global_sweep", "actor": actor}


def opening(verb, epoch_id):
    receipt = {"receipt_subkind": "epoch_opened" if verb == EPOCH_OPEN else "epoch_closed"}
    return envelope(verb, [effect("receipt_only") | receipt], epoch_id=epoch_id)


V4 = [
    (
        note,
        {"causal_parent_operation_ids": [KNOWN, note["operation_id"]]},
        "envelope_causal_parent_itself",
        "causal_parent_operation_ids.1",
    ),
    (
        note,
        {"causal_parent_operation_ids": [KNOWN, "nowhere"]},
        "envelope_causal_parent_unknown",
        "causal_parent_operation_ids.1",
    ),
    (note, {"write_set_refs": []}, "envelope_scope_write_set_empty", "write_set_refs"),
    (note, {"write_set_refs": ["n", "m"]}, INCOMPLETE, "write_set_refs.1"),
    (
        link("e", "n", "m"),
        {f"{SCOPE}.affected_edge_refs": []},
        INCOMPLETE,
        "write_set_refs.0",
    ),
    (
        link("e", "n", "m"),
        {"write_set_refs": ["none"], f"{SCOPE}.affected_edge_refs": []},
        INCOMPLETE,
        "primitive_effects.0.target_ref",
    ),
    (
        own("filing_unit_write", "unit", **dated("filing_date")),
        {f"{SCOPE}.affected_node_refs": ["other"], "write_set_refs": ["other"]},
        INCOMPLETE,
        "primitive_effects.0.target_ref",
    ),
    (note, {SCOPE: ABSENT}, "envelope_scope_descriptor_missing", SCOPE),
    (note, {SCOPE: None}, "envelope_scope_descriptor_missing", SCOPE),
    (note, {SCOPE: {}}, "envelope_scope_descriptor_missing", SCOPE),
    (note, {SCOPE: {"of": "nothing"}}, "envelope_scope_descriptor_missing", SCOPE),
    *(
        (
            note,
            {f"{SCOPE}.scope_kind": kind},
            "envelope_scope_descriptor_invalid",
            f"{SCOPE}.scope_kind",
        )
        for kind in ("universe", "", "Single_node", "single_node ", ABSENT, None)
    ),
    (note, {f"{SCOPE}.affected_node_refs": []}, SINGLE, f"{SCOPE}.affected_node_refs"),
    (note, {f"{SCOPE}.affected_node_refs": ["a", "b"]}, SINGLE, f"{SCOPE}.affected_node_refs"),
    (
        note,
        sweep("user"),
        "envelope_scope_global_sweep_unauthorized",
        f"{SCOPE}.scope_kind",
    ),
    *(
        (
            note,
            {f"{SCOPE}.scope_kind": kind, f"{SCOPE}.estimated_cascade_depth": cap + 1},
            DEPTH,
            f"{SCOPE}.estimated_cascade_depth",
        )
        for kind, cap in (
            ("single_node", 0),
            ("node_with_neighbors", 1),
            ("subgraph_within_corpus", 5),
            ("cross_corpus_subset", 5),
        )
    ),
]

V4_EPOCHS = [
    (note, {"epoch_id": "never opened"}, "envelope_epoch_not_open", "epoch_id"),
    (note, {"epoch_id": "closed"}, "envelope_epoch_not_open", "epoch_id"),
    *(
        (opening(verb, None), {}, "envelope_epoch_missing", "epoch_id")
        for verb in (EPOCH_OPEN, EPOCH_CLOSE)
    ),
    *(
        (opening(EPOCH_OPEN, taken), {}, "envelope_epoch_exists", "epoch_id")
        for taken in ("closed", KNOWN)
    ),
    (opening(EPOCH_CLOSE, "closed"), {}, "envelope_epoch_not_open", "epoch_id"),
    (
        opening(EPOCH_CLOSE, "open"),
        {"session_id": "another"},
        "envelope_epoch_of_another",
        "session_id",
    ),
]

STALE = "envelope_policy_generation_stale"

V5 = [
    (note, {"policy_generation_id": value}, STALE, "policy_generation_id")
    for value in (ABSENT, None, "PG-0", "PG-2", "", "pg-1", "PG-1 ", "x" * 513)
]

SPANS, KIND = "envelope_cu_source_spans_missing", "envelope_cu_display_kind_mismatch"
PAYLOAD = f"{FIRST}.payload"

V6 = [
    *(
        (
            spanned,
            {f"{PAYLOAD}.source_spans": spans, f"{PAYLOAD}.display_kind": shown},
            SPANS,
            f"{PAYLOAD}.source_spans",
        )
        for spans in (ABSENT, None, [], {}, "spans")
        for shown in (ABSENT, "something", NO_SPANS, "synthesis_with_spans")
    ),
    (spanned, {f"{PAYLOAD}.display_kind": ABSENT}, KIND, f"{PAYLOAD}.display_kind"),
    (spanned, {f"{PAYLOAD}.display_kind": NO_SPANS}, KIND, f"{PAYLOAD}.display_kind"),
    (spanless, {f"{PAYLOAD}.display_kind": ABSENT}, SPANS, f"{PAYLOAD}.source_spans"),
    (spanless, {"primitive_effects.2.receipt_subkind": ABSENT}, SPANS, f"{PAYLOAD}.source_spans"),
    (
        spanless,
        {"primitive_effects.2.receipt_subkind": "access_overlay_override"},
        SPANS,
        f"{PAYLOAD}.source_spans",
    ),
    (spanned, {f"{PAYLOAD}.display_kind": "something"}, KIND, f"{PAYLOAD}.display_kind"),
    *(
        (spanned, {f"{PAYLOAD}.source_spans": [span]}, SPANS, f"{PAYLOAD}.source_spans.0")
        for span in ({}, "wrapped", None, {"source_ref": "nowhere", "offset": 0, "length": 1})
    ),
    *(
        (
            spanless,
            {f"primitive_effects.2.payload.{name}": value},
            SPANS,
            f"primitive_effects.2.payload.{name}",
        )
        for name, value in (
            ("cu_node_ref", "another"),
            ("cu_node_ref", ABSENT),
            ("reason", "because"),
            ("reason", ABSENT),
            ("source_doc_refs", "old"),
        )
    ),
    (
        synthesis,
        {f"{PAYLOAD}.source_spans": []},
        SPANS,
        f"{PAYLOAD}.source_spans",
    ),
]

RESOLUTION, OUTPUT = "envelope_taint_resolution_invalid", "envelope_taint_output_node_mismatch"
TAINT, RESOLVED = "source_visibility_taint", "resolved_output_visibility_class"
CLASS = f"{PAYLOAD}.visibility_class"
firewalled = {TAINT: ["firewalled"], RESOLVED: "firewalled"}

V8 = [
    *(
        (tainted, {TAINT: ["sealed", name]}, RESOLUTION, TAINT)
        for name in ("secret", "", "Sealed", "x" * 513)
    ),
    *((note, {RESOLVED: name}, RESOLUTION, RESOLVED) for name in ("secret", "", "x" * 513)),
    (tainted, {RESOLVED: ABSENT}, RESOLUTION, RESOLVED),
    (tainted, {RESOLVED: "firewalled"}, RESOLUTION, RESOLVED),
    (tainted, {TAINT: ["public_open"]}, RESOLUTION, RESOLVED),
    (note, {TAINT: ["public_open"], RESOLVED: "sealed"}, RESOLUTION, RESOLVED),
    (note, {"source_refs": ["old", "secret"]}, RESOLUTION, "source_refs.1"),
    (note, firewalled | {"source_refs": ["secret"]}, RESOLUTION, "source_refs.0"),
    (tainted, {CLASS: ABSENT}, OUTPUT, CLASS),
    (tainted, {CLASS: "firewalled"}, OUTPUT, CLASS),
    (note, firewalled | {CLASS: "sealed"}, OUTPUT, CLASS),
    (note, {CLASS: "secret"}, OUTPUT, CLASS),
    (note, {CLASS: ["sealed"]}, OUTPUT, CLASS),
    (note, {CLASS: None}, OUTPUT, CLASS),
    (adapt("old"), {CLASS: None}, OUTPUT, CLASS),
    (adapt("old"), {TAINT: ["sealed"], RESOLVED: "sealed"}, OUTPUT, CLASS),
    (
        simulation,
        {"source_refs": ["secret"], TAINT: ["sealed"], RESOLVED: "sealed"},
        "envelope_simulation_visibility_warning_missing",
        f"{FIRST}.payload.rendered_visibility_warning",
    ),
    (note, {"source_refs": ["preview:nobody"]}, RESOLUTION, "source_refs.0"),
]

OUTPUT_0 = "recorded_model_outputs.0"

V7 = [
    (shown, {"source_refs": ["old", "bare"]}, "envelope_unwrapped_content", "source_refs.1"),
    (shown, {"source_refs": ["half"]}, "envelope_unwrapped_metadata", "source_refs.0"),
    (
        shown,
        {f"{OUTPUT_0}.prompt_hash_includes_wrapped_content": False},
        "envelope_prompt_hash_pre_wrap",
        f"{OUTPUT_0}.prompt_hash_includes_wrapped_content",
    ),
    (
        shown,
        {f"{OUTPUT_0}.model_version": "m-2"},
        SCHEMA,
        f"{OUTPUT_0}.fingerprint_combined",
    ),
    (
        shown,
        {f"{OUTPUT_0}.recorded_by_operation_id": KNOWN},
        SCHEMA,
        f"{OUTPUT_0}.recorded_by_operation_id",
    ),
]

V8 += [
    (shown, {f"{OUTPUT_0}.{TAINT}": ["sealed"]}, RESOLUTION, OUTPUT_0),
    (shown, {f"{OUTPUT_0}.{TAINT}": ["secret"]}, RESOLUTION, OUTPUT_0),
    (shown, {f"{OUTPUT_0}.{RESOLVED}": "sealed"}, RESOLUTION, OUTPUT_0),
    (shown, {f"{OUTPUT_0}.{RESOLVED}": "secret"}, RESOLUTION, OUTPUT_0),
    (
        answered(tainted),
        {f"{OUTPUT_0}.{TAINT}": ["sealed"], f"{OUTPUT_0}.{RESOLVED}": "public_open"},
        RESOLUTION,
        f"{OUTPUT_0}.{RESOLVED}",
    ),
]

BLOCKED, CONSTRUCTION = "envelope_access_overlay_blocked", "access_overlay_construction_invalid"

V9 = [
    (adapt("shut"), {}, BLOCKED, "write_set_refs.0"),
    (
        adapt("shut"),
        {"write_set_refs": ["open"], **scope("shut", "open")},
        BLOCKED,
        f"{FIRST}.target_ref",
    ),
    (
        laid,
        {f"{PAYLOAD}.access_restriction": "closed"},
        CONSTRUCTION,
        f"{PAYLOAD}.access_restriction",
    ),
    (
        laid,
        {f"{PAYLOAD}.access_restriction": "access_ceremony_required"},
        "b1_not_yet_supported",
        PAYLOAD,
    ),
    (
        answered(tainted),
        {f"{OUTPUT_0}.tier_2_prompt_cache_used": True},
        "envelope_sealed_tier_2_cache_violation",
        f"{OUTPUT_0}.tier_2_prompt_cache_used",
    ),
    (
        answered(tainted),
        {f"{OUTPUT_0}.model_provider": "anthropic_provider_api"},
        "envelope_sealed_outbound_unauthorized",
        f"{OUTPUT_0}.model_provider",
    ),
]

REVERSIBILITY = "envelope_effect_reversibility_invalid"
INVERSE = f"{FIRST}.inverse_operation_kind"

V10 = [
    *(
        (note, {f"{FIRST}.reversibility": other}, REVERSIBILITY, f"{FIRST}.reversibility")
        for other in (
            *("compensating_operation_only", "irreversible_external_effect", "receipt_only"),
            *("perhaps", "", "Fully_reversible", "fully_reversible ", "x" * 513),
        )
    ),
    *(
        (
            note,
            {f"{FIRST}.inverse_operation_kind": kind},
            REVERSIBILITY,
            f"{FIRST}.inverse_operation_kind",
        )
        for kind in ("", " ", "x" * 513)
    ),
    *(
        (
            token,
            {f"{FIRST}.external_effect_descriptor": blank},
            REVERSIBILITY,
            f"{FIRST}.external_effect_descriptor",
        )
        for blank in ("", " ", "\n\t")
    ),
    *(
        (note, {f"{FIRST}.{name}": ""}, REVERSIBILITY, f"{FIRST}.{name}")
        for name in ("compensating_operation_kind", "external_effect_descriptor")
    ),
    (
        search,
        {f"{FIRST}.reversibility": "fully_reversible"},
        REVERSIBILITY,
        f"{FIRST}.reversibility",
    ),
    (
        token,
        {f"{FIRST}.reversibility": "fully_reversible"},
        REVERSIBILITY,
        f"{FIRST}.reversibility",
    ),
    (
        adapt("token", title="as if it could be taken back"),
        {},
        REVERSIBILITY,
        f"{FIRST}.reversibility",
    ),
    (note, {INVERSE: ABSENT}, REVERSIBILITY, INVERSE),
    (note, {INVERSE: "edge_remove"}, REVERSIBILITY, INVERSE),
    (note, {INVERSE: "node_burn"}, REVERSIBILITY, INVERSE),
    (search, {INVERSE: "receipt_only"}, REVERSIBILITY, INVERSE),
    (token, {INVERSE: "node_retract"}, REVERSIBILITY, INVERSE),
    (
        note,
        {f"{FIRST}.compensating_operation_kind": "node_retract"},
        REVERSIBILITY,
        f"{FIRST}.compensating_operation_kind",
    ),
    (
        own("quarantine", "old", quarantine_reason="doubt"),
        {f"{FIRST}.compensating_operation_kind": "revoke_access"},
        REVERSIBILITY,
        f"{FIRST}.compensating_operation_kind",
    ),
    (
        note,
        {f"{FIRST}.external_effect_descriptor": "none"},
        REVERSIBILITY,
        f"{FIRST}.external_effect_descriptor",
    ),
    (
        token,
        {f"{FIRST}.external_effect_descriptor": ABSENT},
        REVERSIBILITY,
        f"{FIRST}.external_effect_descriptor",
    ),
    (
        note,
        {"primitive_effects.1.effect_id": note["primitive_effects"][0]["effect_id"]},
        SCHEMA,
        "primitive_effects.1.effect_id",
    ),
]

RULES = {
    "V1": ("§2.2 V1", V1),
    "V2": ("K6", V2),
    "V3": ("§3.6", V3),
    "V4": ("INV-A-SCOPE-1", [*V4, *V4_EPOCHS]),
    "V5": ("§2.2 V5", V5),
    "V6": ("INV-MVC-CU-1", V6),
    "V7": ("INV-MVC-3", V7),
    "V8": ("INV-A-TAINT-INFECTIOUS-1", V8),
    "V9": ("§12.2", V9),
    "V10": ("§4.4", V10),
}

CASES = [
    pytest.param(
        check,
        document,
        changes,
        code,
        field,
        marks=pytest.mark.spec(rule),
        id=f"{check}-{number}-{code.removeprefix('envelope_')}",
    )
    for check, (rule, cases) in RULES.items()
    for number, (document, changes, code, field) in enumerate(cases)
]


@pytest.mark.spec("§2.1", "K24")
def test_the_runtime_and_a_log_of_version_1_5_call_operations_as_they_do():
    ledger = memory_ledger()
    derived = create("n", "Note", envelope={"operation_id": "merge:0"})
    assert code_of(submit(ledger, derived, submitter="orchestrator")) is None
    assert migrated(ledger, lite(create("old", "Note"), operation_id="op-1")).complete


def checked_ledger(fake=None):
    """The record on which each case is refused for its own reason alone."""
    ledger = memory_ledger(fake)
    known = {"operation_id": KNOWN, "idempotency_key": "known"}
    results = submit(
        ledger,
        create("old", "Note", envelope=known),
        create("secret", "Note", visibility_class="sealed"),
        changed(create("token", "ShareTokenPolicy"), IRREVERSIBLE),
        opening(EPOCH_OPEN, "closed"),
        opening(EPOCH_CLOSE, "closed"),
        opening(EPOCH_OPEN, "open"),
        artifact("wrapped"),
        artifact("half", metadata=False),
        artifact("bare", content=False),
        create("shut", "Note"),
        overlay("over", "blocked", "document", "shut"),
        submitter="orchestrator",
    )
    assert [code_of(result) for result in results] == [None] * 11
    assert migrated(ledger, lite(create("done", "Note"), operation_id="op:done")).complete
    take(ledger, lite(superseding))
    return ledger


@pytest.fixture(scope="module")
def written():
    fake = FakeHost()
    return checked_ledger(fake), fake


@pytest.fixture
def ledger(written):
    return twin(*written)[0]


@pytest.mark.parametrize("document", VALID.values(), ids=VALID)
def test_the_envelopes_that_the_cases_spoil_are_valid(ledger, document):
    result = submit(ledger, document, submitter="orchestrator")
    assert isinstance(result, SubmissionResult), result


@pytest.mark.parametrize(("check", "document", "changes", "code", "field"), CASES)
def test_an_envelope_is_refused_by_the_check_that_finds_the_fault(
    ledger, check, document, changes, code, field
):
    # V1 asks what a caller may say; the later checks are asked with a submitter who may.
    submitter = "caller" if check == "V1" else "orchestrator"
    result = submit(ledger, changed(document, changes), submitter=submitter)
    assert not isinstance(result, SubmissionResult)
    rejection = result.rejection
    assert (rejection.check, rejection.reason_code, rejection.field) == (check, code, field)


@pytest.mark.spec("§3.6")
@pytest.mark.parametrize("missing", SEMANTIC_VERBS[RUNTIME_VERB].requires)
def test_the_runtimes_own_verb_needs_its_primitives_too(ledger, missing):
    kinds = [kind for kind in SEMANTIC_VERBS[RUNTIME_VERB].requires if kind != missing]
    document = envelope(RUNTIME_VERB, [effect(kind) for kind in kinds])
    result = submit(ledger, document, submitter="orchestrator")
    assert (result.rejection.check, result.rejection.reason_code) == ("V3", MISSING)


ENTRIES_MAX = {
    "primitive_effects": MAX_EFFECTS + 1,
    "causal_parent_operation_ids": MAX_CAUSAL_PARENTS,
    "recorded_model_outputs": MAX_MODEL_OUTPUTS,
    "adjudicates_receipt_ids": MAX_ADJUDICATED,
    "source_refs": MAX_REFS,
    "target_refs": MAX_REFS,
    "read_set_refs": MAX_REFS,
    "write_set_refs": MAX_REFS,
    "source_visibility_taint": MAX_REFS,
    f"{SCOPE}.affected_node_refs": MAX_REFS,
    f"{SCOPE}.affected_edge_refs": MAX_REFS,
    f"{SCOPE}.visibility_class_envelope": MAX_REFS,
}


@pytest.mark.spec("§2.2 V1")
@pytest.mark.parametrize(("field", "limit"), ENTRIES_MAX.items())
def test_a_list_of_an_envelope_has_at_most_its_entries(field, limit):
    full, longer = (changed(note, {field: [None] * count}) for count in (limit, limit + 1))
    assert too_many_entries(full) is None
    oversize = too_many_entries(longer)
    assert oversize == Oversize(field, limit, limit + 1)
    assert oversize.message == f"{field} has at most {limit} entries, here {limit + 1}"


@pytest.mark.spec("§2.2 V1")
def test_an_envelope_has_at_most_its_bytes():
    assert too_many_bytes(b"x" * MAX_ENVELOPE_BYTES) is None
    oversize = too_many_bytes(b"x" * (MAX_ENVELOPE_BYTES + 1))
    assert oversize == Oversize("", MAX_ENVELOPE_BYTES, MAX_ENVELOPE_BYTES + 1)
    assert f"at most {MAX_ENVELOPE_BYTES} bytes" in oversize.message
    assert oversize.details == {"limit": MAX_ENVELOPE_BYTES, "actual": MAX_ENVELOPE_BYTES + 1}


@pytest.mark.parametrize("document", [None, [], "envelope", 7, {}, {"operation_id": "o"}])
@pytest.mark.spec("§2.2 V1")
def test_what_is_no_envelope_at_all_is_refused_by_the_first_check(ledger, document):
    result = submit(ledger, document)
    assert (result.rejection.check, result.rejection.reason_code) == ("V1", SCHEMA)


PROVEN_ELSEWHERE = frozenset(
    {
        *("check_bindings", "_judge_binding", "check_fires", "_judge_fire", "_adjudicates"),
        *("check_implication", "_check_loops", "_loop_refusal"),
        *("_Place", "check_outcomes", "_judge_relationship", "_lacking", "_without_label"),
        *("_without_sources", "_judge_observation", "_judge_ruling", "_judge_decision"),
        *("_check_rate", "_check_quota", "_check_budget", "_check_lease"),
    }
)
"""Functions of the checks whose refusals have their cases in other files.

What a binding is refused for, bindings/test_source_binding.py proves, and a fire,
bindings/test_fires.py; what an implication is, test_implications.py; what a decision on evidence
lacks, test_adjudication.py; V11, test_capacity.py. V12 is in conflicts.py, test_conflicts.py.
"""


def stated_codes(folder, call, place):
    """The codes that a package's calls of one name can give, read from its source."""
    for path in sorted(Path(folder).glob("*.py")):
        if path.stem == "conflicts":
            continue
        module = importlib.import_module(f"kernel.transaction.checks.{path.stem}")
        functions = ast.parse(path.read_text()).body
        for node in (
            node
            for function in functions
            if getattr(function, "name", "") not in PROVEN_ELSEWHERE
            for node in ast.walk(function)
        ):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == call:
                argument = node.args[place]
                named = isinstance(argument, ast.Name)
                yield getattr(module, argument.id) if named else ast.literal_eval(argument)


def test_every_reason_code_in_the_checks_has_a_case():
    stated = set(stated_codes(Path(kernel.transaction.checks.__file__).parent, "Refusal", 0))
    # What is left hanging, and that it is too much, test_cascades.py proves.
    proven = {case.values[3] for case in CASES} | {
        "envelope_cascade_incomplete",
        "envelope_cascade_too_wide",
        # What an extraction says of its completeness, test_extraction.py.
        "extraction_completeness_missing",
        "extraction_completeness_contradicted",
        # In whose name something is said, test_principals_on_the_record.py.
        "principal_differs",
        # What a node was drawn from, test_provenance.py.
        "visibility_class_lowered",
    }
    assert len(stated) > 15
    assert stated == proven


def test_every_check_in_the_order_has_a_case():
    assert list(dict.fromkeys(name for name, _ in CHECKS)) == [*RULES, *ELSEWHERE]
    assert {case.values[0] for case in CASES} == set(RULES)


# What passes


@pytest.mark.spec("§2.2 V1")
@pytest.mark.parametrize("place", [f"{PAYLOAD}.text", f"{OUTPUT_0}.model_version"])
def test_what_is_no_name_of_the_record_may_hold_any_character(ledger, place):
    document = changed(answered(spanned), {place: "a\x00b"})
    result = submit(ledger, document, submitter="orchestrator")
    assert isinstance(result, SubmissionResult) or result.rejection.check != "V1"


@pytest.mark.spec("K18")
@pytest.mark.parametrize("actor", ["user", "agent", "system", "migration"])
def test_the_orchestrator_speaks_for_every_actor(ledger, actor):
    assert code_of(submit(ledger, note | {"actor": actor}, submitter="orchestrator")) is None


@pytest.mark.spec("INV-A-SCOPE-1")
@pytest.mark.parametrize("actor", ["user", "agent", "system", "migration"])
def test_only_system_and_migration_may_sweep_everything(ledger, actor):
    deep = sweep(actor) | {f"{SCOPE}.estimated_cascade_depth": 10**6}
    result = submit(ledger, changed(note, deep), submitter="orchestrator")
    allowed = actor in ("system", "migration")
    assert code_of(result) == (None if allowed else "envelope_scope_global_sweep_unauthorized")


@pytest.mark.spec("§2.4")
@pytest.mark.parametrize(
    "kind", [kind for kind in MAX_CASCADE_DEPTH_BY_KIND if "sweep" not in kind]
)
def test_a_scope_at_its_depth_cap_is_accepted(ledger, kind):
    depth = int(MAX_CASCADE_DEPTH_BY_KIND[kind])
    changes = {f"{SCOPE}.scope_kind": kind, f"{SCOPE}.estimated_cascade_depth": depth}
    assert code_of(submit(ledger, changed(note, changes))) is None


@pytest.mark.spec("INV-MVC-CU-1")
@pytest.mark.parametrize("stated", [{"node_kind": UNDERSTANDING}, {}], ids=["kind", "no kind"])
def test_spans_are_asked_of_every_write_of_an_understanding(ledger, stated):
    submit(ledger, create("cu", UNDERSTANDING))
    assert code_of(submit(ledger, adapt("cu", title="t"))) is None
    assert code_of(submit(ledger, adapt("cu", display_kind="whatever", **stated))) == SPANS
    assert code_of(submit(ledger, adapt("cu", **spans("wrapped"), **stated))) is None
    assert code_of(submit(ledger, adapt("cu", source_spans=[], **stated))) == SPANS
    assert code_of(submit(ledger, adapt("cu", display_kind=NO_SPANS, **stated))) == KIND


@pytest.mark.spec("INV-MVC-CU-1")
def test_the_second_understanding_of_an_envelope_is_checked_too(ledger):
    second = effect("node_write", "cu2", node_kind=UNDERSTANDING)
    result = submit(ledger, create("cu", UNDERSTANDING, second, **spans("wrapped")))
    assert (result.rejection.reason_code, result.rejection.field) == (
        SPANS,
        "primitive_effects.2.payload.source_spans",
    )


@pytest.mark.spec("INV-PROV-TAINT-1")
def test_a_node_that_is_more_restricted_than_its_sources_may_keep_its_class(ledger):
    restricted = adapt("secret", envelope_changes={TAINT: ["firewalled"], RESOLVED: "firewalled"})
    assert code_of(submit(ledger, restricted)) is None


@pytest.mark.spec("§7.7 EC1")
def test_without_sources_no_resolution_is_asked_for(ledger):
    assert code_of(submit(ledger, note | {TAINT: []})) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"semantic_intent": "x" * 512},
        {"operation_kind": "x" * 512},
        {f"{FIRST}.effect_kind": "x" * 512},
        {f"{FIRST}.receipt_subkind": "x" * 512},
        {f"{FIRST}.payload.node_kind": "x" * 512},
        {"primitive_effects": note["primitive_effects"] * 20},
    ],
)
def test_no_long_text_of_a_caller_is_kept_with_the_shapes(ledger, changes):
    submit(ledger, create("first", "Note"), submitter="orchestrator")
    # How often an effect stands in an envelope is no part of a shape.
    twice = changed(note, {"primitive_effects": note["primitive_effects"] * 2})
    submit(ledger, twice, submitter="orchestrator")
    kept = {*shapes.KEPT}
    result = submit(ledger, changed(note, changes), submitter="orchestrator")
    assert isinstance(result, SubmissionResult) or result.rejection.check not in {"V1", "V2"}
    assert {*shapes.KEPT} == kept
    assert kept


@pytest.mark.spec("K29")
def test_every_operation_kind_speaks_one_verb():
    for kind in OPERATION_KINDS.values():
        assert OPERATION_KINDS[kind.name] is kind
        assert SEMANTIC_VERBS[kind.verb].name == kind.verb


MEANT = {"binding_generation_advance": binding(1)["payload"]}
"""What effects say that a check of their own reads, by kind."""


@pytest.mark.spec("K1")
@pytest.mark.parametrize("verb", SEMANTIC_VERBS)
def test_a_verb_is_satisfied_by_its_kinds_or_by_their_canonical_kinds(ledger, verb):
    for name in (str, lambda kind: EFFECT_KINDS[kind].canonical):
        kinds = [name(kind) for kind in SEMANTIC_VERBS[verb].requires]
        if SEMANTIC_VERBS[verb].exact and kinds != list(SEMANTIC_VERBS[verb].requires):
            continue
        required = zip(kinds, SEMANTIC_VERBS[verb].requires, strict=True)
        effects = [
            effect(kind, f"x-{kind}")
            | {
                "payload": STATED.get((verb, kind)) or STATED.get((verb, by)) or MEANT.get(by, {}),
                "effect_id": f"{kind}:{number}",
            }
            for number, (kind, by) in enumerate(required)
        ]
        if verb == "source_binding_create":
            # A binding begins with its first generation, which is more than its verb requires.
            effects.append(binding(1, "x-node_write"))
        epoch = {EPOCH_OPEN: "new", EPOCH_CLOSE: "open"}.get(verb)
        document = envelope(verb, effects, epoch_id=epoch)
        result = submit(ledger, document, submitter="orchestrator")
        # V6 asks for evidence that is on the record, which is more than the verb requires.
        passed = ("apply", "V6")
        assert getattr(result, "rejection", None) is None or result.rejection.check in passed


@pytest.mark.spec("K28")
@pytest.mark.parametrize(
    "verb", [semantic_verb for semantic_verb in SEMANTIC_VERBS.values() if semantic_verb.exact]
)
def test_a_verb_of_a_kinds_own_name_is_not_spoken_by_its_canonical_kind(ledger, verb):
    canonical = EFFECT_KINDS[verb.name].canonical
    if canonical == verb.name:
        return
    kinds = [canonical, *verb.requires[1:]]
    document = envelope(verb.name, [effect(kind, kind) for kind in kinds])
    result = submit(ledger, document, submitter="orchestrator")
    assert result.rejection.check == "V3"
    assert result.rejection.reason_code in (MISSING, FORBIDDEN)


@pytest.mark.spec("§3.6")
@pytest.mark.parametrize("verb", SEMANTIC_VERBS.values(), ids=SEMANTIC_VERBS)
def test_every_kind_that_a_verb_forbids_is_refused(ledger, verb):
    assert not verb.forbids & set(verb.requires)
    composed = [effect(kind, kind) for kind in verb.requires]
    for kind in sorted(verb.forbids):
        effect_ = effect(kind, f"x-{kind}")
        if verb.name == ROLLBACK:
            effect_["undoes"] = undoing
        document = envelope(verb.name, [*composed, effect_])
        result = submit(ledger, document, submitter="orchestrator")
        assert (result.rejection.check, result.rejection.reason_code) == ("V3", FORBIDDEN)


@pytest.mark.spec("§4.3.15")
def test_a_topic_is_assigned_with_its_index_entry(ledger):
    lonely = envelope("annotate", [effect("node_write", "old"), effect("topic_assignment_write")])
    result = submit(ledger, lonely)
    assert (result.rejection.check, result.rejection.reason_code) == ("V3", MISSING)


# The registry


@pytest.mark.spec("K2")
def test_every_reversible_kind_has_inverses_that_are_kinds_and_lead_back():
    for kind in EFFECT_KINDS.values():
        assert bool(kind.inverses) == (kind.reversibility == "fully_reversible")
        assert EFFECT_KINDS[kind.canonical].canonical == kind.canonical
        for name in kind.inverses:
            inverse = EFFECT_KINDS[name]
            assert inverse.canonical == kind.canonical
            assert EFFECT_KINDS[inverse.inverses[0]].canonical == kind.canonical


@pytest.mark.spec("§4.4")
@pytest.mark.parametrize("kind", EFFECT_KINDS.values(), ids=EFFECT_KINDS)
def test_each_inverse_that_the_registry_names_is_accepted_and_no_other(ledger, kind):
    for name in EFFECT_KINDS:
        effect_ = effect(kind.name, "x") | {"inverse_operation_kind": name}
        document = envelope("annotate", [effect_])
        with ledger.transaction() as transaction:
            submission = Submission(
                document,
                b"",
                "",
                Envelope.model_validate_json(canonicalize(document)),
                "caller",
                transaction,
                0,
            )
            refused = reversibility.check_reversibility(submission)
        assert (refused is None) == (name in kind.inverses)


# The order


# An operation id that is taken is found last, where it would be written.
BREAKS = [
    ("V1", {"actor": "nobody"}),
    ("V2", {"idempotency_key": "known"}),
    ("V3", {"operation_kind": "annotate"}),
    ("V4", {SCOPE: ABSENT}),
    ("V5", {"policy_generation_id": "PG-0"}),
    ("V6", {f"{PAYLOAD}.source_spans": []}),
    ("V7", {"recorded_model_outputs.0.model_version": "m-2"}),
    ("V8", {TAINT: ["sealed"]}),
    ("V9", {"write_set_refs": ["shut"]}),
    ("V10", {f"{FIRST}.reversibility": "receipt_only"}),
    ("apply", {f"{FIRST}.target_ref": "old"}),
    (
        "V1",
        {"operation_id": KNOWN, f"{OUTPUT_0}.recorded_by_operation_id": KNOWN},
    ),
]


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    "first", range(len(BREAKS)), ids=[f"{n}-{b[0]}" for n, b in enumerate(BREAKS)]
)
def test_the_first_check_that_fails_is_the_one_that_answers(ledger, first):
    document = changed(answered(spanned), scope("cu", "shut", "old"))
    for _, changes in BREAKS[first:]:
        document = changed(document, changes)
    result = submit(ledger, document, submitter="orchestrator")
    assert result.rejection.check == BREAKS[first][0]


@pytest.mark.spec("K4")
def test_the_shape_is_looked_at_before_the_actor(ledger):
    result = submit(ledger, changed(note, {"actor": "agent", "recorded_at": ABSENT}))
    assert result.rejection.field == "recorded_at"


def head_sequence(ledger):
    with ledger.view() as view:
        return view.head().ec_sequence_number


@pytest.mark.spec("INV-15.7.8", "K5")
@pytest.mark.parametrize("submitter", ["caller", "orchestrator"])
@pytest.mark.parametrize("actor", STRANGERS)
def test_whoever_may_not_write_has_a_durable_receipt_that_names_him(ledger, actor, submitter):
    before = head_sequence(ledger)
    result = submit(ledger, note | {"actor": actor}, submitter=submitter)
    rejection = result.rejection
    stated = (rejection.check, rejection.reason_code, rejection.field)
    assert stated == ("V1", UNAUTHORIZED, "actor")
    assert len(rejection.message) < 200
    assert head_sequence(ledger) == before
    with ledger.view() as view:
        receipt = view.receipt(result.receipt_id)
    assert (receipt["reason_code"], receipt["operation_id"]) == (UNAUTHORIZED, note["operation_id"])
    assert ascii(actor)[:40] in receipt["message"]
    assert receipt.get("actor", actor) == actor
    assert findings(ledger) == ()


@pytest.mark.spec("INV-15.7.8", "K4")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"recorded_at": ABSENT}, SCHEMA),
        ({"source_refs": "n"}, SCHEMA),
        ({"session_id": "s\x00"}, SCHEMA),
        ({"envelope_version": "1.5"}, SCHEMA),
        ({"notes": nested(MAX_DEPTH)}, SCHEMA),
        ({"semantic_intent": "guess"}, UNAUTHORIZED),
        ({f"{FIRST}.reversibility": "perhaps"}, UNAUTHORIZED),
        ({SCOPE: {}}, UNAUTHORIZED),
        ({"operation_id": "op-1"}, UNAUTHORIZED),
    ],
)
def test_a_stranger_comes_behind_the_shape_and_before_everything_else(ledger, changes, code):
    result = submit(ledger, changed(note, {"actor": "specialist", **changes}))
    assert result.rejection.reason_code == code


@pytest.mark.spec("K4")
def test_shapes_of_strange_names_are_not_kept(ledger, monkeypatch):
    monkeypatch.setattr(shapes, "KEPT", {})
    for changes in ({"actor": "specialist"}, {f"{FIRST}.reversibility": "perhaps"}):
        submit(ledger, changed(note, changes), submitter="orchestrator")
    assert shapes.KEPT == {}
