"""Reading for verification, page by page and without trust, and the findings.

Whatever a stored row makes a reader raise becomes a finding that names the row. A finding says
what is wrong with which row; why it is so, nobody can tell from the bytes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Table

from kernel.errors import LedgerUnavailable
from kernel.ledger.catalog import StorageRule
from kernel.ledger.tables import Row, TablesView

PAGE_ROWS = 1000
MESSAGE_CHARS_MAX = 500
KEY_CHARS_MAX = 1200

Document = dict[str, Any]

Rule = Literal[
    "missing",
    "extra",
    "gap",
    "double_write",
    "link_broken",
    "order_broken",
    "bytes_changed",
    "not_canonical",
    "column_differs",
    "field_differs",
    "unreadable",
    "not_folded",
    "state_differs",
    "replay_differs",
    "anchor_differs",
    "authority_differs",
    "rules_unknown",
    "unknown_name",
    "body_invalid",
    "head_not_found",
    StorageRule,
]
"""What can be wrong with a row, or with what holds it; the names are stable."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row that is not what the rest of the record says it is."""

    table: str
    key: str
    """The primary key; the parts of a longer one are joined by a slash."""

    rule: Rule
    message: str


class EnoughFindings(Exception):
    """The limit of findings is reached."""


class Findings:
    """The findings of a verification, in the order of their discovery."""

    def __init__(self, limit: int) -> None:
        self.entries: list[Finding] = []
        self._limit = limit

    def add(self, table: Table | str, key: object, rule: Rule, message: str) -> None:
        """Note one bad row, or one bad part of the storage.

        Raises:
            EnoughFindings: when the limit is reached.
        """
        self.entries.append(
            Finding(
                table if isinstance(table, str) else str(table.name),
                _printable(str(key))[:KEY_CHARS_MAX],
                rule,
                _printable(message)[:MESSAGE_CHARS_MAX],
            )
        )
        if len(self.entries) >= self._limit:
            raise EnoughFindings

    @contextmanager
    def guard(self, table: Table | str, key: object) -> Iterator[None]:
        """Turn an exception of the block into a finding about this row.

        Raises:
            LedgerUnavailable: when the store went away, which says nothing about the row.
        """
        try:
            yield
        except (EnoughFindings, LedgerUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - what a bad row makes a reader raise has no end
            self.add(table, key, "unreadable", f"{type(error).__name__}: {error}")


class Reader:
    """The tables of one snapshot, read without trusting them."""

    def __init__(self, tables: TablesView, findings: Findings) -> None:
        self.tables = tables
        self.findings = findings

    def get(self, table: Table, *key: Any) -> Row | None:
        """Return a row by its primary key; one that cannot be read is a finding and None."""
        with self.findings.guard(table, joined(*key)):
            return self.tables.get(table, *key)
        return None

    def select(self, table: Table, where: Mapping[str, Any], **options: Any) -> list[Row]:
        """Return rows by equality; what cannot be read is a finding."""
        with self.findings.guard(table, joined(*where.values())):
            return self.tables.select(table, where, **options)
        return []

    def pages(
        self,
        table: Table,
        where: Mapping[str, Any] | None = None,
        *,
        order_by: str | None = None,
        after: Any = None,
        page_rows: int = PAGE_ROWS,
    ) -> Iterator[Row]:
        """Yield every row behind a value in the order of a column, which need not be unique.

        A row that cannot be read is a finding, and what is after it is not seen. So is an order
        in which a page does not end behind the one before: a damaged tree can lead in a circle.
        """
        column = order_by or list(table.primary_key.columns)[-1].name
        limit = page_rows
        while True:
            try:
                rows = self.tables.select(table, where, order_by=column, after=after, limit=limit)
            except LedgerUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - each store has errors of its own
                if limit > 1:
                    limit = 1
                    continue
                self.findings.add(table, f"after {after}", "unreadable", f"{error}")
                return
            full = len(rows) == limit
            if full and limit > 1:
                # Rows with the last value may continue on the next page, so they are left to it.
                whole_groups = [row for row in rows if row[column] != rows[-1][column]]
                if not whole_groups:
                    limit *= 2
                    continue
                rows = whole_groups
            yield from rows
            if not full:
                return
            before, after = after, rows[-1][column]
            if not _is_behind(after, before):
                message = f"a page ends with {shown(after)}, the one before with {shown(before)}"
                self.findings.add(table, f"after {before}", "page_damaged", message)
                return

    def count(self, table: Table) -> int:
        """Return the number of rows."""
        return self.tables.count(table)


def _is_behind(value: object, before: object) -> bool:
    """Tell whether a value stands behind another in the order of the databases."""
    ranks = [_rank(value), _rank(before)]
    if ranks[0] != ranks[1] or ranks[0] == 0:
        return ranks[0] > ranks[1]
    try:
        return bool(value > before)  # type: ignore[operator]
    except TypeError:
        return False


def _rank(value: object) -> int:
    if isinstance(value, str):
        return 2
    return 1 if isinstance(value, int | float) else 3 if isinstance(value, bytes) else 0


def joined(*parts: object) -> str:
    """Return a key of several parts as findings name it."""
    return "/".join(str(part) for part in parts)


def load_object(content: object) -> Document | None:
    """Read a JSON object from stored bytes; None where they hold anything else."""
    if not isinstance(content, bytes):
        return None
    try:
        value = _DECODER.decode(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def time_us(text: object) -> int | None:
    """Return the microseconds of a stored time; None for anything but the one stored form."""
    if not isinstance(text, str) or _TIME.fullmatch(text) is None:
        return None
    try:
        moment = datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def shown(value: object) -> str:
    """Return a value as a message shows it."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _whole(digits: str) -> int | float:
    # Beyond 2^53 - 1 canonical JSON has no integers: the digits are a float's.
    value = int(digits)
    return value if abs(value) < 1 << 53 else float(digits)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_int=_whole, parse_constant=_refuse)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
