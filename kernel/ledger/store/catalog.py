"""Holds a database's tables against those that this program makes.

An adapter tells both as facts: a column, a constraint, an index, a trigger, a setting. A fact that
one side alone has is a fault (decision kernel/0180). The order of columns and of constraints is no
fact, because a migrated ledger has them in another order.

A view, a rule or a generated column in place of a table is not read: it would run what a stranger
has written, with the rights of whoever verifies. Verification ends there (`not_a_table`).
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from kernel.values.errors import LedgerSchemaDiffers

StorageRule = Literal[
    "not_a_table",
    "schema_differs",
    "schema_unreadable",
    "index_differs",
    "constraint_broken",
    "page_damaged",
    "setting_differs",
    "not_a_database",
    "file_empty",
    "file_zeroed",
    "file_truncated",
    "wal_does_not_fit",
    "wal_damaged",
]

STORAGE_RULES: frozenset[str] = frozenset(get_args(StorageRule))

NOT_READ = frozenset({"not_a_table", "schema_unreadable"})
"""Faults under which reading rows runs what a stranger has written, or fails."""

FACT_CHARS_MAX = 200


class Fact(NamedTuple):
    """One thing that a database says of a table."""

    table: str
    kind: Literal["table", "column", "constraint", "index", "trigger", "function", "object"]
    text: str


@dataclass(frozen=True, slots=True)
class StorageFault:
    """A part of the storage that differs from what the schema makes, or is damaged."""

    table: str
    """The table that it concerns, `ledger` where it concerns all of them."""

    name: str
    """The object: an index, a trigger, a page."""

    rule: StorageRule
    message: str


@dataclass(frozen=True, slots=True)
class ContentReport:
    """The result of comparing stored indexes and pages with their tables."""

    faults: list[StorageFault] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    """What could not be compared, and why, in words for an operator."""


_NEEDS_A_VALUE = frozenset({"check", "generated", "identity", "null", "primary", "references"})
"""Words of a column that a program which does not know it could not leave empty."""


def differences(
    expected: AbstractSet[Fact], stored: AbstractSet[Fact], *, is_own: bool = True
) -> list[StorageFault]:
    """Return a fault for each fact that only one side has, tables first, in a stable order.

    Where the tables are not of this program's own version, nothing may be missing all the same;
    what has been added that disturbs nobody is no fault.
    """
    missing = [_fault(fact, "is not there") for fact in expected - stored]
    tables = {fact.table for fact in expected}
    extra = [
        _fault(fact, "is not this program's")
        for fact in stored - expected
        if is_own or not _disturbs_nobody(fact, tables)
    ]
    rank = {"not_a_table": 0}
    return sorted(
        missing + extra,
        key=lambda fault: (rank.get(fault.rule, 1), fault.table, fault.name, fault.message),
    )


def _disturbs_nobody(fact: Fact, tables: AbstractSet[str]) -> bool:
    """Tell whether a program that does not know of a fact reads and writes as without it."""
    if fact.kind == "object":
        return False
    if fact.table not in tables:
        return True
    words = {*fact.text.lower().split()}
    if fact.kind == "column":
        return "unique" not in words and words.isdisjoint(_NEEDS_A_VALUE)
    return fact.kind == "index" and "unique" not in words


def _fault(fact: Fact, verdict: str) -> StorageFault:
    rule: StorageRule = "not_a_table" if fact.kind == "table" else "schema_differs"
    text = fact.text if len(fact.text) <= FACT_CHARS_MAX else f"{fact.text[:FACT_CHARS_MAX]}..."
    # Neither database gives a constraint a name to rely on.
    name = text.split("(")[0].strip() if fact.kind == "constraint" else text.split()[0]
    return StorageFault(fact.table, f"{fact.kind} {name}", rule, f"{fact.kind} {text} {verdict}")


def refuse_differences(faults: Iterable[StorageFault], place: str) -> None:
    """Refuse tables that are not those which this program makes.

    Raises:
        LedgerSchemaDiffers: `ledger_schema_altered`, naming the first fault.
    """
    for fault in faults:
        raise LedgerSchemaDiffers(
            f"{place}: {fault.table}: {fault.message}; `rotulus verify` names every difference."
            " Put the schema right, or put back a copy from before",
            code="ledger_schema_altered",
        )


def table_fact(table: str, expected: Iterable[str], plain: Mapping[str, bool]) -> Fact:
    """Return whether a table can be read as one: each column of the schema is plainly there."""
    lacking = sorted(name for name in expected if not plain.get(name, False))
    text = f"{table} with the columns of the schema"
    return Fact(table, "table", f"{text}, but for {', '.join(lacking)}" if lacking else text)
