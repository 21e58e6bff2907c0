"""Recognises a pooler between a process and PostgreSQL, and refuses those that share sessions.

A pooler says a process id of its own, and the server says another. What of a session the ledger
rests on, a pooler has to keep for as long as a connection is open: prepared statements, the bounds
of waits, that it only reads. One that gives the server's session to others between transactions
(`pool_mode = transaction` or `statement` of PgBouncer) is refused before anything is set there
(decision kernel/0700).
"""

from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from kernel.values.errors import LedgerUnavailable

_BACKEND = "SELECT pg_backend_pid()"
_SET = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) s (name, value)"
_OPTIONS_REFUSED = "unsupported startup parameter"

Connection = psycopg.Connection[Any]


def is_pooled(connection: Connection) -> bool:
    """Tell whether whom a connection ends at is not the server."""
    return _backend_of(connection) != connection.pgconn.backend_pid


def refuse_shared_sessions(
    first: Connection, connect: Callable[[], Connection], place: str
) -> None:
    """Refuse a pooler that lets two connections share a session; neither of them is changed.

    The second one begins a transaction and so has a session to itself. Where that is the session
    that the first one was answered from, or the first is answered from another one now, sessions
    are shared. A pooler that keeps them never looks so.

    Raises:
        LedgerUnavailable: `ledger_sessions_shared`.
    """
    before = _backend_of(first)
    second = connect()
    try:
        second.execute("BEGIN")
        is_shared = _backend_of(second) == before or _backend_of(first) != before
    except psycopg.errors.ProtocolViolation:  # no transactions at all
        is_shared = True
    finally:
        second.close()
    if is_shared:
        raise LedgerUnavailable(
            f"{place} is a pooler that gives a session to others between transactions; let it keep"
            " sessions (PgBouncer: pool_mode = session for this database), or name the server",
            code="ledger_sessions_shared",
        )


def set_for_session(connection: Connection, settings: Mapping[str, object]) -> None:
    """Set what a pooler may not have passed on when the connection was made."""
    connection.execute(_SET, ([*settings], [*map(str, settings.values())]))


def refuse_options_refused(error: psycopg.Error, place: str) -> None:
    """Say what to do where a pooler refuses the settings with which a connection begins.

    Raises:
        LedgerUnavailable: `ledger_pooler_refuses`, if the error is that.
    """
    if _OPTIONS_REFUSED in str(error):
        raise LedgerUnavailable(
            f"{place} is a pooler that takes no settings at the start of a connection; let it pass"
            " over them (PgBouncer: ignore_startup_parameters = options), they are set afterwards",
            code="ledger_pooler_refuses",
        ) from error


def _backend_of(connection: Connection) -> int:
    [(pid,)] = connection.execute(_BACKEND).fetchall()
    return int(pid)
