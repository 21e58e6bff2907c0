"""Asks for a node of the graph, and for what informed an understanding's authority."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from kernel.audit.lineage import authority_grounds
from kernel.records.access.readable_view import ReadableView
from workers.questions.fields import At, Name
from workers.questions.question import Question, existing
from workers.views.audit import AuthorityGroundsDocument, grounds_document
from workers.views.past import node_as_of
from workers.views.records import NodeDocument, describe_node


class GetNode(Question):
    """Show a node of the graph as it is now: a source, a claim, an understanding, a binding, ….

    `authority_stale_since` says since when an understanding's authority waits for a recompute. With
    `at` the node is shown as it stood behind that row of the log.
    """

    paths: ClassVar = ("/v1/nodes/{node_id:path}",)

    node_id: Name
    at: At = None

    def answer(self, view: ReadableView) -> NodeDocument:
        """Return the node."""
        if self.at is None:
            return existing(describe_node(view, self.node_id), "node", self.node_id)
        return existing(node_as_of(view, self.node_id, self.at), "node", self.node_id)

    def summary(self, document: Any) -> str:
        """Return what it is, and when it changed."""
        kind = f"{document['node_kind']}, {document['state']}, version {document['version']}"
        return f"{kind}, last changed at {document['updated_at']}"


class ExplainAuthority(Question):
    """Show what informed an understanding's authority, the core inputs first."""

    paths: ClassVar = ("/v1/audit/authority/{node_id:path}",)
    subject: ClassVar = "audit"

    node_id: Annotated[Name, Field(description="Id of an understanding.")]

    def answer(self, view: ReadableView) -> AuthorityGroundsDocument:
        """Return the inputs, each with the version that was read."""
        grounds = authority_grounds(view, self.node_id)
        return grounds_document(existing(grounds, "understanding", self.node_id))

    def summary(self, document: Any) -> str:
        """Return the authority, and whether it is that of today's inputs."""
        stale = document["stale_since"]
        state = f"stale since {stale}" if stale else f"computed at {document['computed_at']}"
        count = len(document["inputs"])
        return f"authority {document['cu_authority']} of {count} inputs, {state}"
