"""Gives each idempotency key its scope, which is who answers for it (§2.5, K6).

1. Every key of the runtime's own is made here, for a purpose of `RUNTIME_PURPOSES`. It has a form
   of its own, so whatever its parts are, no other text is it.
2. Nobody else states a text of that form: V2 refuses it of whoever submits from outside, and of
   what takes a lite envelope's place, whose key its author has stated.
3. All other keys are callers'. Each principal has a scope of its own, in which `answer_key` puts
   what it states; where access is open, callers share one, in which a key is as it is stated.

An operation that was recorded before keys had scopes is found by what it did and not by its key
(decision kernel/0524).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from kernel.values.canonical import digest

RUNTIME_FORM: Final = "rotulus:"
"""How every key of the runtime begins, and no key that is stated from outside."""

_OF_PRINCIPAL: Final = f"{RUNTIME_FORM}of:"

RESERVED: Final = "envelope_idempotency_key_reserved"

RUNTIME_PURPOSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Envelopes that the kernel writes itself.
        "tier_1_inverse": "the inverse of an operation",
        "tier_2_inverse": "the inverse of an operation of an epoch",
        "compensation": "what makes up for an effect of an epoch",
        "epoch_rollback": "the receipts of an epoch, or of a page of one, that was undone",
        "rebuild": "the receipt of a rebuild",
        "simulation": "a simulation",
        "conflict_merge": "the merge of two writes that had not seen each other",
        "conflict_contradiction": "the edges between writes that contradict each other",
        "implication_halt": "the halt of a loop of implications",
        "review_discard": "the end of an item of a review queue",
        "review_take": "what an item of a review queue held back",
        # What the orchestrator is asked for by the runtime, each by the kind of its intent.
        "adjudicate": "a decision about evidence",
        "anchor_belief": "the anchor of belief sessions",
        "emit_manifest": "the manifest of an evaluation cycle",
        "enqueue_recalculate_authority": "a page of recomputes that are asked for",
        "fire_binding": "what a binding makes of an artifact",
        "halt_detector": "the halt of a detector",
        "observe_disposition": "an observation of a detector",
        "producer_intent": "an intent of a producer's kind that the runtime emits",
        "recalculate_authority": "a recompute",
        "recalculate_page": "a page of recomputes",
        "record_batch_review": "what became of a reviewed batch",
        "record_decision": "what an operator decides",
        "record_extracted_claim": "a claim that was extracted",
        "record_extraction_transition": "a step of an extraction",
        "record_fire": "the record of a fire",
        "record_implication_run": "a run of a detector",
        "record_key_handover": "a hand-over of the keys that sign the log",
        "report_external_effect": "what became of an effect outside",
        "resume_implications": "the end of a halt",
        "review_membership": "an item of a reviewed batch",
        "seal_receipts": "the seal of a range of receipts",
        "seal_run": "the seal of a run",
        "state_thought": "what happens to a session of thoughts, or to a round",
        "write_causal_graph": "a part of the causal graph",
    }
)
"""What the runtime makes keys for."""


def runtime_key(purpose: str, *parts: Any) -> str:
    """Return the key of an operation of the runtime's own; other parts give another key."""
    assert purpose in RUNTIME_PURPOSES, purpose  # noqa: S101 - purposes are written in code
    return f"{RUNTIME_FORM}{purpose}:{digest([*parts])}"


def caller_key(*parts: Any) -> str:
    """Return the key of an intent that a caller has named, before it is in a scope."""
    return digest([*parts])


def answer_key(
    submitter: Literal["orchestrator", "caller"],
    stated: str,
    *,
    supersedes: bool = False,
    principal: str | None = None,
) -> str | None:
    """Return the key under which an answer is looked for and kept, in the scope of who submits.

    None where a key of the runtime's form is stated from outside.
    """
    from_outside = submitter == "caller" or supersedes
    if from_outside and stated.startswith(RUNTIME_FORM):
        return None
    return stated if principal is None else scoped_key(principal, stated)


def scoped_key(principal: str | None, stated: str) -> str:
    """Return a stated key in the scope of a principal; the runtime's own are in none.

    It has the runtime's form, so nobody states it, and a principal has one colon: what comes
    behind the second is the key.
    """
    if principal is None or stated.startswith(RUNTIME_FORM):
        return stated
    return f"{_OF_PRINCIPAL}{principal}:{stated}"
