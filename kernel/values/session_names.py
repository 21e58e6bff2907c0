"""Names the sessions that the runtime itself has, which nobody else takes."""

from typing import Final

REPORTS: Final = "work:"
"""Begin of the sessions whose actors take the reports of workers."""

INCIDENTS: Final = "incident:"
"""Begin of the sessions of incidents."""


def is_of_the_runtime(session_id: str) -> bool:
    """Return whether a session has a name of the runtime's own."""
    return session_id.startswith((REPORTS, INCIDENTS))
