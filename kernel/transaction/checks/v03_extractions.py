"""V3: an extraction that ends with a part of its fields says with which (INV-EXT-3, §16.6).

The state machine itself is the store's (`kernel/records/extraction.py`). What stands here is asked
of new steps alone: a log that was recorded without it replays as it was (K30).
"""

from pydantic import ValidationError

from kernel.model.extraction_result import ExtractionCompleteness
from kernel.model.problems import first_problem
from kernel.transaction.checks.check import Refusal, Submission, Verdict

COMPLETENESS = "extraction_completeness"
MISSING = "extraction_completeness_missing"
INVALID = "extraction_completeness_contradicted"


def check(submission: Submission) -> Verdict:
    """Refuse a degraded step without its completeness, and one that contradicts its state."""
    for place, effect in enumerate(submission.envelope.primitive_effects):
        if effect.effect_kind == "extraction_state_transition":
            refusal = _judge(effect.payload, f"primitive_effects.{place}.payload.{COMPLETENESS}")
            if refusal is not None:
                return refusal
    return None


def _judge(payload: dict[str, object], field: str) -> Refusal | None:
    state, stated = payload.get("current_state"), payload.get(COMPLETENESS)
    # What was complete is taken back as degraded (§16.8): its completeness was stated before.
    ends_in_part = state == "degraded" and payload.get("prior_state") == "running"
    if stated is None:
        message = "a degraded extraction says which fields failed, and why"
        return Refusal(MISSING, field, message) if ends_in_part else None
    try:
        # As JSON has it, with lists where the model has tuples.
        completeness = ExtractionCompleteness.model_validate(stated, strict=False)
    except ValidationError as error:
        name, message = first_problem(error)
        return Refusal(INVALID, f"{field}.{name}" if name else field, message)
    failed = bool(completeness.failed_fields)
    if (state == "degraded" and not failed) or (state == "succeeded" and failed):
        return Refusal(INVALID, field, f"{state} contradicts the fields that failed")
    return None
