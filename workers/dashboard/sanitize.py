"""Bounds and cleans a snapshot once, before HTML, JSON or the stream sees any of it.

Rules:

1. Every list has a limit and every text has a limit; nothing grows with the load.
2. Control characters and bidirectional overrides, which can make a line read as what it is not,
   become U+FFFD. Markup is left alone: the template and the page's script treat text as text.
3. There is no way round: all readers take the snapshot that comes out of here.
"""

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

T = TypeVar("T")

TEXT_CHARS_MAX = 160

LIST_LIMIT = 32
LIST_LIMITS = {
    "queues": 16,
    "priorities": 8,
    "leases": 32,
    "held": 32,
    "workers": 40,
    "newest": 50,
    "survivors": 12,
    "tail": 20,
    "effect_kinds": 8,
}

_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_BIDI = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_LINE_ENDS = [0x2028, 0x2029]
_SURROGATES = range(0xD800, 0xE000)
_HARMLESS = dict.fromkeys([*_CONTROLS, *_BIDI, *_LINE_ENDS, *_SURROGATES], "\ufffd")


def tidy(value: T, name: str = "") -> T:
    """Return the same value with bounded lists and bounded, harmless texts.

    `name` is the field that holds the value; it chooses the limit of a list.
    """
    return cast("T", _tidy(value, name))


def _tidy(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return bounded_text(value)
    if isinstance(value, tuple):
        return tuple(_tidy(item, name) for item in value[: LIST_LIMITS.get(name, LIST_LIMIT)])
    if is_dataclass(value) and not isinstance(value, type):
        # The list inside Part.value is named by the field that holds the Part.
        parts = {f.name: name if f.name == "value" else f.name for f in fields(value)}
        return type(value)(*(_tidy(getattr(value, own), limit) for own, limit in parts.items()))
    return value


def bounded_text(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """Return a text with at most so many characters, none of which misleads a reader."""
    clipped = text if len(text) <= chars_max else text[: chars_max - 1] + "…"
    return clipped.translate(_HARMLESS)
