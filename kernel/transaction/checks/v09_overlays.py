"""V9: nothing is written or sent out against an access overlay (§12, INV-B2-OVERLAY-RESOLUTION-1).

Everything that an envelope writes, declared or not, is under the overlays over it, twice: as it
is on record, and as the effect would make it. An override speaks for the overlays that it names.

What goes outside is judged by everything that it was made of (`kernel/transaction/outbound.py`).

What the runtime alone writes, an authority that follows from its inputs and the anchor of a
session, is nobody's access.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernel.algebra.effects import RECEIPT, canonical_kind
from kernel.records.overlays.access import OVERRIDE, forbidding, overridden_by, writer_of
from kernel.records.overlays.containment import Containment, ContainmentTooWide, is_placed
from kernel.transaction.checks import v09_model_calls
from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.transaction.checks.v09_constructions import (
    MERGING_KINDS,
    check_constructions,
    draft_of,
    is_trusted,
)
from kernel.transaction.outbound import held_back

_OF_A_CORPUS = frozenset({"membership_write", "membership_state_transition"})
"""Kinds that change a corpus by changing who belongs to it."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A thing that an envelope writes, and the field that names it."""

    field: str
    ref: str
    payload: Mapping[str, Any] | None = None
    """The payload as the effect would leave it; None stands for the recorded one."""


def check(submission: Submission) -> Verdict:
    """Refuse an unreadable overlay, a write that one forbids, and a model that saw too much."""
    return (
        check_constructions(submission)
        or _check_override(submission)
        or _check_writes(submission)
        or _check_outbound(submission)
        or v09_model_calls.check(submission)
    )


def _check_override(submission: Submission) -> Refusal | None:
    if is_trusted(submission):
        return None
    for index, effect in enumerate(submission.envelope.primitive_effects):
        if effect.receipt_subkind == OVERRIDE:
            return Refusal(
                "envelope_access_overlay_blocked",
                f"primitive_effects.{index}.receipt_subkind",
                "whom an overlay keeps out cannot let themselves in",
            )
    return None


def _check_writes(submission: Submission) -> Refusal | None:
    envelope, view = submission.envelope, submission.transaction
    if envelope.semantic_intent == "recalculate_authority" or not view.has_overlays():
        return None
    containment, writer = Containment(view), writer_of(envelope)
    overridden = overridden_by(envelope)
    checked: set[str] = set()
    for write in _writes(submission):
        if write.payload is None and write.ref in checked:
            continue
        if write.payload is None:
            checked.add(write.ref)
        try:
            resolution = forbidding(view, containment, write.ref, writer, overridden, write.payload)
        except ContainmentTooWide:
            return Refusal(
                "envelope_access_overlay_blocked",
                write.field,
                f"{write.ref} lies in more than is searched for overlays",
            )
        if resolution is not None:
            return Refusal(
                "envelope_access_overlay_blocked",
                write.field,
                f"{write.ref}: {resolution.describe()}",
            )
    return None


def _check_outbound(submission: Submission) -> Refusal | None:
    held = held_back(submission.transaction, submission.envelope)
    if held is None:
        return None
    if held.reason == "restricted":
        return Refusal("envelope_sealed_outbound_unauthorized", held.field, held.message)
    return Refusal("envelope_access_overlay_blocked", held.field, held.message)


def _writes(submission: Submission) -> Iterator[_Write]:
    envelope = submission.envelope
    for index, ref in enumerate(envelope.write_set_refs):
        yield _Write(f"write_set_refs.{index}", ref)
    for index, effect in enumerate(envelope.primitive_effects):
        if effect.target_ref is None or canonical_kind(effect.effect_kind) == RECEIPT:
            continue
        field = f"primitive_effects.{index}.target_ref"
        yield _Write(field, effect.target_ref)
        if canonical_kind(effect.effect_kind) in _OF_A_CORPUS:
            corpus = effect.payload.get("corpus_id")
            if isinstance(corpus, str):
                yield _Write(f"primitive_effects.{index}.payload.corpus_id", corpus)
        if not is_placed(effect.payload):
            continue
        payload: Mapping[str, Any] = effect.payload
        if effect.effect_kind in MERGING_KINDS:
            before = submission.transaction.node(effect.target_ref)
            payload = draft_of(effect, before)["payload"]
        yield _Write(field, effect.target_ref, payload)
