"""Describes source bindings as JSON: what each means, and where its pairs stand."""

from typing import Any, Literal

from typing_extensions import TypedDict

from kernel.ledger.ledger import Document
from kernel.model.bindings.lifecycle import DISABLED, STATES, SUPERSEDED, PairState
from kernel.model.node_kinds import SOURCE_BINDING
from kernel.records.access.readable_view import ReadableView
from kernel.records.binding_pairs import count_abandoned, count_pairs
from kernel.records.bindings import generation_in_force, generation_of, last_generation
from kernel.work.routing_marks import is_marked

PAIRS_COUNTED_MAX = 1000
"""Pairs of a binding that are counted in each state; there may be more."""

PAIRS_COUNTED_IN_A_LIST_MAX = 100


class BindingDocument(TypedDict):
    """A binding: what a generation of it means, and how many of that's pairs are in which state."""

    binding_id: str
    title: str | None
    state: str
    binding_generation_id: str | None
    generation_state: Literal["effective", "superseded", "reverted"] | None
    superseded_by: str | None
    """Of a superseded generation: the next one that was not reverted."""

    is_in_force: bool
    effective_at: str | None
    binding_snapshot: dict[str, Any] | None
    pairs: dict[PairState, int]
    pairs_abandoned: int
    """Those of the pairs that are ready to be evaluated, and whose request was given up."""

    pairs_counted_max: int
    is_being_routed: bool


class BindingPageDocument(TypedDict):
    """A page of bindings."""

    bindings: list[BindingDocument]
    next_after: str | None


def describe_binding(
    view: ReadableView, binding_id: str, generation_id: str | None = None
) -> BindingDocument | None:
    """Return a binding in one of its generations, by default the newest; None where none is."""
    node = view.node(binding_id)
    if node is None or node["node_kind"] != SOURCE_BINDING:
        return None
    if generation_id is None:
        return _describe_binding(view, node, _newest(view, binding_id), PAIRS_COUNTED_MAX)
    generation = generation_of(view, binding_id, generation_id)
    return (
        None if generation is None else _describe_binding(view, node, generation, PAIRS_COUNTED_MAX)
    )


def list_bindings(view: ReadableView, after: str | None, limit: int) -> BindingPageDocument:
    """Return bindings in the order of their ids, and where the next page begins."""
    nodes = view.nodes_of_kind(SOURCE_BINDING, after=after, limit=limit)
    return {
        "bindings": [
            _describe_binding(
                view, node, _newest(view, node["node_id"]), PAIRS_COUNTED_IN_A_LIST_MAX
            )
            for node in nodes
        ],
        "next_after": nodes[-1]["node_id"] if len(nodes) == limit else None,
    }


def _newest(view: ReadableView, binding_id: str) -> Document:
    """Return the generation in force, else the last one; nothing of a binding without any."""
    return generation_in_force(view, binding_id) or last_generation(view, binding_id) or {}


def _describe_binding(
    view: ReadableView, node: Document, generation: Document, counted_max: int
) -> BindingDocument:
    binding_id = node["node_id"]
    generation_id = generation.get("binding_generation_id")
    is_in_force = generation.get("state") == "effective"
    counts, abandoned = dict.fromkeys(STATES, 0), 0
    if generation_id is not None:
        counted = count_pairs(view, binding_id, generation_id, most=counted_max)
        if is_in_force and node["state"] == "active":
            counts |= counted
            abandoned = count_abandoned(view, binding_id, generation_id, most=counted_max)
        else:
            counts[DISABLED if is_in_force else SUPERSEDED] = sum(counted.values())
    return {
        "binding_id": binding_id,
        "title": node["payload"].get("title"),
        "state": node["state"],
        "binding_generation_id": generation_id,
        "generation_state": generation.get("state"),
        "superseded_by": generation.get("superseded_by"),
        "is_in_force": is_in_force,
        "effective_at": generation.get("effective_at"),
        "binding_snapshot": generation.get("binding_snapshot"),
        "pairs": counts,
        "pairs_abandoned": abandoned,
        "pairs_counted_max": counted_max,
        "is_being_routed": is_marked(view, binding_id),
    }
