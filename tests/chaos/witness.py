"""A witness inside the database of who wrote what, beside everything that the product says.

Each gateway connects under a role of its own, and triggers note the role at every write of a
session and at every change of a shard's owner. Writers take turns behind the head of the chain, so
the order of the notes is the order of the transactions, and a transaction that is rolled back
takes its notes with it.
"""

import psycopg

from kernel.ledger.postgres import catalog as postgres_catalog

_SETUP = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.notes (
    note bigserial PRIMARY KEY, kind text NOT NULL, subject text NOT NULL, name text NOT NULL,
    at_s double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp())
);
CREATE FUNCTION chaos.note_session() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos.notes (kind, subject, name)
    VALUES (TG_TABLE_NAME, NEW.session_id, session_user);
    RETURN NULL;
END $$;
CREATE FUNCTION chaos.note_shard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos.notes (kind, subject, name) VALUES ('shard', NEW.shard::text, NEW.owner);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_events AFTER INSERT ON belief_events
    FOR EACH ROW EXECUTE FUNCTION chaos.note_session();
CREATE TRIGGER chaos_log AFTER INSERT ON kernel_event_log
    FOR EACH ROW WHEN (NEW.session_id IS NOT NULL) EXECUTE FUNCTION chaos.note_session();
CREATE TRIGGER chaos_shards AFTER INSERT OR UPDATE ON shard_epochs
    FOR EACH ROW EXECUTE FUNCTION chaos.note_shard();
"""

Note = tuple[str, str, str]
"""Kind (`shard`, or the table that was written), its shard or session, its owner or writer."""


def role_of(gateway: str) -> str:
    """Return the role under which a gateway connects."""
    return f"gateway_{gateway}"


def install(url: str, gateways: tuple[str, ...]) -> None:
    """Make the roles and the triggers on a database that has its tables."""
    admit()
    with psycopg.connect(url) as connection:
        connection.execute(_SETUP)
        for gateway in gateways:
            connection.execute(f"CREATE ROLE {role_of(gateway)} LOGIN SUPERUSER")


def admit() -> None:
    """Let this process find nothing in the witness's triggers, which no other schema has."""
    ours = " AND NOT starts_with(t.tgname::text, 'chaos_')"
    postgres_catalog.TRIGGERS = postgres_catalog.TRIGGERS.removesuffix(ours) + ours


def takeovers(url: str) -> list[tuple[float, str, str]]:
    """Return when which shard came to which gateway, in order; times since the epoch."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT at_s, subject, name FROM chaos.notes WHERE kind = 'shard' ORDER BY note"
        ).fetchall()


def notes(url: str) -> list[Note]:
    """Return what was noted, in order."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT kind, subject, name FROM chaos.notes ORDER BY note"
        ).fetchall()
