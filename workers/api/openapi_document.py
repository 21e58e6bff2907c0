"""Makes the OpenAPI document of a gateway, with what the framework leaves out of its routes.

Of an object that is told from others by a field, the field is required, whatever its default is in
Python. The lines of a stream have their schemas among the components, where `x-itemSchema` points:
OpenAPI has a keyword for them from 3.2 on (decision workers/0430).
"""

from collections.abc import Iterator
from typing import Any

from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from workers.api.app import MODULES
from workers.api.json_routes import JsonRoute
from workers.api.routes.operation_streams import LINES

_SCHEMAS = "#/components/schemas/"


def openapi_document() -> dict[str, Any]:
    """Return the document."""
    document = get_openapi(
        title="Rotulus",
        version="0.1.0",
        description="Decisions through one kernel onto one record.",
        routes=[
            route.api_route() if isinstance(route, JsonRoute) else route
            for module in MODULES
            for route in module.router.routes
        ],
        servers=[{"url": "./", "description": "The folder in which this document lies."}],
    )
    schemas = document["components"]["schemas"]
    for name, kind in LINES.items():
        schema = TypeAdapter(kind).json_schema(ref_template=f"{_SCHEMAS}{{model}}")
        schemas.update({**schema.pop("$defs", {}), **schemas})
        schemas[name] = {"title": name, **schema}
    for discriminator in _discriminators(document):
        tag = discriminator["propertyName"]
        for reference in discriminator["mapping"].values():
            tagged = schemas[reference.removeprefix(_SCHEMAS)]
            required = tagged.setdefault("required", [])
            if tag not in required:
                required.append(tag)
    return document


def _discriminators(part: Any) -> Iterator[dict[str, Any]]:
    """Return every discriminator below a part of a document."""
    if isinstance(part, list):
        for item in part:
            yield from _discriminators(item)
    if isinstance(part, dict):
        if "mapping" in part.get("discriminator", ()):
            yield part["discriminator"]
        for item in part.values():
            yield from _discriminators(item)
