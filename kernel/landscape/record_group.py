"""Records that wait to be written: few transactions for many records, none of them in part.

Records that belong together (a fork with the outcome of its parent) are a unit, and a unit is
written whole or not at all. A recorder's records are durable when `flush` has returned. More units
than the bound are not held back: whoever adds one then writes them first. If the store does not
answer they stay, and nothing is taken that would go beyond the bound.

In the transaction, behind the writer's lock, is decided what only there can be known: whether the
run still runs, whether what is completed is still open, and the index of a call among those of its
parent. So it holds under threads, several processes, and after a restart (decision kernel/0422).
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

from sqlalchemy import Table

from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_chain import RecordChain
from kernel.landscape.record_rules import (
    TABLES,
    check_new,
    check_stored,
    dangling_reference,
    key_of,
    key_text,
    table_of,
)
from kernel.landscape.run_rules import ids_by_run, lineage_problems
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import DuplicateKey, MissingReference, Row, TableQuery, Tables
from kernel.values.errors import TextNotStorable

GROUP_RECORDS = 1024
"""Records that are written together."""

BOUND_RECORDS = 8 * GROUP_RECORDS
"""Records that are held back at most, while the store does not answer."""

PAYLOAD_BYTES = 8192
"""Of a payload for which it counts as one more record."""

_RUNS, _CALLS = TABLES["runs"], TABLES["calls"]
_OF_LINEAGE = ("tokens", "token_parents", "batch_outputs")
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
    changed: list[tuple[Table, Row, Row]] = field(default_factory=list)
    """Whole rows, each behind the stored one that it replaces, which is not finished."""

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

    def records(self) -> list[tuple[Table, Row]]:
        """Return the records that it writes, as they then stand."""
        if not self.changed:
            return self.added
        return [*self.added, *((table, row) for table, _, row in self.changed)]

    @property
    def size(self) -> int:
        """How many records it writes; a large payload counts as several."""
        records = len(self.added) + len(self.changed)
        if not self.payloads:
            return records
        payloads = sum(len(row["content"]) // PAYLOAD_BYTES for row in self.payloads)
        return records + len(self.payloads) + payloads


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
        self._unfinished: dict[tuple[str, str, str], Row] = {}
        """What this group has written and may still change; the newest (decision kernel/0510)."""

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
                for table, row in unit.records():
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
        size = unit.size
        with self.lock:
            if self._whole is None and self._size + size > max(BOUND_RECORDS, size):
                self.flush()
            for table, row in unit.records():
                self._waiting[_place_of(table, row)] = row
            if self._whole is not None:
                self._whole.take(unit)
                return
            self._units.append(unit)
            self._size += size
            is_group = self._size >= self._group_records
        if is_group:
            self.flush()

    def add_record(self, table: Table, row: Row) -> None:
        """Take a record that is a unit by itself; see `add`.

        Raises:
            RecordRefused: it breaks a rule of its table.
        """
        check_new(table, row)
        whole = self._whole
        if whole is None:
            self.add(RecordUnit(row["run_id"], [(table, row)]))
            return
        with self.lock:
            whole.added.append((table, row))
            self._waiting[_place_of(table, row)] = row

    def add_payload(self, payload: Row) -> None:
        """Take a content that is a unit by itself; see `add`."""
        whole = self._whole
        if whole is None:
            self.add(RecordUnit(payload["run_id"], payloads=[payload]))
        else:
            whole.payloads.append(payload)

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
            key = (run_id,) if table is _RUNS else (run_id, record_id)
            stored = self.ledger.read(lambda view: view.tables.get(table, *key))
        return None if stored is None else check_stored(table, stored)

    def change(self, table: Table, run_id: str, record_id: str, changes: Row) -> Row:
        """Change a record that is not finished, and return it as it then stands.

        Raises:
            LandscapeRefused: `landscape_unknown`, or `landscape_conflict` where it is finished.
            RecordRefused: it would break a rule.
        """
        place = (_name_and_key(table)[0], run_id, record_id)
        with self.lock:
            waiting = self._waiting.get(place)
            if waiting is not None:
                changed = _apply_changes(table, waiting, changes)
                waiting.update(changes)
                return changed
            row = self._unfinished.get(place)
        row = row or self.read(table, run_id, record_id)
        if row is None:
            message = f"{table.name} has no {record_id} in the run {run_id}"
            raise LandscapeRefused(message, code="landscape_unknown")
        changed = _apply_changes(table, row, changes)
        self.add(RecordUnit(run_id, changed=[(table, row, changed)]))
        return changed.copy()

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
                for place in waiting:
                    self._unfinished.pop(place, None)
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
                if not refused:
                    self._keep_unfinished(waiting)
        if refused:
            first = refused[0]
            if len(refused) > 1:
                first.add_note(f"{len(refused) - 1} more were refused")
            raise first

    def _keep_unfinished(self, written: Mapping[tuple[str, str, str], Row]) -> None:
        for place, row in written.items():
            if row.get("status") in _UNFINISHED_IN.get(place[0], _UNFINISHED):
                self._unfinished[place] = row
        for place in list(islice(self._unfinished, max(0, len(self._unfinished) - BOUND_RECORDS))):
            del self._unfinished[place]

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
    name, key = _name_and_key(table)
    return name, row["run_id"], row[key]


@cache
def _name_and_key(table: Table) -> tuple[str, str]:
    """Return a table's name and its own part of its key."""
    return str(table.name), key_names(table)[-1]


