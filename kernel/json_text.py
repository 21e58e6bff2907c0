"""JSON that strangers wrote: no object says a key twice.

Most readers keep the last of two values, some the first, so what one program checks is not what
another acts on (RFC 8259 §4). Keys are compared as they are read, however they are escaped.
"""

import json
from typing import Any

_KEY_SHOWN_CHARS = 100


class RepeatedKey(ValueError):  # noqa: N818 - what is wrong with the text
    """An object says a key twice."""

    code = "json_key_repeated"

    def __init__(self, key: str) -> None:
        shown = key[:_KEY_SHOWN_CHARS].encode("ascii", "backslashreplace").decode()
        super().__init__(f"an object says the key {shown!r} twice")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of its pairs; for `object_pairs_hook`.

    Raises:
        RepeatedKey: a key stands twice.
    """
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKey(key)
            seen.add(key)
    return document


def check_unique_keys(content: bytes) -> None:
    """Refuse a JSON text, which another reader has read, in which an object says a key twice.

    Raises:
        RepeatedKey: naming the key.
    """
    # Without so many colons there are no two keys.
    if content.count(b":") > 1:
        json.loads(content, object_pairs_hook=unique_keys)
