"""Lists of ids in a body, which may be a million: the event loop looks at their length alone.

See decision actors/0068.
"""

from typing import Annotated, Any

from pydantic import Field, PlainValidator
from pydantic_core import PydanticKnownError


def ids_of_at_most(count: int) -> PlainValidator:
    """Return what takes a list as it was read; whoever works with it checks what stands in it.

    Looking at a million ids, and copying their list, takes longer than a loop may be held.
    """

    def taken(value: Any) -> Any:
        if not isinstance(value, list):
            raise PydanticKnownError("list_type")
        if len(value) > count:
            context = {"field_type": "List", "max_length": count, "actual_length": len(value)}
            raise PydanticKnownError("too_long", context)
        return value

    schema = Annotated[list[str], Field(max_length=count)]
    return PlainValidator(taken, json_schema_input_type=schema)
