"""Holds contents against a JSON Schema, which a worker states for its queue.

A schema is compiled once, into a check for each of its parts. It may use the keywords of the table
below, which are those that pydantic writes; another one is refused rather than passed over, because
whoever wrote it meant something by it. A check takes a bounded number of steps and no part of a
content is nested deeper than `DEPTH_MAX`, so no schema holds up the commits that wait for it; a
text is held against a pattern in linear time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import StringConstraints, TypeAdapter, ValidationError

from kernel.values.canonical import canonicalize, digest

SCHEMA_BYTES_MAX: Final = 32 * 1024
DEPTH_MAX: Final = 64
"""Levels of a schema, and of a content as it is checked, references counted."""

STEPS_MAX: Final = 200_000
"""Parts of a content that one check looks at, each as often as a part of the schema is for it."""

PATTERN_CHARS_MAX: Final = 1000

CONTENT_DIGEST: Final = "arguments_digest"
"""In place of a field: jobs with equal contents belong together."""

Problem = tuple[tuple[str, ...], str]
"""The place of a value that does not fit, innermost first, and what it should be."""


class SchemaRefused(ValueError):
    """A schema that contents cannot be held against; the message says where, and why."""


class ContentMisfit(Exception):
    """A content that does not fit its schema: which field, and what it should be."""

    def __init__(self, place: Sequence[str], message: str) -> None:
        super().__init__(message)
        self.place = tuple(place)
        self.message = message


class _Check:
    """The bounds of one check."""

    __slots__ = ("depth", "steps")

    def __init__(self) -> None:
        self.steps = STEPS_MAX
        self.depth = 0

    def take(self, steps: int = 1) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise ContentMisfit((), f"more than {STEPS_MAX} steps to hold it against its schema")


Part = Callable[[Any, _Check], Problem | None]
"""Looks at a value by one keyword."""


@dataclass(frozen=True, slots=True)
class SchemaContent:
    """A content that fits its schema."""

    stated: Mapping[str, Any]
    schema: "ContentSchema"

    def field(self, name: str) -> Any:
        """Return a field, or what the schema says stands for it where it is left out."""
        if name in self.schema.properties:
            stands = self.schema.properties[name]
            default = stands.get("default") if isinstance(stands, Mapping) else None
            return self.stated.get(name, default)
        return digest(dict(self.stated))


class ContentSchema:
    """A schema, ready to hold contents against."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Compile a schema.

        Raises:
            SchemaRefused: it is too large or too deep, has a keyword that is not supported, or is
                no schema of an object.
        """
        if len(canonicalize(dict(document))) > SCHEMA_BYTES_MAX:
            raise SchemaRefused(f"a schema has at most {SCHEMA_BYTES_MAX} bytes")
        defined = document.get("$defs", {})
        if not isinstance(defined, Mapping):
            raise SchemaRefused("$defs: not an object")
        compiler = _Compiler(defined)
        self._check = compiler.part({k: v for k, v in document.items() if k != "$defs"}, ())
        compiler.define()
        root = document
        for _ in range(DEPTH_MAX):
            if "$ref" not in root:
                break
            root = defined[str(root["$ref"]).removeprefix(_REF)]
        if root.get("type") != "object":
            raise SchemaRefused("a content is an object")
        self.properties: Mapping[str, Any] = root.get("properties", {})

    def has_field(self, name: str) -> bool:
        """Tell whether contents have a field of this name, or all of them stand for it."""
        return name in self.properties or name == CONTENT_DIGEST

    def read(self, stated: Mapping[str, Any]) -> SchemaContent:
        """Return a content that fits.

        Raises:
            ContentMisfit: it does not.
        """
        problem = self._check(stated, _Check())
        if problem is not None:
            place, message = problem
            raise ContentMisfit(place[::-1], message)
        return SchemaContent(stated, self)


_REF: Final = "#/$defs/"

_ANNOTATIONS: Final = frozenset(
    [
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$schema",
        "$id",
        "contentMediaType",
        "contentEncoding",
        "discriminator",
    ]
)
"""Keywords by which nothing is checked, or by another one."""

_TYPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = MappingProxyType(
    {
        "string": ("a text", lambda value: isinstance(value, str)),
        "integer": (
            "a whole number",
            lambda value: (
                (isinstance(value, int) and not isinstance(value, bool))
                or (isinstance(value, float) and value.is_integer())
            ),
        ),
        "number": (
            "a number",
            lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        ),
        "boolean": ("true or false", lambda value: isinstance(value, bool)),
        "null": ("null", lambda value: value is None),
        "object": ("an object", lambda value: isinstance(value, dict)),
        "array": ("a list", lambda value: isinstance(value, list)),
    }
)

_FORMATS: Final = MappingProxyType(
    {
        name: TypeAdapter(kind)
        for name, kind in (
            ("date-time", datetime),
            ("date", date),
            ("time", time),
            ("duration", timedelta),
            ("uuid", UUID),
        )
    }
)
"""What a text of a format is read by; texts of other formats are any."""


class _Compiler:
    """Makes the checks of a schema and of its definitions."""

    def __init__(self, defined: Mapping[str, Any]) -> None:
        self._defined = defined
        self._parts: dict[str, Part] = {}

    def define(self) -> None:
        for name, schema in self._defined.items():
            self._parts[name] = self.part(schema, ("$defs", name))

    def part(self, schema: object, place: tuple[str, ...]) -> Part:
        """Return the check of a schema that stands at a place of the whole."""
        if len(place) > DEPTH_MAX:
            raise _schema_refusal(place, f"nested deeper than {DEPTH_MAX} levels")
        if isinstance(schema, bool):
            return _any_value if schema else _refuse_anything
        if not isinstance(schema, Mapping):
            raise _schema_refusal(place, "neither an object nor true or false")
        parts = []
        for name in sorted(schema.keys() - _ANNOTATIONS, key=_order):
            if name.startswith("x-"):
                continue
            if name not in _KEYWORDS:
                raise _schema_refusal((*place, name), "a keyword that is not supported")
            try:
                parts.append(_KEYWORDS[name](self, schema, (*place, name)))
            except SchemaRefused:
                raise
            except Exception as error:
                raise _schema_refusal((*place, name), f"not as this keyword is: {error}") from error
        return _all_of([part for part in parts if part is not None])

    def parts(self, schemas: Sequence[object], place: tuple[str, ...]) -> list[Part]:
        return [self.part(schema, (*place, str(number))) for number, schema in enumerate(schemas)]

    def by_name(self, schemas: Mapping[str, object], place: tuple[str, ...]) -> dict[str, Part]:
        return {name: self.part(schema, (*place, name)) for name, schema in schemas.items()}

    def reference(self, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
        name = str(schema["$ref"]).removeprefix(_REF)
        if name not in self._defined or not str(schema["$ref"]).startswith(_REF):
            raise _schema_refusal(place, f"it names no definition under {_REF}")
        parts = self._parts
        # A definition may be compiled after what refers to it.
        return lambda value, check: parts[name](value, check)  # noqa: PLW0108


def _order(name: str) -> tuple[bool, str]:
    """Type first: what is of another type needs no further look."""
    return name != "type", name


def _schema_refusal(place: Iterable[str], problem: str) -> SchemaRefused:
    return SchemaRefused(f"{'.'.join(place) or 'schema'}: {problem}")


def _any_value(_: Any, __: _Check) -> None:
    return None


def _refuse_anything(_: Any, __: _Check) -> Problem:
    return (), "nothing fits here"


def _all_of(parts: Sequence[Part]) -> Part:
    def check_all(value: Any, check: _Check) -> Problem | None:
        check.take()
        check.depth += 1
        if check.depth > DEPTH_MAX:
            raise ContentMisfit((), f"nested deeper than {DEPTH_MAX} levels")
        for part in parts:
            problem = part(value, check)
            if problem is not None:
                break
        else:
            problem = None
        check.depth -= 1
        return problem

    return check_all


def _type(_: _Compiler, schema: Mapping[str, Any], __: tuple[str, ...]) -> Part:
    stated = schema["type"]
    rows = [_TYPES[name] for name in ([stated] if isinstance(stated, str) else stated)]
    message = f"should be {' or '.join(said for said, _ in rows)}"
    if len(rows) == 1:
        fits = rows[0][1]
        return lambda value, _: None if fits(value) else ((), message)
    return lambda value, _: None if any(fits(value) for _, fits in rows) else ((), message)


def _values(values: Sequence[Any]) -> Part:
    known = frozenset(canonicalize(value) for value in values)
    shown = ", ".join(canonicalize(value).decode() for value in values[:8])
    message = f"should be {'one of ' if len(values) > 1 else ''}{shown}"
    if len(values) > len(values[:8]):
        message += ", …"
    return lambda value, _: None if canonicalize(value) in known else ((), message)


def _any_of(compiler: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    name = place[-1]
    parts = compiler.parts(schema[name], place)
    by_tag = schema.get("discriminator")
    if name == "oneOf" and isinstance(by_tag, Mapping) and by_tag.get("mapping"):
        return _compile_tagged(compiler, by_tag, place)
    most = 1 if name == "oneOf" else len(parts)

    def check_any(value: Any, check: _Check) -> Problem | None:
        deepest: Problem | None = None
        fitting = 0
        for part in parts:
            problem = part(value, check)
            if problem is None:
                fitting += 1
                if most > 1:
                    return None
            elif deepest is None or len(problem[0]) > len(deepest[0]):
                deepest = problem
        if fitting == 1:
            return None
        return ((), "should have one of its forms alone") if fitting else deepest

    return check_any


def _compile_tagged(compiler: _Compiler, by_tag: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    field = str(by_tag["propertyName"])
    mapping = by_tag["mapping"].items()
    parts = {tag: compiler.reference({"$ref": ref}, place) for tag, ref in mapping}

    def check_tagged(value: Any, check: _Check) -> Problem | None:
        if not isinstance(value, dict):
            return (), "should be an object"
        part = parts.get(str(value.get(field)))
        if part is None:
            return (field,), f"should be one of {', '.join(parts)}"
        return part(value, check)

    return check_tagged


def _within(name: str, problem: Problem) -> Problem:
    """Return a problem of a part as one of the whole, in which the part has a name."""
    place, sentence = problem
    return (*place, name), sentence


def _not(compiler: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    part = compiler.part(schema["not"], place)
    return lambda value, check: (
        ((), "does not fit its schema") if part(value, check) is None else None
    )


def _all(compiler: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    return _all_of(compiler.parts(schema["allOf"], place))


def _properties(compiler: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    parts = compiler.by_name(schema["properties"], place)

    def check_properties(value: Any, check: _Check) -> Problem | None:
        if isinstance(value, dict):
            for name, part in parts.items():
                if name in value and (problem := part(value[name], check)) is not None:
                    return _within(name, problem)
        return None

    return check_properties


def _compile_required(_: _Compiler, schema: Mapping[str, Any], __: tuple[str, ...]) -> Part:
    names = tuple(map(str, schema["required"]))

    def check_required(value: Any, _: _Check) -> Problem | None:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    return (name,), "is required"
        return None

    return check_required


def _further(compiler: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    named = frozenset(schema.get("properties", {}))
    patterns = [_pattern_of(pattern) for pattern in schema.get("patternProperties", {})]
    is_none = schema["additionalProperties"] is False
    part = compiler.part(schema["additionalProperties"], place)

    def check_further(value: Any, check: _Check) -> Problem | None:
        if isinstance(value, dict):
            for name, each in value.items():
                if name not in named and not any(fits(name) for fits in patterns):
                    if is_none:
                        return (name,), "is no field of it"
                    if (problem := part(each, check)) is not None:
                        return _within(name, problem)
        return None

    return check_further


def _by_pattern(compiler: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    stated = schema["patternProperties"].items()
    parts = [(_pattern_of(name), compiler.part(each, (*place, name))) for name, each in stated]

    def check_by_pattern(value: Any, check: _Check) -> Problem | None:
        if isinstance(value, dict):
            for name, each in value.items():
                for fits, part in parts:
                    if fits(name) and (problem := part(each, check)) is not None:
                        return _within(name, problem)
        return None

    return check_by_pattern


def _names(compiler: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    part = compiler.part(schema["propertyNames"], place)

    def check_names(value: Any, check: _Check) -> Problem | None:
        if isinstance(value, dict):
            for name in value:
                if (problem := part(name, check)) is not None:
                    return (name,), f"as a name {problem[1]}"
        return None

    return check_names


def _items(compiler: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    part, before = compiler.part(schema["items"], place), len(schema.get("prefixItems", ()))

    def check_items(value: Any, check: _Check) -> Problem | None:
        if isinstance(value, list):
            for number, each in enumerate(value[before:], before):
                if (problem := part(each, check)) is not None:
                    return _within(str(number), problem)
        return None

    return check_items


def _first_items(compiler: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
    parts = compiler.parts(schema["prefixItems"], place)

    def check_first_items(value: Any, check: _Check) -> Problem | None:
        if isinstance(value, list):
            for number, (part, each) in enumerate(zip(parts, value, strict=False)):
                if (problem := part(each, check)) is not None:
                    return _within(str(number), problem)
        return None

    return check_first_items


def _unique(_: _Compiler, schema: Mapping[str, Any], __: tuple[str, ...]) -> Part | None:
    if not schema["uniqueItems"]:
        return None

    def check_unique(value: Any, check: _Check) -> Problem | None:
        if not isinstance(value, list):
            return None
        check.take(len(value))
        return (
            None
            if len(set(map(canonicalize, value))) == len(value)
            else ((), "should have each item once")
        )

    return check_unique


def _pattern_of(pattern: object) -> Callable[[str], bool]:
    """Return what tells whether a text has a pattern; its steps grow as the text does."""
    if not isinstance(pattern, str) or len(pattern) > PATTERN_CHARS_MAX:
        raise SchemaRefused(f"a pattern has at most {PATTERN_CHARS_MAX} characters")
    adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    return lambda text: _reads(adapter, text)


def _reads(adapter: TypeAdapter[Any], text: str) -> bool:
    try:
        adapter.validate_python(text)
    except ValidationError:
        return False
    return True


def _text(_: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part | None:
    name = place[-1]
    if name == "pattern":
        fits, message = _pattern_of(schema[name]), f"should have the pattern {schema[name]}"
    elif schema[name] in _FORMATS:
        adapter, message = _FORMATS[schema[name]], f"should be a {schema[name]}"
        return lambda value, _: (
            None if not isinstance(value, str) or _reads(adapter, value) else ((), message)
        )
    else:
        return None
    return lambda value, _: None if not isinstance(value, str) or fits(value) else ((), message)


def _measure(
    unit: str, kinds: tuple[type[Any], ...], fits: Callable[[Any, Any], bool], said: str
) -> "Keyword":
    """Return the keyword that bounds the number, or the length, of values of some types."""

    def keyword(_: _Compiler, schema: Mapping[str, Any], place: tuple[str, ...]) -> Part:
        bound = schema[place[-1]]
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            raise TypeError("it is no number")
        message = f"should be {said} {bound}{unit}"

        def check_measure(value: Any, _: _Check) -> Problem | None:
            if not isinstance(value, kinds) or isinstance(value, bool):
                return None
            measured: Any = value
            return None if fits(len(measured) if unit else value, bound) else ((), message)

        return check_measure

    return keyword


def _is_multiple(value: Any, of: Any) -> bool:
    return Fraction(str(value)) % Fraction(str(of)) == 0


Keyword = Callable[[_Compiler, Mapping[str, Any], tuple[str, ...]], Part | None]

_NUMBERS: Final = (int, float)

_KEYWORDS: Final[Mapping[str, Keyword]] = MappingProxyType(
    {
        "type": _type,
        "enum": lambda _, schema, __: _values(schema["enum"]),
        "const": lambda _, schema, __: _values([schema["const"]]),
        "anyOf": _any_of,
        "oneOf": _any_of,
        "allOf": _all,
        "not": _not,
        "$ref": _Compiler.reference,
        "properties": _properties,
        "required": _compile_required,
        "additionalProperties": _further,
        "patternProperties": _by_pattern,
        "propertyNames": _names,
        "minProperties": _measure(" fields", (dict,), lambda n, bound: n >= bound, "at least"),
        "maxProperties": _measure(" fields", (dict,), lambda n, bound: n <= bound, "at most"),
        "items": _items,
        "prefixItems": _first_items,
        "minItems": _measure(" items", (list,), lambda n, bound: n >= bound, "at least"),
        "maxItems": _measure(" items", (list,), lambda n, bound: n <= bound, "at most"),
        "uniqueItems": _unique,
        "minLength": _measure(" characters", (str,), lambda n, bound: n >= bound, "at least"),
        "maxLength": _measure(" characters", (str,), lambda n, bound: n <= bound, "at most"),
        "pattern": _text,
        "format": _text,
        "minimum": _measure("", _NUMBERS, lambda n, bound: n >= bound, "at least"),
        "maximum": _measure("", _NUMBERS, lambda n, bound: n <= bound, "at most"),
        "exclusiveMinimum": _measure("", _NUMBERS, lambda n, bound: n > bound, "more than"),
        "exclusiveMaximum": _measure("", _NUMBERS, lambda n, bound: n < bound, "less than"),
        "multipleOf": _measure("", _NUMBERS, _is_multiple, "a multiple of"),
    }
)
"""Makes the check of each keyword that a schema may have."""
