"""The graph of inputs as the ledger holds it: who feeds whom, and what an authority comes to."""

from kernel.authority.strategy import AuthorityInput, AuthorityStrategy
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.node_kinds import CLAIM, UNDERSTANDING

_AUTHORITY_FIELD = {UNDERSTANDING: "cu_authority", CLAIM: "authority"}


def dependents_of(view: LedgerView, node_id: str) -> list[str]:
    """Return the understandings that a node feeds directly, sorted."""
    fed = {
        row["target_node_id"] for row in view.edges_out_of(node_id) if row["input_from"] is not None
    }
    return sorted(target for target in fed if is_understanding(view.node(target)))


def feeding_understandings(view: LedgerView, node_id: str) -> set[str]:
    """Return every understanding upstream of one, itself only where it lies on a cycle."""
    found: set[str] = set()
    waiting = view.input_sources(node_id, UNDERSTANDING)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(view.input_sources(one, UNDERSTANDING))
    return found


def authority_inputs(view: LedgerView, node_id: str) -> list[AuthorityInput]:
    """Return the inputs of an understanding that have an authority, by edge id."""
    inputs = []
    for edge in view.input_edges(node_id):
        source = view.node(edge["source_node_id"])
        if source is None or source["state"] != "active":
            continue
        value = source["payload"].get(_AUTHORITY_FIELD.get(source["node_kind"], ""))
        if value is not None:
            inputs.append(
                AuthorityInput(
                    source["node_id"],
                    str(source["version"]),
                    edge["edge_metadata"]["essentiality"],
                    float(value),
                )
            )
    return inputs


def authority_of(
    view: LedgerView, strategy: AuthorityStrategy, node: Document
) -> tuple[float, list[AuthorityInput]]:
    """Return an understanding's authority by its inputs' present authorities, and those inputs."""
    inputs = authority_inputs(view, node["node_id"])
    return strategy.compute(inputs, node["payload"].get("override_authority")), inputs


def is_understanding(node: Document | None) -> bool:
    """Tell whether there is a node, and it is an understanding."""
    return node is not None and node["node_kind"] == UNDERSTANDING
