"""Provides the producers' client: one connection pool for queues, sessions, proofs, records.

It sends HTTP to a gateway, because a request must be on the record before it counts, and only a
gateway writes the record (decision queues/0019). Whatever it returns is on the record.
"""

import os
import secrets
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime
from itertools import groupby, islice
from typing import Any, Final, Self, TypeVar, overload

import anyio
import httpx

from .answers import reading
from .bulk_operations import BulkOperations
from .contents import JobContent
from .enqueue_stream import EnqueueStream
from .errors import GatewayError
from .failover import FailoverTransport
from .gateway_address import gateway_address
from .gateway_http import GIVE_UP_AFTER_S, GatewayHttp
from .job_calls import POLL_S, JobCalls, quote_name
from .jobs import Job, JobOutcome
from .log_proofs import LogProofs
from .records import Records
from .requests import REQUESTS_MAX, JobRequest, NewRequest, WrittenRequest, windows
from .session_operations import SessionOperations
from .source_bindings import SourceBindings

R = TypeVar("R")

AUTHORITY_QUEUE: Final = "authority-recompute"

Requested = NewRequest | JobContent
"""What may be asked for: a content as it is, or with a key, a priority, a time."""

_REFILL_SHARE: Final = 4
"""More is asked for when this part of what may be open has ended."""

CALL_S_MAX: Final = 120.0
"""For one call with all that is sent again; none of a producer's takes as long."""

_TURN_S: Final = 0.25
"""How long the outcomes of one queue are waited for while there are others."""


