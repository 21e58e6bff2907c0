"""Judges an envelope by the access overlays in force (V9).

V9: nothing is written or sent out against an access overlay (§12, INV-B2-OVERLAY-RESOLUTION-1).

Everything that an envelope writes, declared or not, is under the overlays over it, twice: as it
is on record, and as the effect would make it. An override speaks for the overlays that it names.

An effect outside is judged by everything that it was made of (`kernel/transaction/outbound.py`).

What the runtime alone writes, an authority that follows from its inputs and the anchor of a
session, is nobody's access.

Part of V9: an overlay that an envelope lays or changes (§12.4).

1. It is one that can be read, and over one thing lie no more than `MAX_OVERLAYS_OF_TARGET`.
2. Somebody who is not trusted to let others in may lay overlays that are `blocked`, and change
   none but to that: any other could stand before a stricter one that is less specific.

Part of V9: what is sealed stays here unless somebody let it out (INV-B2-CACHING-1, §12.5).

An operation that touched something sealed or firewalled used no prompt cache of a provider, and no
provider but a local one, unless the policy in force authorizes its actor to send such things out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernel.algebra.effects import RECEIPT, canonical_kind
from kernel.ledger.ledger import Document
from kernel.model.envelope import KernelEffect
from kernel.model.node_kinds import ACCESS_OVERLAY
from kernel.records.overlays.access import OVERRIDE, forbidding, overridden_by, writer_of
from kernel.records.overlays.containment import Containment, ContainmentTooWide, is_placed
from kernel.records.overlays.overlay import (
    CEREMONY,
    EMBEDDED,
    FIELDS,
    AccessOverlay,
    OverlayInvalid,
    content_of,
    overlay_of,
    read_overlay,
)
from kernel.records.overlays.resolution import SHARE_LINK_SESSION
from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.transaction.outbound import (
    RESTRICTED,
    is_outbound_authorized,
    outbound_hold,
    restricted_source,
)

_OF_A_CORPUS = frozenset({"membership_write", "membership_state_transition"})
"""Kinds that change a corpus by changing who belongs to it."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A thing that an envelope writes, and the field that names it."""

    field: str
    ref: str
    payload: Mapping[str, Any] | None = None
    """The payload as the effect would leave it; None stands for the recorded one."""


