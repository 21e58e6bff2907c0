"""Bounds what a belief session accepts: every bound in one place, each breach one error.

Whatever passes here has canonical bytes and can be read back, so that sealing an event cannot
fail after a rule has been applied.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any

from kernel.belief.errors import BeliefError
from kernel.values.canonical import MAX_SAFE_INTEGER, CanonicalizationError, canonicalize
from kernel.values.json_text import SteppedDecoder

MAX_HYPOTHESES = 1_000_000
MAX_CLAIMED_IDS = 1_000_000
MAX_ID_CHARS = 512
MAX_STABILITY_WINDOW = 10_000
MAX_OPAQUE_BYTES = 1 << 20
"""Canonical size of a justification, a context or a session's metadata."""
MAX_OPAQUE_DEPTH = 64
DECODED_AT_ONCE = 64 << 10
"""Characters of JSON that are read in one call."""

MAX_CARRIED = 10_000
"""Eliminations that a successor takes over from the session before it."""
MAX_CARRIED_BYTES = 32 << 20
"""Their bytes together: all of them are written in one transaction."""

AUDIT_PAGE_MAX = 1000
AUDIT_PAGE_BYTES = 8 << 20
"""A page of the audit ends before the entry that would pass this, and has one entry at least."""

_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}(?:Z|\+00:00)", re.ASCII)


def invalid(field: str, problem: str) -> BeliefError:
    """Build the refusal of one field of a request."""
    return BeliefError("INVALID_REQUEST", f"{field} {problem}", {"field": field})


def check_text(field: str, value: object, *, min_chars: int = 1) -> str:
    """Return the value if it is Unicode text of at most 512 characters."""
    if type(value) is not str:
        raise invalid(field, "must be a string")
    if not min_chars <= len(value) <= MAX_ID_CHARS:
        raise invalid(field, f"must have {min_chars} to {MAX_ID_CHARS} characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid(field, "must not hold a lone surrogate") from None
    return value


def check_ids(field: str, values: Iterable[str], *, max_ids: int) -> list[str]:
    """Return the ids as a list, in the order given; a set, which has none, is sorted."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise invalid(field, "must be a list of ids")
    ids = list(islice(values, max_ids + 1))
    if len(ids) > max_ids:
        raise invalid(field, f"must name at most {max_ids} ids")
    for value in ids:
        check_text(field, value)
    return sorted(ids) if isinstance(values, set | frozenset) else ids


def check_observations(field: str, values: Iterable[Iterable[str]]) -> list[tuple[str, str]]:
    """Return pairs of a source and an observation, each once, in the order given."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise invalid(field, "must be a list of observations")
    named: dict[tuple[str, str], None] = {}
    for value in values:
        pair = tuple(value) if isinstance(value, list | tuple) else ()
        if len(pair) != 2:
            raise invalid(field, "must hold pairs of a source_id and an observation_id")
        source_id, observation_id = (check_text(field, part) for part in pair)
        named[source_id, observation_id] = None
        if len(named) > MAX_CARRIED:
            raise invalid(field, f"must name at most {MAX_CARRIED} observations")
    return list(named)


def check_whole(field: str, value: object, *, most: int) -> int:
    """Return the value if it is a whole number from 0 to the bound."""
    if type(value) is not int or not 0 <= value <= most:
        raise invalid(field, f"must be a whole number from 0 to {most}")
    return value


def check_timestamp(value: object) -> str:
    """Return the value if it is a UTC instant in ISO 8601 with six digits of microseconds."""
    if type(value) is str and _TIMESTAMP.fullmatch(value):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise invalid("ts", "is not a date that exists") from None
        return value
    raise invalid("ts", "must be ISO 8601 in UTC with microseconds")


def check_opaque(field: str, value: dict[str, Any] | None) -> dict[str, Any]:
    """Return an independent copy of a JSON object that is stored and never interpreted.

    None stands for the empty object.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(field, "must be an object")
    if not value:
        return {}
    try:
        canonical = canonicalize(value)
    except CanonicalizationError as error:
        raise invalid(field, f"has {error}") from error
    if len(canonical) > MAX_OPAQUE_BYTES:
        raise invalid(field, f"must have at most {MAX_OPAQUE_BYTES} bytes")
    # Brackets inside strings are counted too: a low count proves that the nesting is shallow.
    if canonical.count(b"{") + canonical.count(b"[") > MAX_OPAQUE_DEPTH and _too_deep(value):
        raise invalid(field, f"must nest at most {MAX_OPAQUE_DEPTH} deep")
    copy: dict[str, Any] = decode_json(canonical)
    return copy


def decode_json(data: bytes) -> Any:
    """Read canonical JSON so that writing it again gives the same bytes.

    Raises:
        ValueError: when it is not JSON.
        RecursionError: when it nests too deeply to be read.
    """
    text = data.decode()
    return _DECODER.decode_in_steps(text) if len(text) > DECODED_AT_ONCE else _DECODER.decode(text)


def _number(digits: str) -> int | float:
    # A whole float below 1e21 is written without a point; beyond 2^53 it can only be a float.
    value = int(digits)
    return value if abs(value) <= MAX_SAFE_INTEGER else float(digits)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = SteppedDecoder(parse_int=_number, parse_constant=_refuse)


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_OPAQUE_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list | tuple)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return any(isinstance(item, dict | list | tuple) for item in level)
