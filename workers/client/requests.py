"""Writes requests as they are sent: each with its key, and as many in a call as a gateway takes."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from .contents import JobContent, document_of
from .errors import GatewayError

R = TypeVar("R")

REQUESTS_MAX: Final = 256
"""Requests in one call, as many as a gateway takes."""

BODY_BYTES_MAX: Final = 4 << 20
"""Bytes of the requests in one call; half of what a gateway takes."""


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A content, and how it is asked for."""

    content: JobContent | Mapping[str, Any]
    _: KW_ONLY
    queue: str | None = None
    """Needed where the content is a mapping, which names none."""

    key: str | None = None
    """The producer's own name for it; without one the client makes one for this call."""

    priority: str | None = None
    """One of the queue's; only where the content does not decide it."""

    delay_s: int = 0
    """Seconds after it was recorded in which nobody begins with it."""

    run_at: datetime | None = None
    """The time before which nobody begins with it, by the gateway's clock; has a time zone."""

    tags: Mapping[str, str] | None = None
    """At most 16, by which it is found later, such as `{"customer": "acme"}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest(NewRequest, Generic[R]):
    """A request for a job of a function, and how its result is read."""

    read: Callable[[Mapping[str, Any]], R]
    """Returns what the function returned; raises `ValueError` where it can be none of its type."""


@dataclass(frozen=True, slots=True)
class WrittenRequest:
    """A request in the bytes that are sent, however often."""

    queue: str
    key: str
    body: bytes
    read: Callable[[Mapping[str, Any]], Any] | None = None

    @classmethod
    def of(cls, request: NewRequest, new_key: str) -> "WrittenRequest":
        """Write a request down, under a new key unless it has one.

        Raises:
            GatewayError: `work_request_invalid`, it names no queue or is no JSON.
        """
        queue = request.queue or getattr(request.content, "queue", None)
        if not queue:
            raise _invalid("a content that is a mapping needs the name of its queue", "queue")
        key = new_key if request.key is None else request.key
        document: dict[str, Any] = {"request_key": key, "content": document_of(request.content)}
        if request.priority is not None:
            document["priority"] = request.priority
        if request.delay_s:
            document["delay_s"] = request.delay_s
        if request.run_at is not None:
            document["run_at"] = _utc(request.run_at)
        if request.tags:
            document["tags"] = dict(request.tags)
        try:
            body = json.dumps(document, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise _invalid(f"the request is no JSON: {error}", "content") from None
        return cls(queue, key, body, request.read if isinstance(request, JobRequest) else None)


def windows(requests: Iterable[WrittenRequest]) -> Iterator[list[WrittenRequest]]:
    """Yield requests in their order, as many at a time as one call holds: all of one queue."""
    window: list[WrittenRequest] = []
    size = 0
    for request in requests:
        is_full = len(window) == REQUESTS_MAX or size + len(request.body) > BODY_BYTES_MAX
        if window and (is_full or request.queue != window[0].queue):
            yield window
            window, size = [], 0
        window.append(request)
        size += len(request.body)
    if window:
        yield window


def call_body(bodies: Sequence[bytes]) -> bytes:
    """Return the body of the call that asks for all of them."""
    return b'{"requests":[' + b",".join(bodies) + b"]}"


def _utc(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise _invalid("a time has a time zone", "run_at")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _invalid(message: str, field: str) -> GatewayError:
    return GatewayError("work_request_invalid", message, details={"field": field})
