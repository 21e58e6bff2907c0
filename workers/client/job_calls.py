"""Asks a gateway about jobs: that they be done, how they ended, that they be taken back.

A request has a key, so asking again is safe, and the gateway is asked until it answers
(`gateway_http.py`). A call for several requests is all or none; what came from several tasks and
was sent together is refused for each of them alone (decision queues/0076).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

from .answers import reading
from .errors import GatewayError
from .gateway_http import TRY_AGAIN, GatewayHttp
from .jobs import Job, JobAttempt, JobFailures, JobOutcome, JobStatus, ProgressNote
from .requests import BODY_BYTES_MAX, REQUESTS_MAX, WrittenRequest, call_body
from .shared_calls import SharedCalls

POLL_S: Final = 3.0
"""How long one question for outcomes waits; less than `ANSWER_WAIT_S` of `failover.py`."""

ENQUEUES_MAX: Final = 4
POLLS_MAX: Final = 32
"""Calls of either kind for one queue that are on their way at once."""

_JSON: Final = {"Content-Type": "application/json"}

Until = Literal["all", "any"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Poll:
    request_id: str
    wait_s: float


class JobCalls:
    """The calls about jobs at one gateway; every method raises `GatewayError`."""

    def __init__(self, gateway: GatewayHttp) -> None:
        self._gateway = gateway
        self._enqueues: dict[str, SharedCalls[WrittenRequest, Job[Any]]] = {}
        self._polls: dict[str, SharedCalls[_Poll, JobOutcome[Any]]] = {}

    async def enqueue(self, request: WrittenRequest) -> Job[Any]:
        """Ask for one job; it is on the record when this returns."""
        shared = self._enqueues.get(request.queue)
        if shared is None:
            shared = self._enqueues[request.queue] = SharedCalls(
                self._enqueue_each,
                lambda request: len(request.body),
                items_max=REQUESTS_MAX,
                size_max=BODY_BYTES_MAX,
                calls_max=ENQUEUES_MAX,
            )
        return await shared.ask(request)

    async def enqueue_all(self, requests: Sequence[WrittenRequest]) -> list[Job[Any]]:
        """Ask for jobs of one queue, all or none, as many as one call holds (`windows`)."""
        queue = requests[0].queue
        body = call_body([request.body for request in requests])
        answer = await self._ask("POST", queue, "requests", content=body, headers=_JSON)
        with reading():
            return [
                Job(
                    queue,
                    stated["request_id"],
                    request.key,
                    stated["duplicate"],
                    _calls=self,
                    _read=request.read,
                )
                for request, stated in zip(requests, answer["requests"], strict=True)
            ]

    async def outcome(self, queue: str, request_id: str, wait_s: float) -> JobOutcome[Any]:
        """Return how a job ended; one that is still open after a while has the state "open".

        It may be answered before `wait_s` are over, and at the latest after `POLL_S`.
        """
        shared = self._polls.get(queue)
        if shared is None:
            shared = self._polls[queue] = SharedCalls(
                partial(self._poll_each, queue),
                lambda poll: len(poll.request_id),
                items_max=REQUESTS_MAX,
                size_max=BODY_BYTES_MAX,
                calls_max=POLLS_MAX,
            )
        return await shared.ask(_Poll(request_id, wait_s))

    async def outcomes(
        self, queue: str, request_ids: Collection[str], wait_s: float, until: Until
    ) -> list[JobOutcome[Any]]:
        """Return how jobs ended, once all have, or any has; at the latest after `POLL_S`."""
        body = {
            "request_ids": list(request_ids),
            "wait_s": min(wait_s, POLL_S),
            "until": until,
        }
        answer = await self._ask("POST", queue, "outcomes", json=body)
        with reading():
            outcomes = [read(JobOutcome, outcome) for outcome in answer["outcomes"]]
            named = [outcome.request_id for outcome in outcomes]
            if named != body["request_ids"]:
                raise ValueError("the outcomes of other requests")
        return outcomes

    async def status(self, queue: str, request_id: str) -> JobStatus:
        """Return a job as it stands."""
        answer = await self._ask("GET", queue, f"requests/{quote_name(request_id)}")
        with reading():
            said = answer.get("progress")
            progress = None if said is None else read(ProgressNote, said)
            return read(JobStatus, answer | {"progress": progress})

    async def failures(self, queue: str, request_id: str) -> JobFailures:
        """Return what of a job was tried in vain."""
        answer = await self._ask("GET", queue, f"requests/{quote_name(request_id)}")
        with reading():
            failures = answer["failures"]
            if failures is None:
                return JobFailures()
            attempts = tuple(read(JobAttempt, attempt) for attempt in failures["attempts"])
            return read(JobFailures, failures | {"attempts": attempts})

    async def waiting(self, queue: str, request_id: str) -> str | None:
        """Return why a job waits; None once it has its outcome."""
        answer = await self._ask("GET", queue, f"requests/{quote_name(request_id)}/waiting")
        with reading():
            return None if answer["why"] is None else str(answer["why"])

    async def cancel(self, queue: str, request_id: str, reason: str, decided_by: str) -> bool:
        """Take a job back; False where it had its outcome before.

        An empty `decided_by` is not sent: earlier gateways refuse the field.
        """
        path = f"requests/{quote_name(request_id)}/cancel"
        body = {"reason": reason} | ({"decided_by": decided_by} if decided_by else {})
        answer = await self._ask("POST", queue, path, json=body)
        with reading():
            return bool(answer["cancelled"])

    async def prioritize(
        self, queue: str, request_id: str, priority: str, reason: str, decided_by: str
    ) -> bool:
        """Let a job wait at another priority; False where nothing changed."""
        path = f"requests/{quote_name(request_id)}/prioritize"
        body = {"priority": priority, "reason": reason, "decided_by": decided_by}
        answer = await self._ask("POST", queue, path, json=body)
        with reading():
            return bool(answer["changed"])

    async def _enqueue_each(self, requests: list[WrittenRequest]) -> list[Job[Any] | GatewayError]:
        """Ask for what came together: one that is refused takes no other with it."""
        answers: dict[int, Job[Any] | GatewayError] = {}
        left = list(range(len(requests)))
        while left:
            try:
                jobs = await self.enqueue_all([requests[number] for number in left])
            except GatewayError as error:
                blamed = _numbers_of_error(error, left)
                answers |= {number: _for_one(error) for number in blamed}
                left = [number for number in left if number not in answers]
                if not blamed:
                    alone = [await self._enqueue_each([requests[number]]) for number in left]
                    answers |= {n: answer for n, [answer] in zip(left, alone, strict=True)}
                    break
            else:
                answers |= dict(zip(left, jobs, strict=True))
                break
        return [answers[number] for number in range(len(requests))]

    async def _poll_each(
        self, queue: str, polls: list[_Poll]
    ) -> list[JobOutcome[Any] | GatewayError]:
        wait_s = min(poll.wait_s for poll in polls)
        ids = dict.fromkeys(poll.request_id for poll in polls)
        try:
            outcomes = await self.outcomes(queue, ids, wait_s, "any")
        except GatewayError as error:
            if len(ids) == 1 or _concerns_all(error):
                return [_for_one(error) for _ in polls]
            # One of them is unknown here; which, the gateway does not say.
            return [answer for poll in polls for answer in await self._poll_each(queue, [poll])]
        by_id = dict(zip(ids, outcomes, strict=True))
        return [by_id[poll.request_id] for poll in polls]

    async def _ask(self, method: str, queue: str, path: str, **options: Any) -> Any:
        place = f"/v1/queues/{quote_name(queue)}/{path}"
        return await self._gateway.ask_document(method, place, **options)


def _numbers_of_error(error: GatewayError, numbers: list[int]) -> list[int]:
    """Return the numbers of those whom a refusal concerns; none where it does not say whom."""
    if len(numbers) == 1 or _concerns_all(error):
        return numbers
    return [number for place, number in enumerate(numbers) if place == error.index]


def _concerns_all(error: GatewayError) -> bool:
    """Tell whether a refusal is about the gateway, and not about what it was asked."""
    return error.status < 400 or error.status >= 500 or error.status in TRY_AGAIN


def _for_one(error: GatewayError) -> GatewayError:
    """Return a refusal as one that a task raises by itself."""
    details = {name: value for name, value in error.details.items() if name != "index"}
    return GatewayError(error.code, error.message, error.status, details)


def quote_name(name: str) -> str:
    """Return a name as one part of a path, whatever characters it has."""
    return quote(name, safe=":")


def read(kind: type[T], document: Mapping[str, Any]) -> T:
    """Read an answer; what a newer gateway says besides is left out."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # they are dataclasses
    return kind(**{name: value for name, value in document.items() if name in names})
