"""Finds who holds the head of a ledger on PostgreSQL, and ends one that is known to be dead.

A gateway's writing connection bears its name. A process that waits for the head looks who holds it:
a holder is ended where the record has it as the owner of a shard, and the lease table has it among
the dead. If the table is wrong, a living gateway's transaction is undone, or its COMMIT has an
unknown outcome that it looks up (K25); nothing is lost (decision kernel/0256). A COMMIT that waits
for a replica is never ended: it is durable here, and would be answered too early.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernel.ledger.postgres.connection import Connection

NAME_PREFIX = "rotulus/"

TRANSACTION_MAX_MS = 60_000
"""How long a gateway's writing transaction may take, where the server can bound it (from 17 on)."""

_HOLDERS = """
SELECT DISTINCT pid, application_name, state, wait_event = 'SyncRep',
       extract(epoch FROM clock_timestamp() - xact_start)::float8
FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE granted AND datname = current_database() AND pid <> pg_backend_pid()
  AND (relation = 'chain_head'::regclass
         AND backend_xid IS NOT NULL AND wait_event_type IS DISTINCT FROM 'Lock'
       OR relation = 'ledger_ids'::regclass AND mode = 'ShareUpdateExclusiveLock')
"""
"""Sessions that have locked the row or the turn, and wait for no lock themselves for the row."""

_IS_OWNER = "SELECT EXISTS (SELECT FROM shard_epochs WHERE owner = %s)"
_NAME = "SELECT set_config('application_name', %s, false)"
_BOUND = (
    "SELECT set_config('transaction_timeout', %s, false)"
    " WHERE current_setting('transaction_timeout', true) IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class NamedGateway:
    """This process among those of its ledger."""

    name: str
    is_dead: Callable[[str], bool]
    """Tells of a gateway's name whether the lease table is known, and has not got it."""


def bear_name(writer: Connection, gateway: NamedGateway) -> None:
    """Name a gateway's writing connection, and bound its transactions."""
    writer.execute(_NAME, (NAME_PREFIX + gateway.name,))
    writer.execute(_BOUND, (str(TRANSACTION_MAX_MS),))


def look_at_holders(reader: Connection, gateway: NamedGateway | None) -> str:
    """End the holders that are dead, and return what there is to say of all of them."""
    described = []
    for pid, application_name, state, waits_for_replica, seconds in reader.execute(_HOLDERS):
        who = application_name or "somebody"
        said = f"{who} (process {pid} of the server, {state}, {seconds or 0:.1f} s)"
        if gateway is not None and not waits_for_replica and _is_dead(reader, gateway, who):
            reader.execute("SELECT pg_terminate_backend(%s)", (pid,))
            said += ", which is dead and was ended"
        described.append(said)
    return "; ".join(described) or "nobody any more"


def _is_dead(reader: Connection, gateway: NamedGateway, application_name: str) -> bool:
    """Tell whether a session is another gateway's that owns a shard on the record and is dead."""
    name = application_name.removeprefix(NAME_PREFIX)
    if name in (application_name, gateway.name):
        return False
    row = reader.execute(_IS_OWNER, (name,)).fetchone()
    return row is not None and bool(row[0]) and gateway.is_dead(name)
