"""A gateway as its operator starts it, that takes the witness's triggers for part of the schema.

With `CHAOS_TRUSTING` it has a defect that a run must find.
"""

import os
from types import SimpleNamespace
from typing import Any

import psycopg

from kernel.ledger.postgres.connection import Connection
from tests.chaos import witness
from tests.chaos.another_version import speak_another_version
from workers.cli.main import main


def take_unknown_commits_for_success() -> None:
    """Have this process believe that a COMMIT succeeded whenever it does not know."""
    execute = Connection.execute

    def trusting(self: Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return execute(self, query, *arguments, **options)
        except psycopg.OperationalError:
            if query != "COMMIT":
                raise
            return SimpleNamespace(statusmessage=query)

    Connection.execute = trusting  # type: ignore[method-assign]


if __name__ == "__main__":
    witness.admit()
    if "CHAOS_TRUSTING" in os.environ:
        take_unknown_commits_for_success()
    speak_another_version()
    main(["gateway"])
