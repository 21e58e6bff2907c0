"""Lists the host names that a process answers to.

A page elsewhere can let a name of its own point at our address (DNS rebinding). Its reader's
browser then sends that name as the host, which is not on the list.
"""

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
HOSTS_MAX = 64
_NAVIGATING_METHODS = frozenset({"GET", "HEAD"})
_OWN_SITES = frozenset({"same-origin", "none"})
_HOST_CHARS_MAX = 253 + len(":65535")

_HOST = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{1,5})?"
)


@lru_cache(maxsize=64)
def host_name(host: str) -> str | None:
    """Return the name of a `Host` without its port, in lower case; None where it is malformed."""
    match = _HOST.fullmatch(host) if len(host) <= _HOST_CHARS_MAX else None
    if match is None:
        return None
    return _normal(match["address"] or match["name"])


def listed_names(text: str) -> frozenset[str]:
    """Return the names and addresses of a list that commas separate.

    Raises:
        ValueError: an entry is neither; it has no port and no wildcard.
    """
    names = set()
    for entry in text.split(","):
        bare = entry.strip()
        host = f"[{bare}]" if bare.count(":") > 1 and not bare.startswith("[") else bare
        name = None if ":" in host.partition("]")[2] or host.count(":") == 1 else host_name(host)
        if name is None:
            raise ValueError(entry)
        names.add(name)
    if len(names) > HOSTS_MAX:
        raise ValueError(text)
    return frozenset(names)


def _normal(name: str) -> str | None:
    if ":" not in name:
        return name.lower()
    try:
        return str(ipaddress.IPv6Address(name))
    except ValueError:
        return None


def is_foreign_origin(method: str, headers: Mapping[str, str]) -> bool:
    """Tell whether a request comes from a page of another origin; names of headers in lower case.

    A link from elsewhere may be followed if it opens a whole page.
    """
    origin = headers.get("origin")
    foreign = origin is not None and origin.partition("://")[2] != headers["host"]
    if not foreign and headers.get("sec-fetch-site", "none") in _OWN_SITES:
        return False
    opens_a_page = (
        origin is None
        and method in _NAVIGATING_METHODS
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )
    return not opens_a_page
