"""Bounds and cleans a snapshot once, before HTML, JSON or the stream sees any of it.

Rules:

1. Every list has a limit and every text has a limit; nothing grows with the load.
2. Control characters, bidirectional overrides and spaces without a width, which can make a line
   read as what it is not, become U+FFFD; joiners of scripts and emoji stay. Markup is left alone:
   the template and the page's script treat text as text.
3. Parts of addresses stay as they are, because nobody sees them but encoded.
4. There is no way round: all readers take the snapshot that comes out of here, and a template shows
   no text but through `visible`.
"""

import re
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

from kernel.values.misleading import REPLACEMENT, visible

T = TypeVar("T")

TEXT_CHARS_MAX = 160
WORD_CHARS_MAX = 24
"""Of a word in which no line ends; a longer one is a name or an id."""

_TOKENS = re.compile(r"[^\s-]*[\s-]*")
_PIECES = re.compile(
    r"(?<![^\W_])(?:[^\W_]|[\W_]{1,4}(?=\d)){1,24}(?![^\W_])[\W_]{0,24}"
    r"|[^\W_]{1,8}[\W_]{0,24}|[\W_]{1,24}"
)
"""Words with the signs behind them; letters of an id, eight by eight; signs alone."""


LINES_CHARS_MAX = 10_000
"""Of a traceback, which is kept with at most 9 KiB."""

TEXT_LIMITS = {"sentence": 400, "command": 1_000, "ids": 512, "query": 512}
"""Of a field whose text is bounded where it is made, or that has to be whole to be of use."""

IN_ADDRESSES = frozenset({"ids", "query"})
"""Fields whose texts are encoded in the address of a page, which is of use with the very texts."""

LIST_LIMIT = 32
LIST_LIMITS = {
    "attention": 200,
    "queues": 16,
    "priorities": 8,
    "leases": 32,
    "held": 32,
    "workers": 40,
    "newest": 50,
    "survivors": 12,
    "tail": 15,
    "effect_kinds": 8,
}

_OF_LINES = str.maketrans("\t\n", REPLACEMENT * 2)


def tidy(value: T, name: str = "") -> T:
    """Return the same value with bounded lists and bounded, harmless texts.

    `name` is the field that holds the value; it chooses the limit of a list.
    """
    return cast("T", _tidy(value, name))


def _tidy(value: Any, name: str) -> Any:
    if isinstance(value, str):
        chars_max = TEXT_LIMITS.get(name, TEXT_CHARS_MAX)
        is_exact = name in IN_ADDRESSES and len(value) <= chars_max
        # A lone surrogate is in no encoding.
        return (
            value.encode("utf-8", "replace").decode() if is_exact else bound_text(value, chars_max)
        )
    if isinstance(value, tuple):
        return tuple(_tidy(item, name) for item in value[: LIST_LIMITS.get(name, LIST_LIMIT)])
    if is_dataclass(value) and not isinstance(value, type):
        # The list inside Part.value is named by the field that holds the Part.
        parts = {f.name: name if f.name == "value" else f.name for f in fields(value)}
        return type(value)(*(_tidy(getattr(value, own), limit) for own, limit in parts.items()))
    return value


def bound_text(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """Return a text with at most so many characters, none of which misleads a reader."""
    clipped = text if len(text) <= chars_max else text[: chars_max - 1] + "…"
    return visible(clipped).translate(_OF_LINES)


def breakable_pieces(text: str) -> list[str]:
    """Return a text in pieces between which a line may end, so that no word ends in its middle.

    A long name may end behind a sign in it; what is longer than a word and has no sign is an id,
    which may end behind each eighth letter. Where there is a space or a hyphen a line may end
    anyway. The page's script does the same (`static/app.js`).
    """
    pieces = [""]
    for token in _TOKENS.findall(text):
        first, *others = _PIECES.findall(token) if len(token) > WORD_CHARS_MAX else (token,)
        pieces[-1] += first
        pieces += others
    return pieces


def bound_lines(text: str, chars_max: int = LINES_CHARS_MAX) -> str:
    """Return a text likewise, in its lines."""
    return "\n".join(bound_text(line, chars_max) for line in text[:chars_max].split("\n"))
