"""Sorts, hashes and writes long lists of ids in steps.

Sorting a million ids in one call takes half a second, and hashing or writing them 50 ms and more,
during which no other thread runs. Here the ids are divided by cuts that the process's salted hashes
choose, and each part is sorted and written by itself: the bytes are the same and each step takes
some milliseconds, so a session's verb on a thread leaves the event loop free. A declaration of a
million ids takes about as long as before; one second of it is sorting instead of half a second.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import orjson

from kernel.values.canonical import canonicalize

STEP_IDS = 10_000
"""Ids that are sorted or written in one call, which takes two or three milliseconds."""

SAMPLED_OF = 256
"""One id in so many may be a cut between buckets."""


def sort_unique(ids: Sequence[str]) -> list[str]:
    """Return the ids sorted by code point, each once."""
    if len(ids) <= STEP_IDS:
        return sorted(set(ids))
    unique: list[str] = []
    for bucket in buckets(ids):
        bucket.sort()
        unique.append(bucket[0])
        unique.extend(later for earlier, later in pairwise(bucket) if earlier != later)
    return unique


def canonical_texts(texts: Sequence[str]) -> bytes:
    """Return the RFC 8785 bytes of an array of texts, in which nothing can be a number or a key.

    Raises:
        TypeError: one of them is no Unicode.
    """
    parts = (orjson.dumps(texts[start : start + STEP_IDS]) for start in _starts(texts))
    return b"[%s]" % b",".join(part[1:-1] for part in parts)


def canonical_object(document: dict[str, Any]) -> bytes:
    """Return the RFC 8785 bytes of an object with ASCII keys, long lists of texts in steps.

    Raises:
        CanonicalizationError: a value has none.
    """
    if not _holds_long_list(document):
        return canonicalize(document)
    fields = (orjson.dumps(name) + b":" + _canonical(document[name]) for name in sorted(document))
    return b"{%s}" % b",".join(fields)


def _canonical(value: Any) -> bytes:
    if isinstance(value, dict) and _holds_long_list(value):
        return canonical_object(value)
    if _is_long(value) and all(type(element) is str for element in value):
        try:
            return canonical_texts(value)
        except TypeError:
            return canonicalize(value)
    return canonicalize(value)


def _holds_long_list(document: dict[str, Any], levels: int = 2) -> bool:
    for value in document.values():
        kind = type(value)
        if kind is list and len(value) > STEP_IDS:
            return True
        if kind is dict and levels > 1 and _holds_long_list(value, levels - 1):
            return True
    return False


def _is_long(value: Any) -> bool:
    return isinstance(value, list) and len(value) > STEP_IDS


def are_equal(first: Sequence[str], second: Sequence[str]) -> bool:
    """Tell whether two lists hold the same ids in the same order."""
    pairs = zip(in_steps(first), in_steps(second), strict=False)
    return len(first) == len(second) and all(list(left) == list(right) for left, right in pairs)


def let_go(ids: list[str]) -> None:
    """Empty a list whose ids nobody else may hold: giving up a million takes as long as sorting."""
    while ids:
        del ids[-STEP_IDS:]


def in_steps(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the list in pieces that are worked on in one call."""
    for start in _starts(ids):
        yield ids[start : start + STEP_IDS]


def _starts(ids: Sequence[str]) -> range:
    return range(0, len(ids), STEP_IDS)


def buckets(ids: Iterable[str]) -> Iterator[list[str]]:
    """Cut the ids into consecutive stretches of their order, of a few thousand ids each.

    The process's salted hashes choose the cuts, so no caller can arrange its ids against them.
    """
    listed = list(ids)
    step = max(1, STEP_IDS // (2 * SAMPLED_OF))
    cuts = sorted({id_ for id_ in listed if not hash(id_) % SAMPLED_OF})[::step]
    buckets: list[list[str]] = [[] for _ in range(len(cuts) + 1)]
    for id_ in listed:
        buckets[bisect_right(cuts, id_)].append(id_)
    yield from filter(None, buckets)
