"""Reads the state as it was just before an operation, which is written nowhere.

A record as of a sequence is the pre-image of the first effect on it at or after that sequence;
where there is none, nobody has written it since, and it is the record that stands. A record that is
written once has no effect of its own: it was there if its writer's operation came earlier. Which
stores are so, and which are searched by what, stands with their tables (`ledger/schema.py`).

Whoever computes from the state may refuse to read it from an effect (`expect_sound`); verification
reads all of them.

Writes stay here: the next operation in sequence finds them. So a run over a range looks a record up
once, and from then on knows it from what it computed itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

import orjson
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.past_rows import check_sequence
from kernel.ledger.schema import store_of
from kernel.ledger.store.catalog import ContentReport, StorageFault
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import (
    PAGE_ROWS,
    Row,
    TableQuery,
    TablesView,
    has_values,
    no_more,
    rows_of,
)
from kernel.records.columns import columns_of
from kernel.values.errors import KernelError, LedgerCorrupt

RECORDS_KNOWN_MAX = 100_000

_NEVER_CHANGING = frozenset({"blobs", "pre_images", "chain_head"})
"""Tables read as they are: two that are keyed by their content, and the head."""


def view_as_of(view: LedgerView, sequence: int) -> LedgerView:
    """Return the typed stores as they stood behind a row, before the next one.

    Raises:
        StateAsOfUnknown: `state_as_of_ahead`.
    """
    check_sequence(view, sequence)
    state = StateAsOf(view.tables, lambda damaged: view.quarantines().expect_none_over(damaged))
    state.begin(sequence + 1, ())
    return LedgerView(state)


class StateAsOf:
    """The ledger's tables for one run of operations in sequence."""

    def __init__(self, tables: TablesView, expect_sound: Callable[[int], None]) -> None:
        self._tables = tables
        self._expect_sound = expect_sound
        self._view = LedgerView(self)
        self._sequence = 0
        self._recorded: Iterable[Document] = ()
        self._own: dict[tuple[str, str], str] | None = None
        self._known: dict[tuple[str, str], Row | None] = {}
        self._missing_keys: dict[str, frozenset[str]] = {}

    def begin(self, sequence: int, recorded: Iterable[Document]) -> None:
        """Move to just before an operation, whose effects name the states that they met."""
        self._sequence = sequence
        self._recorded, self._own = recorded, None
        if len(self._known) > RECORDS_KNOWN_MAX:
            self._known.clear()

    def forget(self) -> None:
        """Forget every known record, because an operation was not computed as it was recorded."""
        self._known.clear()

    def schema_faults(self) -> list[StorageFault]:
        """Return what the store says of its tables now."""
        return self._tables.schema_faults()

    def content_faults(self) -> ContentReport:
        """Return what the store says of what it holds now."""
        return self._tables.content_faults()

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key as it was."""
        name = table.name
        place = (name, str(key[0]))
        if place in self._known:
            return self._known[place]
        if store_of(table) is None:
            if name not in _NEVER_CHANGING:
                _refuse(name)
            return self._tables.get(table, *key)
        row = self._known[place] = self._lookup(table, *place)
        return row

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows that a query had; no effect asks for one of several values."""
        if query.any_of is not None:
            _refuse(query.table.name)
        keys = self._candidates(query.table, key_names(query.table)[0], query.where)
        rows = (self.get(query.table, key) for key in keys)
        return rows_of(query, (row for row in rows if row and has_values(row, query.where)))

    def count(self, query: TableQuery) -> int:
        """Return how many rows a query had."""
        return len(self.scan(query))

    def insert(self, table: Table, row: Row) -> None:
        """Keep a row of state for the operations to come; any other goes nowhere."""
        self.put(table, row)

    def append(self, table: Table, row: Row) -> None:
        """Keep a row of state for the operations to come; any other goes nowhere."""
        self.put(table, row)

    def insert_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep rows of state for the operations to come; any other go nowhere."""
        self.put_many(table, rows)

    def put_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep rows of state for the operations to come; any other go nowhere."""
        for row in rows:
            self.put(table, row)

    def put(self, table: Table, row: Row) -> None:
        """Keep a row of state for the operations to come; any other goes nowhere."""
        if store_of(table) is not None:
            self._known[(table.name, row[key_names(table)[0]])] = row

    def update(self, table: Table, key: tuple[str | int, ...], values: Mapping[str, Any]) -> None:
        """Change a row of state for the operations to come; any other stays as it is."""
        if store_of(table) is not None:
            self.put(table, {**(self.get(table, *key) or {}), **values})

    def delete(self, table: Table, *key: str | int) -> None:
        """Remove a row of state for the operations to come."""
        if store_of(table) is not None:
            self._known[(table.name, str(key[0]))] = None

    def delete_before(self, table: Table, column: str, bound: int) -> int:
        """No effect asks for it."""
        del column, bound
        _refuse(table.name)

    def together(self) -> AbstractContextManager[None]:
        """Keep rows one by one."""
        return nullcontext()

    @contextmanager
    def savepoint(self, undone: Callable[[], None] = no_more) -> Iterator[None]:
        """Undo nothing: after an exception the caller forgets everything."""
        try:
            yield
        except BaseException:
            undone()
            raise

    def _lookup(self, table: Table, name: str, key: str) -> Row | None:
        store = store_of(table)
        if store is not None and store.written_once:
            row = self._tables.get(table, key)
            return row if row is not None and self._was_written(row) else None
        pre_image_hash = self._state_before_own(name, key)
        if pre_image_hash is None:
            effect = self._next_effect(name, key)
            if effect is None:
                return self._tables.get(table, key)
            pre_image_hash = str(effect["pre_image_hash"])
        return self._row_of_pre_image(table, key, pre_image_hash) if pre_image_hash else None

    def _state_before_own(self, name: str, key: str) -> str | None:
        """Return the state that the operation met under a key, by its first effect on it.

        Most records are known from the operations before, so effects are read when one is not.
        """
        if self._own is None:
            self._own = {}
            for effect in self._recorded:
                self._own.setdefault(
                    (effect["store"], effect["record_key"]), effect["pre_image_hash"]
                )
        return self._own.get((name, key))

    def _was_written(self, row: Row) -> bool:
        writer_id = orjson.loads(row["record"])["updated_by_operation_id"]
        writer = LedgerView(self._tables).log_row_of(writer_id)
        return writer is not None and writer["ec_sequence_number"] < self._sequence

    def _next_effect(self, name: str, key: str) -> Document | None:
        """Return the first effect on a record from this sequence on."""
        where: dict[str, Any] = {"store": name, "record_key": key}
        query = TableQuery(
            schema.applied_effects,
            where,
            order_by="ec_sequence_number",
            after=self._sequence - 1,
            limit=1,
        )
        rows = self._tables.scan(query)
        if not rows:
            return None
        self._expect_sound(rows[0]["ec_sequence_number"])
        same = where | {"ec_sequence_number": rows[0]["ec_sequence_number"]}
        first = self._tables.scan(
            TableQuery(schema.applied_effects, same, order_by="ordinal", limit=1)
        )
        return effect_of(first[0])

    def _row_of_pre_image(self, table: Table, key: str, pre_image_hash: str) -> Row:
        content = self._view.pre_image(pre_image_hash)
        if content is None:
            raise LedgerCorrupt(f"the pre-image {pre_image_hash} of {key} is missing")
        columns = columns_of(table, orjson.loads(content), self._view)
        return {key_names(table)[0]: key, "record": content, **columns}

    def _candidates(self, table: Table, key_column: str, where: Mapping[str, Any]) -> list[str]:
        """Return the keys of every record that may have equalled `where`, and of others."""
        store = store_of(table)
        if store is None or store.searched_by is None:
            _refuse(table.name)
        narrowed = {name: where[name] for name in store.searched_by if name in where}
        keys = {row[key_column]: None for row in self._tables.scan(TableQuery(table, narrowed))}
        keys |= dict.fromkeys(sorted(self._missing_from(table)))
        return list(keys)

    def _missing_from(self, table: Table) -> frozenset[str]:
        """Return the keys that a later operation wrote and that have no row now."""
        if table.name not in self._missing_keys:
            keys: set[str] = set()
            after = self._sequence - 1
            while True:
                query = TableQuery(
                    schema.applied_effects,
                    {"store": table.name},
                    order_by="ec_sequence_number",
                    after=after,
                    limit=PAGE_ROWS,
                )
                rows = self._tables.scan(query)
                keys.update(row["record_key"] for row in rows)
                if len(rows) < PAGE_ROWS:
                    break
                if rows[0]["ec_sequence_number"] == rows[-1]["ec_sequence_number"]:
                    raise LedgerCorrupt("an operation with more effects than it may have")
                # The last operation may go on behind the page.
                after = rows[-1]["ec_sequence_number"] - 1
            missing = (key for key in keys if self._tables.get(table, key) is None)
            self._missing_keys[table.name] = frozenset(missing)
        return self._missing_keys[table.name]


def _refuse(name: str) -> NoReturn:
    raise KernelError(f"{name} cannot be read as it was", code="state_as_of_unknown")
