"""A hostile request as bytes for a connection, and what must come back."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from tests.fuzz.legal_request import LegalRequest

Manner = Literal["ask", "pipeline", "raw", "cut"]
"""ask: an answer must come. pipeline: so many as there are requests. raw: what comes, if anything,
has to be an answer. cut: the connection is closed before anything can come."""


@dataclass(frozen=True, slots=True)
class Shot:
    """Bytes for a connection, and what must come back."""

    route: str
    how: str
    """What was spoiled."""

    manner: Manner
    content: bytes
    answers: int = 1
    head_only: bool = False
    """Whether the answer has a head and no body."""

    legal: frozenset[int] = frozenset()
    """The statuses of which one has to come, once whatever passes has passed; empty for any."""


def bytes_of(request: LegalRequest, body: bytes | None, *, extra: str = "") -> bytes:
    """Return a request as it is written."""
    lines = [f"{request.method} {request.path} HTTP/1.1", "host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    head = "\r\n".join(lines) + "\r\n" + extra + "\r\n"
    return head.encode("utf-8", "surrogateescape") + (body or b"")


def text_of(value: Any) -> bytes:
    """Return a body as JSON, lone surrogates as escapes."""
    return json.dumps(value).encode()


def shot_of(request: LegalRequest, content: bytes, how: str) -> Shot:
    head_only = request.method == "HEAD"
    return Shot(request.route, how, "ask", bytes_of(request, content), head_only=head_only)