class Rotulus:
    """A client of one gateway, or of several of one fleet; use as an async context manager.

    Every method raises `GatewayError` with the gateway's own code. While nobody answers, or the
    answer is 408, 429 or 503, a call is repeated under its key, with at least the pause that
    `Retry-After` names, until the pauses come to `give_up_after_s`. A call that is cancelled may
    or may not have taken effect; under a key of the caller's own it may be made again.
    """

    def __init__(
        self,
        *urls: str,
        data_dir: str | os.PathLike[str] | None = None,
        give_up_after_s: float = GIVE_UP_AFTER_S,
        call_s_max: float = CALL_S_MAX,
        new_key: Callable[[], str] = lambda: secrets.token_hex(16),
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Hold the gateways' URLs; nothing is sent yet.

        Without any it is the gateway of the tree that runs on `data_dir`; without that, those of
        ROTULUS_GATEWAY_URL and ROTULUS_OTHER_GATEWAY_URLS, the tree on ROTULUS_DATA_DIR or on
        `rotulus-data` in the current folder, or http://127.0.0.1:8440. However often it is sent
        again, a call has ended after `call_s_max`.

        Raises:
            GatewayError: `gateway_unreachable` where no tree runs on `data_dir`,
                `data_folder_unsafe` where others can change what the folder says.
        """
        place = gateway_address(urls, data_dir, os.environ)
        if len(place.urls) > 1:
            transport = FailoverTransport(place.urls, transport)
        self.gateway = GatewayHttp(
            place.urls[0],
            transport=transport,
            give_up_after_s=give_up_after_s,
            call_s_max=call_s_max,
            sleep=sleep,
            remedy=place.remedy,
        )
        self.bindings = SourceBindings(self.gateway, new_key)
        self.log = LogProofs(self.gateway)
        self.records = Records(self.gateway)
        self.bulk = BulkOperations(self.gateway)
        self._calls = JobCalls(self.gateway)
        self._new_key = new_key

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.gateway.__aexit__()

    @overload
    async def enqueue(self, content: JobRequest[R]) -> Job[R]: ...

    @overload
    async def enqueue(
        self,
        content: JobContent | Mapping[str, Any],
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: str | None = None,
        delay_s: int = 0,
        run_at: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Job[Mapping[str, Any]]: ...

    async def enqueue(
        self,
        content: JobRequest[Any] | JobContent | Mapping[str, Any],
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: str | None = None,
        delay_s: int = 0,
        run_at: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Job[Any]:
        """Ask for one piece of work; it is on the record when this returns.

        The same under the same key is the same job, whoever asks. What several tasks ask for at
        the same time is sent together. A request of a function (`AppJob.request`) has its options,
        and its result is of the function's type.

        Raises:
            GatewayError: `work_request_invalid`, `work_request_key_reserved`,
                `work_tags_invalid`, `work_request_conflict`, `work_queue_unknown`,
                `work_item_full`; `work_requests_too_many` when the queue stayed full too long.
        """
        request: NewRequest
        if isinstance(content, JobRequest):
            if (queue, key, priority, delay_s, run_at, tags) != (None, None, None, 0, None, None):
                raise TypeError("a request of a function has its options: state them there")
            request = content
        else:
            request = NewRequest(
                content,
                queue=queue,
                key=key,
                priority=priority,
                delay_s=delay_s,
                run_at=run_at,
                tags=tags,
            )
        return await self._calls.enqueue(self._written_request(request))

    async def enqueue_many(
        self, requests: Iterable[Requested], *, progress: Callable[[int], None] = lambda _: None
    ) -> list[Job[Any]]:
        """Ask for work in chunks of 256 and 4 MiB at most, in order, each of them all or none.

        `progress` is called with how many are on the record. An error's `index` counts over all
        requests, and its `jobs` are those that are on the record already.
        """
        jobs: list[Job[Any]] = []
        try:
            for window in windows(self._all_written(requests)):
                jobs += await self._enqueue_window(window, len(jobs))
                progress(len(jobs))
        except GatewayError as error:
            error.jobs = tuple(jobs)
            raise
        return jobs

    def enqueue_stream(self, *, waiting_max: int = 2 * REQUESTS_MAX) -> EnqueueStream:
        """Return a stream to ask for work through, one after another, without waiting for each."""
        return EnqueueStream(self.enqueue, waiting_max)

    async def run_many(
        self, requests: Iterable[Requested], *, open_max: int = REQUESTS_MAX
    ) -> AsyncIterator[tuple[Job[Any], JobOutcome[Mapping[str, Any]]]]:
        """Ask for work and yield each job with how it ended, as they end.

        At most `open_max` (1 to 256) are open at a time, and no more is read of `requests`: where
        the fleet is slow, their source waits. Jobs that are open when this is left go on; those of
        an error are in its `jobs`.
        """
        if not 1 <= open_max <= REQUESTS_MAX:
            raise ValueError(f"open_max is 1 to {REQUESTS_MAX}")
        written = self._all_written(requests)
        waiting: dict[str, Job[Any]] = {}
        number = 0
        try:
            while True:
                room = open_max - len(waiting)
                # Not for each that ends: what is asked for together costs less.
                if room * _REFILL_SHARE >= open_max:
                    for window in windows(islice(written, room)):
                        jobs = await self._enqueue_window(window, number)
                        number += len(jobs)
                        waiting |= {job.request_id: job for job in jobs}
                if not waiting:
                    return
                for outcome in await self._next_outcomes(waiting):
                    yield waiting.pop(outcome.request_id), outcome
        except GatewayError as error:
            error.jobs = tuple(waiting.values())
            raise

    async def outcomes(
        self,
        jobs: Sequence[Job[Any]],
        timeout: float,  # noqa: ASYNC109 - as `Job.result` has it
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[JobOutcome[Mapping[str, Any]]]:
        """Return how jobs ended, in their order, when all have or after `timeout` seconds.

        A job that is still open then has the state "open". A result is as it is on the record.
        `progress` is called with how many have ended.
        """
        deadline_s = anyio.current_time() + timeout
        outcomes: list[JobOutcome[Mapping[str, Any]]] = []
        for queue, ids in _windows_of(jobs):
            while True:
                left_s = max(0.0, deadline_s - anyio.current_time())
                some = await self._calls.outcomes(queue, ids, left_s, "all")
                ended = sum(outcome.state != "open" for outcome in some)
                progress(sum(outcome.state != "open" for outcome in outcomes) + ended)
                if ended == len(some) or not left_s:
                    break
            outcomes += some
        return outcomes

    async def recompute(
        self, node_id: str, *, key: str | None = None, priority: str = "user_initiated_critical"
    ) -> Job[Mapping[str, Any]] | None:
        """Ask for an understanding's recompute and for all below it; on the record afterwards.

        The same key asks for the same node once. None while a wide cascade is written down, and
        for a member of a cycle: then no job stands for the node alone.
        """
        key = self._new_key() if key is None else key
        receipt = await self.gateway.ask_document(
            "POST",
            f"/v1/authority/{quote_name(node_id)}/recompute",
            json={"trigger_source_id": key, "priority": priority},
        )
        with reading():
            if receipt["request"] is None:
                return None
            request_id = receipt["request"]["request_id"]
            return Job(AUTHORITY_QUEUE, request_id, key, receipt["duplicate"], _calls=self._calls)

    def job(self, queue: str, request_id: str) -> Job[Mapping[str, Any]]:
        """Return the handle on a request of which the id is known; nothing is asked."""
        return Job(queue, request_id, _calls=self._calls)

    def session(self, session_id: str) -> SessionOperations:
        """Return the operations of a session."""
        return SessionOperations(self.gateway, session_id)

    async def _enqueue_window(self, window: list[WrittenRequest], before: int) -> list[Job[Any]]:
        try:
            return await self._calls.enqueue_all(window)
        except GatewayError as error:
            if error.index is not None:
                error.details["index"] = before + error.index
            raise

    async def _next_outcomes(
        self, waiting: dict[str, Job[Any]]
    ) -> list[JobOutcome[Mapping[str, Any]]]:
        """Return how those ended that have, once any has or after a while."""
        queues = list(_windows_of(sorted(waiting.values(), key=lambda job: job.queue)))
        wait_s = POLL_S if len(queues) == 1 else _TURN_S
        return [
            outcome
            for queue, ids in queues
            for outcome in await self._calls.outcomes(queue, ids, wait_s, "any")
            if outcome.state != "open"
        ]

    def _all_written(self, requests: Iterable[Requested]) -> Iterator[WrittenRequest]:
        for number, requested in enumerate(requests):
            try:
                yield self._written_request(
                    requested if isinstance(requested, NewRequest) else NewRequest(requested)
                )
            except GatewayError as error:
                error.details["index"] = number
                raise

    def _written_request(self, request: NewRequest) -> WrittenRequest:
        return WrittenRequest.of(request, self._new_key())


def _windows_of(jobs: Iterable[Job[Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the ids of jobs in their order, as many at a time as one question may name."""
    for queue, group in groupby(jobs, key=lambda job: job.queue):
        while ids := [job.request_id for job in islice(group, REQUESTS_MAX)]:
            yield queue, ids
