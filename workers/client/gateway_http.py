"""Keeps the connections of one gateway's client, which repeat a request while that may help.

A request is sent again, byte by byte, while nobody answers or the status allows asking again. The
pause grows from 50 ms to 2 s, is never shorter than what `Retry-After` names (30 s at most), and is
longer by up to a half, so that many who were refused together do not come back as one.
"""

import json
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

import anyio
import httpx

from .access_key import KeyAuth
from .answers import BoundedAnswers, UnreadableAnswer, reading
from .errors import GatewayError
from .gateway_table import read_table
from .http_transport import HttpTransport, UntrustedCertificate
from .owner_hints import HEADER, OwnerHints

TIMEOUT_S: Final = 60.0
GIVE_UP_AFTER_S: Final = 60.0
CALL_S_MAX: Final = 900.0
"""For one call with all that is sent again; longer than the longest answer may take."""

PAUSE_FIRST_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
RETRY_AFTER_S_MAX: Final = 30.0

_NOT_ITS_NAME: Final = frozenset({"gateway_failed", "host_unknown", "host_invalid"})
"""Codes of who is no gateway, or does not go by the name under which it was asked."""

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

TRY_AGAIN: Final = frozenset({408, 429, 503})
"""Statuses after which the same request may be sent again."""

Refused = httpx.Response | httpx.TransportError
"""What came instead of a success: a refusal, or an error of transport where nobody answered."""

_log = logging.getLogger(__name__)


class GatewayHttp:
    """A connection pool to one gateway; use as an async context manager."""

    def __init__(
        self,
        url: str,
        *,
        auth: httpx.Auth | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        give_up_after_s: float = GIVE_UP_AFTER_S,
        call_s_max: float = CALL_S_MAX,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        remedy: str = "",
    ) -> None:
        """Bind to a gateway; nothing is sent yet.

        Without `auth` it shows the key of ROTULUS_KEY or ROTULUS_KEY_FILE, where there is one.
        `give_up_after_s` counts the pauses alone, `call_s_max` everything that a call takes.
        `remedy` says what helps where none answers; it is logged once, and stands in the error.
        """
        self._http = httpx.AsyncClient(
            base_url=url,
            auth=auth or KeyAuth(),
            transport=BoundedAnswers(transport or HttpTransport()),
            timeout=TIMEOUT_S,
            trust_env=False,
        )
        self._hints = OwnerHints()
        self._give_up_after_s = give_up_after_s
        self._call_s_max = call_s_max
        self._sleep = sleep
        self._remedy = remedy
        self._has_warned = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        may_repeat: Callable[[Refused], bool] = lambda _: True,
        **options: Any,
    ) -> httpx.Response:
        """Send a request as `httpx` takes it until there is a success, and return that.

        `may_repeat` says after which refusals sending it again is safe.

        Raises:
            GatewayError: with the gateway's own code or one of the class's.
        """
        with anyio.move_on_after(self._call_s_max):
            return await self._ask(method, path, may_repeat, options)
        message = f"no whole answer came within {self._call_s_max:g} s"
        raise GatewayError("gateway_unreachable", message)

    async def _ask(
        self,
        method: str,
        path: str,
        may_repeat: Callable[[Refused], bool],
        options: Mapping[str, Any],
    ) -> httpx.Response:
        patience = self.patience(may_repeat)
        while True:
            place = self._hints.place(path)
            request = self._http.build_request(method, place, **options)
            response: Refused
            try:
                response = await self._http.send(request)
                await self._learn(path, response)
                if response.is_success:
                    return response
            except httpx.TransportError as error:
                response = error
                self._warn_of_absence(error)
            if place != path:
                self._hints.forget(path)
                if _is_no_owners(response):
                    continue
            await patience.wait(response)

    async def ask_document(self, method: str, path: str, **options: Any) -> Any:
        """Send a request as `ask` does, and return the JSON of the answer.

        Raises:
            GatewayError: likewise; `gateway_failed` where the answer is no JSON.
        """
        response = await self.ask(method, path, **options)
        with reading():
            return response.json()

    async def send_lines(
        self, path: str, lines: Iterable[bytes], headers: Mapping[str, str] = NO_HEADERS
    ) -> tuple[list[dict[str, Any]], Refused | None]:
        """Post lines and return the answers that came, and why no more came, where that is known.

        An answer is a line with a `line`; one without is a refusal of those that have none.
        """
        answers: list[dict[str, Any]] = []
        with anyio.move_on_after(self._call_s_max):
            return answers, await self._send_lines(path, lines, headers, answers)
        return answers, httpx.ReadTimeout(f"no whole answer came within {self._call_s_max:g} s")

    async def _send_lines(
        self,
        path: str,
        lines: Iterable[bytes],
        headers: Mapping[str, str],
        answers: list[dict[str, Any]],
    ) -> Refused | None:
        """Add the answers that come, and return why no more came, where that is known."""
        headers = {"Content-Type": "application/x-ndjson", **headers}
        content = b"".join(line + b"\n" for line in lines)
        place = self._hints.place(path)
        try:
            async with self._http.stream("POST", place, content=content, headers=headers) as stream:
                await self._learn(path, stream)
                if not stream.is_success:
                    await stream.aread()
                    self._hints.forget(path)
                    return _elsewhere(stream) if place != path else stream
                async for text in stream.aiter_lines():
                    answer = _line_of(text)
                    if isinstance(answer, httpx.Response):
                        return answer
                    answers.append(answer)
        except httpx.TransportError as error:
            self._hints.forget(path)
            return error
        return None

    async def _learn(self, path: str, response: httpx.Response) -> None:
        """Follow what an answer says of the session's owner, if a configured gateway knows it."""
        hint = response.headers.get(HEADER)
        if hint is None:
            return
        if self._hints.is_new(hint, anyio.current_time()):
            urls = await read_table(self._http)
            if urls is not None:
                self._hints.use_table(urls)
        self._hints.learn(path, hint)

    def _warn_of_absence(self, error: httpx.TransportError) -> None:
        """Say while it is waited for, and not only in the error, how a gateway is started."""
        if self._remedy and not self._has_warned and isinstance(error, httpx.ConnectError):
            self._has_warned = True
            asked_for_s = f"asking again for {self._give_up_after_s:g} s"
            _log.warning("no gateway answers%s, %s; %s", _at(error), asked_for_s, self._remedy)

    def patience(self, may_repeat: Callable[[Refused], bool] = lambda _: True) -> "Patience":
        """Return the pauses of one call, with which it sends again what was refused."""
        return Patience(self._sleep, self._give_up_after_s, may_repeat, self._remedy)

    async def gateway_urls(self) -> tuple[str, ...] | None:
        """Return the URLs that the living gateways advertise; None where no gateway answers."""
        return await read_table(self._http)

    async def answers(self, path: str) -> bool:
        """Tell whether the gateway answers this path with success right now."""
        try:
            response = await self._http.get(path, timeout=2.0)
        except httpx.HTTPError:
            return False
        return response.is_success


