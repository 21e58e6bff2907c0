"""Holds each row that a door reads against itself (ruling L3).

A row that has its own hash is the row of that hash; a record repeats its columns; a commitment is
kept; JSON is JSON. So a record that was changed where nobody looks is found by whoever reads it
next, at whatever door, and the error names it. Verification finds what is not in the row itself:
its place in a chain, the state that the log folds into.

A row of a quarantined range is read as it stands, with its mark, and so is what was accepted so.
Work that commits does not read so: it would cost each operation its rows' hashes once more.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any, Final, cast

import orjson
from sqlalchemy import Table

from kernel.belief.errors import CorruptBeliefEvent
from kernel.belief.events import BeliefEvent
from kernel.belief.session_snapshot import SessionSnapshot
from kernel.landscape.errors import RecordDamaged
from kernel.landscape.record_rules import check_stored
from kernel.ledger import schema
from kernel.ledger.blob_commitment import blob_commitment
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.quarantine import RecordKey, read_as_it_stands, row_key_of
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import Row, TableQuery, TablesView
from kernel.proof.merkle_tree import HASH_BYTES
from kernel.proof.thought_chain import content_hash
from kernel.proof.tiles import TILE_WIDTH, hashes_of, subtree_root
from kernel.values.canonical import sha256_hex
from kernel.values.errors import KernelError, RowDamaged

DOUBTED_MAX: Final = 32
"""Readings that are looked at again, the last ones."""

RowCheck = Callable[[Row, TablesView], str | None]
"""Says what is wrong with a row, None where nothing is."""


def _check_by_hash(
    content: str, stated: str, hash_of: Callable[[bytes], str] = sha256_hex
) -> RowCheck:
    def check(row: Row, _: TablesView) -> str | None:
        # Of a row in a segment, whose file has been held against its hash, the rest is not read.
        if content not in row or hash_of(bytes(row[content])) == row[stated]:
            return None
        return f"{content} is not what {stated} says"

    return check


def _blob(row: Row, _: TablesView) -> str | None:
    kept = blob_commitment(bytes(row["salt"]), bytes(row["content"])) == row["blob_ref"]
    return None if kept else "the content does not keep its commitment"


def _object(*columns: str, repeats: str | None = None) -> RowCheck:
    """Return the check that columns hold a JSON object each, and that each repeats a column."""

    def check(row: Row, _: TablesView) -> str | None:
        for name in columns:
            if row[name] is None:
                continue
            document = _document(row[name])
            if document is None:
                return f"{name} is not a JSON object"
            if repeats is not None and document.get(repeats, row[repeats]) != row[repeats]:
                return f"{repeats} is not what {name} says"
        return None

    return check


def _document(content: bytes) -> Mapping[str, Any] | None:
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _state(table: Table) -> RowCheck:
    derived = [
        (column.name, column.info["of_record"])
        for column in table.columns
        if "of_record" in column.info
    ]

    def check(row: Row, _: TablesView) -> str | None:
        record = _document(row["record"])
        if record is None:
            return "record is not a JSON object"
        for name, derive in derived:
            try:
                value = derive(record)
            except (KeyError, TypeError, AttributeError, ValueError):
                return f"record lacks what {name} is derived from"
            if value != row[name]:
                return f"{name} is not what record says"
        return None

    return check


def _event(row: Row, _: TablesView) -> str | None:
    try:
        event = BeliefEvent.from_bytes(bytes(row["event_bytes"]))
    except CorruptBeliefEvent as error:
        return error.reason
    return None if event.event_hash == row["event_hash"] else "event_hash is not the event's"


def _snapshot(row: Row, _: TablesView) -> str | None:
    try:
        SessionSnapshot.from_bytes(bytes(row["snapshot_bytes"]))
    except CorruptBeliefEvent as error:
        return error.reason
    return None


def _tile(row: Row, tables: TablesView) -> str | None:
    hashes = bytes(row["hashes"])
    size, rest = divmod(len(hashes), HASH_BYTES)
    if rest or not 0 < size <= TILE_WIDTH:
        return "hashes is no row of hashes"
    index, place = divmod(row["tile_index"], TILE_WIDTH)
    above = tables.get(schema.tree_tiles, row["tile_level"] + 1, index)
    if size < TILE_WIDTH or above is None:
        return None
    stated = bytes(above["hashes"])[place * HASH_BYTES : (place + 1) * HASH_BYTES]
    return None if stated == subtree_root(hashes_of(hashes)) else "the tile above has another root"


def _of_run(table: Table) -> RowCheck:
    def check(row: Row, _: TablesView) -> str | None:
        try:
            check_stored(table, row)
        except RecordDamaged as error:
            return error.rule
        return None

    return check


_CHECKS: Mapping[Table, RowCheck] = MappingProxyType(
    {
        schema.kernel_event_log: _check_by_hash("row_bytes", "row_hash"),
        schema.receipts: _check_by_hash("receipt_bytes", "receipt_hash"),
        schema.ephemeral_receipts: _object("receipt_bytes"),
        schema.pre_images: _check_by_hash("content", "content_hash"),
        schema.landscape_payloads: _check_by_hash("content", "content_hash"),
        schema.landscape_record_groups: _check_by_hash("group_bytes", "group_hash"),
        schema.thought_records: _check_by_hash("record_bytes", "content_hash", content_hash),
        schema.blobs: _blob,
        schema.tree_tiles: _tile,
        schema.outbox: _object("request_bytes", repeats="request_id"),
        schema.belief_events: _event,
        schema.belief_snapshots: _snapshot,
        schema.audit_sessions: _object("seal_bytes"),
        schema.rounds: _object("genesis_bytes", "seal_bytes"),
        **{table: _state(table) for table in schema.STATE_TABLES},
    }
)
"""How a row of a table is held against itself; rows of other tables say nothing twice."""


@cache
def _check_of(table: Table) -> RowCheck | None:
    if table in schema.LANDSCAPE_TABLES and table not in _CHECKS:
        return _of_run(table)
    return _CHECKS.get(table)


class CheckedTables:
    """The tables of a snapshot, each row of which was held against itself."""

    def __init__(self, tables: TablesView) -> None:
        self.stored = tables
        """The tables as they are stored."""

        self._readable: frozenset[RecordKey] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stored, name)

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        row = self.stored.get(table, *key)
        return None if row is None else self._check_rows(table, [row])[0]

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows of a query; the values of columns are not held against anything."""
        rows = self.stored.scan(query)
        return rows if query.columns else self._check_rows(query.table, rows)

    def _check_rows(self, table: Table, rows: list[Row]) -> list[Row]:
        """Return the rows.

        Raises:
            RowDamaged: of the first that is damaged, unless it is read as it stands.
        """
        check = _check_of(table)
        if check is not None:
            for row in rows:
                rule = check(row, self.stored)
                if rule is not None:
                    self._expect_readable(table, row, rule)
        return rows

    def _expect_readable(self, table: Table, row: Row, rule: str) -> None:
        record = RecordKey(table.name, "/".join(str(row[name]) for name in key_names(table)))
        if self._readable is None:
            self._readable = read_as_it_stands(self.stored)
        if record in self._readable:
            return
        kind = RecordDamaged if table in schema.LANDSCAPE_TABLES else RowDamaged
        raise kind(*record, rule)


