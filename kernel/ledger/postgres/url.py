"""Says before anything connects which faults libpq finds in the URL of a database.

libpq looks at most values only when it connects. Nothing that is said holds a part of the URL.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

_WHOLE_NUMBERS: Final = (
    *("connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval"),
    *("keepalives_count", "tcp_user_timeout"),
)
_ONE_OF: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "sslmode": frozenset(("disable", "allow", "prefer", "require", "verify-ca", "verify-full")),
        "channel_binding": frozenset(("disable", "prefer", "require")),
        "gssencmode": frozenset(("disable", "prefer", "require")),
        "load_balance_hosts": frozenset(("disable", "random")),
        "target_session_attrs": frozenset(
            ("any", "read-write", "read-only", "primary", "standby", "prefer-standby")
        ),
    }
)
"""The values of parameters that have few."""


def url_problem(url: str) -> str | None:
    """Say what is wrong with a URL, which may name several hosts; None where nothing is."""
    try:
        stated = conninfo_to_dict(url)
    except (psycopg.Error, ValueError):
        return "holds a parameter that libpq does not know, or is written as it cannot read it"
    if not all(map(_is_port, str(stated.get("port") or "").split(","))):
        return "names a port that is none"
    for name in _WHOLE_NUMBERS:
        if not str(stated.get(name) or "0").lstrip("-").isdecimal():
            return f"has a {name} that is no whole number"
    for name, known in _ONE_OF.items():
        if stated.get(name) and stated[name] not in known:
            return f"has a {name} that is none of {', '.join(sorted(known))}"
    return None


def _is_port(text: str) -> bool:
    return not text or (text.isdecimal() and 0 < int(text) < 1 << 16)
