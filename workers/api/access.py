"""Judges requests: who asks, and whether they may do what a route does.

A caller shows a key (`Authorization: Bearer rot_…`, or the cookie of a browser that logged in), or
proves to know the worker token. A refusal comes before anybody looks whether what is asked for
exists, so it says nothing about that.
"""

import contextlib
import hmac
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from actors.messages import PRINCIPAL
from kernel.records.access.actions import ACTIONS, EVERYTHING, PUBLIC, Grant
from workers.api.errors import ApiError, respond
from workers.api.middleware.answer_headers import ENDLESS
from workers.client.typed.worker_proof import SCHEME, proof_of
from workers.use_cases.access import (
    CALLER,
    COOKIE,
    IS_CLOSED,
    READER,
    AccessTable,
    Caller,
    caller_of,
)
from workers.use_cases.denial_recording import DenialRecording
from workers.use_cases.principal_use import PrincipalLimited, PrincipalUse, PrincipalUses

COOKIE_BYTES_MAX: Final = 8_192
REFUSED: Final = ("unauthenticated", "access_denied")
"""The codes of refusals for who asks."""

_WORKER: Final = Caller("worker:fleet", (Grant("worker:fleet", "worker", EVERYTHING),))
"""Whoever proves to know the worker token."""

_LOGIN: Final = (
    "say who you are: send a key as `Authorization: Bearer rot_…`, set ROTULUS_KEY for commands,"
    " or log in at /login; an owner makes keys (`rotulus keys create PRINCIPAL --role ROLE`)"
)
_USE: Final = "rotulus.use"
"""Where the scope of a request holds what its principal uses; absent where nothing is limited."""

