"""Source bindings as JSON: what each means, whether it is in force, and where its pairs stand."""

from typing import Any

from typing_extensions import TypedDict

from kernel.bindings.lifecycle import DISABLED, STATES, SUPERSEDED, PairState
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.node_kinds import SOURCE_BINDING
from kernel.stores.binding_pairs import count_pairs
from kernel.stores.bindings import generation_in_force, last_generation
from kernel.work.routing_marks import is_marked

PAIRS_COUNTED_MAX = 1000
"""Pairs of a binding that are counted in each state; there may be more."""

PAIRS_COUNTED_IN_A_LIST_MAX = 100


class BindingDocument(TypedDict):
    """A binding: what its generation means, and how many pairs are in which state."""

    binding_id: str
    title: str | None
    state: str
    binding_generation_id: str | None
    is_in_force: bool
    effective_at: str | None
    binding_snapshot: dict[str, Any] | None
    pairs: dict[PairState, int]
    pairs_counted_max: int
    is_being_routed: bool


class BindingPageDocument(TypedDict):
    """A page of bindings."""

    bindings: list[BindingDocument]
    next_after: str | None


def describe_binding(
    view: LedgerView, binding_id: str, *, counted_max: int = PAIRS_COUNTED_MAX
) -> BindingDocument | None:
    """Return a binding, None where there is none."""
    node = view.node(binding_id)
    if node is None or node["node_kind"] != SOURCE_BINDING:
        return None
    return _described(view, node, counted_max)


def list_bindings(view: LedgerView, after: str | None, limit: int) -> BindingPageDocument:
    """Return bindings in the order of their ids, and where the next page begins."""
    nodes = view.nodes_of_kind(SOURCE_BINDING, after=after, limit=limit)
    return {
        "bindings": [_described(view, node, PAIRS_COUNTED_IN_A_LIST_MAX) for node in nodes],
        "next_after": nodes[-1]["node_id"] if len(nodes) == limit else None,
    }


def _described(view: LedgerView, node: Document, counted_max: int) -> BindingDocument:
    binding_id = node["node_id"]
    in_force = generation_in_force(view, binding_id)
    generation = in_force or last_generation(view, binding_id) or {}
    generation_id = generation.get("binding_generation_id")
    counts = dict.fromkeys(STATES, 0)
    if generation_id is not None:
        counted = count_pairs(view, binding_id, generation_id, most=counted_max)
        if in_force is not None and node["state"] == "active":
            counts |= counted
        else:
            counts[SUPERSEDED if in_force is None else DISABLED] = sum(counted.values())
    return {
        "binding_id": binding_id,
        "title": node["payload"].get("title"),
        "state": node["state"],
        "binding_generation_id": generation_id,
        "is_in_force": in_force is not None,
        "effective_at": generation.get("effective_at"),
        "binding_snapshot": generation.get("binding_snapshot"),
        "pairs": counts,
        "pairs_counted_max": counted_max,
        "is_being_routed": is_marked(view, binding_id),
    }
