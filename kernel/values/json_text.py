"""Reads and writes JSON: texts that strangers wrote, and long ones.

No object says a key twice. Most readers keep the last of two values, some the first, so what one
program checks is not what another acts on (RFC 8259 §4). Keys are compared as they are read,
however they are escaped.
"""

import json
import re
from collections import deque
from collections.abc import Callable
from json.decoder import JSONObject  # type: ignore[attr-defined]
from typing import Any

import orjson

_KEY_SHOWN_CHARS = 100
_LEVELS_IN_STEPS = 4
_LEVELS_WRITTEN_IN_STEPS = 5
STEP_ENTRIES = 5_000
"""Entries of a list that are written in one call."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_PLAIN_TEXTS = re.compile(r'(?:[ \t\n\r]*"[^"\\\x00-\x1f]*+"[ \t\n\r]*,){1,4096}')
"""Entries of an array that are texts without escapes, so many that reading them is quick."""


class RepeatedKey(ValueError):
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
        orjson.JSONDecodeError: it nests deeper than this reader goes, which is less than orjson's.
    """
    # Without so many colons there are no two keys.
    if content.count(b":") <= 1:
        return
    try:
        json.loads(content, object_pairs_hook=unique_keys)
    except RecursionError:
        raise orjson.JSONDecodeError("nested too deeply", "", 0) from None


def depth_exceeds(value: object, limit: int) -> bool:
    """Tell whether objects and arrays are nested deeper than a limit."""
    level: list[object] = [value]
    for _ in range(limit):
        level = [
            item
            for node in level
            if isinstance(node, dict | list)
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


class SteppedDecoder(json.JSONDecoder):
    """The standard library's reader, and how it reads without keeping others from their turn.

    It keeps the interpreter to itself from the begin of a value to its end. In steps, the outer
    objects and arrays are read entry by entry, with lines of Python in between, where another
    thread may go on; the value is the same, and takes about as long.
    """

    def decode_in_steps(self, text: str) -> Any:
        """Return the value of a text.

        Raises:
            json.JSONDecodeError: it is none.
        """
        try:
            value, end = self._scan(text, _after_blanks(text, 0), _LEVELS_IN_STEPS)
        except StopIteration as error:
            raise json.JSONDecodeError("Expecting value", text, error.value) from None
        end = _after_blanks(text, end)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        return value

    def _scan(self, text: str, start: int, levels: int) -> tuple[Any, int]:
        opening = text[start : start + 1]
        if levels and opening == "[":
            return self._scan_array(text, start + 1, levels - 1)
        if levels and opening == "{":
            value, end = JSONObject(
                (text, start + 1),
                self.strict,
                lambda text, start: self._scan(text, start, levels - 1),
                self.object_hook,
                self.object_pairs_hook,
                {},
            )
            return value, end
        value, end = self.scan_once(text, start)  # type: ignore[attr-defined]
        return value, end

    def _scan_array(self, text: str, start: int, levels: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        end = _after_blanks(text, start)
        if text[end : end + 1] == "]":
            return values, end + 1
        while True:
            while run := _PLAIN_TEXTS.match(text, end):
                values += json.loads(f"[{text[end : run.end() - 1]}]")
                end = run.end()
            value, end = self._scan(text, _after_blanks(text, end), levels)
            values.append(value)
            end = _after_blanks(text, end)
            mark = text[end : end + 1]
            end += 1
            if mark == "]":
                return values, end
            if mark != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, end - 1)


def _after_blanks(text: str, start: int) -> int:
    match = _BLANKS.match(text, start)
    return start if match is None else match.end()


def write_in_steps(
    value: Any, write: Callable[[Any], bytes], levels: int = _LEVELS_WRITTEN_IN_STEPS
) -> bytes:
    """Return what `write` gives for a JSON value, whose long lists it is given in pieces."""
    if levels and isinstance(value, dict) and all(isinstance(name, str) for name in value):
        fields = (
            write(name) + b":" + write_in_steps(value[name], write, levels - 1) for name in value
        )
        return b"{%s}" % b",".join(fields)
    if levels and isinstance(value, list):
        return b"[%s]" % b",".join(_entries(value, write, levels - 1))
    return write(value)


def _entries(values: list[Any], write: Callable[[Any], bytes], levels: int) -> list[bytes]:
    """Return the entries of a list: each by itself where it may be long, else many in one call."""
    if len(values) < STEP_ENTRIES and any(isinstance(entry, dict | list) for entry in values):
        return [write_in_steps(entry, write, levels) for entry in values]
    starts = range(0, len(values), STEP_ENTRIES)
    return [write(values[start : start + STEP_ENTRIES])[1:-1] for start in starts]


def is_longer_than(value: Any, size: int) -> bool:
    """Tell whether a JSON value has more characters than that, about, at the cost of so many."""
    room, to_count = size, deque([value])
    while to_count:
        counted = to_count.popleft()
        room -= 4
        if isinstance(counted, str):
            room -= len(counted)
        elif isinstance(counted, dict | list):
            room -= len(counted)
            if room > 0:
                to_count.extend(counted.values() if isinstance(counted, dict) else counted)
        if room <= 0:
            return True
    return False
