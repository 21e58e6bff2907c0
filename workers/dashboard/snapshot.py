"""Defines the state that the dashboard shows, as one frozen picture, and the port that takes it.

Rules:

1. A picture is read from Redis and the ledger, never from the memory of a worker, so every API
   process can serve every page.
2. Each part says where it came from and when. A part that could not be read carries an error
   and the other parts are still shown.
3. Texts may be hostile and lists may be long; `sanitize.py` bounds both before anything is sent.
4. A number that can pass 2**53 (sequences, fencing tokens) is text from the start.
"""

from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar

import orjson

from workers.dashboard import formatting as words
from workers.views.attention_items import AttentionItem

T = TypeVar("T")

WorkerState = Literal["alive", "late", "lost"]

EXACT_MAX = 2**53 - 1
"""The largest integer that a browser reads exactly; what is larger is sent as text."""


@dataclass(frozen=True, slots=True)
class SnapshotPart(Generic[T]):
    """One part of the picture, with its origin, its moment, and its error if it has one."""

    origin: str
    """The place where it was read, as people call it: "Redis", "ledger"."""
    read_at: datetime
    """Aware; when `value` was read, or when reading it failed."""
    value: T | None
    """None when there is nothing to show; beside an error it is the last value known."""
    error: str | None = None
    """Why it could not be read, in words for an operator."""


@dataclass(frozen=True, slots=True)
class PriorityBacklog:
    """The waiting work of one priority in one queue."""

    name: str
    target_ms: int | None
    """Service target: how old the oldest eligible item may grow. None is best effort."""
    ready: int
    oldest_ms: int | None
    """Age of the oldest eligible item; None when nothing is ready."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The counts of one work queue, by state and by priority."""

    name: str
    priorities: tuple[PriorityBacklog, ...]
    """Most urgent first."""
    suspended: int
    delayed: int
    in_flight: int
    dead: int
    open: int | None
    """Requests on the record without an outcome; None where the record could not be read."""
    held: int | None
    """Of these, those without an item of their own: open is the sum of the states and this."""
    oldest_open_ms: int | None
    """Age of the oldest open request; None where there is none."""
    pauses: tuple[str, ...]
    """What of it is paused, since when and by whom, a sentence each."""
    completed_per_s: float


@dataclass(frozen=True, slots=True)
class Hold:
    """One lease that is held now."""

    holder: str
    token: str
    """The fencing token."""
    expires_ms: int
    """Time left; negative when it has passed and nobody has reaped it."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The leases of one resource with limited slots."""

    resource: str
    slots: int
    used: int
    """Slots taken, also those that `held` leaves out."""
    held: tuple[Hold, ...]
    """Ordered by token, so that a hold keeps its place while it lasts."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker process, as its heartbeat record tells it."""

    worker_id: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    completed: int
    failed: int
    in_flight: int
    seen_ms: int
    """Age of the last heartbeat."""
    state: WorkerState


@dataclass(frozen=True, slots=True)
class Fleet:
    """The worker processes, ordered by id; where they are too many, those in trouble first."""

    workers: tuple[Worker, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Session:
    """One session and what is left of its hypotheses."""

    session_id: str
    title: str
    """The name of the case."""
    n_universe: int
    n_survivors: int
    survivors: tuple[str, ...]
    """The names of the first survivors, at most twelve."""
    last_activity: datetime
    state: str = "open"
    """In a few words; of a session that is closed with the one that goes on."""


@dataclass(frozen=True, slots=True)
class NewestSessions:
    """The newest sessions by activity, newest first, and how many there are."""

    newest: tuple[Session, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Counters:
    """Counts of the kernel's work since the record began."""

    operations: int
    eliminations: int


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One row of the record as the dashboard lists it."""

    sequence: str
    operation_id: str
    semantic_intent: str
    effect_kinds: tuple[str, ...]
    session_id: str
    committed_at: datetime
    row_hash: str
    """The first characters of the row hash, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class LedgerPicture:
    """The head of the record and its last rows."""

    sequence: str
    head_hash: str
    rows_per_s: float
    tail: tuple[LedgerRow, ...]
    """Newest first, at most twenty."""


@dataclass(frozen=True, slots=True)
class Count:
    """How often something happened: a reason code or an outcome."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Requests:
    """The work that was asked for: open, closed, and how it ended."""

    open: int
    closed: int
    by_outcome: tuple[Count, ...]


@dataclass(frozen=True, slots=True)
class SetAsideRequest:
    """A request to a session that ended each process that took it, and is taken no more."""

    shard: str
    offset: str
    session_id: str
    """Empty where the session's name cannot be written."""
    ends: str
    """How many processes have ended with it in hand."""
    at: datetime


@dataclass(frozen=True, slots=True)
class Death:
    """A process that its tree starts again and again, into the same end."""

    name: str
    times: int
    reason: str
    last_line: str
    """What it wrote last."""
    at: datetime


@dataclass(frozen=True, slots=True)
class PublishedCheckpoint:
    """The published checkpoint and what it is worth, the same as every door says."""

    verdict: str
    """One of `CheckpointVerdict`, or empty where nothing is published."""
    message: str
    """The verdict as a sentence, with its reason."""
    tree_head: str
    origin: str
    problem: str
    """Why this gateway does not go on publishing; empty where it does, or has no key."""


@dataclass(frozen=True, slots=True)
class DashboardSnapshot:
    """The whole picture at one moment."""

    version: int
    """Grows with every picture of one source; it becomes the id of the stream's event."""
    time: datetime
    """Aware; all ages of the picture are measured against this one clock."""
    attention: SnapshotPart[tuple[AttentionItem, ...]]
    """What needs somebody, the most urgent first."""
    queues: SnapshotPart[tuple[Queue, ...]]
    leases: SnapshotPart[tuple[LeaseView, ...]]
    workers: SnapshotPart[Fleet]
    sessions: SnapshotPart[NewestSessions]
    counters: SnapshotPart[Counters]
    ledger: SnapshotPart[LedgerPicture]
    checkpoint: SnapshotPart[PublishedCheckpoint]
    gateways: SnapshotPart[tuple[Count, ...]]
    """Shards by the gateway that owns them on the record."""
    rejections: SnapshotPart[tuple[Count, ...]]
    """Rejection receipts by reason code."""
    requests: SnapshotPart[Requests]
    dropped: SnapshotPart[tuple[Count, ...]]
    """Values of Redis that no fleet writes, by kind: by this gateway and the living workers."""
    set_aside: SnapshotPart[tuple[SetAsideRequest, ...]]
    """Newest first."""
    deaths: SnapshotPart[tuple[Death, ...]]
    """Processes of this gateway's tree that died alike."""


class SnapshotSource(Protocol):
    """Takes the picture."""

    async def read(self) -> DashboardSnapshot:
        """Return the state as it is now.

        A part that cannot be read MUST have an error instead of a value, and MUST NOT raise. What
        raises anyway is shown as an error of every part, beside the last values known. The hub
        calls this once at a time and cancels it after its `read_timeout_s`.
        """
        ...


_NO_PARTS = ("version", "time")
PARTS = tuple(field.name for field in fields(DashboardSnapshot) if field.name not in _NO_PARTS)
"""The names of the parts, as fields of a snapshot."""


def snapshot_json(snapshot: DashboardSnapshot) -> bytes:
    """Return the snapshot as JSON: times in ISO 8601 UTC, large integers as text."""
    return orjson.dumps(_plain(snapshot))


def _plain(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > EXACT_MAX:
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, datetime):
        return words.iso(value)
    return value
