"""Asks a gateway over HTTP, with patience, for other processes.

A request that is sent again after any failure is one that the gateway recognises (a session id,
an intent key, an observation). One that it would not recognise goes through `ask_once`, which
sends it again only where the gateway cannot have taken it.
"""

from typing import Any

import anyio
import httpx

from actors.error_codes import ERRORS
from workers.client.answers import reading
from workers.client.errors import GatewayError
from workers.client.gateway_http import GatewayHttp, Refused, error_of

NOT_TAKEN = frozenset(
    code
    for code, meaning in ERRORS.items()
    if meaning.is_retryable and meaning.fault != "request" and not meaning.may_be_taken
)
"""Codes that say that nothing happened, and that it may the next time."""

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class GatewayClient(GatewayHttp):
    """A connection pool to one gateway, as the other processes use it."""

    async def post(self, path: str, body: Any) -> Any:
        """Post JSON and return the answer's JSON; see `ask`."""
        return await self.ask_document("POST", path, json=body)

    async def get(self, path: str, **query: Any) -> Any:
        """Get JSON; see `ask`."""
        return await self.ask_document("GET", path, params=query)

    async def readiness(self) -> Any:
        """Return what the gateway says of itself, ready or not, without trying again.

        Raises:
            GatewayError: it cannot be reached, or is no gateway.
        """
        try:
            with anyio.fail_after(self._call_s_max):
                response = await self._http.get("/readyz")
        except TimeoutError as error:
            raise GatewayError("gateway_unreachable", "no whole answer came in time") from error
        except httpx.TransportError as error:
            raise error_of(error) from error
        with reading():
            return response.json()

    async def ask_once(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request that must not happen twice; again only where it cannot have happened.

        Raises:
            GatewayError: the gateway's own code; `gateway_unreachable` when nobody knows whether
                it happened, or nobody could be reached for too long.
        """
        return await self.ask(method, path, may_repeat=_did_not_happen, **options)


def _did_not_happen(response: Refused) -> bool:
    if isinstance(response, httpx.TransportError):
        return isinstance(response, _NOT_SENT)
    return error_of(response).code in NOT_TAKEN
