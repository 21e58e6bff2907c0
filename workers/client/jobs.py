"""A job: one request on the record, to be waited for, looked at and taken back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import anyio

from .errors import GatewayError, JobLost

if TYPE_CHECKING:
    from .job_calls import JobCalls

JobState = Literal["open", "completed", "dead_letter", "cancelled"]

LOOK_S = 1.0
"""What a look at an outcome may take where nothing is to be waited for."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How a job ended, if it has."""

    request_id: str
    state: JobState
    closed_at: str | None = None
    operation_id: str | None = None
    """The operation that did the work, where one did."""

    reason: str | None = None
    """Why it was given up or cancelled."""

    result: Mapping[str, Any] | None = None
    """What the work came to, where it is no operation."""

    requeued_as: str | None = None
    """The request that asks for it anew, where it was given up and somebody requeued it."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as it stands."""

    request_id: str
    queue: str
    request_key: str | None
    """The producer's name for it; None for what no producer asked for, such as a recompute."""

    item_key: str
    priority: str
    """The priority at which it waits now."""

    content: Mapping[str, Any]
    state: JobState
    enqueued_at: str
    closed_at: str | None = None
    operation_id: str | None = None
    reason: str | None = None
    result: Mapping[str, Any] | None = None
    not_before: str | None = None
    """When its delay ends, where it has one."""

    requeued_as: str | None = None
    """The request that asks for it anew, where it was given up and requeued."""

    dismissed: str | None = None
    """Why it was dismissed, where it was given up and somebody settled it so."""

    settled_by: str | None = None
    """Who requeued, dismissed or cancelled it: the name given and the address."""

    settled_operation_id: str | None = None
    """The operation of the log that says so."""


@dataclass(frozen=True, slots=True)
class Job:
    """A handle on a request; every method raises `GatewayError`."""

    queue: str
    request_id: str
    key: str | None = None
    """The key under which it was asked for, where this client asked."""

    is_duplicate: bool = False
    """Whether it was on the record before this client asked."""

    calls: "JobCalls" = field(kw_only=True, repr=False, compare=False)

    async def result(self, timeout: float | None = None) -> JobOutcome:  # noqa: ASYNC109 - as the field has it
        """Return how the job ended, once it has; a job that was given up or cancelled has ended.

        One that was given up and requeued goes on: the outcome is that of the newest request, whose
        id it has.

        Raises:
            TimeoutError: it is still open after `timeout` seconds; it goes on all the same.
            JobLost: it was taken and is on the record no longer; ask again under its key.
        """
        try:
            return await self._result(timeout)
        except GatewayError as error:
            # Whoever was answered once knows that it was on the record.
            is_unknown = error.code == "work_request_unknown" and self.key is not None
            if is_unknown or error.code == "work_request_lost":
                raise JobLost(self.request_id, error) from error
            raise

    async def _result(self, timeout: float | None) -> JobOutcome:  # noqa: ASYNC109 - see above
        limit_s = None if timeout is None else max(timeout, LOOK_S)
        request_id = self.request_id
        deadline_s = float("inf") if timeout is None else anyio.current_time() + timeout
        with anyio.move_on_after(limit_s):
            while True:
                left_s = max(0.0, deadline_s - anyio.current_time())
                outcome = await self.calls.outcome(self.queue, request_id, left_s)
                if outcome.requeued_as is not None:
                    request_id = outcome.requeued_as
                elif outcome.state != "open":
                    return outcome
                elif not left_s:
                    break
        raise TimeoutError(f"{self.request_id} is open after {timeout} s")

    async def status(self) -> JobStatus:
        """Return the job as it stands; `work_request_unknown` where the queue has none."""
        return await self.calls.status(self.queue, self.request_id)

    async def waiting(self) -> str | None:
        """Return in a sentence why the job waits; None once it has its outcome."""
        return await self.calls.waiting(self.queue, self.request_id)

    async def cancel(
        self, reason: str = "the producer took it back", *, decided_by: str = ""
    ) -> bool:
        """Take the job back; False where it had its outcome before.

        `reason` has 1 to 200 characters. `decided_by`, the name of who takes it back, has up to
        100 and is sent where it is given; on the record it stands in brackets behind the reason.
        """
        return await self.calls.cancel(self.queue, self.request_id, reason, decided_by)
