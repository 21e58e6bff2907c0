"""Reads which standbys of a PostgreSQL may lack what was answered, as the server says.

A role without `pg_read_all_stats` sees how many standbys there are and nothing of each.
"""

from kernel.ledger.postgres.connection import Connection
from kernel.ledger.replication import Replication, Standby

_SETTINGS = """
SELECT pg_is_in_recovery(), current_setting('synchronous_standby_names'),
       current_setting('synchronous_commit'), current_user::text,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
"""
_STANDBYS = """
SELECT coalesce(nullif(application_name, ''), client_addr::text), sync_state,
       CASE WHEN pg_is_in_recovery() THEN NULL
            ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::bigint END
FROM pg_stat_replication AS r
WHERE state IS DISTINCT FROM 'backup' AND NOT EXISTS (
    SELECT FROM pg_replication_slots WHERE active_pid = r.pid AND slot_type = 'logical')
ORDER BY 1, r.pid
"""
"""What streams the whole server: no backup that is being taken, and no subscription."""


def look_at_standbys(connection: Connection) -> Replication:
    """Return what a server says of its standbys."""
    [(in_recovery, names, commit, role, may_see)] = connection.execute(_SETTINGS).fetchall()
    if commit == "off":
        # Raised to `on` by whoever writes, see `wait_for_the_disk`.
        commit = "on"
    standbys = tuple(Standby(*row) for row in connection.execute(_STANDBYS).fetchall())
    return Replication(in_recovery, names, commit, role, may_see, standbys)
