"""Finds compensations: effects of the named operation, for an effect that has no inverse (§5.3).

A compensation goes from the state that the effect left to one that undoes what it meant. It is an
ordinary operation with a verb of its own, so where the state no longer admits it, it is refused.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernel.algebra.effects import EFFECT_KINDS, IRREVERSIBLE, expected_compensations
from kernel.algebra.transitions import PREFIX, STEPS_OF_KIND, TRANSITIONS
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.steps import PlannedEffect

Payloads = list[tuple[str, Document]]
"""(target, payload), one for each effect of the compensation."""


def compensating_effects(
    view: LedgerView, operation_id: str, effect: PlannedEffect
) -> list[Document]:
    """Return the effects that compensate one effect of an operation, in order.

    None are left where the record stands already where they would lead.

    Raises:
        RollbackRefused: `rollback_compensation_unknown` where the record does not say what to do.
    """
    kind = effect.declared["compensating_operation_kind"]
    build = _transitions if kind.startswith(PREFIX) else _BUILDERS[kind]
    return [
        _effect(kind, target, payload, ordinal)
        for ordinal, (target, payload) in enumerate(build(view, operation_id, effect))
    ]


def _transitions(view: LedgerView, _: str, effect: PlannedEffect) -> Payloads:
    """The steps of the named way back, from where the membership stands.

    Later effects were compensated before, and may have led part of the way already.
    """
    stated = effect.declared["payload"]
    way = _way_back(effect.declared["compensating_operation_kind"], stated)
    record = view.record(schema.corpus_membership_records, effect.applied["record_key"])
    stands = None if record is None else record["state"]
    passed = [step[1] for step in way]
    if stands in passed:
        way = way[passed.index(stands) + 1 :]
    return [
        (
            effect.declared["target_ref"],
            {
                "corpus_id": stated["corpus_id"],
                "from_state": step[0],
                "to_state": step[1],
                "triggered_by": TRANSITIONS[step].triggered_by[0],
            },
        )
        for step in way
    ]


def _way_back(kind: str, stated: Document) -> list[tuple[str, str]]:
    # Where several steps lead back, the one to the origin is taken.
    steps = sorted(STEPS_OF_KIND[kind], key=lambda step: step[1] != stated["from_state"])
    way: list[tuple[str, str]] = []
    state = stated["to_state"]
    while step := next((transition for transition in steps if transition[0] == state), None):
        steps.remove(step)
        way.append(step)
        state = step[1]
    return way


def _quarantine(_: LedgerView, operation_id: str, effect: PlannedEffect) -> Payloads:
    return [(effect.declared["target_ref"], {"quarantine_reason": f"rollback of {operation_id}"})]


def _access(_: LedgerView, __: str, effect: PlannedEffect) -> Payloads:
    return [(effect.declared["target_ref"], {"grantee": effect.declared["payload"]["grantee"]})]


def _grant_anew(view: LedgerView, operation_id: str, effect: PlannedEffect) -> Payloads:
    """Return the grant of another link: revoked access never comes back by the old token."""
    link = view.record(schema.share_links, effect.declared["target_ref"])
    if link is None:
        raise RollbackRefused(
            "rollback_compensation_unknown", f"no link {effect.declared['target_ref']}"
        )
    return [(f"{effect.declared['target_ref']}:anew:{operation_id}", link["payload"])]


_BUILDERS: Mapping[str, Callable[[LedgerView, str, PlannedEffect], Payloads]] = MappingProxyType(
    {
        "quarantine": _quarantine,
        "unquarantine": _quarantine,
        "authorize_access": _access,
        "revoke_access": _access,
        "share_link_grant": _grant_anew,
    }
)


def _effect(kind: str, target: str, payload: Document, ordinal: int) -> Document:
    document: Document = {
        "effect_id": f"{kind}:{ordinal}",
        "effect_kind": kind,
        "reversibility": EFFECT_KINDS[kind].reversibility,
        "target_ref": target,
        "payload": payload,
        "schema_version": 1,
    }
    if EFFECT_KINDS[kind].reversibility == IRREVERSIBLE:
        document["external_effect_descriptor"] = f"share-link token issued for {target}"
    else:
        document["compensating_operation_kind"] = expected_compensations(kind, payload)[0]
    return document
