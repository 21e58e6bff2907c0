"""Applies a page of recomputes on the record, and each of its recomputes by itself (K32).

Wherever an operation is named by its id, a recompute is named by the id of a request that it has
answered. Questions about it (what caused it, what undoing it takes, its replay) are answered from
the envelope that it would have had alone (decision kernel/0251).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.buffer import joined_ahead
from kernel.ledger.store.tables import Row
from kernel.model.recomputes import CAUSES, RECALCULATE, REQUESTS, input_node_ids, owner_of


@dataclass(frozen=True, slots=True)
class NamedOperation:
    """An operation of the log, or one recompute of a page of them."""

    row: Row
    """The row of the operation."""

    recompute_of: str | None = None
    """The understanding of the recompute; None where the whole operation was named."""


def ask_ahead_of_name(view: LedgerView, name: str) -> None:
    """Ask ahead for what `resolve_operation` looks at first."""
    view.ask_ahead(
        joined_ahead(schema.kernel_event_log, "operation_id", [name]),
        joined_ahead(schema.outbox, "request_id", [name]),
        joined_ahead(schema.outbox_outcomes, "request_id", [name]),
    )


def resolve_operation(view: LedgerView, name: str) -> NamedOperation | None:
    """Return the operation of an id, or the recompute that answered the request of an id."""
    row = view.log_row_of(name)
    if row is not None:
        return NamedOperation(row)
    request, outcome = view.tables.get(schema.outbox, name), view.outcome_of(name)
    if request is None or request["queue"] != AUTHORITY_QUEUE:
        return None
    if outcome is None or outcome["outcome"] != "completed":
        return None
    row = view.log_row_of(outcome["operation_id"])
    return None if row is None else NamedOperation(row, request["item_key"])


def is_page(envelope: Document) -> bool:
    """Tell whether a stored envelope holds several recomputes."""
    return envelope["semantic_intent"] == RECALCULATE and len(envelope["target_refs"]) > 1


def ordinals_of(envelope: Document, node_id: str) -> list[int]:
    """Return the places of the effects of one recompute; of all where it is the only one."""
    effects = envelope["primitive_effects"]
    if not is_page(envelope):
        return [*range(len(effects))]
    return [ordinal for ordinal, effect in enumerate(effects) if _owner(effect) == node_id]


def recompute_alone(envelope: Document, node_id: str) -> Document:
    """Return the envelope that one recompute of a page would have had alone, under the page's id.

    The envelope of a recompute that is alone is returned as it is.
    """
    if not is_page(envelope):
        return envelope
    effects = [envelope["primitive_effects"][ordinal] for ordinal in ordinals_of(envelope, node_id)]
    context = list(dict.fromkeys([node_id, *_inputs_of(effects)]))
    scope = {"scope_kind": "single_node", "affected_node_refs": [node_id]}
    return envelope | {
        "primitive_effects": effects,
        "target_refs": [node_id],
        "source_refs": context,
        "read_set_refs": context,
        "write_set_refs": [node_id],
        "causal_parent_operation_ids": _statement(effects)[CAUSES],
        "affected_subgraph_descriptor": envelope["affected_subgraph_descriptor"] | scope,
    }


def answered_requests(envelope: Document, node_id: str) -> tuple[str, ...]:
    """Return the requests that a recompute names as answered; none where it is of before (K32)."""
    effects = [envelope["primitive_effects"][ordinal] for ordinal in ordinals_of(envelope, node_id)]
    return tuple(_statement(effects).get(REQUESTS, ()))


def _owner(effect: Document) -> str:
    return owner_of(effect["effect_kind"], effect.get("target_ref"), effect.get("payload", {}))


def _statement(effects: list[Document]) -> Document:
    """Return the payload in which a recompute names its requests and its causes."""
    payloads: Iterator[Document] = (effect.get("payload", {}) for effect in effects)
    return next((payload for payload in payloads if REQUESTS in payload), {})


def _inputs_of(effects: list[Document]) -> Iterator[str]:
    for effect in effects:
        yield from input_node_ids(effect.get("payload", {}))
