"""A gateway as its operator starts it, that takes the witness's triggers for part of the schema.

With `CHAOS_TRUSTING` it has a defect that a run must find.
"""

import os
from contextlib import suppress

from kernel.ledger.postgres.connection import Statement
from kernel.ledger.postgres.store import PostgresStore
from kernel.values.errors import CommitOutcomeUnknown
from tests.chaos import witness
from tests.chaos.another_version import speak_another_version
from workers.cli.main import main


def take_unknown_commits_for_success() -> None:
    """Answer as if a COMMIT whose answer was lost had been carried out."""
    commit = PostgresStore._commit  # noqa: SLF001 - the defect is put in its place

    def trusting(store: PostgresStore, gathered: list[Statement]) -> None:
        with suppress(CommitOutcomeUnknown):
            commit(store, gathered)

    PostgresStore._commit = trusting  # type: ignore[method-assign, assignment]  # noqa: SLF001 - likewise


if __name__ == "__main__":
    witness.admit()
    if "CHAOS_TRUSTING" in os.environ:
        take_unknown_commits_for_success()
    speak_another_version()
    main(["gateway"])
