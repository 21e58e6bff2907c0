"""Holds each record of a run to its rules when it is written and when it is read.

A column's rule follows from its name and what the schema says of it. The rules of a whole record
are the table below: which fields a status requires and forbids, which parent a call has, which
outcomes end a token's way. Nothing is coerced: a record that breaks a rule is refused, or, where it
was read, is damage (Tier 1).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import orjson
from sqlalchemy import ForeignKeyConstraint, Integer, Table

from kernel.landscape.canonical_types import restore_value
from kernel.landscape.errors import RecordDamaged, RecordRefused
from kernel.ledger import schema
from kernel.ledger.landscape_tables import TERMINAL_OUTCOMES
from kernel.ledger.store.tables import Row, TablesView

TEXT_CHARS_MAX = 4096
"""Of an id, a name or a message; what is larger is a payload."""

NAME_CHARS_MAX = 256
"""Of what a key or an index holds."""

_INT64_MAX = (1 << 63) - 1
_is_hash = re.compile(r"[0-9a-f]{64}").fullmatch

ColumnRule = Callable[[Any], str | None]
RecordRule = Callable[[Row], str | None]

STATE_FIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = MappingProxyType(
    {
        "open": (
            ("input_hash", "started_at_us"),
            (
                *("output_hash", "output_ref", "completed_at_us", "duration_us"),
                *("error_json", "success_reason_json", "context_after_json"),
            ),
        ),
        "pending": (
            ("completed_at_us", "duration_us"),
            ("output_hash", "output_ref", "error_json", "success_reason_json"),
        ),
        "completed": (("output_hash", "completed_at_us", "duration_us"), ("error_json",)),
        "failed": (("completed_at_us", "duration_us"), ("success_reason_json",)),
    }
)
"""What a state of each status has to say, and may not."""

OUTCOME_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "completed": "sink_name",
        "routed": "sink_name",
        "forked": "fork_group_id",
        "expanded": "expand_group_id",
        "consumed_in_batch": "batch_id",
        "buffered": "batch_id",
        "coalesced": "join_group_id",
        "quarantined": "error_hash",
        "failed": "error_hash",
    }
)
"""The field that each outcome has to state."""


def _demanding(
    row: Row, status: str, required: Iterable[str], forbidden: Iterable[str]
) -> str | None:
    for name in required:
        if row[name] is None:
            return f"{status} requires {name}"
    for name in forbidden:
        if row[name] is not None:
            return f"{status} forbids {name}"
    return None


def _state(row: Row) -> str | None:
    return _demanding(row, row["status"], *STATE_FIELDS[row["status"]])


def _end_rule(*running: str) -> RecordRule:
    """What has ended says when; what runs does not."""

    def rule(row: Row) -> str | None:
        is_running = row["status"] in running
        at = ("completed_at_us",)
        return _demanding(row, row["status"], () if is_running else at, at if is_running else ())

    return rule


def _outcome(row: Row) -> str | None:
    outcome = row["outcome"]
    if row["is_terminal"] != int(outcome in TERMINAL_OUTCOMES):
        return f"is_terminal is {row['is_terminal']} of the outcome {outcome}"
    return _demanding(row, outcome, (OUTCOME_FIELDS[outcome],), ())


def _call(row: Row) -> str | None:
    if (row["state_id"] is None) == (row["operation_id"] is None):
        return "a call has exactly one of state_id and operation_id"
    if row["status"] == "error":
        return _demanding(row, "error", ("error_json",), ())
    return _demanding(row, "success", ("response_hash",), ("error_json",))


def _key_of(name: str, of: str, other: str) -> RecordRule:
    def rule(row: Row) -> str | None:
        expected = part_key(row[of], row[other])
        return None if row[name] == expected else f"{name} is not {expected}"

    return rule


def part_key(owner: str, ordinal: int) -> str:
    """Return the key of a part by what it is a part of and its place there."""
    return f"{owner}/{ordinal:06d}"


_OF_RECORDS: Mapping[str, RecordRule] = MappingProxyType(
    {
        "landscape_runs": _end_rule("running"),
        "landscape_token_parents": _key_of("link_id", "token_id", "ordinal"),
        "landscape_node_states": _state,
        "landscape_operations": _end_rule("open", "pending"),
        "landscape_calls": _call,
        "landscape_batches": _end_rule("draft", "executing"),
        "landscape_batch_members": _key_of("member_id", "batch_id", "ordinal"),
        "landscape_token_outcomes": _outcome,
    }
)


def problem_of(table: Table, row: Row) -> tuple[str, str] | None:
    """Return the column that breaks a rule, empty where it is the record, and the rule."""
    for name, rule, may_be_none in _column_rules(table):
        value = row[name]
        if value is None and may_be_none:
            continue
        problem = rule(value)
        if problem is not None:
            return name, problem
    of_record = _OF_RECORDS.get(table.name)
    problem = of_record(row) if of_record is not None else None
    return None if problem is None else ("", problem)


def check_new(table: Table, row: Row) -> None:
    """Refuse a record that breaks a rule.

    Raises:
        RecordRefused: `landscape_record_invalid`.
    """
    problem = problem_of(table, row)
    if problem is not None:
        field, rule = problem
        raise RecordRefused("landscape_record_invalid", field, f"{table.name}.{field}: {rule}")


def check_stored(table: Table, row: Row) -> Row:
    """Return a stored record, which keeps every rule and whose JSON is canonical.

    Raises:
        RecordDamaged: it does not.
    """
    problem = problem_of(table, row) or _json_problem(table, row)
    if problem is not None:
        raise RecordDamaged(str(table.name), key_text(table, row), " ".join(problem).strip())
    return row


def key_text(table: Table, row: Row) -> str:
    """Return the primary key of a record, its parts joined by a slash."""
    return "/".join(str(row[column.name]) for column in table.primary_key.columns)


def _json_problem(table: Table, row: Row) -> tuple[str, str] | None:
    for name in _json_columns(table):
        if row[name] is not None:
            try:
                restore_value(row[name].encode())
            except ValueError as error:
                return name, str(error)
    return None


@cache
def _json_columns(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if column.name.endswith("_json"))


@cache
def _column_rules(table: Table) -> tuple[tuple[str, ColumnRule, bool], ...]:
    keyed = {column.name for column in table.primary_key.columns}
    for index in table.indexes:
        keyed |= {column.name for column in index.columns}
    for constraint in table.constraints:
        keyed |= {column.name for column in getattr(constraint, "columns", ())}
    return tuple(
        (str(column.name), _rule_of(column, chars_max), bool(column.nullable))
        for column in table.columns
        for chars_max in [NAME_CHARS_MAX if column.name in keyed else TEXT_CHARS_MAX]
    )


def _rule_of(column: Any, chars_max: int) -> ColumnRule:
    if isinstance(column.type, Integer):
        return _is_flag if column.name.startswith("is_") else _is_count
    if column.name.endswith(("_hash", "_ref")):
        return _is_digest
    if column.name.endswith("_json"):
        return _is_json_text
    values = column.info.get("values")
    return _is_one_of(frozenset(values)) if values else _is_text(chars_max)


def _is_count(value: Any) -> str | None:
    is_count = type(value) is int and 0 <= value <= _INT64_MAX
    return None if is_count else "is no whole number from 0 on"


def _is_flag(value: Any) -> str | None:
    return None if type(value) is int and value in (0, 1) else "is neither 0 nor 1"


def _is_digest(value: Any) -> str | None:
    is_digest = type(value) is str and _is_hash(value)
    return None if is_digest else "is no SHA-256 in hex"


def _is_json_text(value: Any) -> str | None:
    return None if type(value) is str and value else "is no JSON"


def _is_one_of(values: frozenset[str]) -> ColumnRule:
    return lambda value: (
        None
        if type(value) is str and value in values
        else f"is none of {', '.join(sorted(values))}"
    )


def _is_text(chars_max: int) -> ColumnRule:
    def rule(value: Any) -> str | None:
        if type(value) is not str or not value:
            return "is no text"
        if len(value) > chars_max:
            return f"is longer than {chars_max} characters"
        return "holds U+0000" if "\x00" in value else None

    return rule


def record_bytes(table: Table, row: Mapping[str, Any]) -> bytes:
    """Return the bytes by which a record enters the digest of its table: its values in order."""
    return orjson.dumps([row[name] for name in digested_names(table)]) + b"\n"


@cache
def digested_names(table: Table) -> tuple[str, ...]:
    """Return the columns of a table that its digest covers, in their order."""
    return tuple(
        column.name for column in table.columns if not column.info.get("after_the_end", False)
    )


TABLES: Mapping[str, Table] = MappingProxyType(
    {str(table.name).removeprefix("landscape_"): table for table in schema.LANDSCAPE_TABLES}
)
"""The tables of records by their short names, in the order in which a run writes them."""

KEYS: Mapping[str, str] = MappingProxyType(
    {name: str(list(table.primary_key.columns)[-1].name) for name, table in TABLES.items()}
)
"""The column that is a table's own part of its key."""


def table_of(name: str) -> Table:
    """Return the table of records that the database calls so.

    Raises:
        KeyError: no table of records is called so.
    """
    return TABLES[name.removeprefix("landscape_")]


def key_of(table: Table) -> str:
    """Return the column that is a table's own part of its key."""
    return KEYS[str(table.name).removeprefix("landscape_")]


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


def missing_reference(tables: TablesView, table: Table, row: Row) -> str | None:
    """Return the rule that a record breaks by naming another that is not there, if it does."""
    rules = (_missing(tables, reference, row) for reference in table.foreign_key_constraints)
    return next((rule for rule in rules if rule is not None), None)


def _missing(tables: TablesView, reference: ForeignKeyConstraint, row: Row) -> str | None:
    key = [row[column] for column in reference.column_keys]
    if None in key or tables.get(reference.referred_table, *key) is not None:
        return None
    referred = reference.referred_table.name
    return f"{reference.column_keys[-1]} names {key[-1]}, which is not in {referred}"
