"""Defines the items that go into a queue and come out of it, with their limits.

The token of a claim says which worker claimed when. Whoever claims next can tell so of a worker
that vanished, and a claim costs no byte more.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, NamedTuple

from kernel.values.canonical import sha256_hex
from queues.errors import QueueError
from queues.queue.priorities import Priority

PAYLOAD_BYTES_MAX: Final = 64 * 1024
NAME_BYTES_MAX: Final = 512
"""Limit of keys, cause and operation ids."""
BATCH_ITEMS_MAX: Final = 1000
CLAIM_ITEMS_MAX: Final = 256
DURATION_MS_MAX: Final = 7 * 24 * 3_600_000
CAUSES_KEPT_MAX: Final = 1000
"""Cause ids kept for an item; later ones are only counted (`CAUSES_KEPT` in the scripts)."""
OFFSET_MAX: Final = 10_000
COUNT_MAX: Final = 999_999_999
TIME_MS_MAX: Final = 10**14
"""Limit of a time on the clock, in the year 5138."""

WORKER_PREFIX: Final = "worker-"
UNKNOWN_WORKER: Final = "unknown"
CHANCE_BITS: Final = 20
_WORKER_CHARS, _TIME_CHARS = 8, 11

_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

EnqueueState = Literal["new", "merged", "known", "successor", "dead"]
CancelState = Literal["cancelled", "stopping", "unknown"]
LiveState = Literal["ready", "suspended", "delayed", "in_flight"]


class Lineage(NamedTuple):
    """The operation and the trace that a cause comes from."""

    operation_id: str
    """The operation that caused it, or ""."""
    traceparent: str
    """W3C trace context, or ""."""


def short_name(name: str) -> str:
    """Return a name, or its digest if the queue would not take it; the payload has it whole."""
    content = name.encode()
    is_fit = len(content) <= NAME_BYTES_MAX and "\0" not in name
    return name if is_fit else f"sha256:{sha256_hex(content)}"


def cause_id(request_id: str, priority: str) -> str:
    """Return the cause of a request; the queue knows it once, so another priority is another."""
    return short_name(f"{request_id}!{priority}")


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to enqueue: work on `key`, because of `cause_id`."""

    key: str
    priority: str
    cause_id: str
    payload: bytes
    operation_id: str = ""
    """The operation that caused the request."""
    traceparent: str = ""
    """W3C trace context of that operation."""
    suspended_at_ms: int = 0
    """When it was suspended first, where Redis may have lost that; 0 for never."""

    retry: "ItemRetry | None" = None
    """What the ledger knows of its attempts, where it did not succeed at once."""


@dataclass(frozen=True, slots=True)
class ItemRetry:
    """How often an item was tried, and how long it waits yet, should Redis have lost that."""

    attempts: int
    ends: int
    """Workers that ended while they worked on it alone."""

    delay_ms: int
    """From now; 1 where it is due."""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The state of an item after a request for it.

    new: an item was created. merged: the cause joined a waiting item. known: the item had this
    cause. successor: it waits behind a claim. dead: the cause was buried.
    """

    key: str
    state: EnqueueState


class Claim(NamedTuple):
    """An item in flight; `token` proves who holds it. A tuple, which is quickly made."""

    key: str
    payload: bytes
    priority: str
    causes: tuple[str, ...]
    """The ids of the causes in order of arrival, the first 1000."""

    lineage: tuple[Lineage, ...]
    """The lineage of each of `causes`."""

    causes_count: int
    enqueued_at_ms: int
    deadline_ms: int
    token: str
    attempt: int
    """1 at the first delivery; a claim that expires is an attempt if it had begun the item."""

    ends: int | None = None
    """How many claims expired that had begun the item; None when no claim of it ever expired."""

    error: str = ""
    """Why it was delivered again; "" where no delivery before came back."""

    lost: str = ""
    """The token of the claim that expired last, until the item is begun."""

    lost_at_ms: int = 0
    """When that claim expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveItem:
    """A live item as `peek` sees it; what a claim has as well means the same."""

    key: str
    payload: bytes
    priority: str
    causes: tuple[str, ...]
    lineage: tuple[Lineage, ...]
    causes_count: int
    enqueued_at_ms: int
    deadline_ms: int
    state: LiveState
    attempts: int
    state_ends_at_ms: int | None
    """When a delayed item is due or a claim expires; None in every other state."""

    error: str
    """The error of the last retry, or ""."""

    token: str = ""
    """Of the claim that has it in flight, or ""."""


