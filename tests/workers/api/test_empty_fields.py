"""An empty field of a query is taken where the OpenAPI document takes it, and refused elsewhere."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import workers.api
from tests.workers.api.door import SESSION, Door

pytestmark = pytest.mark.anyio

DOCUMENT: dict[str, Any] = json.loads(
    Path(workers.api.__file__).with_name("openapi.json").read_bytes()
)
IN_PATHS = {"queue": "binding-evaluation", "session_id": SESSION}
"""Names whose form a path checks; of the others nothing has to be there."""


def fields() -> list[tuple[str, str, dict[str, Any]]]:
    """Return every field of a query of a read, with its path and its schema."""
    return [
        (path, field["name"], field["schema"])
        for path, operations in DOCUMENT["paths"].items()
        for field in operations.get("get", {}).get("parameters", [])
        if field["in"] == "query"
    ]


def takes_nothing(schema: dict[str, Any]) -> bool:
    """Tell whether a schema takes the empty text."""
    return any(
        each.get("type") == "string"
        and not each.get("minLength")
        and not each.keys() & {"enum", "format"}
        and re.search(each.get("pattern", ""), "") is not None
        for each in schema.get("anyOf", [schema])
    )


async def test_an_empty_field_is_refused_exactly_where_its_schema_refuses_it(door: Door):
    await door.declare(SESSION, "a")
    differ = []
    for path, name, schema in fields():
        address = re.sub(r"\{(\w+)\}", lambda part: IN_PATHS.get(part[1], "1"), path)
        # What else is required is missing, and is refused under its own name.
        answer = await door.http.get(f"{address}?{name}=")
        problems = [] if answer.is_success else answer.json()["error"].get("details", [])
        is_refused = answer.status_code == 422 and f"query.{name}'" in str(problems)
        if is_refused == takes_nothing(schema):
            differ.append(f"{path} {name}: {answer.status_code} {answer.text[:200]}")
    assert not differ, "\n".join(differ)
