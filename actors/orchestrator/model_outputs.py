"""Puts a model's answer onto the record: what an envelope states of it (§6.4, R4).

The answer's bytes are a payload of their own, put into the operation's transaction and named by
their salted commitment. One answer belongs to one operation, so nobody counts references.
"""

from collections.abc import Sequence

from actors.orchestrator.intents import (
    Intent,
    RecordExtractionTransition,
    SynthesizedUnderstanding,
)
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.model_output import CapturedOutput, RecordedModelOutput, fingerprint
from kernel.records.sources import Source, SourceClasses
from kernel.values.visibility import max_visibility_class


def outputs_of(intent: Intent) -> tuple[CapturedOutput, ...]:
    """Return the answers that were captured for an intent, in the order of their calls."""
    if isinstance(intent, SynthesizedUnderstanding | RecordExtractionTransition):
        return intent.outputs
    return ()


def recorded_outputs(
    intent: Intent, answer_refs: Sequence[str], operation_id: str, view: LedgerView
) -> list[Document]:
    """Return the RecordedModelOutput of each captured answer, by the order of their calls."""
    return [
        _output_record(output, answer_ref, operation_id, index, view)
        for index, (output, answer_ref) in enumerate(
            zip(outputs_of(intent), answer_refs, strict=True)
        )
    ]


def _output_record(
    output: CapturedOutput, answer_ref: str, operation_id: str, index: int, view: LedgerView
) -> Document:
    classes = SourceClasses(view)
    taint = tuple(classes.of(Source("source_refs", ref)) or "" for ref in output.source_refs)
    recorded = RecordedModelOutput(
        recorded_output_id=f"model-output:{operation_id}:{index}",
        model_version=output.model_version,
        model_provider=output.model_provider,
        prompt_hash=output.prompt_hash,
        parameter_hash=output.parameter_hash,
        fingerprint_combined=fingerprint(
            output.model_version, output.prompt_hash, output.parameter_hash
        ),
        output_payload_blob_ref=answer_ref,
        recorded_at=output.answered_at,
        recorded_by_operation_id=operation_id,
        source_visibility_taint=taint,
        resolved_output_visibility_class=max_visibility_class(taint),
        # The only hash there is of a prompt is that of the assembled one (prompting.py, rule 4).
        prompt_hash_includes_wrapped_content=True,
        tier_2_prompt_cache_used=output.tier_2_prompt_cache_used,
        recorded_token_usage=output.token_usage,
    )
    return recorded.model_dump(mode="json")