class Patience:
    """The pauses of one call between a refusal and the next attempt."""

    def __init__(
        self,
        sleep: Callable[[float], Awaitable[None]],
        give_up_after_s: float,
        may_repeat: Callable[[Refused], bool],
        remedy: str,
    ) -> None:
        self._sleep = sleep
        self._give_up_after_s = give_up_after_s
        self._may_repeat = may_repeat
        self._remedy = remedy
        self._pause_s, self._waited_s = PAUSE_FIRST_S, 0.0

    async def wait(self, response: Refused) -> None:
        """Return when the same may be sent again.

        Raises:
            GatewayError: sending it again does not help, or has not for too long.
        """
        if isinstance(response, httpx.TransportError):
            helps = not isinstance(response, UnreadableAnswer | UntrustedCertificate)
        else:
            helps = response.status_code in TRY_AGAIN
        if not helps or not self._may_repeat(response) or self._waited_s >= self._give_up_after_s:
            cause = response if isinstance(response, Exception) else None
            raise error_of(response, self._remedy) from cause
        at_least_s = max(self._pause_s, _retry_after_s(response))
        jittered_s = at_least_s * random.uniform(1.0, 1.5)  # noqa: S311 - jitter
        await self._sleep(jittered_s)
        self._waited_s += jittered_s
        self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)


def error_of(response: Refused, remedy: str = "") -> GatewayError:
    """Return what a refusal says, and what helps where no gateway answers."""
    if isinstance(response, UnreadableAnswer):
        return GatewayError("gateway_failed", str(response))
    if isinstance(response, UntrustedCertificate):
        return GatewayError("gateway_untrusted", str(response))
    if isinstance(response, httpx.TransportError):
        _log.debug("gateway_unreachable: %r", response)
        helps = f"; {remedy}" if remedy else ""
        return GatewayError("gateway_unreachable", f"no gateway answers{_at(response)}{helps}")
    try:
        error = response.json()["error"]
        return GatewayError(
            str(error["code"]), str(error["message"]), response.status_code, error.get("details")
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return GatewayError("gateway_failed", f"HTTP {response.status_code}", response.status_code)


def _at(error: httpx.TransportError) -> str:
    try:
        url = error.request.url
    except RuntimeError:
        return ""
    return f" at {url.scheme}://{url.netloc.decode()}"


def _is_no_owners(response: Refused) -> bool:
    """Whether an answer of a learned URL is not that of a gateway, which has taken nothing."""
    if isinstance(response, httpx.TransportError) or response.is_server_error:
        return False
    return error_of(response).code in _NOT_ITS_NAME


def _elsewhere(response: httpx.Response) -> httpx.Response:
    """Return the refusal of a learned URL, as one after which the configured gateway is asked."""
    return httpx.Response(503, text="another place") if _is_no_owners(response) else response


def _line_of(text: str) -> dict[str, Any] | httpx.Response:
    """Read a line of an answer; one that is no line's is returned as the response that it is."""
    try:
        document = json.loads(text)
        if "line" in document:
            return dict(document)
        headers = {"Retry-After": str(document.get("retry_after_s", 0))}
        return httpx.Response(int(document["status"]), json=document, headers=headers)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return httpx.Response(502, text=text)


def _retry_after_s(response: Refused) -> float:
    if isinstance(response, httpx.TransportError):
        return 0.0
    try:
        return min(RETRY_AFTER_S_MAX, max(0.0, float(response.headers.get("Retry-After", 0))))
    except ValueError:
        return 0.0