def check_overlays(submission: Submission) -> Verdict:
    """Refuse an unreadable overlay, a write that one forbids, and a model that saw too much."""
    return (
        check_constructions(submission)
        or _check_override(submission)
        or _check_writes(submission)
        or _check_outbound(submission)
        or check_model_calls(submission)
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
    held = outbound_hold(submission.transaction, submission.envelope)
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


MAX_OVERLAYS_OF_TARGET = 1000

MERGING_KINDS = frozenset({"node_write", "node_retract", "node_revert_to_prior_authority"})
"""Kinds that lay their payload over a node's; other kinds of node write state one thing."""


def check_constructions(submission: Submission) -> Refusal | None:
    """Refuse an overlay that cannot be read, and one that its author may not lay."""
    drafts: dict[str, Document] = {}
    for index, effect in enumerate(submission.envelope.primitive_effects):
        node_id, field = effect.target_ref, f"primitive_effects.{index}.payload"
        if node_id is None or effect.effect_kind not in MERGING_KINDS:
            continue
        if not (node_id in drafts or states_overlay(effect) or _is_overlay(submission, node_id)):
            continue
        before = drafts.get(node_id) or submission.transaction.node(node_id)
        draft = drafts[node_id] = draft_of(effect, before)
        try:
            if _asks_for_ceremony(draft):
                return Refusal(
                    "b1_not_yet_supported",
                    field,
                    f"access_overlay_construction_invalid: {CEREMONY} is of a later version",
                )
            laid = read_overlay(node_id, draft["node_kind"], draft["payload"])
        except OverlayInvalid as error:
            place = f"{field}.{error.field}" if error.field else field
            return Refusal("access_overlay_construction_invalid", place, str(error))
        stood = None if before is None else overlay_of(before)
        if laid is not None and _is_full(submission, stood, laid):
            return Refusal(
                "access_overlay_construction_invalid",
                field,
                f"over {laid.target.target_ref} lie {MAX_OVERLAYS_OF_TARGET} overlays",
            )
        if not (is_trusted(submission) or _only_blocks(effect, draft, stood, laid)):
            return Refusal(
                "envelope_access_overlay_blocked",
                field,
                "an overlay that lets somebody in, or no longer keeps them out, is not theirs",
            )
    return None


def is_trusted(submission: Submission) -> bool:
    """Tell whether a submission may let somebody in where an overlay keeps them out."""
    envelope = submission.envelope
    return (
        submission.submitter == "orchestrator"
        and envelope.actor != "agent"
        and envelope.actor_session_kind != SHARE_LINK_SESSION
    )


def draft_of(effect: KernelEffect, before: Document | None) -> Document:
    """Return a node as an effect would leave it.

    The store decides whether a stated state is taken; the draft counts as in force, so that later
    effects of the envelope are examined against it.
    """
    if before is None:
        before = {
            "node_id": effect.target_ref,
            "node_kind": effect.payload.get("node_kind"),
            "state": "active",
            "payload": {},
        }
    state = "active" if _moves(effect) else before["state"]
    return {**before, "state": state, "payload": {**before["payload"], **effect.payload}}


def states_overlay(effect: KernelEffect) -> bool:
    """Tell whether an effect says anything of an overlay."""
    payload = effect.payload
    laid = payload.get("node_kind") == ACCESS_OVERLAY or EMBEDDED in payload
    return laid or not FIELDS.isdisjoint(payload)


def _is_overlay(submission: Submission, node_id: str) -> bool:
    if not submission.transaction.has_overlays():
        return False
    node = submission.transaction.node(node_id)
    return node is not None and (node["node_kind"] == ACCESS_OVERLAY or EMBEDDED in node["payload"])


def _asks_for_ceremony(draft: Document) -> bool:
    stated = content_of(draft["node_kind"], draft["payload"])
    return isinstance(stated, Mapping) and stated.get("access_restriction") == CEREMONY


def _is_full(submission: Submission, stood: AccessOverlay | None, laid: AccessOverlay) -> bool:
    target_ref = laid.target.target_ref
    if stood is not None and stood.target.target_ref == target_ref:
        return False
    there = submission.transaction.overlay_nodes(target_ref, limit=MAX_OVERLAYS_OF_TARGET)
    return len(there) >= MAX_OVERLAYS_OF_TARGET


def _moves(effect: KernelEffect) -> bool:
    return "state" in effect.payload or effect.effect_kind == "node_retract"


def _only_blocks(
    effect: KernelEffect, draft: Document, stood: AccessOverlay | None, laid: AccessOverlay | None
) -> bool:
    outcomes = {laid, None} if _moves(effect) else {overlay_of(draft)}
    for outcome in outcomes - {stood}:
        if outcome is None or outcome.restriction != "blocked":
            return False
        if stood is not None and outcome.target != stood.target:
            return False
    return True


LOCAL_PROVIDERS = frozenset({"local"})
"""The provider that is local; every other one is outside."""


def check_model_calls(submission: Submission) -> Verdict:
    """Refuse the output of a model that was shown what may not leave."""
    envelope = submission.envelope
    outputs = envelope.recorded_model_outputs
    if not outputs:
        return None
    # An output that names a more restricted class than the envelope is believed.
    touched = {name for output in outputs for name in output.source_visibility_taint}
    touched.update(output.resolved_output_visibility_class or "" for output in outputs)
    if not touched & RESTRICTED and restricted_source(submission.transaction, envelope) is None:
        return None
    for index, output in enumerate(outputs):
        field = f"recorded_model_outputs.{index}"
        if output.tier_2_prompt_cache_used:
            return Refusal(
                "envelope_sealed_tier_2_cache_violation",
                f"{field}.tier_2_prompt_cache_used",
                "what is sealed or firewalled went through a provider's prompt cache",
            )
        if output.model_provider not in LOCAL_PROVIDERS and not is_outbound_authorized(
            submission.transaction, envelope.actor
        ):
            return Refusal(
                "envelope_sealed_outbound_unauthorized",
                f"{field}.model_provider",
                f"no policy lets {envelope.actor} send this to {output.model_provider}",
            )
    return None
