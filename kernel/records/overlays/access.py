"""Forbids a writer what overlays forbid him to write or to send out (§12.2)."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, get_args

from kernel.ledger.ledger import LedgerView
from kernel.model.envelope import Actor, Envelope
from kernel.records.overlays.containment import Containment
from kernel.records.overlays.resolution import Resolution, Writer, resolve
from kernel.values.spans import span_named_by

OVERRIDE = "access_overlay_override"


def writer_of(envelope: Envelope) -> Writer:
    """Return whom a grant has to name: the session, or the actor where there is no session."""
    session = envelope.session_id
    # A session whose id is the name of an actor would pass for every session of that actor.
    identity = envelope.actor if session is None else session
    if session in get_args(Actor):
        return Writer(None, envelope.actor_session_kind)
    return Writer(identity, envelope.actor_session_kind)


def overridden_by(envelope: Envelope) -> frozenset[str]:
    """Return the overlays that an envelope overrides by an effect that names them and a reason."""
    overlay_ids: set[str] = set()
    for effect in envelope.primitive_effects:
        ids, reason = effect.payload.get("overlay_ids"), effect.payload.get("reason")
        reasoned = isinstance(reason, str) and reason != ""
        if effect.receipt_subkind == OVERRIDE and reasoned and isinstance(ids, list):
            overlay_ids.update(id_ for id_ in ids if isinstance(id_, str))
    return frozenset(overlay_ids)


def forbidding(
    view: LedgerView,
    containment: Containment,
    ref: str,
    writer: Writer,
    overridden: AbstractSet[str],
    payload: Mapping[str, Any] | None = None,
) -> Resolution | None:
    """Return the restriction of the overlays over a thing, None where they let the writer.

    With `payload`, the thing is what the payload says and not what is recorded of it.

    Raises:
        ContainmentTooWide: it lies in more than is searched.
    """
    span = span_named_by(ref)
    entity = ref if span is None else span.source_ref
    node = view.node(entity)
    granted = node["payload"].get("authorized_access") if node is not None else None
    let_in = (
        frozenset(grantee for grantee in granted if isinstance(grantee, str))
        if granted
        else frozenset()
    )
    for way in containment.ways(ref, payload):
        overlays = containment.overlays_on(way)
        resolution = resolve(
            overlay for overlay in overlays if overlay.overlay_id not in overridden
        )
        if resolution is not None and not resolution.permits(entity, writer, let_in):
            return resolution
    return None
