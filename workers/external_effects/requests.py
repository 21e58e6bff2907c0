"""Reads what a request for an effect asks for, from the record at one snapshot."""

from dataclasses import dataclass

from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.model.envelope import Envelope
from kernel.records.content import recorded_content
from kernel.records.share_links import share_link
from kernel.records.typed import LIVE
from kernel.transaction.outbound import outbound_hold
from kernel.values.canonical import canonicalize

RESTRICTED = "external_source_restricted"
OVERLAID = "external_access_overlay_blocked"
WITHDRAWN = "external_source_withdrawn"
UNKNOWN = "external_sources_not_on_record"

_HELD_BACK = {"restricted": RESTRICTED, "overlaid": OVERLAID}


@dataclass(frozen=True, slots=True)
class EffectRequest:
    """One external effect to perform, with the content that it writes."""

    request_id: str
    document: Document
    """The request as it was recorded."""

    content: bytes | None
    """None where the effect has none, or the record does not hold it."""

    link_stands: bool
    """Whether the share link that it grants was not revoked meanwhile."""

    held_back: str | None = None
    """The code with which it fails, if it may not leave as the record stands now."""

    @property
    def payload(self) -> Document:
        """Everything that performing it takes, except the content."""
        payload: Document = self.document["payload"]
        return payload

    @property
    def target_ref(self) -> str:
        """The record that the effect is about."""
        return str(self.document["target_ref"])


def read_effect(view: LedgerView, request: Request) -> EffectRequest:
    """Read what performing a request takes.

    Raises:
        RangeQuarantined: the row of the operation that decided it is quarantined.
    """
    document = request.document
    row = view.log_row_of(document["operation_id"])
    if row is not None:
        view.quarantines().expect_none_over(row["ec_sequence_number"])
    content = recorded_content(view, document) if "content_hash" in document["payload"] else None
    link = share_link(view, document["target_ref"])
    stands = link is not None and link["state"] == "active"
    return EffectRequest(
        request.request_id, document, content, stands, _outbound_hold(view, document)
    )


def _outbound_hold(view: LedgerView, document: Document) -> str | None:
    """Ask once more what was asked when the effect was decided: it may be otherwise by now."""
    stated = view.envelope(document["operation_id"])
    if stated is None:
        return UNKNOWN
    held = outbound_hold(view, Envelope.model_validate_json(canonicalize(stated)))
    if held is not None:
        return _HELD_BACK[held.reason]
    node_ref = document["payload"].get("content_node_ref")
    node = None if node_ref is None else view.node(node_ref)
    withdrawn = node_ref is not None and (node is None or node["state"] not in LIVE)
    return WITHDRAWN if withdrawn else None
