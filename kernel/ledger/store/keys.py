"""Reads from the schema which columns identify a row, and which values are taken once."""

from collections.abc import Callable, Mapping
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Table, UniqueConstraint

Columns = tuple[str, ...]
Values = tuple[Any, ...]


@cache
def column_names(table: Table) -> Columns:
    """Return a table's columns in their order."""
    return tuple(column.name for column in table.columns)


@cache
def key_names(table: Table) -> Columns:
    """Return the columns of the primary key."""
    return tuple(column.name for column in table.primary_key.columns)


@cache
def unique_columns(table: Table) -> tuple[Columns, ...]:
    """Return each set of columns, beside the primary key, whose values are unique."""
    return tuple(
        sorted(
            tuple(column.name for column in constraint.columns)
            for constraint in table.constraints
            if isinstance(constraint, UniqueConstraint)
        )
    )


@cache
def values_getter(names: Columns) -> Callable[[Mapping[str, Any]], Values]:
    """Return a function that takes columns out of a row, as a tuple in their order."""
    if len(names) == 1:
        [name] = names
        return lambda row: (row[name],)
    return itemgetter(*names)
