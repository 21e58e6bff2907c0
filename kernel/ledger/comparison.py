"""Compares two writes of a store that had not seen each other (§15.5, §19.2).

One entry beside each table says which record an effect writes, what it states of it, and by what
two records are one thing (decision kernel/0223). Visibility classes and grants are not compared:
the more restricted class holds whoever wrote it, and one more grant contradicts none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernel.algebra.effects import MAKING_EDGES

Fields = dict[str, Any]

NAME_MAX = 512
"""Characters of a name by which records of the same entity are looked up."""

RECORD_STATE = "record_state"
"""The field by which a record that is written and one that is taken back differ."""

_OF_NODES = frozenset(
    {"node_write", "node_retract", "rescope", "review_disposition", "quarantine", "unquarantine"}
)
_OF_EDGES = MAKING_EDGES | {"edge_reclassify"}
_EDGE_FIELDS = ("source_node_id", "target_node_id", "edge_type")
_BESIDE_STATED = frozenset(
    {
        *("binding_id", "supersedes", "state", "extraction_run_id", "operation_id"),
        *("updated_by_operation_id", "updated_at"),
    }
)
_NOT_COMPARED = frozenset({"node_kind", "visibility_class", "merge_provenance"})


@dataclass(frozen=True, slots=True)
class SameThing:
    """The column and the fields by which records with other keys are about the same entity."""

    column: str
    """A column of the table, in an index of its own with `updated_at`."""

    named_by: Callable[[Fields], object]
    """The value of the column, by what is stated of the record."""

    fields: tuple[str, ...] = ()
    """The fields in which both records have to agree; empty where in all."""

    def compared(self, fields: Fields) -> Fields:
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


def _node_fields(kind: str, payload: Fields) -> Fields | None:
    if kind not in _OF_NODES:
        return None
    return {name: value for name, value in payload.items() if name not in _NOT_COMPARED}


def _edge_fields(kind: str, payload: Fields) -> Fields | None:
    if kind not in _OF_EDGES:
        return None
    metadata = payload.get("edge_metadata")
    fields = dict(metadata) if isinstance(metadata, dict) else {}
    fields.pop("merge_provenance", None)
    return fields | {name: payload[name] for name in _EDGE_FIELDS if name in payload}


def _standing_edge(record: Fields) -> Fields:
    return {**record["edge_metadata"], **{name: record[name] for name in _EDGE_FIELDS}}


NODES = Comparison(
    _node_fields,
    lambda record: dict(record["payload"]),
    same_thing=SameThing("identity_key", lambda fields: fields.get("identity_key")),
)
EDGES = Comparison(_edge_fields, _standing_edge, is_whole=MAKING_EDGES.__contains__)


def _membership_fields(kind: str, payload: Fields) -> Fields:
    revoked = kind == "membership_revoke"
    return {"to_state": "rejected" if revoked else payload.get("to_state", "candidate")}


MEMBERSHIPS = Comparison(
    _membership_fields,
    lambda record: {"to_state": record["state"]},
    key=lambda target, payload: f"{payload.get('corpus_id')}|{target}",
    has_seen=lambda payload, record: payload.get("from_state") == record["state"],
)


def numbered(name: str, *without: str) -> Comparison:
    """Return the entry of records that a thing has one after the other, each with its number.

    What is stated `without` a number goes back one, whichever that is.
    """
    return Comparison(
        lambda kind, payload: None if kind in without else dict(payload),
        lambda record: {name: record[name] for name in record if name not in _BESIDE_STATED},
        key=lambda target, payload: f"{target}|{payload.get(name)}",
        is_whole=lambda _: True,
    )


def whole(*retracting: str, same_thing: SameThing | None = None) -> Comparison:
    """Return the entry of records whose payload each write states anew, or takes back."""

    def stated(kind: str, payload: Fields) -> Fields:
        if kind in retracting:
            return {RECORD_STATE: "retracted"}
        return {**payload, RECORD_STATE: "active"}

    return Comparison(
        stated,
        lambda record: {**record["payload"], RECORD_STATE: record["state"]},
        is_whole=lambda kind: kind not in retracting,
        same_thing=same_thing,
    )


def document_of(stated: Fields) -> str | None:
    """Return the document that a filing unit names; no name is longer than an index takes."""
    refs = (stated.get(name) for name in ("document_ref", "document_id"))
    names = (name for name in refs if isinstance(name, str) and "\x00" not in name)
    return next((name for name in names if 0 < len(name) <= NAME_MAX), None)


FILING_UNITS = whole(
    "filing_unit_retract",
    same_thing=SameThing(
        "document_ref",
        document_of,
        (
            "filing_date_utc",
            "filing_date_originating_tz",
            "filing_date_originating_calendar_date",
        ),
    ),
)
"""A document is filed once, whichever of its units says when."""


def granted(*revoking: str) -> Comparison:
    """Return the entry of what is granted once; that it is revoked contradicts nobody."""
    return Comparison(
        lambda kind, payload: None if kind in revoking else dict(payload),
        lambda record: dict(record["payload"]),
        is_whole=lambda _: True,
    )
