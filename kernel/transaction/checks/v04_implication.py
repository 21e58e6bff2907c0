"""V4, implications: what a detector emits belongs to its run, ends no loop late, and rules nothing.

1. The orchestrator alone says that an operation was implied. Its epoch is that of the newest run,
   and what implied it lies in the stretch that the run has read (§19.1, K31).
2. It is evidence: no ruling and no relationship between filings follows by itself
   (INV-K-OUTCOME-1).
3. A loop that is halted stays so. One that would go on for too many epochs is halted, with a
   durable receipt, and the operation is refused (INV-A-BRIDGE-1).
"""

from kernel.algebra.effects import canonical_kind
from kernel.model.envelope import Implied
from kernel.records.implications.halts import EXCEEDED, HALTED, halt_of_loop, is_halted
from kernel.records.implications.loop_limits import CYCLE_EPOCHS_MAX, Loop, loops_of
from kernel.records.implications.runs import misplaced, unread
from kernel.transaction.checks.check import Refusal, Submission, Verdict

_ADJUDICATED = frozenset({"ruling_disposition_write", "filing_relationship_write"})
"""Canonical kinds that a person or the safe path of confirmation decides (§13.6)."""

_PLACE = "target_refs"


def check(submission: Submission) -> Verdict:
    """Refuse an implication of no run, one that adjudicates, and one that goes on a loop."""
    implied = submission.envelope.implication
    if implied is None:
        return None
    if submission.submitter != "orchestrator":
        message = "the orchestrator alone says that an operation was implied"
        return Refusal("envelope_actor_unauthorized", "implication", message)
    view = submission.transaction
    problem = misplaced(view, implied) or unread(view, implied)
    if problem is not None:
        code, field, message = problem
        return Refusal(code, field, message)
    for index, effect in enumerate(submission.envelope.primitive_effects):
        if canonical_kind(effect.effect_kind) in _ADJUDICATED:
            field = f"primitive_effects.{index}.effect_kind"
            message = f"{effect.effect_kind} is decided and never implied"
            return Refusal("implication_adjudicates", field, message)
    return _check_loops(submission, implied)


def _check_loops(submission: Submission, implied: Implied) -> Refusal | None:
    envelope, transaction = submission.envelope, submission.transaction
    loops = list(loops_of(transaction, envelope, implied))
    for loop in loops:
        if is_halted(transaction, loop.loop_id):
            message = f"{loop.operation_kind} on {loop.target_ref} is halted: {loop.loop_id}"
            return Refusal(HALTED, _PLACE, message)
    exceeded = next((loop for loop in loops if loop.is_exceeded), None)
    return None if exceeded is None else _exceeded(submission, implied, exceeded)


def _exceeded(submission: Submission, implied: Implied, loop: Loop) -> Refusal:
    envelope = submission.envelope
    message = (
        f"{loop.operation_kind} on {loop.target_ref} was implied in {CYCLE_EPOCHS_MAX} epochs in a"
        " row"
        if loop.repetitions > CYCLE_EPOCHS_MAX
        else f"what implies it follows from {loop.chain_epochs - 1} implications in a row"
    )
    return Refusal(
        EXCEEDED,
        _PLACE,
        f"{message}; halted until a person resumes {loop.loop_id}",
        receipt_kind=EXCEEDED,
        details={
            "detector": implied.detector,
            "implication_epoch": implied.implication_epoch,
            "operation_kind": loop.operation_kind,
            "target_ref": loop.target_ref,
            "repetitions": loop.repetitions - 1,
            "chain_epochs": loop.chain_epochs,
            "envelope": submission.document,
        },
        follow_ups=(halt_of_loop(submission.transaction, envelope, implied.detector, loop),),
    )
