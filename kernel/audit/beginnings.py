"""Finds ids, items and tags that begin with a text and go on, along their indexes.

What is compared with the text is as many values as are asked for, and those behind the last one.
"""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Final, Literal

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import TableQuery, distinct_values
from kernel.work.request_search import recorded_queues

IdKind = Literal["request", "operation", "session", "run", "record"]

_COLUMNS: Final[tuple[tuple[IdKind, Table, tuple[str, ...]], ...]] = (
    ("request", schema.outbox, ("request_id", "queue")),
    ("operation", schema.kernel_event_log, ("operation_id",)),
    ("operation", schema.archived_rows, ("operation_id",)),
    ("session", schema.belief_sessions, ("session_id",)),
    ("run", schema.landscape_runs, ("run_id",)),
    ("record", schema.nodes, ("node_id",)),
)
"""In what column of what table each kind has its ids, and what is read with them."""


def ids_beginning(view: LedgerView, text: str, most: int) -> Iterator[tuple[IdKind, str, str]]:
    """Yield ids, at most so many of each table: the kind, the id, and the queue of a request."""
    for kind, table, columns in _COLUMNS:
        query = TableQuery(table, columns=columns, order_by=columns[0], after=text, limit=most)
        for name, *queue in dict.fromkeys(view.tables.scan(query)):
            if name.startswith(text):
                yield kind, name, "".join(queue)


def item_keys_beginning(view: LedgerView, text: str, most: int) -> list[str]:
    """Return at most so many keys of items of requests, in their order."""
    queries = (
        TableQuery(schema.outbox, {"queue": queue}, columns=("item_key",))
        for queue in recorded_queues(view)
    )
    return sorted({key for query in queries for key in _values(view, query, text, most)})[:most]


def tags_beginning(view: LedgerView, text: str, most: int) -> list[str]:
    """Return at most so many tags of requests, in their order."""
    return [*_values(view, TableQuery(schema.request_tags, columns=("tag",)), text, most)]


def _values(view: LedgerView, query: TableQuery, text: str, most: int) -> Iterator[str]:
    """Yield the values of a query's one column that begin with a text and go on."""
    values = distinct_values(view.tables, query._replace(after=text))
    return islice(takewhile(lambda value: value.startswith(text), values), most)