def checking_view(view: LedgerView) -> LedgerView:
    """Return the same snapshot with each row that is read held against itself."""
    return LedgerView(cast("TablesView", CheckedTables(view.tables)), view.archive)


def unchecked_view(view: LedgerView) -> LedgerView:
    """Return the same snapshot as it is stored, for verification, which names what is damaged."""
    tables = cast("Any", view.tables)
    return LedgerView(tables.stored, view.archive) if isinstance(tables, CheckedTables) else view


def is_sound(view: LedgerView, record: RecordKey) -> bool:
    """Tell whether the row of a record is there and is what it says; not of what has no row."""
    return _judge(view, record) == (True, None)


def is_damaged(view: LedgerView, record: RecordKey) -> bool:
    """Tell whether the row of a record is there and is not what it says; not of what has no row."""
    is_there, rule = _judge(view, record)
    return is_there and rule is not None


def _judge(view: LedgerView, record: RecordKey) -> tuple[bool, str | None]:
    """Return whether a record has a row that can be judged, and the rule that it breaks."""
    table, key = schema.metadata.tables.get(record.table), row_key_of(record)
    check = None if table is None else _check_of(table)
    if table is None or key is None or check is None:
        return False, None
    row = view.tables.get(table, *key)
    return (False, None) if row is None else (True, check(row, view.tables))


class CheckedLedger(Ledger):
    """A ledger whose snapshots are read so; it has the store of another, and notes damage there."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger.store, ledger.host, ledger.archive)
        self.kept = ledger.kept
        self.damage = ledger.damage

    @contextmanager
    def view(self) -> Iterator[LedgerView]:
        """Open a snapshot; see `Ledger.view`.

        Raises:
            RowDamaged: inside, of a row that is not what it says of itself.
        """
        with super().view() as view:
            yield checking_view(view)


class DoubtedTables(CheckedTables):
    """The tables of a snapshot, whose rows are held against themselves once somebody doubts."""

    def __init__(self, tables: TablesView) -> None:
        super().__init__(tables)
        self._last: deque[tuple[Table, list[Row]]] = deque(maxlen=DOUBTED_MAX)

    def _check_rows(self, table: Table, rows: list[Row]) -> list[Row]:
        self._last.append((table, rows))
        return rows

    def doubt(self) -> None:
        """Look at what was read last.

        Raises:
            RowDamaged: a row of it is damaged.
        """
        for table, rows in self._last:
            super()._check_rows(table, rows)


class DoubtedLedger(CheckedLedger):
    """A ledger of which rows are looked at where the work on them fails: work pays nothing.

    A worker reads so: an item fails of a damaged row as of anything else, and then it is named.
    """

    @contextmanager
    def view(self) -> Iterator[LedgerView]:
        """Open a snapshot; see `Ledger.view`.

        Raises:
            RowDamaged: an error left the block that none of ours is, and a row is to blame.
        """
        with Ledger.view(self) as view:
            tables = DoubtedTables(view.tables)
            try:
                yield LedgerView(cast("TablesView", tables), view.archive)
            except KernelError:
                raise
            except Exception:
                tables.doubt()
                raise
