"""Records that wait to be written: few transactions for many records, none of them in part.

What belongs together (a fork with the outcome of its parent) is a unit, and a unit is written whole
or not at all. A recorder's records are durable when `flush` has returned. More units than the bound
are not held back: whoever adds one then writes them first. Where the store does not answer they
stay, and nothing is taken that would go beyond the bound.

In the transaction, behind the writer's lock, is decided what only there can be known: whether the
run still runs, whether what is completed is still open, and the index of a call among those of its
parent. So it holds under threads, several processes, and after a restart (decision kernel/0422).
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Table

from kernel.errors import TextNotStorable
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_rules import TABLES, check_new, check_stored, key_text
from kernel.landscape.references import dangling_reference
from kernel.ledger import schema
from kernel.ledger.keys import key_names
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.tables import DuplicateKey, MissingReference, Row, Tables

GROUP_RECORDS = 1024
"""Records that are written together."""

BOUND_RECORDS = 8 * GROUP_RECORDS
"""Records that are held back at most, while the store does not answer."""

IDS_AT_ONCE = 200
"""Records that are looked up together."""

PAYLOAD_BYTES = 8192
"""Of a payload for which it counts as one more record."""

_RUNS, _CALLS = TABLES["runs"], TABLES["calls"]
_UNFINISHED_IN = {
    "landscape_runs": ("running",),
    "landscape_batches": ("draft", "executing"),
}
_UNFINISHED = ("open", "pending")


@dataclass(slots=True)
class RecordUnit:
    """Records that are written together or not at all."""

    run_id: str
    added: list[tuple[Table, Row]] = field(default_factory=list)
    changed: list[tuple[Table, Row]] = field(default_factory=list)
    """Whole rows that replace stored ones, which must not be finished."""

    payloads: list[Row] = field(default_factory=list)
    """Contents that are kept; one that the run has already is the same one."""

    def add(self, table: Table, row: Row) -> Row:
        """Add a record that keeps the rules of its table.

        Raises:
            RecordRefused: it does not.
        """
        check_new(table, row)
        self.added.append((table, row))
        return row

    def take(self, unit: "RecordUnit") -> None:
        """Make the records of another unit of the same run part of this one."""
        self.added += unit.added
        self.changed += unit.changed
        self.payloads += unit.payloads

    @property
    def size(self) -> int:
        """How many records it writes; a large payload counts as several."""
        payloads = sum(len(row["content"]) // PAYLOAD_BYTES for row in self.payloads)
        return len(self.added) + len(self.changed) + len(self.payloads) + payloads


class RecordGroup:
    """The units that one recorder holds back; threads may share it."""

    def __init__(self, ledger: Ledger, group_records: int = GROUP_RECORDS) -> None:
        self.ledger = ledger
        self.lock = threading.RLock()
        self._writing = threading.Lock()
        self._group_records = group_records
        self._units: list[RecordUnit] = []
        self._size = 0
        self._waiting: dict[tuple[str, str, str], Row] = {}
        """Records that were added or changed and are not written, by table, run and key."""

        self._refused: list[LandscapeRefused] = []
        self._whole: RecordUnit | None = None
        self._expected: dict[tuple[str, str, str], Row] = {}
        """Stored records that are about to be changed, read together."""

    @contextmanager
    def whole(self, run_id: str) -> Iterator[None]:
        """Take all that is added inside as one unit, when the block ends; if it raises, nothing.

        One thread records meanwhile.
        """
        unit = self._whole = RecordUnit(run_id)
        try:
            yield
        except BaseException:
            with self.lock:
                for table, row in (*unit.added, *unit.changed):
                    self._waiting.pop(_place_of(table, row), None)
            raise
        finally:
            self._whole = None
        self.add(unit)

    def add(self, unit: RecordUnit) -> None:
        """Take a unit; write what waits where that is a group.

        Raises:
            LandscapeRefused: why an earlier unit was not written; this one was taken.
            LedgerUnavailable: nothing could be written. The unit was taken, unless that would have
                gone beyond the bound.
        """
        with self.lock:
            if self._whole is None and self._size + unit.size > max(BOUND_RECORDS, unit.size):
                self.flush()
            for table, row in (*unit.added, *unit.changed):
                self._waiting[_place_of(table, row)] = row
            if self._whole is not None:
                self._whole.take(unit)
                return
            self._units.append(unit)
            self._size += unit.size
            is_group = self._size >= self._group_records
        if is_group:
            self.flush()

    def read(self, table: Table, run_id: str, record_id: str) -> Row | None:
        """Return a record as it stands, written or not."""
        with self.lock:
            row = self._waiting.get((str(table.name), run_id, record_id))
            if row is not None:
                return dict(row)
        # What is being written is in neither place until it has been.
        with self._writing:
            with self.lock:
                row = self._waiting.get((str(table.name), run_id, record_id))
                if row is not None:
                    return dict(row)
                expected = self._expected.pop((str(table.name), run_id, record_id), None)
            if expected is not None:
                return check_stored(table, expected)
            key = (run_id,) if table is _RUNS else (run_id, record_id)
            stored = self.ledger.read(lambda view: view.tables.get(table, *key))
        return None if stored is None else check_stored(table, stored)

    def expect(self, table: Table, run_id: str, record_ids: Sequence[str]) -> None:
        """Read records that are about to be changed, all at once; each is used for one change."""

        def read(view: LedgerView) -> list[Row]:
            return [
                row
                for at in range(0, len(record_ids), IDS_AT_ONCE)
                for row in view.tables.select_any(
                    table, _key_of(table), record_ids[at : at + IDS_AT_ONCE], {"run_id": run_id}
                )
            ]

        with self._writing:
            rows = self.ledger.read(read)
            with self.lock:
                self._expected = {_place_of(table, row): row for row in rows}

    def change(self, table: Table, run_id: str, record_id: str, changes: Row) -> Row:
        """Change a record that is not finished, and return it as it then stands.

        Raises:
            LandscapeRefused: `landscape_unknown`, or `landscape_conflict` where it is finished.
            RecordRefused: it would break a rule.
        """
        while True:
            row = self.read(table, run_id, record_id)
            if row is None:
                message = f"{table.name} has no {record_id} in the run {run_id}"
                raise LandscapeRefused(message, code="landscape_unknown")
            if row["status"] not in unfinished_statuses(table):
                message = f"{table.name} {key_text(table, row)} is {row['status']}"
                raise LandscapeRefused(message)
            changed = row | changes
            check_new(table, changed)
            with self.lock:
                waiting = self._waiting.get((str(table.name), run_id, record_id))
                if waiting is None:
                    break
                if waiting == row:
                    waiting.update(changes)
                    return dict(waiting)
        unit = RecordUnit(run_id)
        unit.changed.append((table, changed))
        self.add(unit)
        return dict(changed)

    def flush(self) -> None:
        """Write what waits; when this returns, everything that was taken before is durable.

        Raises:
            LandscapeRefused: units did not fit what the store holds; the others were written.
            LedgerUnavailable: nothing was written, everything still waits.
        """
        with self._writing:
            with self.lock:
                units, self._units = self._units, []
                size, self._size = self._size, 0
                waiting, self._waiting = self._waiting, {}
            if units:
                try:
                    self._write(units)
                except BaseException:
                    with self.lock:
                        self._units = units + self._units
                        self._size += size
                        self._waiting = waiting | self._waiting
                    raise
            with self.lock:
                refused, self._refused = self._refused, []
        if refused:
            first = refused[0]
            if len(refused) > 1:
                first.add_note(f"{len(refused) - 1} more were refused")
            raise first

    def _write(self, units: Sequence[RecordUnit]) -> None:
        try:
            with self.ledger.store.transaction() as tables:
                _write_units(tables, units)
        except (DuplicateKey, MissingReference, LandscapeRefused, TextNotStorable):
            # Some unit does not fit: each for itself, so that no other suffers from it.
            with self.ledger.store.transaction() as tables:
                refused = [error for unit in units for error in _write_alone(tables, unit)]
            with self.lock:
                self._refused += refused


def _place_of(table: Table, row: Row) -> tuple[str, str, str]:
    return str(table.name), row["run_id"], row[_key_of(table)]


def unfinished_statuses(table: Table) -> tuple[str, ...]:
    """Return the statuses in which a record of a table may still change."""
    return _UNFINISHED_IN.get(str(table.name), _UNFINISHED)


def _write_alone(tables: Tables, unit: RecordUnit) -> Iterable[LandscapeRefused]:
    try:
        with tables.savepoint():
            _write_units(tables, [unit])
    except DuplicateKey as error:
        names = ", ".join(f"{table.name} {key_text(table, row)}" for table, row in unit.added[:4])
        yield LandscapeRefused(f"{names}: {error} is there already")
    except MissingReference as error:
        named = dangling_reference(tables, [*unit.added, *unit.changed])
        yield LandscapeRefused(named or str(error), code="landscape_unknown")
    except TextNotStorable as error:
        yield LandscapeRefused(str(error), code="landscape_record_invalid")
    except LandscapeRefused as error:
        yield error


def _write_units(tables: Tables, units: Sequence[RecordUnit]) -> None:
    by_table: dict[str, list[Row]] = {}
    changed: dict[str, list[Row]] = {}
    for unit in units:
        for table, row in unit.added:
            by_table.setdefault(str(table.name), []).append(row)
        for table, row in unit.changed:
            changed.setdefault(str(table.name), []).append(row)
    begun = {row["run_id"] for row in by_table.get(str(_RUNS.name), ())}
    _check_running(tables, {unit.run_id for unit in units} - begun)
    _number_calls(tables, by_table.get(str(_CALLS.name), []))
    for table in TABLES.values():
        rows = by_table.get(str(table.name))
        if rows:
            tables.insert_many(table, rows)
        replaced = changed.get(str(table.name))
        if replaced:
            _check_unfinished(tables, table, replaced)
            tables.put_many(table, replaced)
    payloads = [row for unit in units for row in unit.payloads]
    if payloads:
        tables.put_many(schema.landscape_payloads, payloads)


def _check_running(tables: Tables, run_ids: Iterable[str]) -> None:
    for run_id in run_ids:
        row = tables.get(_RUNS, run_id)
        if row is None:
            raise LandscapeRefused(f"no run is called {run_id}", code="landscape_unknown")
        if row["status"] != "running":
            raise LandscapeRefused(f"the run {run_id} is over", code="landscape_run_over")


def _check_unfinished(tables: Tables, table: Table, rows: Sequence[Row]) -> None:
    for run_id, ids in _ids_by_run(table, rows).items():
        for at in range(0, len(ids), IDS_AT_ONCE):
            some = ids[at : at + IDS_AT_ONCE]
            stored = tables.select_any(table, _key_of(table), some, {"run_id": run_id})
            statuses = {row[_key_of(table)]: row["status"] for row in stored}
            for record_id in some:
                status = statuses.get(record_id, "not there")
                if status not in unfinished_statuses(table):
                    raise LandscapeRefused(f"{table.name} {run_id}/{record_id} is {status}")


def _ids_by_run(table: Table, rows: Sequence[Row]) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row["run_id"], []).append(row[_key_of(table)])
    return ids


def _key_of(table: Table) -> str:
    return key_names(table)[-1]


def _number_calls(tables: Tables, calls: Sequence[Row]) -> None:
    """Give each call the next index of its parent; nobody else can, behind the writer's lock."""
    next_index: dict[tuple[str, str, str], int] = {}
    for row in calls:
        column = "state_id" if row["operation_id"] is None else "operation_id"
        parent = (row["run_id"], column, row[column])
        if parent not in next_index:
            where = {"run_id": row["run_id"], column: row[column]}
            newest = tables.select(_CALLS, where, order_by="call_index", descending=True, limit=1)
            next_index[parent] = newest[0]["call_index"] + 1 if newest else 0
        row["call_index"] = next_index[parent]
        next_index[parent] += 1
