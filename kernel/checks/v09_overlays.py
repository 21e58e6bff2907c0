"""V9: no write goes against an access overlay (§12, INV-B2-OVERLAY-RESOLUTION-1).

Everything that an envelope writes, declared or not, is under the overlays over it, twice: as it
is on record, and as the effect would make it. An override speaks for the overlays that it names.

What the runtime alone writes, an authority that follows from its inputs and the anchor of a
session, is nobody's access.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from kernel.algebra.effects import RECEIPT, canonical_kind
from kernel.checks import v09_model_calls
from kernel.checks.check import Refusal, Submission, Verdict
from kernel.checks.v09_constructions import MERGING_KINDS, check_constructions, draft_of, is_trusted
from kernel.model.envelope import Actor, Envelope
from kernel.overlays.containment import Containment, ContainmentTooWide, is_placed
from kernel.overlays.resolution import Writer, resolve
from kernel.spans import span_named_by

OVERRIDE = "access_overlay_override"

_OF_A_CORPUS = frozenset({"membership_write", "membership_state_transition"})
"""Kinds that change a corpus by changing who belongs to it."""


@dataclass(frozen=True, slots=True)
class _Write:
    """Something that an envelope writes, and where it says so."""

    field: str
    ref: str
    payload: Mapping[str, Any] | None = None
    """What the effect would make of it; None asks what is on record."""


def check(submission: Submission) -> Verdict:
    """Refuse an overlay that is none, a write that one forbids, and a model that saw too much."""
    return (
        check_constructions(submission)
        or _check_override(submission)
        or _check_writes(submission)
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
    overridden = _overridden(envelope)
    asked: set[str] = set()
    for write in _writes(submission):
        if write.payload is None and write.ref in asked:
            continue
        if write.payload is None:
            asked.add(write.ref)
        try:
            refusal = _check_write(submission, containment, write, writer, overridden)
        except ContainmentTooWide:
            return Refusal(
                "envelope_access_overlay_blocked",
                write.field,
                f"{write.ref} lies in more than is searched for overlays",
            )
        if refusal is not None:
            return refusal
    return None


def _check_write(
    submission: Submission,
    containment: Containment,
    write: _Write,
    writer: Writer,
    overridden: frozenset[str],
) -> Refusal | None:
    span = span_named_by(write.ref)
    written = write.ref if span is None else span.source_ref
    node = submission.transaction.node(written)
    granted = node["payload"].get("authorized_access") if node is not None else None
    let_in = frozenset(one for one in granted if isinstance(one, str)) if granted else frozenset()
    for way in containment.ways(write.ref, write.payload):
        found = containment.overlays_on(way)
        resolution = resolve(one for one in found if one.overlay_id not in overridden)
        if resolution is not None and not resolution.permits(written, writer, let_in):
            return Refusal(
                "envelope_access_overlay_blocked",
                write.field,
                f"{write.ref}: {resolution.describe()}",
            )
    return None


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


def writer_of(envelope: Envelope) -> Writer:
    """Return whom a grant has to name: the session, and where there is none the actor."""
    session = envelope.session_id
    # A session that is called as an actor is would be taken for all of them.
    identity = envelope.actor if session is None else session
    if session in get_args(Actor):
        return Writer(None, envelope.actor_session_kind)
    return Writer(identity, envelope.actor_session_kind)


def _overridden(envelope: Envelope) -> frozenset[str]:
    """The overlays that the envelope overrides: an override names them, and its reason."""
    named: set[str] = set()
    for effect in envelope.primitive_effects:
        ids, reason = effect.payload.get("overlay_ids"), effect.payload.get("reason")
        reasoned = isinstance(reason, str) and reason != ""
        if effect.receipt_subkind == OVERRIDE and reasoned and isinstance(ids, list):
            named.update(one for one in ids if isinstance(one, str))
    return frozenset(named)
