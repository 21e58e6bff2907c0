"""Gives a handler its job, and lets it say that a job cannot be done."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol

import anyio
from typing_extensions import TypeVar

from kernel.ledger.ledger import LedgerView
from kernel.work.retry_policy import PAUSE_MS_MAX

ContentT = TypeVar("ContentT", default=Any)
"""What is asked for; of a job of an `App` its function has it as arguments."""

Submit = Callable[[str, Sequence[Mapping[str, Any]]], Awaitable[list[dict[str, Any]]]]


class NoteProgress(Protocol):
    """Says how far a job is."""

    def __call__(self, percent: int, note: str = "") -> Awaitable[None]:
        """Keep it in place of what was said before; a Redis that is away forgets it."""


class JobRefused(Exception):
    """Raised by a handler: trying again would change nothing, so the job is a dead letter at once.

    `reason` is the signature by which dead letters are grouped: a short word, the same each time.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RetryAfter(Exception):
    """Raised by a handler: call it again after a pause, which is no failure (a snooze).

    The job's `snoozes` counts these; by default a job is a dead letter after a thousand.
    """

    def __init__(self, seconds: float) -> None:
        """`seconds` is from 0 to five days."""
        super().__init__(seconds)
        self.pause_ms = int(1000 * min(max(seconds, 0.0), PAUSE_MS_MAX / 1000))

    def __str__(self) -> str:
        return f"again after {self.pause_ms / 1000:g} s"


@dataclass(frozen=True, slots=True)
class JobContext(Generic[ContentT]):
    """One job in hand.

    The handler is cancelled at the deadline, and when the job is cancelled; the latter is noticed
    within two seconds. It may be given the same job again, on another machine, after it was killed:
    what it does outside should be known there by `request_id`.
    """

    request_id: str
    content: ContentT
    attempt: int
    """1 the first time; failures count, and not being done because a worker was stopped."""

    deadline_s: float
    """When it is cancelled, on the clock of `anyio.current_time`."""

    view: Callable[[], AbstractContextManager[LedgerView]]
    """Opens a snapshot of the record that cannot be written; it blocks, so read on a thread."""

    submit: Submit
    """Puts intents through the kernel, in the order of a declared session (a UUID).

    The answer has a result for each. An intent takes effect once for its `intent_key`, so derive
    that from `request_id`. Raises `GatewayError`, which a handler may leave alone.
    """

    progress: NoteProgress
    """Says how far it is, from 0 to 100, and where; kept for an hour and shown with the job."""

    snoozes: int = 0
    """How often it has raised `RetryAfter`."""

    def remaining_s(self) -> float:
        """Return the seconds until the deadline."""
        return self.deadline_s - anyio.current_time()
