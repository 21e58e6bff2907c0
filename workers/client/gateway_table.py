"""Reads the table of gateways that clients may ask directly.

A gateway answers `GET /v1/gateways` with the URLs that the living gateways advertise. A client
sends content of a case, so it follows no URL to a less safe scheme than the one with which it was
configured (decision queues/0069).
"""

import logging
from typing import Final

import httpx

PATH: Final = "/v1/gateways"
WAIT_S: Final = 2.0
URLS_MAX: Final = 256

_log = logging.getLogger(__name__)


async def read_table(http: httpx.AsyncClient) -> tuple[str, ...] | None:
    """Return the URLs in the table; None where no gateway answers with one."""
    try:
        answer = await http.get(PATH, timeout=WAIT_S)
        if answer.is_success:
            urls = [str(row["url"]) for row in answer.json()["gateways"][:URLS_MAX]]
            return tuple(url for url in urls if is_as_safe(url, http.base_url))
    except (httpx.HTTPError, ValueError, KeyError, TypeError, RecursionError) as error:
        _log.debug("gateways_unknown: %r", error)
    return None


def is_as_safe(url: str, configured: httpx.URL) -> bool:
    """Tell whether a URL names a host, carries no password, and is `https` if that one is."""
    try:
        stated = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    schemes = ("https",) if configured.scheme == "https" else ("http", "https")
    return bool(stated.host) and stated.scheme in schemes and not stated.userinfo
