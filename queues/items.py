"""What goes into a queue and what comes out of it, with the limits that both obey."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from queues.errors import QueueError
from queues.priorities import PRIORITIES, PRIORITY_BY_NAME

PAYLOAD_BYTES_MAX: Final = 64 * 1024
NAME_BYTES_MAX: Final = 512
"""Limit of keys, cause ids and error signatures."""
BATCH_ITEMS_MAX: Final = 1000
CLAIM_ITEMS_MAX: Final = 256
DURATION_MS_MAX: Final = 7 * 24 * 3_600_000
CAUSES_KEPT_MAX: Final = 1000
"""Cause ids kept for an item; later ones are only counted (`CAUSES_KEPT` in the scripts)."""

_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")

EnqueueState = Literal["new", "merged", "known", "successor", "dead"]


@dataclass(frozen=True, slots=True)
class NewItem:
    """A request for work on `key`, because of `cause_id`."""

    key: str
    priority: str
    cause_id: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of a request.

    new: an item was created. merged: the cause joined a waiting item. known: it was there.
    successor: it waits behind a claim. dead: it lies in the dead letter box.
    """

    key: str
    state: EnqueueState


@dataclass(frozen=True, slots=True)
class Claim:
    """An item in flight; `token` proves who holds it."""

    key: str
    token: str
    payload: bytes
    priority: str
    causes: tuple[str, ...]
    """In order of arrival, the first 1000."""
    causes_count: int
    attempt: int
    """1 at the first delivery; a claim that expires counts as one."""
    enqueued_at_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class WaitingItem:
    """A ready item as `peek` sees it."""

    key: str
    payload: bytes
    priority: str
    causes: tuple[str, ...]
    causes_count: int
    attempts: int
    enqueued_at_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class DeadItem:
    """An item in the dead letter box."""

    key: str
    payload: bytes
    priority: str
    causes: tuple[str, ...]
    causes_count: int
    attempts: int
    error_signature: str
    error: str
    """Of the last retry before, or ""."""
    enqueued_at_ms: int
    died_at_ms: int


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How much a queue holds at one moment."""

    ready: dict[str, int]
    """By priority."""
    delayed: int
    in_flight: int
    dead: int
    oldest_eligible_age_ms: dict[str, int]
    """By priority, of the item that is served next there; 0 where nothing is ready."""


def check_name(name: str) -> str:
    """Return a name that may stand inside a hash tag.

    Raises:
        QueueError: `queue_argument_invalid`.
    """
    if not _QUEUE_NAME.fullmatch(name):
        raise QueueError("queue_argument_invalid", f"not a queue or resource name: {name!r}")
    return name


def check_range(what: str, number: int, low: int, high: int) -> int:
    """Return a number that lies within its bounds.

    Raises:
        QueueError: `queue_argument_invalid`.
    """
    if not low <= number <= high:
        raise QueueError("queue_argument_invalid", f"{what} must be {low}..{high}, not {number}")
    return number


def check_batch(items: Sequence[object]) -> None:
    """Refuse a batch that one script should not handle.

    Raises:
        QueueError: `queue_batch_too_large`.
    """
    if len(items) > BATCH_ITEMS_MAX:
        raise QueueError(
            "queue_batch_too_large", f"{len(items)} items in one call; at most {BATCH_ITEMS_MAX}"
        )


def enqueue_args(item: NewItem) -> tuple[str | int | bytes, ...]:
    """Return an item as the five arguments of the enqueue script.

    Raises:
        QueueError: `queue_unknown_priority`, `queue_item_too_large`, `queue_argument_invalid`.
    """
    priority = PRIORITY_BY_NAME.get(item.priority)
    if priority is None:
        raise QueueError("queue_unknown_priority", f"no priority is called {item.priority!r}")
    if len(item.payload) > PAYLOAD_BYTES_MAX:
        raise QueueError(
            "queue_item_too_large",
            f"payload of {len(item.payload)} bytes; at most {PAYLOAD_BYTES_MAX}",
        )
    for what, name in (("key", item.key), ("cause id", item.cause_id)):
        if not name:
            raise QueueError("queue_argument_invalid", f"an empty {what}")
        if len(name.encode()) > NAME_BYTES_MAX:
            raise QueueError("queue_item_too_large", f"{what} over {NAME_BYTES_MAX} bytes")
    return item.key, priority.rank, priority.service_target_ms, item.cause_id, item.payload


def _record(flat: list[bytes]) -> tuple[dict[bytes, bytes], tuple[str, ...]]:
    record: dict[bytes, bytes] = {}
    causes: list[tuple[int, str]] = []
    fields = iter(flat)
    for field, value in zip(fields, fields, strict=True):
        if field[:2] == b"c:":
            causes.append((int(value), field[2:].decode()))
        else:
            record[field] = value
    causes.sort()
    return record, tuple(cause for _, cause in causes)


def _shared(row: Any) -> tuple[dict[bytes, bytes], dict[str, Any]]:
    record, causes = _record(row[2])
    return record, {
        "key": row[0].decode(),
        "payload": record[b"payload"],
        "priority": PRIORITIES[int(record[b"rank"])].name,
        "causes": causes,
        "causes_count": int(record[b"causes"]),
        "enqueued_at_ms": int(record[b"enqueued"]),
    }


def read_claim(row: Any, token: str) -> Claim:
    """Read one row of the claim script."""
    record, shared = _shared(row)
    return Claim(**shared, token=token, attempt=row[1], deadline_ms=int(record[b"deadline"]))


def read_waiting(row: Any) -> WaitingItem:
    """Read one row of the peek script."""
    record, shared = _shared(row)
    return WaitingItem(**shared, attempts=row[1], deadline_ms=int(record[b"deadline"]))


def read_dead(row: Any) -> DeadItem:
    """Read one row of the dead script."""
    record, shared = _shared(row)
    return DeadItem(
        **shared,
        attempts=row[1],
        error_signature=record[b"signature"].decode(),
        error=record.get(b"error", b"").decode(),
        died_at_ms=int(record[b"died"]),
    )
