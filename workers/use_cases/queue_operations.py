"""Carries out what operators do to queues: first the record is written, then Redis follows.

If Redis does not answer, the record holds and the relay puts Redis right once it answers.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from actors.commit.units import Unit
from actors.commit.work_units import (
    CancelRequestUnit,
    DismissUnit,
    PauseUnit,
    PrioritizeUnit,
    RequeueUnit,
)
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.work.dead_letters import DeadLetterDismissal
from kernel.work.pauses import PauseDecision
from kernel.work.requests import WorkReceipt, WorkStatus
from queues.errors import QueueError
from queues.queue.work_queue import WorkQueue


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """What an operator asks of a queue, and who says so."""

    verb: str
    """One of pause, resume, requeue, dismiss, prioritize, cancel."""

    queue: str
    decided_by: str
    """See `requester_name`."""

    reason: str = ""
    priority: str | None = None
    request_id: str = ""


Write = Callable[[Unit], Awaitable[Any]]

_log = structlog.get_logger(__name__)


def requester_name(name: str, address: str | None) -> str:
    """Return who asks, as the record has it: the name given, if any, and the address."""
    place = address or "an unknown address"
    return f"{name} at {place}" if name else place


async def switch(write: Write, queue: WorkQueue, decision: PauseDecision, *, paused: bool) -> bool:
    """Pause or resume a queue or a priority; return whether that changed anything."""
    changed: bool = await write(PauseUnit(decision, paused))
    try:
        await (queue.pause if paused else queue.resume)(decision.priority)
    except QueueError as error:
        _log.info("pause_waits_for_redis", queue=decision.queue, code=error.code)
    return changed


async def requeue(
    write: Write, name: str, queue: WorkQueue, request_ids: Sequence[str], decided_by: str
) -> tuple[WorkReceipt, ...]:
    """Ask anew for dead letters, each as a request of its own; again is the same request."""
    unit = RequeueUnit(name, tuple(request_ids), decided_by)
    receipts: tuple[WorkReceipt, ...] = await write(unit)
    await queue.remove_closed(request_ids)
    return receipts


async def dismiss(
    write: Write,
    name: str,
    queue: WorkQueue,
    request_ids: Sequence[str],
    dismissal: DeadLetterDismissal,
) -> int:
    """Settle dead letters without asking for them anew; return how many were not settled before."""
    dismissed: int = await write(DismissUnit(name, tuple(request_ids), dismissal))
    await queue.remove_closed(request_ids)
    return dismissed


async def cancel(
    write: Write, queue: WorkQueue | None, request_id: str, reason: str, decided_by: str
) -> tuple[bool, WorkStatus]:
    """Take a request back; the first value is False where it had its outcome before.

    `queue` is None where the request's queue has no items.

    Raises:
        WorkRefused: `work_request_not_cancellable` for open work that the record itself asks for.
    """
    cancelled, status = await write(CancelRequestUnit(request_id, reason, decided_by))
    if queue is not None:
        await queue.remove_closed([request_id])
    return cancelled, status


async def prioritize(
    write: Write,
    queue: WorkQueue | None,
    request_id: str,
    priority: str,
    reason: str,
    decided_by: str,
) -> tuple[bool, WorkStatus]:
    """Let an open request wait at another priority; the first value is False where nothing changed.

    What is in the hands of a worker goes on, and is tried again at the new priority.

    Raises:
        WorkRefused: `queue_unknown_priority`, `work_request_unknown`.
    """
    unit = PrioritizeUnit(request_id, priority, reason, decided_by)
    changed, status = await write(unit)
    if changed and queue is not None:
        # One understanding's requests are one item.
        key = status.item_key if status.queue == AUTHORITY_QUEUE else request_id
        try:
            await queue.withdraw([key])
        except QueueError as error:
            _log.info("priority_waits_for_redis", queue=status.queue, code=error.code)
    return changed, status


async def act(write: Write, queue: WorkQueue, action: OperatorAction) -> None:
    """Do what one form asks of a queue; it is on the record when this returns."""
    name, ids = action.queue, [action.request_id]
    if action.verb in ("pause", "resume"):
        decision = PauseDecision(name, action.priority, action.decided_by, action.reason)
        await switch(write, queue, decision, paused=action.verb == "pause")
    elif action.verb == "requeue":
        await requeue(write, name, queue, ids, action.decided_by)
    elif action.verb == "dismiss":
        dismissal = DeadLetterDismissal(action.reason, action.decided_by)
        await dismiss(write, name, queue, ids, dismissal)
    elif action.verb == "prioritize":
        priority = action.priority or ""
        await prioritize(
            write, queue, action.request_id, priority, action.reason, action.decided_by
        )
    else:
        await cancel(write, queue, action.request_id, action.reason, action.decided_by)
