"""Drains queues of jobs inline on a real kernel in memory, by a clock that a test moves.

A request for a job is recorded as a gateway records it: by the schema, under its key, with its
delay. `drain` calls what is due; one that fails waits for its next attempt until the clock moves.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, cast

import orjson

from kernel.ledger.ledger import Ledger, Request
from kernel.ledger.store.memory import MemoryStore
from kernel.values.host import iso_time
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import close
from kernel.work.ready_requests import due_at_us
from kernel.work.registrations import register
from kernel.work.requests import WorkRequest, enqueue_from_outside, outcome_of, status_of
from kernel.work.retry_policy import (
    DEFAULT_POLICY,
    SNOOZES_EXHAUSTED,
    FailureCounts,
    final_reason,
    pause_ms,
)
from workers.client.errors import GatewayError
from workers.client.job_calls import JobCalls, read
from workers.client.jobs import Job, JobFailures, JobOutcome, JobStatus
from workers.client.requests import JobRequest, WrittenRequest
from workers.plugins import AppJob, JobRefused, QueuePlugin, RetryAfter
from workers.plugins.job_app import ask_elsewhere
from workers.plugins.registration import registration_of
from workers.plugins.testing.job_runs import JobRunner
from workers.plugins.testing.moved_clock import MovedClock

RUNS_MAX: Final = 1_000
"""Calls of one `drain`; a job that asks for itself, or waits again and again, ends there."""


_COMMITS: Final = timedelta(milliseconds=1)
"""Commits at one time of the clock are a microsecond apart, so what is due then may seem later."""


class DrainEndless(Exception):
    """A queue that does not become empty; the message names the job that went on."""

    code = "drain_endless"


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """A job as it was asked for."""

    queue: str
    arguments: Mapping[str, Any]
    request_id: str
    key: str
    priority: str | None = None
    delay_s: int = 0
    run_at: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class JobFailure:
    """An attempt that failed, and what the job raised."""

    queue: str
    request_id: str
    attempt: int
    error: Exception

    def __str__(self) -> str:
        return f"attempt {self.attempt} of {self.queue}: {type(self.error).__name__}: {self.error}"


@dataclass
class Drained:
    """What became of the jobs that were called."""

    completed: list[str] = field(default_factory=list)
    """The requests that have their result."""

    failures: list[JobFailure] = field(default_factory=list)
    dead_letters: list[str] = field(default_factory=list)
    """The requests that were given up."""


class Queues:
    """The queues of an app, in memory; `with queues:` takes what its jobs are asked for."""

    def __init__(self, clock: MovedClock | None = None) -> None:
        self.clock = clock or MovedClock()
        self.ledger = Ledger.create(MemoryStore(), self.clock.host)
        self.runner = JobRunner(view=self.ledger.view)
        self.failures: list[JobFailure] = []
        """Every attempt that failed, in order."""

        self._plugins: dict[str, QueuePlugin] = {}
        self._jobs: list[EnqueuedJob] = []
        self._due: dict[str, datetime] = {}
        self._attempts: dict[str, int] = {}
        self._snoozes: dict[str, int] = {}
        self._calls = _MemoryCalls(self)

    @contextmanager
    def taking(self) -> Iterator["Queues"]:
        """Take, for the time of the block, what every job of this process is asked for."""
        with ask_elsewhere(self.ask):
            yield self

    async def ask(self, plugin: QueuePlugin, requests: Sequence[JobRequest[Any]]) -> list[Job[Any]]:
        """Record what a job is asked for.

        Raises:
            GatewayError: as a gateway would answer.
        """
        written = [
            WrittenRequest.of(request, f"key-{len(self._jobs) + number}")
            for number, request in enumerate(requests)
        ]
        asked_for = [(each, _work_request(each)) for each in written]
        try:
            with self.ledger.transaction() as transaction:
                if plugin.name not in self._plugins:
                    register(transaction, registration_of(plugin), (), is_new=True)
                receipts = enqueue_from_outside(transaction, [work for _, work in asked_for])
        except WorkRefused as refused:
            details = dict(refused.details)
            raise GatewayError(str(refused.code), str(refused), 422, details) from refused
        self._plugins[plugin.name] = plugin
        jobs = []
        for (each, work), receipt in zip(asked_for, receipts, strict=True):
            self._jobs.append(
                EnqueuedJob(
                    each.queue,
                    work.content,
                    receipt.request_id,
                    each.key,
                    work.priority,
                    work.delay_s,
                    work.run_at,
                    work.tags,
                    receipt.duplicate,
                )
            )
            calls = cast("JobCalls", self._calls)
            jobs.append(
                Job(
                    each.queue,
                    receipt.request_id,
                    each.key,
                    receipt.duplicate,
                    _calls=calls,
                    _read=each.read,
                )
            )
        return jobs

    def enqueued(
        self, job: AppJob[..., Any, Any] | None = None, /, **arguments: Any
    ) -> list[EnqueuedJob]:
        """Return what was asked for: of one job, with these arguments among others."""
        return [
            each
            for each in self._jobs
            if (job is None or each.queue == job.plugin.name)
            and all(each.arguments.get(name) == value for name, value in arguments.items())
        ]

    def assert_enqueued(self, job: AppJob[..., Any, Any], /, **arguments: Any) -> EnqueuedJob:
        """Return the request for a job with these arguments; fail unless there is one."""
        fitting = self.enqueued(job, **arguments)
        if len(fitting) != 1:
            raise AssertionError(f"{self._describe(job)}, {len(fitting)} times with {arguments}")
        return fitting[0]

    def assert_not_enqueued(self, job: AppJob[..., Any, Any], /, **arguments: Any) -> None:
        """Fail where a job was asked for with these arguments."""
        if self.enqueued(job, **arguments):
            raise AssertionError(f"{self._describe(job)}, with {arguments} among them")

    async def drain(self, *, until_empty: bool = False) -> Drained:
        """Call every job that is due, also those that these ask for.

        With `until_empty` the clock is moved on to whatever waits, until nothing does.

        Raises:
            DrainEndless: after 1,000 calls jobs are still due.
        """
        drained = Drained()
        for _ in range(RUNS_MAX):
            request = self._next(move=until_empty)
            if request is None:
                return drained
            await self._call(request, drained)
        request = self._next(move=until_empty)
        if request is None:
            return drained
        message = f"{RUNS_MAX} jobs were called, and {request.queue} is due again"
        content = request.document["content"]
        raise DrainEndless("; ".join([f"{message} with {content}", *map(str, self.failures[-1:])]))

    def why_open(self, request_id: str) -> str | None:
        """Return in a sentence why a job has no outcome yet; None where it has."""
        request = next((each for each in self._open() if each.request_id == request_id), None)
        if request is None:
            return None
        failed = [each for each in self.failures if each.request_id == request_id]
        due = self._due_at(request)
        waits = (
            f"due at {due.isoformat()}"
            if due > self.clock.now + _COMMITS
            else "due: drain calls it"
        )
        return "; ".join([f"{request.queue} is {waits}", *map(str, failed[-1:])])

    def _open(self) -> list[Request]:
        with self.ledger.view() as view:
            return [each for name in self._plugins for each in view.open_requests(queue=name)]

    def _next(self, *, move: bool) -> Request | None:
        waiting = sorted(self._open(), key=lambda each: (self._due_at(each), each.request_sequence))
        if not waiting:
            return None
        if (due := self._due_at(waiting[0])) > self.clock.now + _COMMITS:
            if not move:
                return None
            self.clock.move_to(due)
        return waiting[0]

    def _due_at(self, request: Request) -> datetime:
        stated = datetime.fromisoformat(iso_time(due_at_us(request)))
        return self._due.get(request.request_id, stated)

    async def _call(self, request: Request, drained: Drained) -> None:
        plugin, request_id = self._plugins[request.queue], request.request_id
        attempt = self._attempts[request_id] = self._attempts.get(request_id, 0) + 1
        self.runner.request_id, self.runner.attempt = request_id, attempt
        policy = DEFAULT_POLICY if plugin.retry is None else plugin.retry.policy
        try:
            result = await self.runner.call(plugin, request.document["content"])
        except JobRefused as refused:
            self._give_up(request, refused, refused.reason, drained)
        except RetryAfter as snooze:
            self._attempts[request_id] -= 1
            snoozes = self._snoozes[request_id] = self._snoozes.get(request_id, 0) + 1
            if final_reason(policy, FailureCounts(snoozes=snoozes), 0) is not None:
                self._give_up(request, snooze, SNOOZES_EXHAUSTED, drained)
                return
            pause = timedelta(milliseconds=max(1, snooze.pause_ms))
            self._due[request_id] = self.clock.now + pause
        except Exception as error:  # noqa: BLE001 - a job raises anything
            is_retried = plugin.retry is None or plugin.retry.retries(error)
            if attempt >= policy.attempts or not is_retried:
                self._give_up(request, error, f"handler_failed: {type(error).__name__}", drained)
                return
            self._fail(request, error, drained)
            pause = timedelta(milliseconds=max(1, pause_ms(policy, attempt, 0.5)))
            self._due[request_id] = self.clock.now + pause
        else:
            with self.ledger.transaction() as transaction:
                close(transaction, request_id, "completed", handler_result=result or {})
            drained.completed.append(request_id)

    def _fail(self, request: Request, error: Exception, drained: Drained) -> None:
        attempt = self._attempts[request.request_id]
        failure = JobFailure(request.queue, request.request_id, attempt, error)
        self.failures.append(failure)
        drained.failures.append(failure)

    def _give_up(self, request: Request, error: Exception, reason: str, drained: Drained) -> None:
        self._fail(request, error, drained)
        with self.ledger.transaction() as transaction:
            close(transaction, request.request_id, "dead_letter", reason=reason[:200])
        drained.dead_letters.append(request.request_id)

    def _describe(self, job: AppJob[..., Any, Any]) -> str:
        listed = [dict(each.arguments) for each in self.enqueued(job)]
        return f"{job.plugin.name} was asked for as {listed}" if listed else f"no {job.plugin.name}"


class _MemoryCalls:
    """What a `Job` asks, answered from the ledger in memory at once."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    async def outcome(self, queue: str, request_id: str, _: float) -> JobOutcome[Any]:
        with self._queues.ledger.view() as view:
            outcome = outcome_of(view, queue, request_id)
        assert outcome is not None, "a job that was asked for is on the record"  # noqa: S101 - a test runs it
        if outcome.state == "open":
            raise TimeoutError(f"no outcome yet: {self._queues.why_open(request_id)}")
        return read(JobOutcome, asdict(outcome))

    async def status(self, _: str, request_id: str) -> JobStatus:
        with self._queues.ledger.view() as view:
            status = status_of(view, request_id)
        assert status is not None, "a job that was asked for is on the record"  # noqa: S101 - a test runs it
        return read(JobStatus, asdict(status))

    async def failures(self, _: str, request_id: str) -> JobFailures:
        failed = sum(each.request_id == request_id for each in self._queues.failures)
        return JobFailures(deliveries=failed, failures=failed)

    async def waiting(self, _: str, request_id: str) -> str | None:
        return self._queues.why_open(request_id)

    async def cancel(self, _: str, request_id: str, reason: str, decided_by: str) -> bool:
        del decided_by
        with self._queues.ledger.transaction() as transaction:
            return close(transaction, request_id, "cancelled", reason=reason)


def _work_request(written: WrittenRequest) -> WorkRequest:
    document = orjson.loads(written.body)
    return WorkRequest(
        written.queue,
        written.key,
        document["content"],
        document.get("priority"),
        document.get("delay_s", 0),
        document.get("run_at"),
        tags=document.get("tags") or {},
    )
