"""Writes answers as JSON: small ones at once, long ones on a thread and in steps.

orjson writes them, from 64,000 characters on a thread and in steps, because one long call lets
nothing else run. The framework's own way looks at every value first, and held the event loop for
0.2 s for a universe.
"""

from typing import Any

import anyio.to_thread
import orjson
from fastapi import Response

from kernel.values.json_text import is_longer_than, write_in_steps

WRITTEN_AT_ONCE_CHARS = 64 << 10


async def json_answer(
    document: Any, status_code: int | None = None, headers: dict[str, str] | None = None
) -> Response:
    """Return the response of a JSON document."""
    if is_longer_than(document, WRITTEN_AT_ONCE_CHARS):
        content = await anyio.to_thread.run_sync(write_in_steps, document, orjson.dumps)
    else:
        content = orjson.dumps(document)
    return Response(content, status_code or 200, headers, "application/json")


def short_json(document: Any) -> Response:
    """Return the response of a JSON document that is short, whose characters need no counting."""
    return Response(orjson.dumps(document), media_type="application/json")
