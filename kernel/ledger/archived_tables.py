"""Reads the tables of a snapshot, with the rows that lie in the archive read as though here.

Archived rows are the first ones of the log, without a gap. What one looks them up by is in
`archived_rows`; what they hold is in their segment, which is read when somebody asks a row for it.
Their envelopes stay in `blobs` until they are collected (decision kernel/0380). Thoughts have
segments of their own (`archived_thoughts.py`). Everything else passes through.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, cast

import orjson
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.archive import Archive
from kernel.ledger.archive_segment import (
    SEGMENT_ROWS,
    SegmentRow,
    first_sequence_of,
    segment_of,
)
from kernel.ledger.archived_thoughts import NODES, THOUGHTS, ArchivedThoughts
from kernel.ledger.store.keys import column_names, values_getter
from kernel.ledger.store.tables import Row, TableQuery, Tables, TablesView, rows_of
from kernel.values.errors import LedgerCorrupt

_LOG, _INDEX, _SEGMENTS = schema.kernel_event_log, schema.archived_rows, schema.archive_segments
_SEQUENCE = "ec_sequence_number"
NEWEST_SEGMENT = TableQuery(_SEGMENTS, descending=True, limit=1)
_OF_THOUGHTS = (THOUGHTS, NODES)
_IN_SEGMENTS = frozenset(column_names(_LOG)) - frozenset(column_names(_INDEX))


def with_archive(tables: TablesView, archive: Archive) -> Tables:
    """Return the tables of a snapshot with archived rows among those of the log."""
    return cast("Tables", ArchivedTables(cast("Tables", tables), archive))


class _ArchivedRow(dict[str, Any]):
    """A row of the log; what the index has not is read from its segment when it is asked for."""

    def __init__(self, row: Row, columns_of_row: Callable[[int], Row]) -> None:
        super().__init__(row)
        self._columns_of_row = columns_of_row

    def __missing__(self, name: str) -> Any:
        if name not in _IN_SEGMENTS:
            raise KeyError(name)
        self.update(self._columns_of_row(self[_SEQUENCE]))
        return self[name]

    def copy(self) -> "_ArchivedRow":
        """Return another row of the same."""
        return _ArchivedRow(self, self._columns_of_row)


class ArchivedTables:
    """See `with_archive`; all that is not here is the snapshot's own."""

    def __init__(self, tables: Tables, archive: Archive) -> None:
        self._tables = tables
        self._archive = archive
        self._last: int | None = None
        self._segments: dict[int, Row] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    @cached_property
    def _thoughts(self) -> ArchivedThoughts:
        return ArchivedThoughts(self._tables, self._archive)

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        row = self._tables.get(table, *key)
        if row is not None:
            return row
        if table is _LOG:
            row = self._tables.get(_INDEX, *key)
            return None if row is None else _ArchivedRow(row, self._columns_of_row)
        if table in _OF_THOUGHTS:
            return self._thoughts.get(table, str(key[0]), int(key[1]))
        return self._opening(str(key[0])) if table is schema.blobs else None

    def scan(self, query: TableQuery) -> list[Any]:
        """Return the rows of a query, or tuples of values where it names columns."""
        table = query.table
        if table is _LOG:
            return self._of_log(query)
        if table is schema.blobs and query.any_of is not None:
            rows = self._tables.scan(query._replace(columns=()))
            there = {row["blob_ref"] for row in rows}
            missing = [str(each) for each in query.any_of[1] if each not in there]
            return rows_of(query, rows + self._openings(missing) if missing else rows)
        if table in _OF_THOUGHTS and "session_id" in query.where and not query.descending:
            return rows_of(query, self._thoughts.rows(query._replace(columns=())))
        return self._tables.scan(query)

    def count(self, query: TableQuery) -> int:
        """Return how many rows a query has."""
        count = self._tables.count(query)
        if query.table is _LOG:
            count += self._tables.count(query._replace(table=_INDEX))
        elif query.table in _OF_THOUGHTS:
            count += self._thoughts.count(query.table, query.where)
        elif query.table is schema.blobs and not query.where:
            collected = self._tables.scan(TableQuery(_SEGMENTS, {"collected": 1}))
            count += sum(row["envelopes"] for row in collected)
        return count

    def _of_log(self, query: TableQuery) -> list[Any]:
        """Return rows of the log, of which the archived ones are the first."""
        if query.grouped:
            counter = Counter(self._of_log(query._replace(grouped=False)))
            return [(*group, count) for group, count in counter.items()]
        in_sequence = query.any_of is None and query.order_by in (None, _SEQUENCE)
        if in_sequence and query.descending:
            return self._in_sequence(query, self._tables.scan, self._of_index)
        if self._last_archived() <= ((in_sequence and query.after) or 0):
            return self._tables.scan(query)
        if in_sequence:
            return self._in_sequence(query, self._of_index, self._tables.scan)
        whole = query._replace(columns=())
        rows = self._of_index(whole) + self._tables.scan(whole)
        if query.any_of is None:
            rows.sort(key=lambda row: row[query.order_by], reverse=query.descending)
        return _values_in(query, rows[: query.limit])

    @staticmethod
    def _in_sequence(query: TableQuery, *parts: Callable[[TableQuery], list[Any]]) -> list[Any]:
        rows: list[Any] = []
        for scan in parts:
            if query.limit is None:
                rows += scan(query)
            elif len(rows) < query.limit:
                rows += scan(query._replace(limit=query.limit - len(rows)))
        return rows

    def _of_index(self, query: TableQuery) -> list[Any]:
        """Return archived rows of the log."""
        rows = self._tables.scan(query._replace(table=_INDEX, columns=()))
        return _values_in(query, [_ArchivedRow(row, self._columns_of_row) for row in rows])

    def _last_archived(self) -> int:
        """Return the sequence of the last archived row, 0 where none is."""
        if self._last is None:
            newest = self._tables.scan(NEWEST_SEGMENT)
            self._last = (newest[0]["segment_index"] + 1) * SEGMENT_ROWS if newest else 0
        return self._last

    def _columns_of_row(self, sequence: int) -> Row:
        """Return the columns of an archived row that its segment holds."""
        row_bytes = self._in_segment(sequence).row_bytes
        try:
            stated = orjson.loads(row_bytes)
            prior, version = stated["prior_row_hash"], stated["rules_version"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise LedgerCorrupt(f"row {sequence} of the log is not what it was: {error}") from None
        return {
            "prior_row_hash": prior,
            "row_hash": sha256(row_bytes).hexdigest(),
            "rules_version": version,
            "row_bytes": row_bytes,
        }

    def _segment_row(self, sequence: int) -> Row:
        """Return what is known of the segment of an archived row."""
        index, _ = segment_of(sequence)
        row = self._segments.get(index) or self._tables.get(_SEGMENTS, index)
        if row is None:
            raise LedgerCorrupt(f"row {sequence} of the log is in a segment that nobody knows")
        self._segments[index] = row
        return row

    def _in_segment(self, sequence: int) -> SegmentRow:
        index, place = segment_of(sequence)
        segment = self._archive.segment(self._segment_row(sequence)["content_hash"])
        if segment.first_sequence != first_sequence_of(index) or place >= len(segment.rows):
            raise LedgerCorrupt(f"the segment {index} holds other rows than {sequence}")
        return segment.rows[place]

    def _opening(self, blob_ref: str) -> Row | None:
        openings = self._openings([blob_ref])
        return openings[0] if openings else None

    def _openings(self, blob_refs: Sequence[str]) -> list[Row]:
        """Return the blobs that are in segments alone."""
        if not self._last_archived():
            return []
        column = "envelope_payload_blob_ref"
        openings = []
        for row in self._tables.scan(TableQuery(_INDEX, any_of=(column, blob_refs))):
            if not self._segment_row(row[_SEQUENCE])["collected"]:
                continue
            held = self._in_segment(row[_SEQUENCE])
            if held.salt is not None:
                openings.append(
                    {"blob_ref": row[column], "salt": held.salt, "content": held.content}
                )
        return openings


def _values_in(query: TableQuery, rows: list[Row]) -> list[Any]:
    return [*map(values_getter(query.columns), rows)] if query.columns else rows
