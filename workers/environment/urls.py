"""Reads URLs of the settings whole, by the library that will use them (decision workers/0380).

A password with a character that is not encoded is cut in two by whoever reads the URL, and its
second half is then a host, a path or a parameter, which messages show. So a URL is refused that is
not written as it has to be, before anything is made of it. No message holds any part of a URL.

Each kind of URL is a function from the text to what is wrong with it; a further kind is a further
function, which begins with `misspelling`.
"""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, urlsplit

UrlProblem = Callable[[str], str | None]
"""Says what is wrong with a URL, None where nothing is; nothing of the URL is in it."""

_ASCII: Final = re.compile(r"[!-~]*")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_USER: Final = re.compile(r"[^@/?#\[\]]*")
ENCODE: Final = "other characters than letters, digits and -._~ are written as %XX there"


def misspelling(url: str) -> str | None:
    """Say whether a URL holds what has to be encoded, for any kind of URL."""
    if _ASCII.fullmatch(url) is None:
        return "holds a blank or a character beyond ASCII, which is written as %XX"
    if _BAD_ESCAPE.search(url):
        return "holds a % that does not begin %XX; a % itself is written as %25"
    if "#" in url:
        return "holds a #, which is written as %23"
    parts = _split(url)
    if parts is None:
        return "is no URL"
    user, at, _ = parts.netloc.rpartition("@")
    if at and _USER.fullmatch(user) is None:
        return f"holds an unencoded character in its user or its password; {ENCODE}"
    return None


def server_problem(url: str) -> str | None:
    """Say what is misspelled in the URL of a server, behind whose address there is no `@`."""
    parts = _split(url)
    if problem := misspelling(url):
        return problem
    if parts is None or "@" in parts.path + parts.query:
        return f"holds an unencoded character in its user or its password; {ENCODE}"
    return None


def postgres_problem(url: str) -> str | None:
    """Say what libpq would not take of the URL of a database, or would take for something else."""
    if problem := server_problem(url):
        return problem
    # The driver takes a while to load, and who keeps a file does without it.
    from kernel.ledger.postgres.url import url_problem  # noqa: PLC0415 - the reason above

    return url_problem(url)


def redis_problem(url: str) -> str | None:
    """Say what redis-py, or our way to the server for writes, would not take of a URL."""
    if problem := server_problem(url):
        return problem
    # redis-py takes a while to load, and most commands do without it.
    from queues.redis.address import parse_redis_url  # noqa: PLC0415 - the reason above

    try:
        parse_redis_url(url)
    except ValueError as error:
        return str(error)
    return None


def http_problem(url: str) -> str | None:
    """Say what httpx would not take of a URL; one with a password is refused, messages show it."""
    if problem := misspelling(url):
        return problem
    parts = _split(url)
    if parts is None or "@" in parts.netloc:
        return "holds a user or a password, which messages would show"
    import httpx  # noqa: PLC0415 - as for the driver of databases

    try:
        is_address = bool(httpx.URL(url).host) and parts.port != 0
    except (httpx.InvalidURL, ValueError):
        is_address = False
    return None if is_address else "must name a host, or HOST:PORT"


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None
