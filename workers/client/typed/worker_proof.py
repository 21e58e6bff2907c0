"""Proves a worker to a gateway without telling it the token.

A worker sends what it has computed to whatever answers at `ROTULUS_GATEWAY_URL`, which may be a
stranger. So it sends no token, but a MAC under the token over what it asks for: who does not know
the token learns nothing that he could use for another request. To send the same one again comes to
nothing, because a request for work has one outcome.
"""

import hmac
from collections.abc import Generator
from typing import Final

import httpx

from kernel.values.fleet_protocol import HEADER, PROTOCOL

SCHEME: Final = "Rotulus-Worker "
_LABEL: Final = b"rotulus worker request 1"


def proof_of(token: str, method: str, target: bytes, content: bytes) -> str:
    """Return what a request says of its sender; `target` is its path with its query."""
    mac = hmac.new(token.encode(), digestmod="sha256")
    for part in (_LABEL, method.encode(), target):
        mac.update(len(part).to_bytes(4) + part)
    mac.update(content)
    return SCHEME + mac.hexdigest()


class WorkerProof(httpx.Auth):
    """Adds the proof to each request of a client."""

    requires_request_body = True

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request with its proof."""
        request.headers[HEADER] = str(PROTOCOL)
        request.headers["Authorization"] = proof_of(
            self._token, request.method, request.url.raw_path, request.content
        )
        yield request
