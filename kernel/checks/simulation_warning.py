"""A preview of restricted material says so (INV-G-SIM-VIS-1, §11.6); asked by V8."""

from kernel.checks.check import Refusal, Submission
from kernel.model.simulation import PREVIEW_EFFECT, SIMULATE, WARNED_CLASSES
from kernel.sources import classes_of

_REASON = "envelope_simulation_visibility_warning_missing"


def check_warning(submission: Submission) -> Refusal | None:
    """Refuse a simulation of sealed or firewalled sources whose preview does not warn."""
    envelope = submission.envelope
    if envelope.semantic_intent != SIMULATE:
        return None
    classes = {visibility for _, visibility in classes_of(submission.transaction, envelope)}
    classes.update(envelope.source_visibility_taint)
    classes.add(envelope.resolved_output_visibility_class or "")
    if not classes & WARNED_CLASSES:
        return None
    for index, effect in enumerate(envelope.primitive_effects):
        if effect.receipt_subkind == PREVIEW_EFFECT:
            warning = effect.payload.get("rendered_visibility_warning")
            if isinstance(warning, str) and warning.strip():
                return None
            field = f"primitive_effects.{index}.payload.rendered_visibility_warning"
            return Refusal(_REASON, field, "its sources are sealed or firewalled")
    return Refusal(_REASON, "primitive_effects", "there is no preview that could warn")
