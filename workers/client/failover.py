"""Asks several gateways of one fleet behind one client: whoever answered last is asked first.

Any gateway takes any request, so a client that knows several need not wait for one. A gateway that
cannot be reached, says nothing for `ANSWER_WAIT_S`, or answers 503 is left for the next one; the
request is repeated by whoever sent it, as it is for one gateway (`gateway_http.py`). A client that
was configured with one gateway learns the others from the table with which that one answers.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import anyio
import httpx

from .gateway_http import GatewayHttp
from .http_transport import HttpTransport

ANSWER_WAIT_S: Final = 5.0
"""How long one gateway may take while there are others to ask."""

TABLE_EVERY_S: Final = 10.0
"""How often a client looks which gateways there are."""


class FailoverTransport(httpx.AsyncBaseTransport):
    """Sends what is meant for the first of several gateways to the one that answered last."""

    def __init__(
        self, urls: Sequence[str], transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """`urls` are those of the gateways, without paths; there is one at least."""
        self._configured = [httpx.URL(url) for url in urls]
        self._urls = list(self._configured)
        self._at = 0
        self._transport = transport or HttpTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to one gateway; the next request goes to another if this one fails.

        A request for the owner of a session, whose URL is another, goes there.
        """
        is_for_owner = request.url.netloc != self._configured[0].netloc
        if is_for_owner or len(self._urls) == 1:
            return await self._transport.handle_async_request(request)
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

    def use_table(self, urls: Collection[str]) -> None:
        """Ask these gateways too where a configured one does not answer, and no others any more."""
        asked_now = self._urls[self._at]
        known = {(url.scheme, url.netloc) for url in self._configured}
        stated = (httpx.URL(url) for url in sorted(urls))
        learned = [url for url in stated if (url.scheme, url.netloc) not in known]
        self._urls = self._configured + learned
        self._at = self._urls.index(asked_now) if asked_now in self._urls else 0

    async def follow_table(self, gateway: GatewayHttp) -> None:
        """Read the table of gateways every `TABLE_EVERY_S` until cancelled.

        The URLs of the last table stay while no gateway answers.
        """
        while True:
            urls = await gateway.gateway_urls()
            if urls is not None:
                self.use_table(urls)
            await anyio.sleep(TABLE_EVERY_S)

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
