"""Decodes the items in the replies of scripts: a row is a key, an attempt and a flat record."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, get_args

from queues.queue.items import (
    NAME_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    Claim,
    ItemPlace,
    Lineage,
    LiveItem,
    LiveState,
)
from queues.queue.priorities import Priority
from queues.redis.decoding import (
    Field,
    Foreign,
    Read,
    content,
    fields,
    moment,
    one_of,
    pairs,
    row,
    text,
    whole,
)

_UNKNOWN: Final = Lineage("", "")
_NAME: Final = text(NAME_BYTES_MAX)
_WAITING: Final[Mapping[bytes, Field]] = MappingProxyType(
    {
        b"payload": Field(content(PAYLOAD_BYTES_MAX)),
        b"rank": Field(whole(0)),
        b"causes": Field(whole(), name="causes_count"),
        b"enqueued": Field(whole(), name="enqueued_at_ms"),
        b"deadline": Field(whole(), name="deadline_ms"),
    }
)
_READ_ORDER: Final = whole(0)
_CLAIM: Final = fields(
    {
        **_WAITING,
        b"ends": Field(whole(0), None),
        b"error": Field(_NAME, ""),
        b"lost": Field(_NAME, ""),
        b"lost_at": Field(whole(0), 0, name="lost_at_ms"),
    }
)
_LIVE: Final = fields(
    {
        **_WAITING,
        b"state": Field(one_of(*get_args(LiveState))),
        b"error": Field(_NAME, ""),
        b"token": Field(_NAME, ""),
    }
)
_ROW: Final = row(_NAME, whole(), pairs)
_PLACE: Final = row(
    one_of(*get_args(LiveState)), whole(0), moment, whole(0), whole(0), whole(0), _NAME, _NAME
)
_PEEKED: Final = row(_NAME, whole(), pairs, moment)


def _causes(record: Mapping[bytes, bytes]) -> tuple[tuple[str, ...], tuple[Lineage, ...]]:
    """Return the causes and their lineage in order of arrival."""
    causes = []
    for field, value in record.items():
        if field[:2] == b"c:":
            order, _, lineage = value.partition(b"\0")
            causes.append((_READ_ORDER(order), _NAME(field[2:]), lineage))
    causes.sort()
    return (
        tuple([cause for _, cause, _ in causes]),
        tuple([_lineage(lineage) if lineage else _UNKNOWN for _, _, lineage in causes]),
    )


def _lineage(stored: bytes) -> Lineage:
    operation_id, _, traceparent = text()(stored).partition("\0")
    return Lineage(operation_id, traceparent)


def _item(
    record: Mapping[bytes, bytes], read: Read[dict[str, Any]], priorities: Sequence[Priority]
) -> dict[str, Any]:
    item = read(record)
    rank = item.pop("rank")
    if rank >= len(priorities):
        raise Foreign("a rank that the queue does not have")
    causes, lineage = _causes(record)
    return {**item, "priority": priorities[rank].name, "causes": causes, "lineage": lineage}


def claims_of(token: str, priorities: Sequence[Priority]) -> Callable[[Any], Claim]:
    """Return the reader of a row of the claim script."""

    def read(value: Any) -> Claim:
        key, attempt, record = _ROW(value)
        item = _item(record, _CLAIM, priorities)
        return Claim(**item, key=key, token=token, attempt=attempt)

    return read


def place_of(priorities: Sequence[Priority]) -> Callable[[Any], ItemPlace]:
    """Return the reader of the reply of the locate script."""

    def read(value: Any) -> ItemPlace:
        state, rank, ends_at_ms, top, before, attempts, error, token = _PLACE(value)
        if rank >= len(priorities):
            raise Foreign("a rank that the queue does not have")
        name = priorities[rank].name
        return ItemPlace(state, name, ends_at_ms, top, before, attempts, error, token)

    return read


def live_of(priorities: Sequence[Priority]) -> Callable[[Any], LiveItem]:
    """Return the reader of a row of the peek script."""

    def read(value: Any) -> LiveItem:
        key, attempts, record, ends_at_ms = _PEEKED(value)
        item = _item(record, _LIVE, priorities)
        return LiveItem(**item, key=key, attempts=attempts, state_ends_at_ms=ends_at_ms)

    return read
