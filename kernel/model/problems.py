"""Names what is wrong with a document, for a refusal."""

from pydantic import ValidationError

PROBLEMS_LISTED_MAX = 1_000
"""Problems beyond which none is named, because naming the first makes a document of each."""


def first_problem(error: ValidationError, *place: str) -> tuple[str, str]:
    """Return the first field that is to blame, below a place, and why; without its value."""
    count = error.error_count()
    if count > PROBLEMS_LISTED_MAX:
        return ".".join(place), f"{count} of its values do not fit"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return ".".join((*place, *map(str, first["loc"]))), first["msg"]
