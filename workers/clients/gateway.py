"""The gateway as other processes see it: HTTP with patience.

A request that is sent again after any failure is one that the gateway recognises (a session id,
an intent key, an observation). One that it would not recognise goes through `ask_once`, which
sends it again only where the gateway cannot have taken it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Self

import anyio
import httpx
import structlog

from actors.error_codes import ERRORS
from queues.client.http_retry import Refused, patiently
from workers.clients.worker_proof import WorkerProof

TIMEOUT_S = 60.0
GIVE_UP_AFTER_S = 60.0

_NOT_TAKEN = frozenset(
    code
    for code, meaning in ERRORS.items()
    if meaning.is_retryable and meaning.fault != "request" and not meaning.may_be_taken
)
"""Codes that say that nothing happened, and that it may the next time."""

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

_log = structlog.get_logger(__name__)


class GatewayError(Exception):
    """The gateway refused, or could not be reached for too long; `code` is stable."""

    def __init__(
        self, code: str, message: str, status: int = 0, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.details = details or {}


class GatewayClient:
    """A connection pool to one gateway; use as an async context manager."""

    def __init__(
        self,
        url: str,
        *,
        worker_token: str | None = None,
        give_up_after_s: float = GIVE_UP_AFTER_S,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Bind to a gateway; with a token each request proves that its sender knows it."""
        auth = WorkerProof(worker_token) if worker_token else None
        self._http = httpx.AsyncClient(base_url=url, auth=auth, timeout=TIMEOUT_S, trust_env=False)
        self._give_up_after_s = give_up_after_s
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: Any) -> Any:
        """Post JSON and return the answer's JSON, trying again while the gateway is not there.

        Raises:
            GatewayError: with the gateway's own code, or `gateway_unreachable`.
        """
        return (await self.ask("POST", path, json=body)).json()

    async def get(self, path: str, **query: Any) -> Any:
        """Get JSON; see `post`."""
        return (await self.ask("GET", path, params=query)).json()

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request as `httpx` takes it and return the response; see `post`."""
        return await self._patiently(lambda: self._http.request(method, path, **options))

    async def ask_once(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request that must not happen twice; again only where it cannot have happened.

        Raises:
            GatewayError: the gateway's own code; `gateway_unreachable` when nobody knows whether
                it happened, or nobody could be reached for too long.
        """
        return await self._patiently(
            lambda: self._http.request(method, path, **options), known=False
        )

    async def answers(self, path: str) -> bool:
        """Tell whether the gateway answers this path with success right now."""
        try:
            response = await self._http.get(path, timeout=2.0)
        except httpx.HTTPError:
            return False
        return response.is_success

    async def _patiently(
        self, ask: Callable[[], Awaitable[httpx.Response]], *, known: bool = True
    ) -> httpx.Response:
        return await patiently(
            ask,
            _error_of,
            self._sleep,
            give_up_after_s=self._give_up_after_s,
            may_repeat=lambda refused: known or _did_not_happen(refused),
        )


def _did_not_happen(refused: Refused) -> bool:
    if isinstance(refused, httpx.TransportError):
        return isinstance(refused, _NOT_SENT)
    return _error_of(refused).code in _NOT_TAKEN


def _error_of(response: Refused) -> GatewayError:
    if isinstance(response, httpx.TransportError):
        _log.debug("gateway_unreachable", error=repr(response))
        return GatewayError("gateway_unreachable", "the gateway cannot be reached")
    try:
        error = response.json()["error"]
        return GatewayError(
            error["code"], error["message"], response.status_code, error.get("details")
        )
    except (ValueError, KeyError, TypeError):
        return GatewayError("gateway_failed", f"HTTP {response.status_code}", response.status_code)
