"""Follows a job: one request on the record, to be waited for, looked at and taken back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

import anyio

from .errors import GatewayError, JobLost

if TYPE_CHECKING:
    from .job_calls import JobCalls

R = TypeVar("R")
"""What the work of a job comes to: a mapping as on the record, or of a function's type."""

JobState = Literal["open", "completed", "dead_letter", "cancelled"]

LOOK_S = 1.0
"""What a look at an outcome may take where nothing is to be waited for."""


@dataclass(frozen=True, slots=True)
class JobOutcome(Generic[R]):
    """How a job ended, if it has."""

    request_id: str
    state: JobState
    closed_at: str | None = None
    operation_id: str | None = None
    """The operation that did the work, where one did."""

    reason: str | None = None
    """Why it was given up or cancelled."""

    result: R | None = None
    """What the work came to, where it is no operation."""

    took_ms: int | None = None
    """How long the attempt took that came to it, as its worker says."""

    worker: str | None = None
    """Whose attempt that was; None where no worker said so."""

    requeued_as: str | None = None
    """The request that asks for it anew, where it was given up and somebody requeued it."""


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """An attempt that failed."""

    attempt_number: int
    """Among those of the job, from 1."""

    code: str
    """The reason code; `worker_lost` where the worker vanished."""

    worker: str
    started_at: str
    took_ms: int
    error_class: str
    message: str
    traceback: str
    signature: str
    """What attempts have in common that failed for the same reason."""


@dataclass(frozen=True, slots=True)
class JobFailures:
    """What was tried in vain."""

    deliveries: int = 0
    failures: int = 0
    snoozes: int = 0
    worker_ends: int = 0
    first_started_at: str | None = None
    signature: str | None = None
    next_attempt_at: str | None = None
    """When it is tried again; None once it has its outcome."""

    policy_version: str = ""
    attempts: tuple[JobAttempt, ...] = ()
    """The first three and the last seventeen."""

    attempts_left_out: int = 0
    """Attempts between them, which are counted and not kept."""


class JobFailed(Exception):
    """The job was given up or cancelled."""

    def __init__(self, outcome: JobOutcome[Any], failures: JobFailures) -> None:
        last = failures.attempts[-1:] if outcome.state == "dead_letter" else ()
        why = (outcome.reason, *(attempt.message for attempt in last))
        said = ": ".join(dict.fromkeys(filter(None, why)))
        super().__init__(f"{outcome.request_id} is {outcome.state}: {said}")
        self.outcome = outcome
        self.failures = failures

    @property
    def attempts(self) -> tuple[JobAttempt, ...]:
        """Why each attempt failed: the first three and the last seventeen."""
        return self.failures.attempts


class JobResultInvalid(Exception):
    """The job is done, and what it came to is not of the type that its function returns."""

    code = "job_result_invalid"

    def __init__(self, outcome: JobOutcome[Mapping[str, Any]], problem: ValueError) -> None:
        super().__init__(f"the result of {outcome.request_id} is of another type: {problem}")
        self.outcome = outcome
        """How the job ended, with the result as it is on the record."""


@dataclass(frozen=True, slots=True)
class ProgressNote:
    """How far a job is, as it says itself; kept for an hour, and lost with Redis."""

    percent: int
    note: str


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
    tags: Mapping[str, str] = field(default_factory=dict)
    closed_at: str | None = None
    operation_id: str | None = None
    reason: str | None = None
    result: Mapping[str, Any] | None = None
    """What the work came to, where it is no operation."""

    took_ms: int | None = None
    """How long the attempt took that came to it, as its worker says."""

    worker: str | None = None
    """Whose attempt that was; None where no worker said so."""

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

    failures: Mapping[str, Any] | None = None
    """What was tried in vain, as `Job.failures` returns it with types; None where nothing was."""

    progress: ProgressNote | None = None
    """What an open job said last of how far it is; None where nothing is known."""


