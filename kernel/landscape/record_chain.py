"""Chains the groups of records that transactions wrote of a run, each naming the one before.

A group's bytes name the records by table and key, and state one digest for each table over their
values. A record that is finished enters whole. One that is not enters by the columns that stay as
they are, and what the others hold is stated beside it; it enters again when it changes. So every
group can be computed again from the records as they are later, finished or not, and no record can
be changed without its group (decision kernel/0610).

The writer's lock is held while a group is written, so the chain has no forks. A run that was
recorded before there were groups is taken into the chain by whoever writes of it first, or by a
gateway when it starts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Table

from kernel.landscape.digest import records_of
from kernel.landscape.record_rules import TABLES, check_stored, digested_names, key_of, table_of
from kernel.ledger import schema
from kernel.ledger.landscape_tables import CHANGING
from kernel.ledger.store.keys import values_getter
from kernel.ledger.store.tables import Row, TableQuery, Tables, TablesView
from kernel.values.canonical import GENESIS_HASH, sha256_hex

EARLIER_RECORDS = 1024
"""Records of a group that takes in what was recorded before there were groups."""

FINISHED: Mapping[str, tuple[str, ...]] = {
    # A run that failed or was interrupted may go on.
    "landscape_runs": ("completed",),
    "landscape_node_states": ("completed", "failed"),
    "landscape_operations": ("completed", "failed"),
    "landscape_batches": ("completed", "failed"),
}
"""Statuses in which a record does not change any more."""

Entry = dict[str, Any]
"""Of the records of one table: `keys`, the `digest`, and `open`, the texts of what may change of
the last of them, which are not finished."""


class _Form(NamedTuple):
    """How a record of a table enters a group."""

    key: str
    whole: Any
    kept: Any
    """The values of the columns that stay as they are, as of a whole one all values."""

    changing: Any
    finished: tuple[str, ...] | None
    """Statuses in which a record is finished; None where each one is."""


@cache
def _form_of(table: Table) -> _Form:
    names, changing = digested_names(table), CHANGING.get(str(table.name), ())
    kept = tuple(name for name in names if name not in changing)
    return _Form(
        key_of(table),
        values_getter(names),
        values_getter(kept),
        values_getter(changing) if changing else None,
        FINISHED.get(str(table.name)),
    )


def entry_of(table: Table, rows: Sequence[Row]) -> Entry:
    """Return what a group states of some records of one table."""
    form = _form_of(table)
    if form.finished is None:
        return {"keys": [row[form.key] for row in rows], "digest": group_digest(table, rows, ())}
    whole = [row for row in rows if row["status"] in form.finished]
    begun = [row for row in rows if row["status"] not in form.finished]
    entry = {
        "keys": [row[form.key] for row in (*whole, *begun)],
        "digest": group_digest(table, whole, begun),
    }
    return entry | {"open": [changing_text(table, row) for row in begun]} if begun else entry


def group_digest(table: Table, whole: Iterable[Row], begun: Iterable[Row]) -> str:
    """Return the digest over records of a table: whole ones, and such as are not finished."""
    form = _form_of(table)
    content = orjson.dumps([[*map(form.whole, whole)], [*map(form.kept, begun)]])
    return sha256(content).hexdigest()


def changing_text(table: Table, row: Row) -> str:
    """Return the values of a record's columns that may change, as a group states them."""
    return orjson.dumps(_form_of(table).changing(row)).decode()


class RecordChain:
    """The end of the chain, inside the transaction that writes."""

    def __init__(self, tables: Tables) -> None:
        """Go to the newest group."""
        self._tables = tables
        newest = newest_group(tables)
        self._sequence = newest["group_sequence"] if newest else 0
        self._hash = newest["group_hash"] if newest else GENESIS_HASH
        self._run_id = newest["run_id"] if newest else None

    def append(self, run_id: str, written: Mapping[str, Sequence[Row]]) -> None:
        """Append what this transaction has written of a run, by table, as the newest group."""
        entries = {name: entry_of(table_of(name), rows) for name, rows in written.items() if rows}
        if entries:
            self.append_entries(run_id, entries)

    def append_entries(self, run_id: str, entries: Mapping[str, Entry]) -> None:
        """Append a group that states the entries of its tables."""
        sequence = self._sequence + 1
        document = {
            "group_sequence": str(sequence),
            "prior_group_hash": self._hash,
            "records": entries,
            "run_id": run_id,
        }
        content = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
        group_hash = sha256_hex(content)
        self._tables.append(
            schema.landscape_record_groups,
            {
                "group_sequence": sequence,
                "run_id": run_id,
                "prior_group_hash": self._hash,
                "group_hash": group_hash,
                "group_bytes": content,
            },
        )
        self._sequence, self._hash, self._run_id = sequence, group_hash, run_id

    def take_in(self, run_id: str) -> None:
        """Append all records of a run that has no group yet, as stored; linear in them.

        Raises:
            RecordDamaged: one breaks a rule; the transaction can only be given up.
        """
        if run_id != self._run_id and not has_group(self._tables, run_id):
            for entries in earlier_entries(self._tables, run_id):
                self.append_entries(run_id, entries)


def newest_group(tables: TablesView) -> Row | None:
    """Return the newest group, None before the first."""
    rows = tables.scan(TableQuery(schema.landscape_record_groups, descending=True, limit=1))
    return rows[0] if rows else None


def has_group(tables: TablesView, run_id: str) -> bool:
    """Tell whether a run is in the chain."""
    return bool(
        tables.scan(TableQuery(schema.landscape_record_groups, {"run_id": run_id}, limit=1))
    )


def earlier_entries(tables: TablesView, run_id: str) -> Iterator[dict[str, Entry]]:
    """Yield, group by group, the entries that take all records of a run in, as they are stored.

    Raises:
        RecordDamaged: one breaks a rule.
    """
    for name, table in TABLES.items():
        rows = (check_stored(table, row) for row in records_of(tables, run_id, name))
        while page := [*islice(rows, EARLIER_RECORDS)]:
            yield {str(table.name): entry_of(table, page)}
