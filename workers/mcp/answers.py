"""Answers sized for a model: nothing longer than `ANSWER_BYTES_MAX`, what was cut is said.

A page has as many of its rows as fit, and names where the next one begins. Of a single document
long texts and lists are shortened step by step until it fits; what was left out is named in its
place, and `part` of the same tool shows it whole (decision workers/0227).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from workers.mcp.tool import Document, ToolRefused, next_page

ANSWER_BYTES_MAX: Final = 40_000
"""About ten thousand tokens."""

_PAGE_BYTES_MAX: Final = 32_000
_ROW_LIMITS: Final = (600, 20)
_LIMITS: Final = ((8000, 200), (2000, 60), (600, 20), (200, 8), (100, 3))
"""Characters of a text and elements of a list, the most first."""

DEPTH_MAX: Final = 40
TEXT_CHARS_MAX: Final = 8000
"""Characters of a text that is asked for as a part."""


def dump_answer(document: Any) -> bytes:
    """Return the bytes of an answer: objects in the order of their making, no spaces."""
    # Names of columns are texts of SQLAlchemy's own kind.
    return orjson.dumps(document, default=_plain, option=orjson.OPT_NON_STR_KEYS)


def fit_answer(document: Document, *, is_exact: bool = False) -> bytes:
    """Return the bytes of an answer that fits.

    Raises:
        ToolRefused: `answer_too_large`.
    """
    whole = dump_answer(document)
    if len(whole) <= ANSWER_BYTES_MAX:
        return whole
    plain = orjson.loads(whole)
    # A page that were cut here would lose rows that its `next` passes over.
    limits = () if is_exact or "next" in document else _LIMITS
    for characters, elements in limits:
        cut = dump_answer(shorten(plain, characters, elements) | {"is_shortened": True})
        if len(cut) <= ANSWER_BYTES_MAX:
            return cut
    message = f"the answer has {len(whole)} bytes, more than {ANSWER_BYTES_MAX}; ask for less"
    raise ToolRefused(message, code="answer_too_large")


def page(
    name: str,
    rows: Sequence[Any],
    place_of: Callable[[Any], object],
    next_after: object,
    summary: Callable[[int], str],
) -> Document:
    """Return a page of rows: as many as fit, and where to go on.

    `place_of` is where a page goes on behind a row, `next_after` behind the last one (None where
    there is no more), `summary` is told how many rows are shown.
    """
    kept: list[Any] = []
    size = 0
    for row in rows:
        cut = shorten(orjson.loads(dump_answer(row)), *_ROW_LIMITS)
        size += len(dump_answer(cut))
        if kept and size > _PAGE_BYTES_MAX:
            next_after = place_of(rows[len(kept) - 1])
            break
        kept.append(cut)
    return {"summary": summary(len(kept)), name: kept, "next": next_page(next_after)}


def whole_page(name: str, document: Mapping[str, Any], summary: Callable[[int], str]) -> Document:
    """Return a page whose rows do not say where it would go on: all of them, shortened to fit.

    Raises:
        ToolRefused: `answer_too_large`.
    """
    rows = orjson.loads(dump_answer(document[name]))
    kept = rows
    for limits in _LIMITS:
        if len(dump_answer(kept)) <= _PAGE_BYTES_MAX:
            break
        kept = [shorten(row, *limits) for row in rows]
    following = next_page(document["next_after"])
    return {"summary": summary(len(kept)), name: kept, "next": following}


def part_of(document: Any, path: str, offset: int) -> Document:
    """Return a part of a document by its path, such as `effects.3.payload`; of a text a piece.

    Raises:
        ToolRefused: `not_found`.
    """
    part = orjson.loads(dump_answer(document))
    for key in filter(None, path.split(".")):
        if isinstance(part, Mapping) and key in part:
            part = part[key]
        elif isinstance(part, list) and key.isdecimal() and len(key) < 9 and int(key) < len(part):
            part = part[int(key)]
        else:
            names = list(part)[:40] if isinstance(part, Mapping) else type(part).__name__
            raise ToolRefused(f"no part {path!r}: {key!r} is none of {names}")
    if isinstance(part, str):
        piece = part[offset : offset + TEXT_CHARS_MAX]
        end = offset + len(piece)
        return {
            "summary": f"characters {offset} to {end} of {len(part)} of {path}",
            "text": piece,
            "next": {"offset": end} if end < len(part) else None,
        }
    if isinstance(part, list):
        summary = f"{len(part)} elements of {path}, from {offset} on"
        return {"summary": summary, "part": part[offset:]}
    return {"summary": path, "part": part}


def shorten(value: Any, characters: int, elements: int, depth: int = 0) -> Any:
    """Return a JSON value with its texts and lists cut; what was left out is counted."""
    if isinstance(value, str):
        beyond = len(value) - characters
        return value if beyond <= 0 else f"{value[:characters]}… (+{beyond} characters)"
    if depth == DEPTH_MAX and isinstance(value, dict | list):
        return "… (deeper)"
    if isinstance(value, dict):
        shown = {
            name: shorten(member, characters, elements, depth + 1)
            for name, member in list(value.items())[: elements * 4]
        }
        beyond = len(value) - len(shown)
        return shown | ({"…": f"+{beyond} members"} if beyond else {})
    if isinstance(value, list):
        items = [shorten(item, characters, elements, depth + 1) for item in value[:elements]]
        beyond = len(value) - len(items)
        return items + ([f"… (+{beyond} more)"] if beyond else [])
    return value


def _plain(value: Any) -> Any:
    """Return what a view gives beside plain JSON: mappings that cannot be changed, bytes."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Sequence | frozenset | set):
        return list(value)
    raise TypeError(type(value).__name__)
