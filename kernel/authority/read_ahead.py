"""Reads in one go what the operations of a batch are going to ask for (decision kernel/0150).

A batch asks for the same few things of every node that it writes: its row, what it feeds, what
feeds it, and the open requests. Asked for one by one they are a good part of an envelope's cost.
The surroundings are read of written nodes only: one input may feed a hundred thousand others.
Nothing relies on the reading being complete; what it lacks is read when it is needed.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any, cast

from sqlalchemy import Table

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.ledger import ASKED_BY_EACH, LedgerTransaction, LedgerView
from kernel.ledger.store.buffer import BufferedTables, query_ahead
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import Joined, Row, TableQuery
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

DRAWN_KEPT_MAX = 4096
"""Nodes of which is kept from what they were drawn, the newest."""

_DRAWN = "from what the newest nodes were drawn"

_ASKED_BY = {schema.idempotency_records: "idempotency_key"}
"""The column by which a record is asked for where that is not its key: an answer that is archived
may have the key of another."""

_OPEN = {"queue": AUTHORITY_QUEUE, "open": 1}
_CLOSED = {"queue": AUTHORITY_QUEUE, "open": 0}

RecordKey = tuple[Table | Around, str | int]


def read_ahead(view: LedgerView, keys: Iterable[RecordKey]) -> None:
    """Read records by their keys, and what surrounds those that are nodes.

    Where the store is elsewhere, each step away from the nodes is one round trip, and the first
    has what a transaction asks for whatever it writes. Without effect on a view that keeps nothing
    (`Ledger.view`).
    """
    tables = view.tables
    if not isinstance(tables, BufferedTables):
        return
    queries, known, (below, above, computed, behind) = _queries_of(keys)
    around = below or above or computed
    if around:
        queries.append(query_ahead(schema.edges, "source_node_id", below, most=EDGES_MAX))
        queries.append(query_ahead(schema.edges, "target_node_id", computed, most=INPUT_EDGES_MAX))
    answers = tables.read_all_ahead(queries, ASKED_BY_EACH)
    if behind:
        _read_behind(view, tables, behind)
    if around:
        beyond = {row["target_node_id"]: None for row in answers[-2]}
        inputs = {row["source_node_id"] for row in answers[-1]}
        if beyond or inputs:
            further = beyond.keys() - below.keys()
            tables.read_all_ahead(
                [
                    query_ahead(schema.nodes, "node_id", beyond.keys() - known.keys() | inputs),
                    query_ahead(schema.edges, "source_node_id", further, most=EDGES_MAX),
                ]
            )
        _read_requests(tables, [*below, *beyond], above, computed)


def joined_queries(keys: Iterable[RecordKey], kept: Mapping[Any, Any]) -> list[Joined]:
    """Return what `read_ahead` asks for by these keys, for a store that is asked all at once.

    It may be more: what is asked in further steps depends there on what came before.
    """
    drawn: Mapping[str, tuple[str, ...]] = kept.get(_DRAWN, {})
    named = [*keys]
    sources = {key for kind, key in named if kind is Around.BEHIND}
    for _ in range(STEPS_BACK_MAX):
        sources = {each for source in sources for each in drawn.get(str(source), ())}
        named += [(schema.nodes, each) for each in sources]
    queries, _, (below, above, computed, _) = _queries_of(named)
    joined = [*map(Joined, queries)]

    def ask(
        table: Table,
        column: str,
        names: Iterable[str],
        *of: tuple[Joined, str],
        where: Mapping[str, Any] | None = None,
        most: int | None = None,
    ) -> Joined:
        each = Joined(query_ahead(table, column, names, where, most=most), of)
        joined.append(each)
        return each

    edges, outbox = schema.edges, schema.outbox
    beyond: tuple[tuple[Joined, str], ...] = ()
    if below:
        outward = ask(edges, "source_node_id", below, most=EDGES_MAX)
        beyond = ((outward, "target_node_id"),)
        ask(edges, "source_node_id", (), *beyond, most=EDGES_MAX)
    if computed:
        inward = ask(edges, "target_node_id", computed, most=INPUT_EDGES_MAX)
        ask(schema.nodes, "node_id", (), *beyond, (inward, "source_node_id"))
    elif below:
        ask(schema.nodes, "node_id", (), *beyond)
    if below or above or computed:
        ask(outbox, "item_key", below | above | computed, *beyond, where=_OPEN)
    feeding, most = {"input_from": UNDERSTANDING}, INPUT_EDGES_MAX
    if below or above:
        fed = ask(edges, "target_node_id", below | above, *beyond, where=feeding, most=most)
        ask(outbox, "item_key", (), (fed, "source_node_id"), where=_OPEN)
    if above:
        fed = ask(edges, "target_node_id", above, where=feeding, most=most)
        inputs = (fed, "source_node_id")
        closed = ask(outbox, "item_key", (), inputs, where=_CLOSED, most=CLOSED_MAX)
        ask(schema.outbox_outcomes, "request_id", (), (closed, "request_id"))
    return joined


def note_drawn(transaction: LedgerTransaction) -> None:
    """Keep from what the nodes were drawn that a transaction writes, for `joined_queries`."""
    tables = transaction.tables
    if not isinstance(tables, BufferedTables):
        return
    kept: dict[str, tuple[str, ...]] = transaction.kept.setdefault(_DRAWN, {})
    for row in tables.pending_rows(schema.nodes):
        node = transaction.node(row["node_id"])
        sources = () if node is None else tuple(sources_in(node["payload"]))
        if sources:
            kept[row["node_id"]] = sources
    if len(kept) > DRAWN_KEPT_MAX:
        for node_id in list(kept)[:-DRAWN_KEPT_MAX]:
            del kept[node_id]


def _queries_of(
    keys: Iterable[RecordKey],
) -> tuple[list[TableQuery], dict[Any, None], list[dict[Any, None]]]:
    """Return what is asked of records themselves, the nodes in it, and each surrounding's."""
    by_kind: dict[Table | Around, dict[Any, None]] = {}
    for kind, key in keys:
        by_kind.setdefault(kind, {})[key] = None
    around = [by_kind.pop(kind, {}) for kind in _AROUND]
    below, above, computed, behind = around
    written = by_kind.get(schema.nodes, {}) | below | above
    known = written | computed | behind
    if known:
        by_kind[schema.nodes] = known
    queries = [
        query_ahead(table, _ASKED_BY.get(table) or key_names(table)[0], names)
        for table, names in cast("dict[Table, dict[Any, None]]", by_kind).items()
    ]
    if written:
        queries.append(query_ahead(schema.materialized_views, "node_ref", written))
    return queries, known, around


