"""Several gateways of one fleet behind one client: whoever answered last is asked first.

Any gateway takes any request, so a client that knows several need not wait for one. A gateway that
cannot be reached, says nothing for `ANSWER_WAIT_S`, or answers 503 is left for the next one; the
request is repeated by whoever sent it, as it is for one gateway (`gateway_http.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import httpx

ANSWER_WAIT_S: Final = 5.0
"""How long one gateway may take while there are others to ask."""


class FailoverTransport(httpx.AsyncBaseTransport):
    """Sends what is meant for the first of several gateways to the one that answered last."""

    def __init__(
        self, urls: Sequence[str], transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """`urls` are those of the gateways, without paths; there is one at least."""
        self._urls = [httpx.URL(url) for url in urls]
        self._at = 0
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to one gateway; the next request goes to another if this one fails."""
        url = self._urls[self._at]
        place = {"scheme": url.scheme, "host": url.host, "port": url.port}
        headers = request.headers.copy()
        headers["host"] = url.netloc.decode()
        sent = httpx.Request(
            request.method,
            request.url.copy_with(**place),
            headers=headers,
            stream=request.stream,
            extensions={**request.extensions, "timeout": _shorter(request.extensions["timeout"])},
        )
        try:
            response = await self._transport.handle_async_request(sent)
        except httpx.TransportError:
            self._turn_from(url)
            raise
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            self._turn_from(url)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def _turn_from(self, url: httpx.URL) -> None:
        """Ask the next gateway from now on, unless another request has turned from this one."""
        if self._urls[self._at] == url:
            self._at = (self._at + 1) % len(self._urls)


def _shorter(timeouts: Mapping[str, float | None]) -> dict[str, float]:
    return {
        name: ANSWER_WAIT_S if seconds is None else min(seconds, ANSWER_WAIT_S)
        for name, seconds in timeouts.items()
    }
