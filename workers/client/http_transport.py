"""Connects to gateways, and loads the machine's certificates when they are first needed.

Loading them takes 40 ms of CPU, and a gateway on this machine is spoken to without encryption.
"""

import ssl
from typing import Final

import httpx

LIMITS: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20)


class HttpTransport(httpx.AsyncBaseTransport):
    """A pool of connections, over TLS where the URL says so."""

    def __init__(self) -> None:
        trusts_nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._plain = httpx.AsyncHTTPTransport(verify=trusts_nobody, trust_env=False, limits=LIMITS)
        self._encrypted: httpx.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        if request.url.scheme != "https":
            return await self._plain.handle_async_request(request)
        if self._encrypted is None:
            # Of this machine, so that an authority of one's own counts; SSL_CERT_FILE names others.
            trusted = ssl.create_default_context()
            self._encrypted = httpx.AsyncHTTPTransport(
                verify=trusted, trust_env=False, limits=LIMITS
            )
        return await self._encrypted.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._plain.aclose()
        if self._encrypted is not None:
            await self._encrypted.aclose()
