"""Finds the operations that caused one (§3.7, Q4), and the inputs of an authority (§8.5)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kernel.audit.operations import OperationEntry, Page, envelope_of
from kernel.authority.recompute_pages import (
    answered_requests,
    ask_ahead_of_name,
    is_page,
    recompute_alone,
    resolve_operation,
)
from kernel.authority.requests import ask_ahead_of_understanding, stale_since
from kernel.authority.strategy import WEIGHTS
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.buffer import joined_ahead
from kernel.ledger.store.tables import LARGE_ROWS, Row, TableQuery
from kernel.model.node_kinds import UNDERSTANDING
from kernel.model.recomputes import RECALCULATE

ANCESTORS_MAX = 10_000
REWRITES_MAX = 1000
"""How many of a node's newest writes are searched for its recompute."""
REWRITES_AT_ONCE = 8
"""Of how many of those the operations are asked for ahead."""


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
    """The operation of the recompute that wrote it; None before the first one."""

    request_ids: tuple[str, ...] = ()
    """The requests that the recompute has answered; each names it wherever an operation is named.

    None of a recompute of before (K32), which is named by its operation.
    """

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

    A recompute is named by the id of its request, and its causes are its own; so are those of the
    recomputes of a page that somebody has read. Every page of the answer walks again, at most
    `ancestors_max` operations and recomputes, breadth first.
    """
    ask_ahead_of_name(view, operation_id)
    named = resolve_operation(view, operation_id)
    if named is None:
        return None
    first = Caused(named.row["operation_id"], named.recompute_of)
    walk = _Walk(view, ancestors_max)
    walk.run(first)
    entries = sorted(walk.ancestors.values(), key=lambda entry: entry.ec_sequence_number)
    later = [entry for entry in entries if entry.ec_sequence_number > after]
    shown = tuple(later[:limit])
    has_more = len(later) > len(shown)
    return Ancestry(
        Page(shown, shown[-1].ec_sequence_number if has_more else None),
        tuple(entry.operation_id for entry in entries if entry.operation_id in walk.roots),
        tuple(sorted(walk.missing)),
        complete=walk.complete,
    )


class Caused(NamedTuple):
    """An operation, or one recompute of a page, whose causes are asked for."""

    operation_id: str
    recompute_of: str | None = None


class _Walk:
    """A walk back through causes, breadth first; of a page through those recomputes that matter."""

    def __init__(self, view: LedgerView, ancestors_max: int) -> None:
        self.ancestors: dict[str, OperationEntry] = {}
        self.roots: set[str] = set()
        self.missing: set[str] = set()
        self.complete = True
        self._view = view
        self._most = ancestors_max
        self._walked: set[Caused] = set()
        self._pages: dict[str, Document | None] = {}

    def run(self, first: Caused) -> None:
        """Walk from an operation, or a recompute, to where its causes begin."""
        waiting = [first]
        while waiting:
            level, waiting = waiting, []
            self._ask_ahead(level)
            for caused in level:
                if caused in self._walked or caused.operation_id in self.missing:
                    continue
                if len(self._walked) == self._most:
                    self.complete = False
                    return
                waiting += self._causes_of(caused)

    def _ask_ahead(self, level: Iterable[Caused]) -> None:
        names = [each.operation_id for each in level if each.operation_id not in self._pages]
        rows = joined_ahead(schema.kernel_event_log, "operation_id", names[:LARGE_ROWS])
        self._view.ask_ahead(rows)

    def _causes_of(self, caused: Caused) -> list[Caused]:
        operation_id = caused.operation_id
        row = self._view.log_row_of(operation_id)
        if row is None:
            self.missing.add(operation_id)
            return []
        self._walked.add(caused)
        if operation_id not in self.ancestors:
            self.ancestors[operation_id] = OperationEntry.of_row(self._view, row)
        causes: Iterable[str] = self.ancestors[operation_id].causal_parent_operation_ids
        page = self._page(operation_id)
        if page is not None and caused.recompute_of is not None:
            page = recompute_alone(page, caused.recompute_of)
            causes = page["causal_parent_operation_ids"]
        named_causes = [named for cause in causes for named in self._resolve_cause(caused, cause)]
        if not named_causes:
            self.roots.add(operation_id)
        return named_causes

    def _resolve_cause(self, caused: Caused, cause: str) -> list[Caused]:
        """Return a cause; of a page those recomputes whose understandings the operation has read.

        A page of which it has read none counts as a whole.
        """
        page = self._page(cause)
        if page is None:
            return [Caused(cause)]
        envelope = self._page(caused.operation_id) or self._view.envelope(caused.operation_id)
        if envelope is None:
            return [Caused(cause)]
        if caused.recompute_of is not None:
            envelope = recompute_alone(envelope, caused.recompute_of)
        touched = {*envelope["read_set_refs"], *envelope["write_set_refs"]}
        read = [node_id for node_id in page["target_refs"] if node_id in touched]
        return [Caused(cause, node_id) for node_id in read] or [Caused(cause)]

    def _page(self, operation_id: str) -> Document | None:
        """Return the envelope of an operation that is a page, None of any other."""
        if operation_id not in self._pages:
            row = self._view.log_row_of(operation_id)
            recomputes = row is not None and row["semantic_intent"] == RECALCULATE
            envelope = self._view.envelope(operation_id) if recomputes else None
            page = envelope is not None and is_page(envelope)
            self._pages[operation_id] = envelope if page else None
        return self._pages[operation_id]


def authority_grounds(view: LedgerView, node_id: str) -> AuthorityGrounds | None:
    """Return what informed an understanding's authority; None for what is no understanding.

    What informed an earlier value is in the envelope of the recompute that wrote that one.
    """
    ask_ahead_of_understanding(view, node_id, _writes_of(node_id))
    node = view.node(node_id)
    if node is None or node["node_kind"] != UNDERSTANDING:
        return None
    payload = node["payload"]
    inputs = sorted(
        payload.get("cu_authority_input_versions") or (),
        key=lambda edge: (-WEIGHTS[edge["edge_essentiality"]], edge["parent_node_id"]),
    )
    row = _newest_recompute(view, node_id)
    envelope = None if row is None else envelope_of(view, row)
    return AuthorityGrounds(
        node_id,
        payload.get("cu_authority"),
        payload.get("cu_authority_computed_at"),
        tuple(inputs),
        None if row is None else OperationEntry.of_row(view, row),
        () if envelope is None else answered_requests(envelope, node_id),
        stale_since(view, node_id),
    )


def _writes_of(node_id: str) -> TableQuery:
    return TableQuery(
        schema.applied_effects,
        {"store": schema.nodes.name, "record_key": node_id},
        order_by="ec_sequence_number",
        descending=True,
        limit=REWRITES_MAX,
    )


def _newest_recompute(view: LedgerView, node_id: str) -> Row | None:
    rows = view.tables.scan(_writes_of(node_id))
    newest = [row["ec_sequence_number"] for row in rows[:REWRITES_AT_ONCE]]
    log_rows = joined_ahead(schema.kernel_event_log, "ec_sequence_number", newest)
    blob_refs = (log_rows, "envelope_payload_blob_ref")
    view.ask_ahead(log_rows, joined_ahead(schema.blobs, "blob_ref", of=[blob_refs]))
    for effect in rows:
        row = view.tables.get(schema.kernel_event_log, effect["ec_sequence_number"])
        if row is not None and row["semantic_intent"] == RECALCULATE:
            return row
    return None
