"""Holds records in the database to what they name of their run (decision kernel/0478)."""

from collections.abc import Iterable

from sqlalchemy import ForeignKeyConstraint, Table

from kernel.landscape.record_rules import key_text
from kernel.ledger.store.tables import Row, TablesView


def dangling_reference(tables: TablesView, records: Iterable[tuple[Table, Row]]) -> str | None:
    """Return a sentence about the first record that names one that is not there, if any does."""
    records = list(records)
    written = {(str(table.name), key_text(table, row)) for table, row in records}
    for table, row in records:
        for reference in table.foreign_key_constraints:
            key = [row[column] for column in reference.column_keys]
            if (str(reference.referred_table.name), "/".join(map(str, key))) in written:
                continue
            missing = _missing(tables, reference, row)
            if missing is not None:
                return f"{table.name} {key_text(table, row)}: {missing}"
    return None


def named_and_missing(tables: TablesView, table: Table, row: Row) -> str | None:
    """Return the rule that a record breaks by naming another that is not there, if it does."""
    rules = (_missing(tables, reference, row) for reference in table.foreign_key_constraints)
    return next((rule for rule in rules if rule is not None), None)


def _missing(tables: TablesView, reference: ForeignKeyConstraint, row: Row) -> str | None:
    key = [row[column] for column in reference.column_keys]
    if None in key or tables.get(reference.referred_table, *key) is not None:
        return None
    referred = reference.referred_table.name
    return f"{reference.column_keys[-1]} names {key[-1]}, which is not in {referred}"