def _apply_changes(table: Table, row: Row, changes: Row) -> Row:
    if row["status"] not in unfinished_statuses(table):
        raise LandscapeRefused(f"{table.name} {key_text(table, row)} is {row['status']}")
    changed = row | changes
    check_new(table, changed)
    return changed


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
        named = dangling_reference(tables, unit.records())
        yield LandscapeRefused(named or str(error), code="landscape_unknown")
    except TextNotStorable as error:
        yield LandscapeRefused(str(error), code="landscape_record_invalid")
    except LandscapeRefused as error:
        yield error


def _write_units(tables: Tables, units: Sequence[RecordUnit]) -> None:
    added: dict[str, list[Row]] = {}
    changed: dict[str, list[tuple[Row, Row]]] = {}
    run_ids = {unit.run_id for unit in units}
    for unit in units:
        for table, row in unit.added:
            added.setdefault(_name_and_key(table)[0], []).append(row)
        for table, before, row in unit.changed:
            changed.setdefault(_name_and_key(table)[0], []).append((before, row))
    _check_lineage(tables, added)
    begun = {row["run_id"] for row in added.get(str(_RUNS.name), ())}
    _check_running(tables, run_ids - begun)
    chain = RecordChain(tables)
    for run_id in sorted(run_ids - begun):
        chain.take_in(run_id)
    _number_calls(tables, added.get(str(_CALLS.name), []))
    for table in TABLES.values():
        rows = added.get(str(table.name))
        if rows:
            tables.insert_many(table, rows)
        replaced = changed.get(str(table.name))
        if replaced:
            _check_unchanged(tables, table, replaced)
            tables.put_many(table, [row for _, row in replaced])
    for run_id in sorted(run_ids):
        chain.append(
            run_id, _written_records(added, changed, None if len(run_ids) == 1 else run_id)
        )
    payloads = {
        (row["run_id"], row["content_hash"]): row for unit in units for row in unit.payloads
    }
    if payloads:
        tables.put_many(schema.landscape_payloads, list(payloads.values()))


def _written_records(
    added: Mapping[str, list[Row]],
    changed: Mapping[str, list[tuple[Row, Row]]],
    run_id: str | None,
) -> dict[str, list[Row]]:
    """Return what was written, by table, each record as it then stands; of one run where asked."""
    written = dict(added)
    for name, pairs in changed.items():
        key = key_of(table_of(name))
        # Of a record that was changed twice the last one stands.
        newest = {(row["run_id"], row[key]): row for _, row in pairs}
        written[name] = [*added.get(name, ()), *newest.values()]
    if run_id is None:
        return written
    return {
        name: [row for row in rows if row["run_id"] == run_id] for name, rows in written.items()
    }


def _check_running(tables: Tables, run_ids: Iterable[str]) -> None:
    for run_id in run_ids:
        row = tables.get(_RUNS, run_id)
        if row is None:
            raise LandscapeRefused(f"no run is called {run_id}", code="landscape_unknown")
        if row["status"] != "running":
            raise LandscapeRefused(f"the run {run_id} is over", code="landscape_run_over")


def _check_lineage(tables: Tables, added: Mapping[str, Sequence[Row]]) -> None:
    """Refuse tokens that are no children of their parents."""
    tokens, links, outputs = (added.get(str(TABLES[name].name), ()) for name in _OF_LINEAGE)
    problem = next(lineage_problems(tables, tokens, links, outputs), None)
    if problem is not None:
        raise LandscapeRefused(str(problem), code="landscape_lineage")


def _check_unchanged(tables: Tables, table: Table, changes: Sequence[tuple[Row, Row]]) -> None:
    """Refuse a change of a record that is not what it was when the change was made."""
    key = key_of(table)
    stored = {
        (row["run_id"], row[key]): row
        for run_id, ids in ids_by_run((row["run_id"], row[key]) for row, _ in changes).items()
        for row in tables.scan(TableQuery(table, {"run_id": run_id}, any_of=(key, ids)))
    }
    for before, after in changes:
        place = (before["run_id"], before[key])
        now = stored.get(place)
        if now != before:
            name = f"{table.name} {key_text(table, before)}"
            status = "not there" if now is None else check_stored(table, now)["status"]
            raise LandscapeRefused(f"{name} was changed meanwhile and is {status}")
        stored[place] = after


def _number_calls(tables: Tables, calls: Sequence[Row]) -> None:
    """Give each call the next index of its parent; nobody else can, behind the writer's lock."""
    next_index: dict[tuple[str, str, str], int] = {}
    for row in calls:
        column = "state_id" if row["operation_id"] is None else "operation_id"
        parent = (row["run_id"], column, row[column])
        if parent not in next_index:
            where = {"run_id": row["run_id"], column: row[column]}
            newest = tables.scan(
                TableQuery(_CALLS, where, order_by="call_index", descending=True, limit=1)
            )
            next_index[parent] = newest[0]["call_index"] + 1 if newest else 0
        row["call_index"] = next_index[parent]
        next_index[parent] += 1
