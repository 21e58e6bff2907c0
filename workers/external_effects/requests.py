"""What a request asks for, read from the record at one snapshot."""

from dataclasses import dataclass

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView, Request
from kernel.stores.content import recorded_content


@dataclass(frozen=True, slots=True)
class Asked:
    """One effect to perform."""

    request_id: str
    document: Document
    """The request as it was recorded."""

    content: bytes | None
    """None where the effect has none, or the record does not hold it."""

    link_stands: bool
    """Whether the share link that it grants was not revoked meanwhile."""

    @property
    def payload(self) -> Document:
        """What performing it takes, but for the content."""
        payload: Document = self.document["payload"]
        return payload

    @property
    def target_ref(self) -> str:
        """The record that the effect is about."""
        return str(self.document["target_ref"])


def read_asked(view: LedgerView, request: Request) -> Asked:
    """Read what performing a request takes."""
    document = request.document
    content = recorded_content(view, document) if "content_hash" in document["payload"] else None
    link = view.record(schema.share_links, document["target_ref"])
    stands = link is not None and link["state"] == "active"
    return Asked(request.request_id, document, content, stands)
