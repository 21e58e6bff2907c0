"""Reads the graph of inputs as the ledger holds it, and what an authority comes to."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from kernel.authority.inputs import InputEdge, pages_of
from kernel.authority.strategy import authority_in_range
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.authority_fields import waits_for_the_tick
from kernel.model.authority_strategy import AuthorityInput
from kernel.model.node_kinds import CLAIM, UNDERSTANDING

PAGE_INPUTS = 1024
"""How many inputs are read at once."""

_AUTHORITY_FIELD = {UNDERSTANDING: "cu_authority", CLAIM: "authority"}


def dependents_of(view: LedgerView, node_id: str) -> list[str]:
    """Return the understandings that a node feeds directly, sorted."""
    return _fed_nodes(view, view.edges_out_of(node_id))


def few_dependents_of(view: LedgerView, node_id: str, limit: int) -> list[str] | None:
    """Return the understandings that a node feeds directly; None beyond `limit` edges."""
    where = {"source_node_id": node_id}
    edges = view.tables.scan(TableQuery(schema.edges, where, limit=limit + 1))
    return None if len(edges) > limit else _fed_nodes(view, edges)


def eager_dependents_of(view: LedgerView, node_id: str) -> list[str]:
    """Return the understandings that a node feeds and that do not wait for the tick, sorted."""
    return [child for child in dependents_of(view, node_id) if not is_nightly(view.node(child))]


def is_nightly(node: Document | None) -> bool:
    """Tell whether a node exists and waits for the nightly tick (§8.5)."""
    return node is not None and waits_for_the_tick(node["payload"])


def _fed_nodes(view: LedgerView, edges: list[Row]) -> list[str]:
    if not edges:
        return []
    fed = {row["target_node_id"] for row in edges if row["input_from"] is not None}
    # The kind has a column of its own, so the record is not read.
    rows = ((child, view.tables.get(schema.nodes, child)) for child in fed)
    return sorted(
        child for child, row in rows if row is not None and row["node_kind"] == UNDERSTANDING
    )


class InputGraph(Protocol):
    """The nodes and the edges that feed them, at one moment."""

    def nodes(self, node_ids: Collection[str]) -> Mapping[str, Document]:
        """Return the records of the nodes that exist."""

    def input_edges(self, node_id: str) -> Iterable[Document]:
        """Return the active edges through which a node's authority is fed, by edge id."""


def input_edges_of(view: InputGraph, node_id: str) -> Iterator[InputEdge]:
    """Yield the edges from inputs that have an authority, by edge id, reading pages of them.

    Raises:
        AuthorityInvalid: when an input's value is no authority.
    """
    for page in pages_of(view.input_edges(node_id), PAGE_INPUTS):
        sources = view.nodes({edge["source_node_id"] for edge in page})
        for edge in page:
            source = sources.get(edge["source_node_id"])
            if source is None or source["state"] != "active":
                continue
            value = source["payload"].get(_AUTHORITY_FIELD.get(source["node_kind"], ""))
            if value is not None:
                source_id = source["node_id"]
                brings = AuthorityInput(
                    source_id,
                    str(source["version"]),
                    edge["edge_metadata"]["essentiality"],
                    authority_in_range(value, f"the authority of {source_id}"),
                )
                yield InputEdge(edge["edge_id"], source["visibility_class"], brings)


def is_understanding(node: Document | None) -> bool:
    """Tell whether a node exists and is an understanding."""
    return node is not None and node["node_kind"] == UNDERSTANDING
