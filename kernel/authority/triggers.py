"""Derives what an operation sets off: triggers T1 to T7 (§8.2), and how urgent they are (§8.3).

A user's change in a session with a recent belief event is urgent (decision kernel/0148).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from kernel.authority.graph import is_understanding
from kernel.authority.requests import DEFAULT_PRIORITY, RANKS
from kernel.belief.anchors import anchor_of
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.model.envelope import Envelope, KernelEffect
from kernel.model.node_kinds import CLAIM, UNDERSTANDING
from kernel.records.record import Applied

CLAIM_UPDATE = "versioned_claim_update"  # T1
INPUT_UPDATE = "input_cu_update"  # T2, and every understanding that a cascade reaches
DECAY_TICK = "authority_decay_tick"  # T3
ESSENTIALITY_CHANGE = "edge_essentiality_change"  # T4
OVERRIDE = "user_authority_override"  # T5
CARVE_OUT = "carve_out_reclassification"  # T6
MIGRATION = "migration_backfill"  # T7
USER_REQUEST = "user_request"

ENQUEUED_KINDS = frozenset({DECAY_TICK, MIGRATION, USER_REQUEST})
"""Kinds that are asked for and not set off; they also reach what waits for the tick."""

ACTIVE_SESSION_US = 30 * 60 * 1_000_000
"""How long after its newest belief event a session counts as active (§8.8)."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why understandings must be recomputed, and where that begins: at some, or below a claim."""

    kind: str
    targets: tuple[str, ...] = ()
    below: str | None = None


def triggers_of(view: LedgerView, applied: Iterable[tuple[KernelEffect, Applied]]) -> list[Trigger]:
    """Return what the effects of an operation set off."""
    triggers = []
    for effect, write in applied:
        if write.store == schema.nodes.name:
            trigger = _node_trigger(view, effect, write)
        elif write.store == schema.edges.name:
            trigger = _edge_trigger(view, write)
        else:
            continue
        if trigger is not None:
            triggers.append(trigger)
    return triggers


def ranks_of(view: LedgerView, envelope: Envelope, now_us: int) -> tuple[int, int]:
    """Return how urgent an operation makes what it touches, and what is further below.

    What the envelope states holds for both. Else what a user changes inside an active session is
    `user_active_session`, and what is below it is background.
    """
    default = RANKS[DEFAULT_PRIORITY]
    stated = RANKS.get(envelope.recompute_priority or "")
    if stated is not None:
        return stated, stated
    if envelope.actor == "user" and _is_active(view, envelope.session_id, now_us):
        return RANKS["user_active_session"], default
    return default, default


def _is_active(view: LedgerView, session_id: str | None, now_us: int) -> bool:
    anchor = None if session_id is None else anchor_of(view, session_id)
    return anchor is not None and now_us - anchor["anchored_at_us"] <= ACTIVE_SESSION_US


def _node_trigger(view: LedgerView, effect: KernelEffect, applied: Applied) -> Trigger | None:
    node = view.node(applied.record_key)
    kind = None if node is None else node["node_kind"]
    if kind == UNDERSTANDING:
        overrides = "override_authority" in effect.payload
        return Trigger(OVERRIDE if overrides else INPUT_UPDATE, (applied.record_key,))
    if kind == CLAIM and applied.pre_image_hash is not None:
        carved = "carve_out_class" in effect.payload
        return Trigger(CARVE_OUT if carved else CLAIM_UPDATE, below=applied.record_key)
    return None


def _edge_trigger(view: LedgerView, applied: Applied) -> Trigger | None:
    edges = [view.record(schema.edges, applied.record_key)]
    if applied.pre_image_hash is not None:
        # An edge that was removed and made anew may have fed somebody else before.
        before = view.pre_image(applied.pre_image_hash)
        edges.append(None if before is None else orjson.loads(before))
    targets = {
        edge["target_node_id"]
        for edge in edges
        if edge is not None and "essentiality" in edge["edge_metadata"]
    }
    fed = tuple(sorted(target for target in targets if is_understanding(view.node(target))))
    return Trigger(ESSENTIALITY_CHANGE, fed) if fed else None
