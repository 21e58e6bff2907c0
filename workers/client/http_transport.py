"""Connects to gateways, and loads the machine's certificates when they are first needed.

Loading them takes 40 ms of CPU, and a gateway on this machine is spoken to without encryption.
"""

import os
import ssl
from collections.abc import Mapping
from typing import Final

import httpx

from .errors import GatewayError

CA_FILE: Final = "ROTULUS_CA_FILE"
LIMITS: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20)


class UntrustedCertificate(httpx.TransportError):
    """Raised where nobody vouches for the certificate of who answers; asking again is of no use."""


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
            self._encrypted = httpx.AsyncHTTPTransport(
                verify=trusted_authorities(), trust_env=False, limits=LIMITS
            )
        try:
            return await self._encrypted.handle_async_request(request)
        except httpx.ConnectError as error:
            if (problem := _verification_in(error)) is None:
                raise
            message = f"the certificate of {request.url.host} is not trusted: {problem}"
            raise UntrustedCertificate(f"{message}; {CA_FILE} names who vouches for it") from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._plain.aclose()
        if self._encrypted is not None:
            await self._encrypted.aclose()


def trusted_authorities(environment: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """Return whom a client trusts: the machine's authorities, and those of ROTULUS_CA_FILE.

    `SSL_CERT_FILE` names others in place of the machine's.

    Raises:
        GatewayError: `ca_file_unusable`.
    """
    trusted = ssl.create_default_context()
    trusted.minimum_version = ssl.TLSVersion.TLSv1_2
    path = environment.get(CA_FILE, "")
    if path:
        try:
            trusted.load_verify_locations(path)
        except OSError as error:  # an SSLError is one
            message = f"the file that {CA_FILE} names holds no certificates that can be read"
            raise GatewayError("ca_file_unusable", message) from error
    return trusted


def _verification_in(error: BaseException | None) -> str | None:
    """Return why a certificate was refused, if that is behind an error."""
    for _ in range(8):
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        if error is None:
            break
        error = error.__cause__ or error.__context__
    return None
