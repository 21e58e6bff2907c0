"""Compares two writes of a store that had not seen each other (§15.5, §19.2).

The noun of each store says which record an effect writes, what it states of it, and by what two
records are one thing (decision kernel/0223); `conflicts/compared.py` lists them. Visibility classes
and grants are not compared: the more restricted class holds whoever wrote it, and one more grant
contradicts none. Two values of a record that is neither node nor edge cannot stand side by side, so
where the policy asks for a merge or a contradicting edge, a person decides.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

Fields = dict[str, Any]

RECORD_STATE = "record_state"
"""The field by which a record that is written and one that is taken back differ."""

_BESIDE_STATED = frozenset(
    {
        *("binding_id", "supersedes", "state", "extraction_run_id", "operation_id"),
        *("updated_by_operation_id", "updated_at"),
    }
)


@dataclass(frozen=True, slots=True)
class SameThing:
    """The column and the fields by which records with other keys are about the same entity."""

    column: str
    """A column of the table, in an index of its own with `updated_at`."""

    named_by: Callable[[Fields], object]
    """The value of the column, by what is stated of the record."""

    fields: tuple[str, ...] = ()
    """The fields in which both records have to agree; empty where in all."""

    def comparable_fields(self, fields: Fields) -> Fields:
        """Return what of the fields of two records of one thing has to agree."""
        names = self.fields or (name for name in fields if name != self.column)
        return {name: fields[name] for name in names if name in fields}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What an effect of a store states of a record."""

    stated: Callable[[str, Fields], Fields | None]
    """The fields, by effect kind and payload; None of what is not compared."""

    standing: Callable[[Fields], Fields]
    """The fields of a record as it stands."""

    key: Callable[[str, Fields], str | None] = lambda target, _: target
    """The record that is written, by target and payload; None of one that the effect does not
    name."""

    is_whole: Callable[[str], bool] = lambda _: False
    """Whether an effect of a kind states the whole record, whatever was there."""

    has_seen: Callable[[Fields, Fields], bool] = lambda payload, record: False  # noqa: ARG005
    """Whether a payload says from what it goes on, and that is what stands."""

    same_thing: SameThing | None = None


def numbered_records(name: str, *without: str) -> Comparison:
    """Return the entry of records that a thing has one after the other, each with its number.

    What is stated `without` a number goes back one, whichever that is.
    """
    return Comparison(
        lambda kind, payload: None if kind in without else dict(payload),
        lambda record: {name: record[name] for name in record if name not in _BESIDE_STATED},
        key=lambda target, payload: f"{target}|{payload.get(name)}",
        is_whole=lambda _: True,
    )


def whole(retracting: AbstractSet[str], same_thing: SameThing | None = None) -> Comparison:
    """Return the entry of records whose payload each write states anew, or takes back."""

    def statement_of(kind: str, payload: Fields) -> Fields:
        if kind in retracting:
            return {RECORD_STATE: "retracted"}
        return {**payload, RECORD_STATE: "active"}

    return Comparison(
        statement_of,
        lambda record: {**record["payload"], RECORD_STATE: record["state"]},
        is_whole=lambda kind: kind not in retracting,
        same_thing=same_thing,
    )


def revocable_grants(*revoking: str) -> Comparison:
    """Return the entry of what is granted once; that it is revoked contradicts nobody."""
    return Comparison(
        lambda kind, payload: None if kind in revoking else dict(payload),
        lambda record: dict(record["payload"]),
        is_whole=lambda _: True,
    )
