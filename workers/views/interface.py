"""Describes the HTTP interface for a reader: the OpenAPI document as words, without its nesting.

Why it is not a foreign viewer: decision workers/0285.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]

_REF = "#/components/schemas/"
_LIMITS = {
    "minLength": "{} characters at least",
    "maxLength": "{} characters at most",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "pattern": "matches {}",
    "default": "{} where it is left out",
}


@dataclass(frozen=True, slots=True)
class ShownType:
    """A type in words, with the schemas that it names."""

    words: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field of a schema, or a parameter of a route."""

    name: str
    type: ShownType
    is_required: bool
    says: str
    place: str = ""
    """Where a parameter stands: path, query, header; empty for a field."""


@dataclass(frozen=True, slots=True)
class ShownRoute:
    """A route: what it is asked with, and what it answers."""

    route_id: str
    method: str
    path: str
    tag: str
    summary: str
    description: str
    parameters: tuple[ShownField, ...]
    body: ShownType | None
    answers: tuple[tuple[str, ShownType | None, str], ...]
    """The status, the type and what it means, for each."""


@dataclass(frozen=True, slots=True)
class ShownSchema:
    """A schema by its name."""

    name: str
    description: str
    type: ShownType | None
    """Of a schema that is no object with fields."""

    fields: tuple[ShownField, ...]


@dataclass(frozen=True, slots=True)
class Interface:
    """Every route and every schema of a document."""

    routes: Mapping[str, ShownRoute]
    schemas: Mapping[str, ShownSchema]

    @classmethod
    def of(cls, document: Schema) -> "Interface":
        """Read an OpenAPI document."""
        routes = (
            _route(method, path, operation)
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        )
        schemas = document["components"]["schemas"].items()
        return cls(
            {route.route_id: route for route in routes},
            {name: _schema(name, schema) for name, schema in schemas},
        )

    def by_tag(self) -> dict[str, list[ShownRoute]]:
        """Return the routes by their subject, in the order of the document."""
        tagged: dict[str, list[ShownRoute]] = {}
        for route in self.routes.values():
            tagged.setdefault(route.tag, []).append(route)
        return dict(sorted(tagged.items()))


def type_of(schema: Schema) -> ShownType:
    """Return a type in words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return ShownType(name, (name,))
    if "const" in schema:
        return ShownType(repr(schema["const"]))
    if "enum" in schema:
        return ShownType("one of " + ", ".join(map(repr, schema["enum"])))
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return _join_types([type_of(part) for part in schema[several]], " or ")
    if schema.get("type") == "array":
        element = type_of(schema.get("items", {}))
        return ShownType(f"list of {element.words}", element.names)
    if schema.get("type") == "object" or "additionalProperties" in schema:
        values = schema.get("additionalProperties")
        of = type_of(values) if isinstance(values, Mapping) else ShownType("anything")
        words = schema.get("title", "object") if values in (None, True) else f"map to {of.words}"
        return ShownType(words, of.names)
    return ShownType(str(schema.get("type", "anything")))


def _join_types(parts: Sequence[ShownType], between: str) -> ShownType:
    names = dict.fromkeys(name for part in parts for name in part.names)
    words = dict.fromkeys(part.words for part in parts)
    return ShownType(between.join(words), tuple(names))


def _says(schema: Schema) -> str:
    shown = (schema, *(part for part in schema.get("anyOf", ()) if "$ref" not in part))
    limits = (
        words.format(_number(part[name]))
        for part in shown
        for name, words in _LIMITS.items()
        if part.get(name) not in (None, "")
    )
    stated = schema.get("description", "").replace("\n", " ")
    return "; ".join(filter(None, (stated.removesuffix("."), *dict.fromkeys(limits))))


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _schema(name: str, schema: Schema) -> ShownSchema:
    fields = tuple(_fields(schema))
    shown = None if fields or schema.get("type") == "object" else type_of(schema)
    return ShownSchema(name, schema.get("description", ""), shown, fields)


def _fields(schema: Schema) -> Iterator[ShownField]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield ShownField(name, type_of(field), name in required, _says(field))


def _route(method: str, path: str, operation: Schema) -> ShownRoute:
    parameters = tuple(
        ShownField(
            parameter["name"],
            type_of(parameter["schema"]),
            parameter.get("required", False),
            _says(parameter["schema"] | {"description": parameter.get("description", "")}),
            parameter["in"],
        )
        for parameter in operation.get("parameters", ())
    )
    body = operation.get("requestBody")
    return ShownRoute(
        operation["operationId"],
        method.upper(),
        path,
        (operation.get("tags") or ["others"])[0],
        operation.get("summary", ""),
        operation.get("description", ""),
        parameters,
        None if body is None else _content_type(body),
        tuple(
            (status, _content_type(answer), answer.get("description", ""))
            for status, answer in operation["responses"].items()
        ),
    )


def _content_type(stated: Schema) -> ShownType | None:
    for media_type, content in stated.get("content", {}).items():
        shown = type_of(content.get("schema", {}))
        is_json = media_type == "application/json"
        return shown if is_json else ShownType(f"{shown.words} as {media_type}", shown.names)
    return None
