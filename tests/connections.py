"""The connections that a ledger's stores open: what runs on them, how many there are, what fails.

`watch_sqlite` and `watch_postgres` put a watched class of connections in the place of the product's
own, so the stores are those of the product, and so is all that the connections do.
"""

import sqlite3
from functools import partial
from typing import Any


class Connections:
    """What was asked of a driver since it is watched."""

    def __init__(self):
        self.open = []
        """The connections that are not closed, oldest first."""

        self.last = None
        """The connection on which a statement ran last."""

        self.statements = []
        """Each statement and its values, on whatever connection."""

        self.messages = 0
        """How often something was sent and its reply awaited."""

        self.before = lambda _: None
        """Called with a statement before it runs."""

    def run(self, connection, statements, send):
        """Write down what a connection is about to run, and run it, unless it is to fail there."""
        self.messages += 1
        for statement in statements:
            self.last = connection
            self.statements.append(statement)
            self.before(statement[0])
        texts = [statement[0] for statement in statements]
        if connection.failing is None or connection.failing[0] not in texts:
            return send()
        _, error, after_the_fact = connection.failing
        if after_the_fact:
            send()
        raise error

    def watched(self, kind: Any):
        """Return a driver's class of connections that writes down here what happens to each."""
        connections = self

        class WatchedConnection(kind):  # type: ignore[misc]  # whichever driver it is of
            failing: tuple[str, Exception, bool] | None = None

            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                connections.open.append(self)

            def fail_on(self, sql, error, *, after_the_fact):
                """Raise an error whenever a statement runs here, before or after its effect."""
                self.failing = (sql, error, after_the_fact)

            def execute(self, sql, *values, **options):
                run = partial(super().execute, sql, *values, **options)
                return connections.run(self, [(sql, *values)], run)

            def exchange(self, statements):
                return connections.run(self, statements, partial(super().exchange, statements))

            def close(self):
                if self in connections.open:
                    connections.open.remove(self)
                super().close()

        return WatchedConnection


def watch_sqlite(patch):
    """Watch the connections to files that are opened until the patch is undone."""
    connections = Connections()
    kind = connections.watched(sqlite3.Connection)
    patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=kind))
    return connections


def watch_postgres(patch):
    """Watch the connections to servers that are opened until the patch is undone."""
    from kernel.ledger.postgres import connection as postgres_connection  # noqa: PLC0415 - the driver may not be there

    connections = Connections()
    kind = connections.watched(postgres_connection.Connection)
    patch.setattr(postgres_connection, "Connection", kind)
    return connections
