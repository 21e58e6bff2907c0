"""Decodes the items in the replies of scripts: packed, or as a flat list of fields and values.

What a packed item looks like stands at the head of `scripts/common.lua`. Nearly all claims are of
those, so they are read by a way of their own.
"""

import re
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
_ATTEMPTED: Final = row(whole(), pairs)
_PACKED_HEAD: Final = re.compile(
    rb"1 ([0-4]) ([0-9]{1,15}) ([0-9]{1,15}) ([0-9]{1,3}) ([0-9]{1,3})\n"
)
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
    """Return the reader of a key and a record of the claim script."""
    names = [priority.name for priority in priorities]

    def read(value: Any) -> Claim:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise Foreign("no key with a record")
        key, record = value
        if isinstance(record, bytes):
            return _packed_claim(_NAME(key), record, token, names)
        attempt, fields_of_it = _ATTEMPTED(record)
        item = _item(fields_of_it, _CLAIM, priorities)
        return Claim(**item, key=_NAME(key), token=token, attempt=attempt)

    return read


def _packed_claim(key: str, packed: bytes, token: str, names: Sequence[str]) -> Claim:
    head = _PACKED_HEAD.match(packed)
    if head is None:
        raise Foreign("no form that is known here")
    rank, deadline, enqueued, cause_bytes, lineage_bytes = map(int, head.groups())
    begins = head.end()
    lineage_begins = begins + cause_bytes
    ends = lineage_begins + lineage_bytes
    is_within = rank < len(names) and 0 <= len(packed) - ends <= PAYLOAD_BYTES_MAX
    if not is_within or cause_bytes > NAME_BYTES_MAX:
        raise Foreign("a packed item beyond its bounds")
    try:
        cause = packed[begins:lineage_begins].decode()
        operation_id, _, traceparent = packed[lineage_begins + 1 : ends].decode().partition("\0")
    except UnicodeError:
        raise Foreign("a cause that is no text") from None
    lineage, payload = Lineage(operation_id, traceparent), packed[ends:]
    times_ms, attempt = (enqueued, deadline), 1
    return Claim(key, payload, names[rank], (cause,), (lineage,), 1, *times_ms, token, attempt)


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
