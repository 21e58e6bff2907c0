"""States the version of what a fleet's processes say: items, mail, heartbeats, reports.

While a fleet is brought to another version, old and new processes work side by side. Whoever meets
another version than its own takes nothing of it: it leaves the work for others, uncounted, and says
so (decision queues/0061). A test holds the forms of what is said against this number.
"""

from typing import Final

import orjson

PROTOCOL: Final = 11
HEADER: Final = "Rotulus-Protocol"

_FIELD: Final = b'{"protocol":'


def protocol_payload(fields: dict[str, str]) -> bytes:
    """Return a payload with the version in front."""
    return orjson.dumps({"protocol": PROTOCOL, **fields})


def is_spoken(payload: bytes) -> bool:
    """Tell whether a payload is of this version, or states none."""
    return payload.startswith(b"%s%d," % (_FIELD, PROTOCOL)) or not payload.startswith(_FIELD)
