"""Grants and revokes share links: a token is granted once and revoked once (§4.3.9, §4.3.10).

Access that was revoked comes back with another link, never with the old token.
"""

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import KernelEffect
from kernel.records.comparison import revocable_grants
from kernel.records.external import request_external_effect
from kernel.records.record import Applied, Operation, write_record
from kernel.records.typed import (
    Name,
    Payload,
    Sha256,
    next_version,
    stamp,
    standing,
    target_of,
    validate_payload,
)
from kernel.values.errors import EffectInapplicable

COMPARISON = revocable_grants("share_link_revoke")


class ShareLink(Payload):
    """The recipient of a share link, the corpus view that it shows, and its token policy."""

    recipient_email_hash: Sha256
    shared_corpus_view_id: Name
    share_token_policy_id: Name


class ShareTokenRevocation(Payload):
    """Why a token no longer opens anything."""

    revocation_reason: Name


def share_link(view: LedgerView, link_ref: str) -> Document | None:
    """Return a link that was granted, as it stands."""
    return view.record(schema.share_links, link_ref)


def apply_share_link_grant(effect: KernelEffect, operation: Operation) -> Applied:
    """Decide that a token is issued."""
    key = target_of(effect)
    link = validate_payload(ShareLink, effect.payload)
    if operation.transaction.record(schema.share_links, key) is not None:
        raise EffectInapplicable(
            f"link {key} was granted", code="record_already_exists", field="target_ref"
        )
    record = next_version(operation, schema.share_links, key, None, effect.payload)
    applied = write_record(operation, schema.share_links, key, record)
    payload = {"recipient_email_hash": link.recipient_email_hash}
    request_external_effect(effect, operation, payload)
    return applied


def apply_share_link_revoke(effect: KernelEffect, operation: Operation) -> Applied:
    """Revoke a token that was granted."""
    key = target_of(effect)
    validate_payload(ShareTokenRevocation, effect.payload)
    before = standing(operation.transaction.record(schema.share_links, key), key)
    record = {
        **before,
        "state": "revoked",
        "version": before["version"] + 1,
        "revocation": effect.payload,
        **stamp(operation),
    }
    return write_record(operation, schema.share_links, key, record)
