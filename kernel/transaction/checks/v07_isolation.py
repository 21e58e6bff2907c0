"""V7: what a model was shown had been isolated first (INV-MVC-3, §10).

Three questions, the last of them of every envelope:

1. Everything ingested that an operation with model outputs names as a source, reads, or points at
   with a span was wrapped, its content and its metadata.
2. Each recorded output was asked for with the wrapped content, is this operation's own, and has
   the fingerprint that its parts give.
3. That something was wrapped is the orchestrator's word. A caller may neither say so nor change
   what bears that word, for then the word would be untrue.
"""

from collections.abc import Iterator

from kernel.algebra.effects import canonical_kind
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.model_output import RecordedModelOutput, fingerprint
from kernel.model.node_kinds import SOURCE_ARTIFACT
from kernel.records.overlays.overlay import EMBEDDED
from kernel.records.sources import sources_of_envelope
from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.values.spans import names_of
from kernel.values.untrusted import CONTENT_FLAG, METADATA_FLAG

_SAYS_NOTHING = frozenset({"node_kind", "state", "visibility_class", EMBEDDED})
"""Fields of a node that are no part of its ingested content."""


def check(submission: Submission) -> Verdict:
    """Refuse bare content that a model was shown, and a caller who says it was wrapped."""
    refusal = None
    if submission.envelope.recorded_model_outputs:
        refusal = _check_sources(submission) or _check_outputs(submission)
    if refusal is None and submission.submitter != "orchestrator":
        refusal = _check_caller(submission)
    return refusal


def _check_sources(submission: Submission) -> Refusal | None:
    seen: set[str] = set()
    for source in sources_of_envelope(submission.envelope):
        field, ref = source.field, source.ref
        if ref in seen:
            continue
        seen.add(ref)
        for payload in _ingested(submission.transaction, ref):
            if payload.get(CONTENT_FLAG) is not True:
                return Refusal("envelope_unwrapped_content", field, f"the content of {ref} is bare")
            if payload.get(METADATA_FLAG) is not True:
                return Refusal(
                    "envelope_unwrapped_metadata", field, f"the metadata of {ref} is bare"
                )
    return None


def _ingested(view: LedgerView, ref: str) -> Iterator[Document]:
    """Yield the payloads of what was ingested under a reference, or under what it is a part of."""
    # Not every store can be asked for U+0000, which is in no stored name.
    for node_id in () if "\x00" in ref else names_of(ref):
        node = view.node(node_id)
        if node is None:
            continue
        # An artifact that does not say how it was acquired counts as ingested.
        if node["node_kind"] == SOURCE_ARTIFACT or "acquisition_shape" in node["payload"]:
            yield node["payload"]


def _check_outputs(submission: Submission) -> Refusal | None:
    for index, output in enumerate(submission.envelope.recorded_model_outputs):
        field = f"recorded_model_outputs.{index}"
        if not output.prompt_hash_includes_wrapped_content:
            return Refusal(
                "envelope_prompt_hash_pre_wrap",
                f"{field}.prompt_hash_includes_wrapped_content",
                "the prompt was hashed before its content was wrapped",
            )
        parts = output.model_version, output.prompt_hash, output.parameter_hash
        if output.fingerprint_combined != fingerprint(*parts):
            return Refusal(
                "envelope_schema_invalid",
                f"{field}.fingerprint_combined",
                "its three parts give another fingerprint",
            )
        if not _is_own_or_known(submission, output):
            return Refusal(
                "envelope_schema_invalid",
                f"{field}.recorded_by_operation_id",
                "an operation states outputs of its own, or of one on record",
            )
    return None


def _check_caller(submission: Submission) -> Refusal | None:
    for index, effect in enumerate(submission.envelope.primitive_effects):
        field = f"primitive_effects.{index}.payload"
        for flag in (CONTENT_FLAG, METADATA_FLAG):
            if flag in effect.payload:
                return Refusal(
                    "envelope_actor_unauthorized",
                    f"{field}.{flag}",
                    "that something was wrapped is the orchestrator's word",
                )
        changed = sorted(effect.payload.keys() - _SAYS_NOTHING)
        if not changed or canonical_kind(effect.effect_kind) != "node_write":
            continue
        node = submission.transaction.node(effect.target_ref or "")
        if node is not None and (
            CONTENT_FLAG in node["payload"] or METADATA_FLAG in node["payload"]
        ):
            return Refusal(
                "envelope_actor_unauthorized",
                f"{field}.{changed[0]}",
                "what was wrapped is changed through the orchestrator, which wraps again",
            )
    return None


def _is_own_or_known(submission: Submission, output: RecordedModelOutput) -> bool:
    """Tell whether an output is this operation's own, or on record (§6.5)."""
    if output.recorded_by_operation_id == submission.envelope.operation_id:
        return True
    known = submission.transaction.record(schema.recorded_model_outputs, output.recorded_output_id)
    return known is not None and (
        known["recorded_by_operation_id"] == output.recorded_by_operation_id
    )