@dataclass(frozen=True, slots=True)
class Job(Generic[R]):
    """A handle on a request; every method raises `GatewayError`."""

    queue: str
    request_id: str
    key: str | None = None
    """The key under which it was asked for, where this client asked."""

    is_duplicate: bool = False
    """Whether it was on the record before this client asked."""

    _calls: "JobCalls" = field(kw_only=True, repr=False, compare=False)
    _read: Callable[[Mapping[str, Any]], R] | None = field(
        default=None, kw_only=True, repr=False, compare=False
    )

    async def result(self, timeout: float | None = None) -> JobOutcome[R]:  # noqa: ASYNC109 - as the field has it
        """Return how the job ended, once it has; a job that was given up or cancelled has ended.

        One that was given up and requeued goes on: the outcome is that of the newest request, whose
        id it has.

        Raises:
            TimeoutError: it is still open after `timeout` seconds; it goes on all the same.
            JobLost: it was taken and is on the record no longer; ask again under its key.
            JobResultInvalid: it is done, and its result is not of the function's type.
        """
        try:
            return self._read_result(await self._result(timeout))
        except GatewayError as error:
            # Whoever was answered once knows that it was on the record.
            is_unknown = error.code == "work_request_unknown" and self.key is not None
            if is_unknown or error.code == "work_request_lost":
                raise JobLost(self.request_id, error) from error
            raise

    def _read_result(self, outcome: JobOutcome[Any]) -> JobOutcome[R]:
        if self._read is None or outcome.result is None:
            return outcome
        try:
            return replace(outcome, result=self._read(outcome.result))
        except ValueError as error:
            raise JobResultInvalid(outcome, error) from error

    async def _result(self, timeout: float | None) -> JobOutcome[Any]:  # noqa: ASYNC109 - see above
        limit_s = None if timeout is None else max(timeout, LOOK_S)
        request_id = self.request_id
        deadline_s = float("inf") if timeout is None else anyio.current_time() + timeout
        with anyio.move_on_after(limit_s):
            while True:
                left_s = max(0.0, deadline_s - anyio.current_time())
                outcome = await self._calls.outcome(self.queue, request_id, left_s)
                if outcome.requeued_as is not None:
                    request_id = outcome.requeued_as
                elif outcome.state != "open":
                    return outcome
                elif not left_s:
                    break
        raise TimeoutError(f"{self.request_id} is open after {timeout} s")

    async def value(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - as `result`
        """Return what the work came to, once it is done; empty where it is an operation.

        Raises:
            JobFailed: it was given up or cancelled; with its attempts.
            TimeoutError, JobLost, JobResultInvalid: see `result`.
        """
        outcome = await self.result(timeout)
        if outcome.state == "completed":
            is_mapping = self._read is None
            return cast("R", outcome.result or {} if is_mapping else outcome.result)
        failures = await self._calls.failures(self.queue, outcome.request_id)
        raise JobFailed(outcome, failures)

    async def failures(self) -> JobFailures:
        """Return what was tried in vain, and why each attempt failed."""
        return await self._calls.failures(self.queue, self.request_id)

    async def status(self) -> JobStatus:
        """Return the job as it stands; `work_request_unknown` where the queue has none."""
        return await self._calls.status(self.queue, self.request_id)

    async def waiting(self) -> str | None:
        """Return in a sentence why the job waits; None once it has its outcome."""
        return await self._calls.waiting(self.queue, self.request_id)

    async def cancel(
        self, reason: str = "the producer took it back", *, decided_by: str = ""
    ) -> bool:
        """Take the job back; False where it had its outcome before.

        `reason` has 1 to 200 characters. `decided_by`, the name of who takes it back, has up to
        100 and is sent where it is given; on the record it stands in brackets behind the reason.
        """
        return await self._calls.cancel(self.queue, self.request_id, reason, decided_by)

    async def prioritize(self, priority: str, *, reason: str = "", decided_by: str = "") -> bool:
        """Let the job wait at another priority of its queue; False where nothing changed.

        Nothing changes where it has its outcome or waits at that priority. What a worker has in
        hand goes on.
        """
        return await self._calls.prioritize(
            self.queue, self.request_id, priority, reason, decided_by
        )
