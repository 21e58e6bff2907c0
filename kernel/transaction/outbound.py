"""Lets effects leave the process, or keeps them inside (§4.3.4, §4.3.9, §4.3.11, §12.5).

An effect that nothing undoes puts outside what its operation was made of: content that it states
or that a node holds, or a token that opens a view. The question is asked when the effect is
decided, and again just before it is performed, because a source can be sealed in between.

1. Sealed or firewalled content stays here unless the policy in force lets the actor send it out.
2. Content that an overlay keeps the writer from is not sent either, and a link has none that may
   not be shared.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from kernel.algebra.effects import IRREVERSIBLE, canonical_kind, expected_reversibility
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.model.envelope import Envelope, KernelEffect
from kernel.records.overlays.access import forbidding, overridden_by, writer_of
from kernel.records.overlays.containment import Containment, ContainmentTooWide
from kernel.records.overlays.resolution import SHARE_LINK_SESSION, Writer
from kernel.records.sources import Source, classes_of, sources_of_envelope

OUTBOUND = "sealed_outbound"

RESTRICTED = frozenset({"sealed", "firewalled"})


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The reason why an envelope's effect may not leave the record, and the field to blame."""

    reason: Literal["restricted", "overlaid"]
    field: str
    message: str


def goes_outside(effect: KernelEffect) -> bool:
    """Tell whether an effect leaves something outside that nothing takes back (§4.3.1)."""
    node_kind = effect.payload.get("node_kind")
    stated = node_kind if isinstance(node_kind, str) else None
    return effect.undoes is None and IRREVERSIBLE in (
        effect.reversibility,
        expected_reversibility(effect.effect_kind, stated),
    )


def outbound_hold(view: LedgerView, envelope: Envelope) -> HeldBack | None:
    """Return what keeps an envelope's effects from going outside, None where nothing does."""
    outward = [effect for effect in envelope.primitive_effects if goes_outside(effect)]
    if not outward:
        return None
    return _restriction(view, envelope) or _overlaid(view, envelope, outward)


def is_outbound_authorized(view: LedgerView, actor: str) -> bool:
    """Tell whether the policy in force lets an actor send restricted sources outside."""
    policy = view.record(schema.policy_snapshots, view.policy_generation_id())
    stated = None if policy is None else policy["payload"].get("propa_authorizations")
    return isinstance(stated, list) and any(
        isinstance(grant, dict) and grant.get("actor") == actor and grant.get("scope") == OUTBOUND
        for grant in stated
    )


def restricted_source(view: LedgerView, envelope: Envelope) -> Source | None:
    """Return the sealed or firewalled sources of an envelope, as computed and as stated."""
    for source, visibility in classes_of(view, envelope):
        if visibility in RESTRICTED:
            return source
    stated = {*envelope.source_visibility_taint, envelope.resolved_output_visibility_class}
    return Source("source_visibility_taint", "") if stated & RESTRICTED else None


def _restriction(view: LedgerView, envelope: Envelope) -> HeldBack | None:
    source = restricted_source(view, envelope)
    if source is None or is_outbound_authorized(view, envelope.actor):
        return None
    message = f"no policy lets {envelope.actor} send out what is sealed or firewalled"
    return HeldBack("restricted", source.field, message)


def _overlaid(
    view: LedgerView, envelope: Envelope, outward: Iterable[KernelEffect]
) -> HeldBack | None:
    if not view.has_overlays():
        return None
    containment, overridden = Containment(view), overridden_by(envelope)
    writer = _sender(envelope, outward)
    for field, ref in _outbound_names(envelope, outward):
        try:
            resolution = forbidding(view, containment, ref, writer, overridden)
        except ContainmentTooWide:
            message = f"{ref} lies in more than is searched for overlays"
            return HeldBack("overlaid", field, message)
        if resolution is not None:
            return HeldBack("overlaid", field, f"{ref}: {resolution.describe()}")
    return None


def _sender(envelope: Envelope, outward: Iterable[KernelEffect]) -> Writer:
    """Return whom overlays judge: the writer, in a share-link session where a link is granted."""
    writer = writer_of(envelope)
    if any(canonical_kind(effect.effect_kind) == "share_link_grant" for effect in outward):
        return replace(writer, session_kind=SHARE_LINK_SESSION)
    return writer


def _outbound_names(
    envelope: Envelope, outward: Iterable[KernelEffect]
) -> Iterator[tuple[str, str]]:
    """Yield each thing that goes outside once, with the field that names it."""
    seen: set[str] = set()
    for source in sources_of_envelope(envelope):
        if source.ref not in seen:
            seen.add(source.ref)
            yield source.field, source.ref
    for effect in outward:
        if effect.target_ref is not None and effect.target_ref not in seen:
            seen.add(effect.target_ref)
            yield "primitive_effects", effect.target_ref
