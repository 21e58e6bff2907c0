"""What records name of their run, which the database holds them to (decision kernel/0478)."""

from collections.abc import Iterable

from sqlalchemy import Table

from kernel.landscape.record_rules import key_text
from kernel.ledger.tables import Row, TablesView


def dangling_reference(tables: TablesView, records: Iterable[tuple[Table, Row]]) -> str | None:
    """Return a sentence about the first record that names one that is not there, if any does."""
    records = list(records)
    written = {(str(table.name), key_text(table, row)) for table, row in records}
    for table, row in records:
        for reference in table.foreign_key_constraints:
            key = [row[column] for column in reference.column_keys]
            referred = reference.referred_table
            if None in key or (str(referred.name), "/".join(map(str, key))) in written:
                continue
            if tables.get(referred, *key) is None:
                column, place = reference.column_keys[-1], f"{table.name} {key_text(table, row)}"
                return f"{place}: {column} names {key[-1]}, which is not in {referred.name}"
    return None
