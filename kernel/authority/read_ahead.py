"""Reads in one go what the operations of a batch are going to ask for (decision kernel/0150).

A batch asks for the same few things of every node that it writes: its row, what it feeds, what
feeds it, and the open requests. Asked for one by one they are a good part of an envelope's cost.
The surroundings are read of written nodes only: one input may feed a hundred thousand others.
Nothing relies on the reading being complete; what it lacks is read when it is needed.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any

from sqlalchemy import Table

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.buffer import BufferedTables
from kernel.ledger.store.keys import key_names
from kernel.model.node_kinds import UNDERSTANDING
from kernel.values.spans import sources_in

EDGES_MAX = 4096
"""Edges that one statement reads ahead; where there are more, they are read when needed."""

INPUT_EDGES_MAX = 16_384
"""The same limit for the edges that feed what is recomputed."""


CLOSED_MAX = 1024
"""Closed requests of inputs that are read ahead; of more, none are kept (decision kernel/0252)."""


class Around(Enum):
    """What is read ahead together with a node's row."""

    BELOW = "below"
    """Of a node that changes: whom it feeds, and what waits for those to be recomputed."""

    ABOVE = "above"
    """Of a recompute: the requests for it, and those for what feeds it."""

    INPUTS = "inputs"
    """Of an understanding that is computed: the requests for it, and everything that feeds it."""

    BEHIND = "behind"
    """Of a source: what it was drawn from, and what that was."""


_AROUND = tuple(Around)

DRAWN_MAX = 4096
"""Names that are read ahead in one step back from sources; more are read when needed."""

STEPS_BACK_MAX = 4

RecordKey = tuple[Table | Around, str | int]


def read_ahead(view: LedgerView, keys: Iterable[RecordKey]) -> None:
    """Read records by their keys, and what surrounds those that are nodes.

    Without effect on a view that keeps nothing (`Ledger.view`).
    """
    tables = view.tables
    if not isinstance(tables, BufferedTables):
        return
    by_kind: dict[Table | Around, dict[Any, None]] = {}
    for kind, key in keys:
        by_kind.setdefault(kind, {})[key] = None
    below, above, computed, behind = [by_kind.pop(kind, {}) for kind in _AROUND]
    written = by_kind.get(schema.nodes, {}) | below | above
    known = written | computed | behind
    if known:
        by_kind[schema.nodes] = known
    for table, names in by_kind.items():
        assert isinstance(table, Table)  # noqa: S101 - for the types
        # An answer is asked for by its key, which an archived one may have as well.
        by_key = table is schema.idempotency_records
        tables.read_ahead(table, "idempotency_key" if by_key else key_names(table)[0], names)
    if written:
        tables.read_ahead(schema.materialized_views, "node_ref", written)
    if behind:
        _read_behind(view, tables, behind)
    if below or above or computed:
        _read_surroundings(tables, known, below, above, computed)


def _read_surroundings(
    tables: BufferedTables,
    known: Mapping[str, None],
    below: Mapping[str, None],
    above: Mapping[str, None],
    computed: Mapping[str, None],
) -> None:
    beyond = dict.fromkeys(_fed_by(tables, below))
    if further := beyond.keys() - known.keys():
        tables.read_ahead(schema.nodes, "node_id", further)
    _fed_by(tables, beyond.keys() - below.keys())
    waiting = {node_id for node_id in (*below, *beyond) if _may_be_understanding(tables, node_id)}
    waiting |= above.keys() | computed.keys()
    _read_requests(tables, waiting)
    # A worker computes what is due already; what is recorded is asked whether it is.
    waiting -= computed.keys() - above.keys()
    most = INPUT_EDGES_MAX
    if waiting:
        feeding = {"input_from": UNDERSTANDING}
        inputs = tables.read_ahead(schema.edges, "target_node_id", waiting, feeding, most=most)
        _read_requests(tables, {row["source_node_id"] for row in inputs} - waiting)
        _read_closed(
            tables, {row["source_node_id"] for row in inputs if row["target_node_id"] in above}
        )
    if computed:
        inputs = tables.read_ahead(schema.edges, "target_node_id", computed, most=most)
        tables.read_ahead(schema.nodes, "node_id", {row["source_node_id"] for row in inputs})


def _read_behind(view: LedgerView, tables: BufferedTables, sources: Iterable[str]) -> None:
    seen: set[str] = set()
    # A name that no store can hold is in none, so it is not looked for.
    waiting = {source for source in sources if tables.can_ask(source)}
    for _ in range(STEPS_BACK_MAX):
        seen |= waiting
        nodes = (view.node(ref) for ref in waiting)
        drawn = {source for node in nodes if node for source in sources_in(node["payload"])}
        waiting = {source for source in drawn if "\x00" not in source} - seen
        if not waiting or len(waiting) > DRAWN_MAX:
            return
        tables.read_ahead(schema.nodes, "node_id", waiting)


def _fed_by(tables: BufferedTables, nodes: Collection[str]) -> list[str]:
    if not nodes:
        return []
    edges = tables.read_ahead(schema.edges, "source_node_id", nodes, most=EDGES_MAX)
    return [row["target_node_id"] for row in edges]


def _read_requests(tables: BufferedTables, nodes: Collection[str]) -> None:
    if not nodes:
        return
    tables.read_ahead(schema.outbox, "item_key", nodes, {"queue": AUTHORITY_QUEUE, "open": 1})


def _read_closed(tables: BufferedTables, nodes: Collection[str]) -> None:
    """Read what became of the newest request of each: whether an input waited at a moment."""
    if not nodes:
        return
    closed = {"queue": AUTHORITY_QUEUE, "open": 0}
    rows = tables.read_ahead(schema.outbox, "item_key", nodes, closed, most=CLOSED_MAX)
    rows.sort(key=lambda row: row["request_sequence"])
    newest = {row["item_key"]: row["request_id"] for row in rows}
    tables.read_ahead(schema.outbox_outcomes, "request_id", newest.values())


def _may_be_understanding(tables: BufferedTables, node_id: str) -> bool:
    node = tables.get(schema.nodes, node_id)
    return node is None or node["node_kind"] == UNDERSTANDING
