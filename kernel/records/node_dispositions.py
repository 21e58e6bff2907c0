"""Applies what primitive verbs do to a node: scope, class, review, quarantine, access (§3.2).

Each changes one thing about a node that is there, and states nothing else of it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernel.ledger.ledger import Document
from kernel.records.typed import Name, Payload, validate_payload
from kernel.values.errors import EffectInapplicable
from kernel.values.visibility import VISIBILITY_CLASSES, is_lowered

Dispose = Callable[[Document, Document], Document]
"""Returns the record after, from the record before and the payload."""


class Rescope(Payload):
    """Where a node is in scope."""

    visibility_scope: Name


class VisibilityChange(Payload):
    """How restricted a node is from now on."""

    visibility_class: Name


class ReviewDisposition(Payload):
    """The result of a review."""

    review_disposition: Name


class Quarantine(Payload):
    """Why a node is quarantined or released."""

    quarantine_reason: Name


class Access(Payload):
    """Who is granted access, or loses it."""

    grantee: Name


def _rescope(before: Document, payload: Document) -> Document:
    scope = validate_payload(Rescope, payload).visibility_scope
    return _with(before, visibility_scope=scope)


def _visibility_change(before: Document, payload: Document) -> Document:
    visibility = validate_payload(VisibilityChange, payload).visibility_class
    if visibility not in VISIBILITY_CLASSES:
        raise _cannot_become(before, visibility)
    return {**before, "visibility_class": visibility}


def raise_visibility(before: Document, payload: Document) -> Document:
    """Change a node's class to one that is no lower, as version 1 of the rules does."""
    after = _visibility_change(before, payload)
    if is_lowered(before["visibility_class"], after["visibility_class"]):
        raise _cannot_become(before, after["visibility_class"])
    return after


def _cannot_become(before: Document, visibility: str) -> EffectInapplicable:
    return EffectInapplicable(
        f"{before['visibility_class']} cannot become {visibility}",
        code="visibility_class_lowered",
        field="payload.visibility_class",
    )


def _review(before: Document, payload: Document) -> Document:
    review = validate_payload(ReviewDisposition, payload).review_disposition
    return _with(before, review_disposition=review)


def _quarantine(before: Document, payload: Document) -> Document:
    return _node_after_move(before, payload, "active", "quarantined")


def _unquarantine(before: Document, payload: Document) -> Document:
    return _node_after_move(before, payload, "quarantined", "active")


def _authorize(before: Document, payload: Document) -> Document:
    grantee, granted = validate_payload(Access, payload).grantee, _granted_elements(before)
    if grantee in granted:
        raise EffectInapplicable(
            f"{grantee} has access", code="node_access_unchanged", field="payload.grantee"
        )
    return _with(before, authorized_access=sorted({*granted, grantee}))


def _revoke(before: Document, payload: Document) -> Document:
    grantee, granted = validate_payload(Access, payload).grantee, _granted_elements(before)
    if grantee not in granted:
        raise EffectInapplicable(
            f"{grantee} has no access", code="node_access_unchanged", field="payload.grantee"
        )
    return _with(before, authorized_access=sorted(granted - {grantee}))


DISPOSITIONS: Mapping[str, Dispose] = MappingProxyType(
    {
        "rescope": _rescope,
        "visibility_change": _visibility_change,
        "review_disposition": _review,
        "quarantine": _quarantine,
        "unquarantine": _unquarantine,
        "authorize_access": _authorize,
        "revoke_access": _revoke,
    }
)
"""By effect kind: the record after, from the record before and the payload."""


def _with(before: Document, **fields: object) -> Document:
    return {**before, "payload": {**before["payload"], **fields}}


def _granted_elements(before: Document) -> set[str]:
    stored = before["payload"].get("authorized_access")
    return (
        {element for element in stored if isinstance(element, str)}
        if isinstance(stored, list)
        else set()
    )


def _node_after_move(
    before: Document, payload: Document, from_state: str, to_state: str
) -> Document:
    reason = validate_payload(Quarantine, payload).quarantine_reason
    if before["state"] != from_state:
        raise EffectInapplicable(
            f"the node is {before['state']}", code="node_state_disallowed", field="target_ref"
        )
    return {**_with(before, quarantine_reason=reason), "state": to_state}
