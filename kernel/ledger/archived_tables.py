"""The tables of a snapshot, with the rows that lie in the archive read as though here.

Archived rows are the first ones of the log, without a gap. What one looks them up by is in
`archived_rows`; what they hold is in their segment, which is read when somebody asks a row for it.
Their envelopes stay in `blobs` until they are collected (decision kernel/0380). Thoughts have
segments of their own (`archived_thoughts.py`). Everything else passes through.
"""

from collections.abc import Callable, Mapping, Sequence
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
from kernel.ledger.store.tables import Row, Tables, TablesView
from kernel.values.errors import LedgerCorrupt

_LOG, _INDEX, _SEGMENTS = schema.kernel_event_log, schema.archived_rows, schema.archive_segments
_SEQUENCE = "ec_sequence_number"
_OF_THOUGHTS = (THOUGHTS, NODES)
_IN_SEGMENTS = frozenset(column_names(_LOG)) - frozenset(column_names(_INDEX))


def with_archive(tables: TablesView, archive: Archive) -> Tables:
    """Return the tables of a snapshot with archived rows among those of the log."""
    return cast("Tables", ArchivedTables(cast("Tables", tables), archive))


class _ArchivedRow(dict[str, Any]):
    """A row of the log; what the index has not is read from its segment when it is asked for."""

    def __init__(self, row: Row, held: Callable[[int], Row]) -> None:
        super().__init__(row)
        self._held = held

    def __missing__(self, name: str) -> Any:
        if name not in _IN_SEGMENTS:
            raise KeyError(name)
        self.update(self._held(self[_SEQUENCE]))
        return self[name]

    def copy(self) -> "_ArchivedRow":
        """Return another row of the same."""
        return _ArchivedRow(self, self._held)


class ArchivedTables:
    """See `with_archive`; all that is not here is the snapshot's own."""

    def __init__(self, tables: Tables, archive: Archive) -> None:
        self._tables = tables
        self._archive = archive
        self._last: int | None = None
        self._segments: dict[int, Row] = {}
        self._thoughts = ArchivedThoughts(tables, archive)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def get(self, table: Table, *key: str | int) -> Row | None:
        """Return the row of a primary key."""
        row = self._tables.get(table, *key)
        if row is not None:
            return row
        if table is _LOG:
            row = self._tables.get(_INDEX, *key)
            return None if row is None else self._whole(row)
        if table in _OF_THOUGHTS:
            return self._thoughts.get(table, str(key[0]), int(key[1]))
        return self._opening(str(key[0])) if table is schema.blobs else None

    def select(
        self,
        table: Table,
        where: Mapping[str, Any] | None = None,
        *,
        order_by: str | None = None,
        after: Any = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that equal `where`, in the order of one column."""

        def ask(of: Table, most: int | None) -> list[Row]:
            return self._tables.select(
                of, where, order_by=order_by, after=after, descending=descending, limit=most
            )

        if table in _OF_THOUGHTS and where and "session_id" in where and not descending:

            def ask_behind(place: Any, most: int | None) -> list[Row]:
                return self._tables.select(table, where, after=place, limit=most)

            return self._thoughts.select(table, where, ask_behind, after, limit)
        if table is not _LOG:
            return ask(table, limit)
        if order_by in (None, _SEQUENCE):
            return self._in_sequence(ask, after, limit, descending=descending)
        rows = ask(_LOG, limit)
        archived = ask(_INDEX, limit) if self._last_archived() else []
        if archived:
            rows = sorted(archived + rows, key=lambda row: row[order_by], reverse=descending)
        return [self._whole(row) for row in rows[:limit]]

    def select_any(
        self,
        table: Table,
        column: str,
        values: Sequence[str | int],
        where: Mapping[str, Any],
        *,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the rows that equal `where` and have any of the values in a column."""
        rows = self._tables.select_any(table, column, values, where, limit=limit)
        if table is schema.blobs:
            there = {row[column] for row in rows}
            missing = [str(value) for value in dict.fromkeys(values) if value not in there]
            return [*rows, *self._openings(missing)][:limit] if missing else rows
        if table is not _LOG or not self._last_archived():
            return rows
        archived = self._tables.select_any(_INDEX, column, values, where, limit=limit)
        return [self._whole(row) for row in (*rows, *archived)][:limit]

    def columns(
        self,
        table: Table,
        names: tuple[str, ...],
        *,
        order_by: str | None = None,
        after: Any = None,
        limit: int,
    ) -> list[tuple[Any, ...]]:
        """Return some columns of the rows in the order of one column."""
        of_archived = table is _LOG and order_by in (None, _SEQUENCE) and self._reaches(after)
        if not of_archived:
            return self._tables.columns(table, names, order_by=order_by, after=after, limit=limit)
        take = values_getter(names)
        archived = self._tables.select(_INDEX, after=after, limit=limit)
        rows = [take(self._whole(row)) for row in archived]
        if len(rows) < limit:
            rows += self._tables.columns(_LOG, names, after=after, limit=limit - len(rows))
        return rows

    def count(
        self, table: Table, where: Mapping[str, Any] | None = None, *, distinct: str | None = None
    ) -> int:
        """Return how many rows equal `where`, or how many values of a column they have."""
        if distinct is not None:
            return self._tables.count(table, where, distinct=distinct)
        count = self._tables.count(table, where)
        if table is _LOG:
            count += self._tables.count(_INDEX, where)
        elif table in _OF_THOUGHTS:
            count += self._thoughts.count(table, where)
        elif table is schema.blobs and not where:
            collected = self._tables.select(_SEGMENTS, {"collected": 1})
            count += sum(row["envelopes"] for row in collected)
        return count

    def counts(self, table: Table, *columns: str) -> dict[tuple[Any, ...], int]:
        """Return the number of rows for each combination of the columns' values."""
        counts = self._tables.counts(table, *columns)
        if table is _LOG:
            for values, number in self._tables.counts(_INDEX, *columns).items():
                counts[values] = counts.get(values, 0) + number
        return counts

    def _in_sequence(
        self, ask: Any, after: Any, limit: int | None, *, descending: bool
    ) -> list[Row]:
        """Return rows in the order of the log, of which the archived ones are the first."""
        if not descending and not self._reaches(after):
            return cast("list[Row]", ask(_LOG, limit))
        rows: list[Row] = []
        for table in (_LOG, _INDEX) if descending else (_INDEX, _LOG):
            if limit is None or len(rows) < limit:
                rows += ask(table, None if limit is None else limit - len(rows))
        return [self._whole(row) for row in rows]

    def _reaches(self, after: Any) -> bool:
        """Tell whether archived rows stand behind a sequence."""
        return self._last_archived() > (after or 0)

    def _last_archived(self) -> int:
        """Return the sequence of the last archived row, 0 where none is."""
        if self._last is None:
            newest = self._tables.select(_SEGMENTS, descending=True, limit=1)
            self._last = (newest[0]["segment_index"] + 1) * SEGMENT_ROWS if newest else 0
        return self._last

    def _whole(self, row: Row) -> Row:
        """Return a row of the log as it is, and one of the index as what it stands for."""
        return row if "row_bytes" in row else _ArchivedRow(row, self._held)

    def _held(self, sequence: int) -> Row:
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
        for row in self._tables.select_any(_INDEX, column, blob_refs, {}):
            if not self._segment_row(row[_SEQUENCE])["collected"]:
                continue
            held = self._in_segment(row[_SEQUENCE])
            if held.salt is not None:
                openings.append(
                    {"blob_ref": row[column], "salt": held.salt, "content": held.content}
                )
        return openings
