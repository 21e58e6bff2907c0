"""The producers' client: asking one queue for work, waiting for outcomes, taking requests back.

It sends HTTP to a gateway, because a request must be on the record before it counts, and only a
gateway writes the record (decision queues/0019). Each request has a key, the producer's own or one
that the client makes for the call. Sending it again under that key is safe, and the client does so
until the gateway answers or `give_up_after_s` is over.
"""

import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import anyio
import httpx

from kernel.work.requests import REQUESTS_MAX, RequestOutcome, WorkReceipt, WorkStatus
from queues.client.gateway_http import GIVE_UP_AFTER_S, GatewayHttp
from queues.errors import ProducerError

DEFAULT_URL: Final = "http://127.0.0.1:8440"
POLL_S: Final = 5.0
"""How long one question for outcomes waits; a gateway allows 30 s."""

BODY_BYTES_MAX: Final = 4 << 20
"""Bytes of the requests in one call; half of what a gateway takes."""

_JSON: Final = {"Content-Type": "application/json"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NewRequest:
    """What to ask for; `kernel.work.contents` says what each queue takes."""

    content: Mapping[str, Any]
    request_key: str | None = None
    """The producer's own name for it; without one the client makes one for this call."""

    priority: str | None = None
    """One of the queue's; only where the content does not decide it."""

    delay_s: int = 0
    """Seconds after it was recorded in which nobody begins with it."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The answer to a cancellation."""

    cancelled: bool
    """Whether this call took the request back; False where it had its outcome before."""

    request: WorkStatus


class Producer:
    """A connection pool to one gateway for one queue; use as an async context manager.

    Every method raises `ProducerError`. A call that is cancelled may or may not have taken effect;
    under a key of the producer's own it may be made again.
    """

    def __init__(
        self,
        queue: str,
        url: str = DEFAULT_URL,
        *,
        give_up_after_s: float = GIVE_UP_AFTER_S,
        new_key: Callable[[], str] = lambda: secrets.token_hex(16),
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Hold a queue's name, e.g. "binding-evaluation"; nothing is sent yet."""
        self.queue = queue
        self._gateway = GatewayHttp(
            f"{url.rstrip('/')}/v1/queues/{_quoted(queue)}/",
            transport=transport,
            give_up_after_s=give_up_after_s,
            sleep=sleep,
            error_kind=ProducerError,
        )
        self._new_key = new_key

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._gateway.__aexit__()

    async def enqueue(self, request: NewRequest) -> WorkReceipt:
        """Ask for one piece of work; it is on the record when this returns.

        Raises:
            ProducerError: `work_request_invalid`, `work_request_conflict`, `work_queue_unknown`,
                `work_item_full`; `work_requests_too_many` when the queue stayed full too long.
        """
        [receipt] = await self.enqueue_many([request])
        return receipt

    async def enqueue_many(
        self,
        requests: Iterable[NewRequest],
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[WorkReceipt]:
        """Ask for work in chunks of 256 and 4 MiB at most, in order, each of them all or none.

        `progress` is called with how many are on the record. An error's `index` counts over all
        requests, and its `receipts` are of those that are on the record already.
        """
        receipts: list[WorkReceipt] = []
        try:
            for chunk in _bodies(self._written(request) for request in requests):
                answer = await self._ask("POST", "requests", content=chunk, headers=_JSON)
                receipts += [_read(WorkReceipt, request) for request in answer["requests"]]
                progress(len(receipts))
        except ProducerError as error:
            error.receipts = tuple(receipts)
            if error.index is not None:
                error.index += len(receipts)
            raise
        return receipts

    async def status(self, request_id: str) -> WorkStatus:
        """Return the state of a request; raises `work_request_unknown`."""
        return _read(WorkStatus, await self._ask("GET", f"requests/{_quoted(request_id)}"))

    async def wait(self, request_id: str, timeout_s: float) -> RequestOutcome:
        """Return how a request ended; after `timeout_s` its state is still "open"."""
        [outcome] = await self.wait_many([request_id], timeout_s)
        return outcome

    async def wait_many(
        self,
        request_ids: Sequence[str],
        timeout_s: float,
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[RequestOutcome]:
        """Return how requests ended, in their order, when all have or after `timeout_s`.

        A request that is still open then has the state "open". `progress` is called with how many
        have ended.
        """
        deadline_s = anyio.current_time() + timeout_s
        outcomes: list[RequestOutcome] = []
        for start in range(0, len(request_ids), REQUESTS_MAX):
            chunk, before = request_ids[start : start + REQUESTS_MAX], _ended(outcomes)
            outcomes += await self._wait_chunk(list(chunk), deadline_s, before, progress)
        return outcomes

    async def cancel(self, request_id: str, reason: str) -> Cancelled:
        """Take a request back unless it has its outcome; `reason` has 1 to 200 characters."""
        path = f"requests/{_quoted(request_id)}/cancel"
        answer = await self._ask("POST", path, json={"reason": reason})
        return Cancelled(answer["cancelled"], _read(WorkStatus, answer["request"]))

    async def _wait_chunk(
        self,
        request_ids: list[str],
        deadline_s: float,
        ended_before: int,
        progress: Callable[[int], None],
    ) -> list[RequestOutcome]:
        while True:
            wait_s = min(POLL_S, max(0.0, deadline_s - anyio.current_time()))
            body = {"request_ids": request_ids, "wait_s": wait_s}
            answer = await self._ask("POST", "outcomes", json=body)
            outcomes = [_read(RequestOutcome, outcome) for outcome in answer["outcomes"]]
            progress(ended_before + _ended(outcomes))
            if _ended(outcomes) == len(outcomes) or anyio.current_time() >= deadline_s:
                return outcomes

    def _written(self, request: NewRequest) -> bytes:
        document: dict[str, Any] = {
            "request_key": self._new_key() if request.request_key is None else request.request_key,
            "content": dict(request.content),
        }
        if request.priority is not None:
            document["priority"] = request.priority
        if request.delay_s:
            document["delay_s"] = request.delay_s
        try:
            return json.dumps(document, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ProducerError(
                "work_request_invalid", f"the request is no JSON: {error}"
            ) from None

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        return (await self._gateway.ask(method, path, **options)).json()


def _ended(outcomes: Iterable[RequestOutcome]) -> int:
    return sum(outcome.state != "open" for outcome in outcomes)


def _bodies(written: Iterable[bytes]) -> Iterator[bytes]:
    """Requests as the bodies of calls, each as full as a gateway takes it."""
    chunk: list[bytes] = []
    size = 0
    for body in written:
        if chunk and (len(chunk) == REQUESTS_MAX or size + len(body) > BODY_BYTES_MAX):
            yield _body(chunk)
            chunk, size = [], 0
        chunk.append(body)
        size += len(body)
    if chunk:
        yield _body(chunk)


def _body(chunk: Sequence[bytes]) -> bytes:
    return b'{"requests":[' + b",".join(chunk) + b"]}"


def _quoted(name: str) -> str:
    """A name as one part of a path, whatever characters it has."""
    return quote(name, safe=":")


def _read(kind: type[T], document: Mapping[str, Any]) -> T:
    """Read an answer; what a newer gateway says besides is left out."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # all three are dataclasses
    return kind(**{name: value for name, value in document.items() if name in names})
