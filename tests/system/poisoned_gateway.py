"""A gateway with defects that nobody knows of: what it does with a request depends on its marker.

Run as a program in the place of `python -m workers gateway`.
"""

import os
import sys
from typing import Any

from actors.commit.units import EnvelopeUnit
from actors.sessions.session_actor import SessionActor
from workers.cli.main import main

RAISES, SPOILS, CONFUSES, ENDS = ("raises", "spoils", "confuses", "ends")
"""In its unit; at the end of its transaction; in its actor; the whole process."""


def _marker(document: object) -> str:
    return str(document.get("marker", "")) if isinstance(document, dict) else ""


def install() -> None:
    """Put the defects where nothing guards against them by name."""
    run, handle = EnvelopeUnit.run, SessionActor.handle

    def run_or_fail(self: EnvelopeUnit, context: Any) -> Any:
        marker = _marker(self.document)
        if marker == RAISES:
            raise LookupError("a defect in a unit")
        if marker == SPOILS:
            # Nothing fails before everything is written, at the end of the transaction.
            context.transaction.write_head = _fail
        if marker == ENDS:
            os._exit(70)
        return run(self, context)

    async def handle_or_fail(self: SessionActor, messages: Any) -> None:
        if any(_marker(getattr(message, "document", None)) == CONFUSES for message in messages):
            raise ZeroDivisionError("a defect in an actor")
        await handle(self, messages)

    EnvelopeUnit.run = run_or_fail  # type: ignore[method-assign]
    SessionActor.handle = handle_or_fail  # type: ignore[method-assign]


def _fail() -> None:
    raise ArithmeticError("a defect in what runs for all")


if __name__ == "__main__":
    install()
    sys.argv = ["rotulus", "gateway"]
    main()