@dataclass(frozen=True, slots=True)
class ItemPlace:
    """Where a live item stands among the others of its queue."""

    state: LiveState
    priority: str
    state_ends_at_ms: int | None
    """When a delayed item is due or a claim expires; None in every other state."""

    of_top_priority: int
    """Items of the top priority that wait; 0 where it is of that priority itself."""

    due_before: int
    """Items that were suspended or are due before it."""

    attempts: int
    error: str
    """The error of the last retry, or ""."""

    token: str = ""
    """Of the claim that has it in flight, or ""."""


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The numbers of items in a queue at one moment."""

    ready: dict[str, int]
    """By priority."""
    suspended: dict[str, int]
    """By priority."""
    delayed: int
    in_flight: int
    dead: int
    not_due: int
    """Requests that are no items yet because their time has not come, as the relay said last."""

    oldest_eligible_age_ms: dict[str, int]
    """By priority, the age of the item that is served next; 0 where nothing waits for a claim."""
    paused: bool
    paused_priorities: frozenset[str]


def check_name(name: str) -> str:
    """Return a name that may stand inside a hash tag.

    Raises:
        QueueError: `queue_argument_invalid`.
    """
    if not _QUEUE_NAME.fullmatch(name):
        raise QueueError("queue_argument_invalid", f"not a queue or resource name: {name!r}")
    return name


def check_range(name: str, number: int, low: int, high: int) -> int:
    """Return a number that lies within its bounds.

    Raises:
        QueueError: `queue_argument_invalid`.
    """
    if not low <= number <= high:
        raise QueueError("queue_argument_invalid", f"{name} must be {low}..{high}, not {number}")
    return number


def clip(text: str) -> bytes:
    """Return at most 512 bytes of a text, cut between characters."""
    return text.encode()[:NAME_BYTES_MAX].decode(errors="ignore").encode()


def check_batch(items: Sequence[object]) -> None:
    """Refuse a batch that one script should not handle.

    Raises:
        QueueError: `queue_batch_too_large`.
    """
    if len(items) > BATCH_ITEMS_MAX:
        raise QueueError(
            "queue_batch_too_large", f"{len(items)} items in one call; at most {BATCH_ITEMS_MAX}"
        )


def enqueue_args(item: NewItem, priority: Priority) -> tuple[str | int | bytes, ...]:
    """Return an item as the six arguments of the enqueue script.

    Raises:
        QueueError: `queue_item_too_large`, `queue_argument_invalid`.
    """
    if len(item.payload) > PAYLOAD_BYTES_MAX:
        raise QueueError(
            "queue_item_too_large",
            f"payload of {len(item.payload)} bytes; at most {PAYLOAD_BYTES_MAX}",
        )
    if not item.key or not item.cause_id:
        raise QueueError("queue_argument_invalid", "an empty key or cause id")
    for field in ("key", "cause_id", "operation_id"):
        name: str = getattr(item, field)
        # A character is four bytes at most.
        if len(name) * 4 > NAME_BYTES_MAX and len(name.encode()) > NAME_BYTES_MAX:
            raise QueueError("queue_item_too_large", f"{field} over {NAME_BYTES_MAX} bytes")
    return (
        *(item.key, priority.rank, priority.service_target_ms, item.cause_id, item.payload),
        _lineage_bytes(item) if item.operation_id or item.traceparent else b"",
    )


def ledger_state_args(items: Sequence[NewItem]) -> list[int]:
    """Return how many items the ledger knows more of, then for each its place and what that is.

    That is the time of its first suspension, its attempts, its ends and its delay.

    Raises:
        QueueError: `queue_argument_invalid`.
    """
    known = [
        (place, *_ledger_state_of(item))
        for place, item in enumerate(items, start=1)
        if item.suspended_at_ms or item.retry
    ]
    return [len(known), *chain.from_iterable(known)]


def _ledger_state_of(item: NewItem) -> tuple[int, int, int, int]:
    retry = item.retry or ItemRetry(0, 0, 0)
    return (
        check_range("suspended_at_ms", item.suspended_at_ms, 0, TIME_MS_MAX),
        check_range("attempts", retry.attempts, 0, COUNT_MAX),
        check_range("ends", retry.ends, 0, COUNT_MAX),
        check_range("delay_ms", retry.delay_ms, 0, DURATION_MS_MAX),
    )


def _lineage_bytes(item: NewItem) -> bytes:
    """Join the fields by U+0000, which no name on the record has."""
    if "\0" in item.operation_id:
        raise QueueError("queue_argument_invalid", "an operation id with U+0000")
    if item.traceparent and not _TRACEPARENT.fullmatch(item.traceparent):
        raise QueueError("queue_argument_invalid", f"not a traceparent: {item.traceparent!r}")
    return f"\0{item.operation_id}\0{item.traceparent}".encode()


def token_of(worker_id: str, claimed_ms: int, chance: int) -> str:
    """Return the token of a claim; chance, of `CHANCE_BITS`, tells it from others of its time."""
    return f"{_name_of(worker_id)}{claimed_ms:011x}{chance:05x}"


def is_of(token: str, worker_id: str) -> bool:
    """Tell whether a worker made a claim."""
    return token[:_WORKER_CHARS] == _name_of(worker_id)


def worker_of(token: str) -> str:
    """Return the worker that made a claim, as far as its token says so."""
    name = token[:_WORKER_CHARS]
    return f"{WORKER_PREFIX}{name}" if name.isalnum() else UNKNOWN_WORKER


def claimed_us(token: str, ended_us: int) -> int:
    """Return when a claim was made, by its token; its end where that does not say so."""
    try:
        began_us = 1000 * int(token[_WORKER_CHARS:][:_TIME_CHARS], 16)
    except ValueError:
        return ended_us
    return began_us if 0 <= ended_us - began_us <= 1000 * DURATION_MS_MAX else ended_us


def _name_of(worker_id: str) -> str:
    return worker_id.removeprefix(WORKER_PREFIX)[:_WORKER_CHARS].ljust(_WORKER_CHARS, "0")
