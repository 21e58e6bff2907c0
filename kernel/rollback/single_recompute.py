"""Undoing one recompute of a page while the others of the page stay (K32, decision kernel/0251)."""

from dataclasses import replace

from kernel.authority.recompute_pages import is_page, ordinals_of, recompute_alone
from kernel.rollback.steps import RollbackStep


def step_of_recompute(step: RollbackStep, node_id: str, request_id: str) -> RollbackStep:
    """Return the step that undoes one recompute of what may be a page."""
    if not is_page(step.envelope):
        return step
    own = {
        step.envelope["primitive_effects"][ordinal]["effect_id"]
        for ordinal in ordinals_of(step.envelope, node_id)
    }
    return replace(
        step,
        envelope=recompute_alone(step.envelope, node_id),
        effects=tuple(effect for effect in step.effects if effect.declared["effect_id"] in own),
        recompute_of=node_id,
        request_id=request_id,
    )