_REFUSALS: Final = frozenset({400, 403, 413, 415, 422})
"""Statuses of answers to what was not the caller's to ask, or no request."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Door:
    """What a request is judged by."""

    table: AccessTable
    worker_token: str | None
    has_webhook_secret: bool
    uses: PrincipalUses
    """What each principal uses; the fleet of workers, which shares one token, has no limits."""

    denials: DenialRecording
    """What puts on the record what principals were denied."""

    refused: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(REFUSED, 0)))
    """How many requests were refused for who asked, by the code."""

    async def admit(
        self, scope: Scope, receive: Receive, action: str, parts: Mapping[str, str]
    ) -> Response | Receive:
        """Return the response that refuses a request, or what the rest of it is received by."""
        scope[IS_CLOSED] = True
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        stated = headers.get(b"authorization", "")
        caller = self.table.caller_of(_key_in(headers))
        if action == PUBLIC or (action == "report.source" and self.has_webhook_secret):
            if caller is not None:
                scope[CALLER] = caller
            return receive
        # Of who is nobody a body is read only where a worker's proof over it may count.
        needs_body = stated.startswith(SCHEME)
        may_prove = self.worker_token is not None and (not needs_body or _WORKER.may(action, parts))
        if caller is None and stated and may_prove:
            request = Request(scope, receive)
            caller = _WORKER if await is_of_worker(self.worker_token, request) else None
            if needs_body:
                receive = _receive_again(await request.body(), receive)
        if caller is None:
            self.refused["unauthenticated"] += 1
            response = respond("unauthenticated", _LOGIN)
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        if caller is not _WORKER:
            use = self.uses.of(caller.principal)
            body_bytes = _length_in(headers)
            try:
                use.begin(body_bytes or 0, is_stream=_is_stream(scope))
            except PrincipalLimited as limited:
                return respond(limited.code, str(limited), limited.details)
            scope[_USE] = use
            receive = receive if body_bytes is not None else _receive_counted(receive, use)
        if not caller.may(action, parts):
            self._note_refusal(scope)
            self.refused["access_denied"] += 1
            self.denials.note(caller.principal, action)
            roles = ", ".join(sorted(ACTIONS[action].roles))
            _log.info("access_denied", principal=caller.principal, action=action)
            message = f"{caller.principal} may not do this ({action}); it takes the role of {roles}"
            return respond("access_denied", message, {"action": action})
        scope[CALLER], scope[READER] = caller, caller.reader(action, parts)
        return receive

    def _note_refusal(self, scope: Scope) -> None:
        use: PrincipalUse | None = scope.get(_USE)
        if use is not None:
            use.note("refusals_per_min", 1)

    @contextlib.contextmanager
    def holding(self, scope: Scope) -> Iterator[None]:
        """Count an admitted request among those in flight, and name its principal, in the block."""
        use: PrincipalUse | None = scope.get(_USE)
        caller = caller_of(scope)
        token = PRINCIPAL.set(None if caller is None else caller.principal)
        counted = None if use is None else use.count_in_flight(is_stream=_is_stream(scope))
        try:
            with counted or contextlib.nullcontext():
                yield
        finally:
            PRINCIPAL.reset(token)

    async def call(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry out a response, which ends once the key of who asks has ended."""
        caller = caller_of(scope)
        if response.status_code in _REFUSALS:
            self._note_refusal(scope)
        if caller is None or caller.key_id is None:
            await response(scope, receive, send)
            return
        is_open = False

        async def send_while_standing(message: Message) -> None:
            nonlocal is_open
            is_whole = message["type"] == "http.response.body" and not message.get("more_body")
            if is_open and not is_whole and not self.table.stands(caller):
                raise ClientDisconnect
            is_open = not is_whole
            await send(message)

        with contextlib.suppress(ClientDisconnect):
            await response(scope, receive, send_while_standing)
        if is_open:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _key_in(headers: Mapping[bytes, str]) -> str:
    scheme, _, stated = headers.get(b"authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return stated.strip()
    cookie = headers.get(b"cookie", "")
    if scheme or len(cookie) > COOKIE_BYTES_MAX:
        return ""
    for each in cookie.split(";"):
        name, _, value = each.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _is_stream(scope: Scope) -> bool:
    path: str = scope["path"]
    return path in ENDLESS or path.endswith("/operations:bulk")


def _length_in(headers: Mapping[bytes, str]) -> int | None:
    """Return how long a body is, which the guard has looked at; None where nothing says so."""
    if b"transfer-encoding" in headers:
        return None
    return int(headers.get(b"content-length", "0"))


def _receive_counted(receive: Receive, use: PrincipalUse) -> Receive:
    async def receive_counted() -> Message:
        message = await receive()
        use.note("bytes_per_s", len(message.get("body", b"")))
        return message

    return receive_counted


def _receive_again(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read once more, and what comes behind it."""
    has_body = True

    async def receive_body() -> Any:
        nonlocal has_body
        if has_body:
            has_body = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_body


async def is_of_worker(token: str | None, request: Request) -> bool:
    """Tell whether a request proves that its sender is a worker, or shows that."""
    caller = caller_of(request.scope)
    if caller is not None:
        return "worker" in caller.roles
    stated = request.headers.get("authorization", "")
    if token is None:
        return False
    if stated.startswith(SCHEME):
        expected = proof_of(token, request.method, _target(request), await request.body())
    else:
        stated, expected = stated.removeprefix("Bearer "), token
    return hmac.compare_digest(stated.encode(), expected.encode())


def _target(request: Request) -> bytes:
    path, query = request.scope["raw_path"], request.scope["query_string"]
    return bytes(path + b"?" + query if query else path)


def decider(request: Request, name: str) -> str:
    """Return who decides: whoever the key names, or the name given where access is open.

    Raises:
        ApiError: `principal_differs` where the name given is another one.
    """
    caller = caller_of(request.scope)
    if caller is None:
        return name
    if name not in ("", caller.principal):
        message = f"the key is of {caller.principal}; leave the name out, or give this one"
        raise ApiError("principal_differs", message)
    return caller.principal
