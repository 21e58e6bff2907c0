"""Part of V9: an overlay that an envelope lays or changes (§12.4).

1. It is one that can be read, and over one thing lie no more than `MAX_OVERLAYS_OF_TARGET`.
2. Somebody who is not trusted to let others in may lay overlays that are `blocked`, and change
   none but to that: any other could stand before a stricter one that is less specific.
"""

from collections.abc import Mapping

from kernel.ledger.ledger import Document
from kernel.model.envelope import KernelEffect
from kernel.model.node_kinds import ACCESS_OVERLAY
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
from kernel.transaction.checks.check import Refusal, Submission

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
