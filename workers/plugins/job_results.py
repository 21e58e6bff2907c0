"""Writes what a function returns as the result of its job, and reads it as the function's type.

The record has a mapping. What a function's annotation says to be one (a mapping, a model, a
dataclass, a typed dictionary) is it; anything else is its `result`; None is an empty one. A
function without an annotation has what it returns, a mapping or not, taken as it is.
"""

from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from kernel.model.problems import first_problem


class ResultForm:
    """How results of a function stand on the record."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Read the annotation.

        Raises:
            TypeError: it is none that pydantic reads.
        """
        annotation = get_type_hints(function, include_extras=True).get("return", Any)
        self._adapter: TypeAdapter[Any] | None = None
        self._is_mapping = False
        if annotation in (Any, object):
            return
        try:
            self._adapter = TypeAdapter(annotation)
        except PydanticUserError as error:
            problem = f"its result is no type that can be read: {error.message}"
            raise TypeError(f"{function.__qualname__}: {problem}") from None
        self._is_mapping = _is_mapping(self._adapter)

    def document_of(self, value: Any) -> Mapping[str, Any] | None:
        """Return what stands for a value on the record."""
        if value is None:
            return None
        if self._adapter is None:
            return value if isinstance(value, Mapping) else {"result": value}
        try:
            plain = self._adapter.dump_python(value, mode="json", warnings=False)
        except Exception:  # noqa: BLE001 - whoever reports it refuses what is no JSON
            plain = value
        return plain if self._is_mapping and isinstance(plain, Mapping) else {"result": plain}

    def value_of(self, document: Mapping[str, Any]) -> Any:
        """Return the value for which a document stands.

        Raises:
            ValueError: it stands for none of the function's type.
        """
        if self._adapter is None:
            return document
        if not document and self._takes_none:
            return None
        if not self._is_mapping and document.keys() != {"result"}:
            raise ValueError(f"a mapping of {', '.join(document) or 'nothing'}, and no result")
        plain = document if self._is_mapping else document["result"]
        try:
            return self._adapter.validate_json(orjson.dumps(plain), strict=True)
        except ValidationError as error:
            raise ValueError(": ".join(filter(None, first_problem(error)))) from error

    @property
    def _takes_none(self) -> bool:
        try:
            return self._adapter is None or self._adapter.validate_python(None) is None
        except ValidationError:
            return False


def _is_mapping(adapter: TypeAdapter[Any]) -> bool:
    """Tell whether every value of a type, but for None, is written as a mapping."""
    try:
        schema = adapter.json_schema(mode="serialization")
    except PydanticUserError:
        return False
    kinds, named = [schema], schema.get("$defs", {})
    for kind in kinds:
        kinds += [*kind.get("anyOf", ()), *kind.get("oneOf", ())]
        if "$ref" in kind:
            kinds.append(named[kind["$ref"].rpartition("/")[2]])
    types = {
        kind.get("type") for kind in kinds if kind.keys().isdisjoint({"anyOf", "oneOf", "$ref"})
    }
    return types - {"null"} == {"object"}
