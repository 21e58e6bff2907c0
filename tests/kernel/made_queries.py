"""SELECTs that are made of joins, subqueries and WITH over tables, for property tests."""

from collections.abc import Collection
from itertools import count
from random import Random

OPEN = frozenset({"pre_images", "shard_epochs"})
"""Tables that a query may read."""

SECRET = frozenset({"foreigners", "alembic_version"})
"""Tables that it may not; in these tests both have the columns `name` and `key`."""

_COLUMNS = ("key", "name", "content", "owner", "epoch", "*", "count(*)", "max(key)", "1", "rowid")
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ",")
_NATURAL = ("NATURAL JOIN", "NATURAL FULL JOIN", "NATURAL LEFT JOIN")
_CONDITIONS = ("USING (key)", "USING (name)", "USING (name, key)", "ON true", "ON 1 = 0")
_SCALARS = (
    "SELECT 1 AS key WHERE 1 = 0",
    "SELECT 'x' AS key",
    "VALUES (1)",
    "SELECT 1 AS name, 2 AS key",
    "SELECT 1 AS name, 2 AS key WHERE 1 = 0",
)
_AROUND = ("({})", "EXISTS ({})", "1 IN ({})")
_COMPOUNDS = ("UNION", "UNION ALL", "EXCEPT", "INTERSECT")


class _Maker:
    """Makes one statement."""

    def __init__(self, tables: Collection[str], seed: int) -> None:
        self._random = Random(seed)
        self._names = sorted({*tables, *(f'"{name}"' for name in tables), "t"})
        self._numbers = count()

    def statement(self) -> str:
        choose = self._random.choice
        name = choose(("t", "t", "pre_images"))
        before = f"WITH {name} AS ({self._select(1)}) " if self._is_one_in(2) else ""
        return before + self._select(2)

    def _is_one_in(self, number: int) -> bool:
        return self._random.randrange(number) == 0

    def _source(self, depth: int) -> str:
        choose = self._random.choice
        form = choose(("table", "made", "select", "join", "join")) if depth else "table"
        alias = f"a{next(self._numbers)}" if not self._is_one_in(4) else choose(("t", "pre_images"))
        if form == "table":
            return f"{choose(self._names)} AS {alias}"
        if form == "made":
            return f"({choose(_SCALARS)}) AS {alias}"
        if form == "select":
            return f"({self._select(depth - 1)}) AS {alias}"
        left, right = self._source(depth - 1), self._source(depth - 1)
        if self._is_one_in(3):
            return f"{left} {choose(_NATURAL)} {right}"
        join = choose(_JOINS)
        condition = "" if join in ("CROSS JOIN", ",") else choose(_CONDITIONS)
        return f"{left} {join} {right} {condition}"

    def _column(self, depth: int) -> str:
        choose = self._random.choice
        if depth and self._is_one_in(6):
            text = choose(_AROUND).format(self._select(depth - 1))
        else:
            text = choose(_COLUMNS)
        return text if text == "*" else f"{text} AS {choose(('key', 'name', 'k', 'n'))}"

    def _select(self, depth: int) -> str:
        columns = ", ".join(self._column(depth) for _ in range(self._random.randint(1, 2)))
        text = f"SELECT {columns} FROM {self._source(depth)}"  # noqa: S608 - that is the point
        if self._is_one_in(4):
            text += f" WHERE {self._random.choice(('', 'NOT '))}EXISTS ({self._select(0)})"
        if self._is_one_in(4):
            text += f" {self._random.choice(_COMPOUNDS)} {self._select(max(depth - 1, 0))}"
        return text


def made_query(tables: Collection[str], seed: int) -> str:
    """Return a SELECT on some of the tables; many are no SQL of the database's, as to columns."""
    return _Maker(tables, seed).statement()
