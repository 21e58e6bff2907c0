"""The operations that caused an operation (§3.7, Q4), and the inputs of an authority (§8.5)."""

from dataclasses import dataclass

from kernel.audit.operations import OperationEntry, Page
from kernel.authority.requests import stale_since
from kernel.authority.strategy import WEIGHTS
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.node_kinds import UNDERSTANDING

ANCESTORS_MAX = 10_000
REWRITES_MAX = 1000
"""How many of a node's newest writes are searched for its recompute."""


@dataclass(frozen=True, slots=True)
class Ancestry:
    """An operation and everything that it names, directly or not, as its cause."""

    page: Page
    """The operations in sequence, the one that was asked about last."""

    roots: tuple[str, ...]
    """The ancestors that name no cause: where the chain begins."""

    missing: tuple[str, ...]
    """Named as causes, and not on the log."""

    complete: bool
    """False where the walk ended at its bound; what it left out is not in `missing`."""


@dataclass(frozen=True, slots=True)
class AuthorityGrounds:
    """What an understanding's stored authority was computed from."""

    node_id: str
    cu_authority: float | None
    computed_at: str | None
    inputs: tuple[Document, ...]
    """Parent, its version and its authority then; core before supporting before tangential."""

    operation: OperationEntry | None
    """The recompute that wrote it; None before the first one."""

    stale_since: str | None = None
    """See `stale_since`."""


def causal_ancestors(
    view: LedgerView,
    operation_id: str,
    *,
    after: int = 0,
    limit: int = 100,
    ancestors_max: int = ANCESTORS_MAX,
) -> Ancestry | None:
    """Walk from an operation back through its causal parents; None for one not on the log.

    Every page walks again, at most `ancestors_max` operations, breadth first.
    """
    ancestors: dict[str, OperationEntry] = {}
    missing: set[str] = set()
    waiting = [operation_id]
    while waiting and len(ancestors) < ancestors_max:
        level, waiting = waiting, []
        for ancestor_id in level:
            if (
                ancestor_id in ancestors
                or ancestor_id in missing
                or len(ancestors) == ancestors_max
            ):
                continue
            row = view.log_row_of(ancestor_id)
            if row is None:
                missing.add(ancestor_id)
                continue
            ancestors[ancestor_id] = OperationEntry.of_row(row)
            waiting.extend(ancestors[ancestor_id].causal_parent_operation_ids)
    if operation_id in missing:
        return None
    entries = sorted(ancestors.values(), key=lambda entry: entry.ec_sequence_number)
    parent_ids = {parent for entry in entries for parent in entry.causal_parent_operation_ids}
    later = [entry for entry in entries if entry.ec_sequence_number > after]
    shown = tuple(later[:limit])
    has_more = len(later) > len(shown)
    return Ancestry(
        Page(shown, shown[-1].ec_sequence_number if has_more else None),
        tuple(entry.operation_id for entry in entries if not entry.causal_parent_operation_ids),
        tuple(sorted(missing)),
        complete=parent_ids <= ancestors.keys() | missing,
    )


def authority_grounds(view: LedgerView, node_id: str) -> AuthorityGrounds | None:
    """Return what informed an understanding's authority; None for what is no understanding.

    What informed an earlier value is in the envelope of the recompute that wrote that one.
    """
    node = view.node(node_id)
    if node is None or node["node_kind"] != UNDERSTANDING:
        return None
    payload = node["payload"]
    inputs = sorted(
        payload.get("cu_authority_input_versions") or (),
        key=lambda edge: (-WEIGHTS[edge["edge_essentiality"]], edge["parent_node_id"]),
    )
    return AuthorityGrounds(
        node_id,
        payload.get("cu_authority"),
        payload.get("cu_authority_computed_at"),
        tuple(inputs),
        _newest_recompute(view, node_id),
        stale_since(view, node_id),
    )


def _newest_recompute(view: LedgerView, node_id: str) -> OperationEntry | None:
    rows = view.tables.select(
        schema.applied_effects,
        {"store": schema.nodes.name, "record_key": node_id},
        order_by="ec_sequence_number",
        descending=True,
        limit=REWRITES_MAX,
    )
    for effect in rows:
        row = view.tables.get(schema.kernel_event_log, effect["ec_sequence_number"])
        if row is not None and row["semantic_intent"] == "recalculate_authority":
            return OperationEntry.of_row(row)
    return None
