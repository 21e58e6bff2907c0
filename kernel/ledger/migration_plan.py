"""Says of the statements of a migration which go over the rows of a table; pure, but for a clock.

The rest changes the catalog alone and takes no longer on many rows than on none. How long rows take
is measured by reading some of them: a statement that goes over rows at the server takes about that
long, and longer where it writes each of them to a slow disk.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

SAMPLE_ROWS: Final = 10_000

_OVER_ROWS: Final = re.compile(
    r"(?:UPDATE|DELETE FROM|CREATE (?:UNIQUE )?INDEX \w+ ON|INSERT INTO \w+ SELECT [^;]* FROM)"
    r" (\w+)"
)
_ALTER: Final = re.compile(r"ALTER TABLE (\w+) (\w+(?: \w+)?)([^;]*)")
_OF_CATALOG: Final = {
    "sqlite": frozenset({"ADD COLUMN", "RENAME TO", "RENAME COLUMN"}),
    "postgresql": frozenset(
        {"ADD COLUMN", "RENAME TO", "RENAME COLUMN", "DROP COLUMN", "DROP CONSTRAINT"}
    ),
}
"""Changes of a table that touch none of its rows; SQLite writes a table anew without a column."""


class RowsLook(NamedTuple):
    """How many rows a table has, and how many of them were read a second."""

    rows: int
    rows_per_s: float | None
    """None where there was none to read."""

    @property
    def seconds(self) -> float:
        """How long it takes to go over all of them once, at that speed."""
        return self.rows / self.rows_per_s if self.rows_per_s else 0.0


def table_gone_over(statement: str, database: str) -> str | None:
    """Return the table whose rows a statement goes over, None where it goes over none."""
    over = _OVER_ROWS.match(statement)
    if over is not None:
        return over[1]
    alter = _ALTER.match(statement)
    if alter is None or (alter[2] in _OF_CATALOG[database] and "NOT NULL" not in alter[3]):
        return None
    return alter[1]


def tables_gone_over(statements: Iterable[str], database: str) -> Iterator[str]:
    """Yield a table for each statement that goes over its rows."""
    for statement in statements:
        table = table_gone_over(statement, database)
        if table is not None:
            yield table
