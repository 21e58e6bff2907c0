"""The gateway as other processes see it: HTTP with patience.

Every request that is sent again after a failure is one that the gateway recognises (a session id,
an intent key, an observation), so trying again is always safe.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any, Self

import anyio
import httpx
import structlog

TIMEOUT_S = 60.0
GIVE_UP_AFTER_S = 60.0
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 2.0

_TRY_AGAIN = frozenset({429, 503})

_log = structlog.get_logger(__name__)


class GatewayError(Exception):
    """The gateway refused, or could not be reached for too long; `code` is stable."""

    def __init__(self, code: str, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


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
        headers = {"Authorization": f"Bearer {worker_token}"} if worker_token else {}
        self._http = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False
        )
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
        return await self._patiently(lambda: self._http.post(path, json=body))

    async def get(self, path: str, **query: Any) -> Any:
        """Get JSON; see `post`."""
        return await self._patiently(lambda: self._http.get(path, params=query))

    async def answers(self, path: str) -> bool:
        """Tell whether the gateway answers this path with success right now."""
        try:
            response = await self._http.get(path, timeout=2.0)
        except httpx.HTTPError:
            return False
        return response.is_success

    async def _patiently(self, ask: Callable[[], Awaitable[httpx.Response]]) -> Any:
        pause_s, waited_s = PAUSE_FIRST_S, 0.0
        while True:
            error = GatewayError("gateway_unreachable", "the gateway cannot be reached")
            try:
                response = await ask()
            except httpx.TransportError as found:
                _log.debug("gateway_unreachable", error=repr(found))
            else:
                if response.is_success:
                    return response.json()
                error = _error_of(response)
                if response.status_code not in _TRY_AGAIN:
                    raise error
            if waited_s >= self._give_up_after_s:
                raise error
            jittered_s = pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
            await self._sleep(jittered_s)
            waited_s += jittered_s
            pause_s = min(PAUSE_MAX_S, pause_s * 2)


def _error_of(response: httpx.Response) -> GatewayError:
    try:
        error = response.json()["error"]
        return GatewayError(error["code"], error["message"], response.status_code)
    except (ValueError, KeyError, TypeError):
        return GatewayError("gateway_failed", f"HTTP {response.status_code}", response.status_code)
