"""The client for programs without an event loop: `Rotulus` on a loop in a thread of its own.

Each method waits for the method of the same name there. What has none here is reached with `call`:
`rotulus.call(rotulus.client.bindings.show, "b-1")`.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

from anyio.from_thread import start_blocking_portal

from .contents import JobContent
from .jobs import Job, JobOutcome, JobStatus
from .requests import REQUESTS_MAX
from .rotulus import Requested, Rotulus

P = ParamSpec("P")
R = TypeVar("R")


class BlockingRotulus:
    """A client for threads; use as a context manager."""

    def __init__(self, *urls: str, **options: Any) -> None:
        """Take what `Rotulus` takes; nothing is sent yet."""
        self.client = Rotulus(*urls, **options)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(self.client))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def call(self, method: Callable[P, Awaitable[R]], *arguments: P.args, **options: P.kwargs) -> R:
        """Return what a method of `client`, or of what belongs to it, returns."""
        return self._portal.call(partial(method, *arguments, **options))

    def enqueue(self, content: JobContent | Mapping[str, Any], **options: Any) -> "BlockingJob":
        """Ask for one piece of work with the options of `Rotulus.enqueue`."""
        return self._job(self.call(self.client.enqueue, content, **options))

    def enqueue_many(self, requests: Iterable[Requested]) -> list["BlockingJob"]:
        """Ask for work in chunks, in order, each of them all or none."""
        return [self._job(job) for job in self.call(self.client.enqueue_many, requests)]

    def run_many(
        self, requests: Iterable[Requested], *, open_max: int = REQUESTS_MAX
    ) -> Iterator[tuple["BlockingJob", JobOutcome]]:
        """Ask for work and yield each job with how it ended, at most `open_max` open at a time."""
        ended = self.client.run_many(requests, open_max=open_max)
        while True:
            try:
                job, outcome = self.call(ended.__anext__)
            except StopAsyncIteration:
                return
            yield self._job(job), outcome

    def recompute(self, node_id: str, **options: Any) -> "BlockingJob | None":
        """Ask for an understanding's recompute with the options of `Rotulus.recompute`."""
        job = self.call(self.client.recompute, node_id, **options)
        return None if job is None else self._job(job)

    def job(self, queue: str, request_id: str) -> "BlockingJob":
        """Return the handle on a request of which the id is known; nothing is asked."""
        return self._job(self.client.job(queue, request_id))

    def _job(self, job: Job) -> "BlockingJob":
        return BlockingJob(job, self)


@dataclass(frozen=True, slots=True)
class BlockingJob:
    """A handle on a request, for threads."""

    job: Job
    rotulus: BlockingRotulus

    def result(self, timeout: float | None = None) -> JobOutcome:
        """Return how the job ended, once it has; raises `TimeoutError` as `Job.result` does."""
        return self.rotulus.call(self.job.result, timeout)

    def status(self) -> JobStatus:
        """Return the job as it stands."""
        return self.rotulus.call(self.job.status)

    def cancel(self, *reason: str, decided_by: str = "") -> bool:
        """Take the job back as `Job.cancel` does; False where it had its outcome before."""
        return self.rotulus.call(self.job.cancel, *reason, decided_by=decided_by)
