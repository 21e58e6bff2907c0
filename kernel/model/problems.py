"""What is wrong with a document, as a refusal names it."""

from pydantic import ValidationError


def first_problem(error: ValidationError, *place: str) -> tuple[str, str]:
    """Return the first field that is to blame, below a place, and why; without its value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return ".".join((*place, *map(str, first["loc"]))), first["msg"]