def _read_requests(
    tables: BufferedTables,
    may_wait: Iterable[str],
    above: Mapping[str, None],
    computed: Mapping[str, None],
) -> None:
    """Read the requests for what is computed or may wait for it, and for what feeds that."""
    waiting = {node_id for node_id in may_wait if _may_be_understanding(tables, node_id)}
    waiting |= above.keys() | computed.keys()
    # A worker computes what is due already; what is recorded is asked whether it is.
    fed = waiting - (computed.keys() - above.keys())
    feeding = {"input_from": UNDERSTANDING}
    _, inputs = tables.read_all_ahead(
        [
            query_ahead(schema.outbox, "item_key", waiting, _OPEN),
            query_ahead(schema.edges, "target_node_id", fed, feeding, most=INPUT_EDGES_MAX),
        ]
    )
    if inputs:
        _read_requests_of(tables, inputs, fed, above)


def _read_requests_of(
    tables: BufferedTables,
    inputs: Iterable[Row],
    fed: Collection[str],
    above: Mapping[str, None],
) -> None:
    """Read the requests for inputs; of those of a recompute what became of the newest, too."""
    waiting = {row["source_node_id"] for row in inputs}.difference(fed)
    of_above = {row["source_node_id"] for row in inputs if row["target_node_id"] in above}
    _, closed = tables.read_all_ahead(
        [
            query_ahead(schema.outbox, "item_key", waiting, _OPEN),
            query_ahead(schema.outbox, "item_key", of_above, _CLOSED, most=CLOSED_MAX),
        ]
    )
    closed.sort(key=lambda row: row["request_sequence"])
    newest = {row["item_key"]: row["request_id"] for row in closed}
    tables.read_ahead(schema.outbox_outcomes, "request_id", newest.values())


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


def _may_be_understanding(tables: BufferedTables, node_id: str) -> bool:
    node = tables.get(schema.nodes, node_id)
    return node is None or node["node_kind"] == UNDERSTANDING
