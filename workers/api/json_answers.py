"""Writes answers as JSON: small ones at once, long ones on a thread and in steps.

orjson writes them, from 64,000 characters on a thread and in steps, because one long call lets
nothing else run. The framework's own way looks at every value first, and held the event loop for
0.2 s for a universe.
"""

from typing import Any

import anyio.to_thread
import orjson
from fastapi import Response

from kernel.json_text import is_longer_than

WRITTEN_AT_ONCE_CHARS = 64 << 10
_STEP_ENTRIES = 5_000
_LEVELS_IN_STEPS = 5


async def json_answer(
    document: Any, status_code: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return the response of a JSON document."""
    if is_longer_than(document, WRITTEN_AT_ONCE_CHARS):
        content = await anyio.to_thread.run_sync(_in_steps, document, _LEVELS_IN_STEPS)
    else:
        content = orjson.dumps(document)
    return Response(content, status_code, headers, "application/json")


def _in_steps(value: Any, levels: int) -> bytes:
    if levels and isinstance(value, dict):
        fields = (orjson.dumps(name) + b":" + _in_steps(value[name], levels - 1) for name in value)
        return b"{%s}" % b",".join(fields)
    if levels and isinstance(value, list):
        return b"[%s]" % b",".join(_entries(value, levels - 1))
    return orjson.dumps(value)


def _entries(values: list[Any], levels: int) -> list[bytes]:
    """Return the entries of a list: each by itself where it may be long, else many in one call."""
    if len(values) < _STEP_ENTRIES and any(isinstance(one, dict | list) for one in values):
        return [_in_steps(one, levels) for one in values]
    starts = range(0, len(values), _STEP_ENTRIES)
    return [orjson.dumps(values[start : start + _STEP_ENTRIES])[1:-1] for start in starts]
