"""A schema that is not the one of this program is named, and nothing is written through it."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from kernel.ledger import migrations, schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.postgres.schema import REFUSALS
from kernel.ledger.sqlite import catalog as sqlite_catalog
from kernel.ledger.sqlite import schema as sqlite_schema
from kernel.ledger.sqlite.store import SqliteStore
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.rebuild import plan_rebuild
from kernel.transaction.kernel import Kernel
from kernel.values.errors import LedgerCorrupt, LedgerSchemaDiffers
from kernel.verify import verify
from kernel.verify.recent import AuditMark, audit_since
from tests.kernel.build import FakeHost, create, effect, envelope, overlay, submit

# --- SQLite -----------------------------------------------------------------------------------


def table_text(name):
    return next(
        definition.strip()
        for definition in sqlite_schema.definitions()
        if f"TABLE {name} (" in definition
    )


def rewritten(table, old, new):
    """Change the text of a table where SQLite keeps it, as it would have been created."""
    text = table_text(table)
    assert old in text
    change = "UPDATE sqlite_master SET sql = ? WHERE name = ?"
    return ("PRAGMA writable_schema = ON", (change, (text.replace(old, new, 1), table)))


NODES = table_text("nodes")
OF_BOTH = {
    "an index less": ("DROP INDEX nodes_by_kind",),
    "an index more": ("CREATE INDEX more ON nodes (updated_at)",),
    "an index of other columns": (
        "DROP INDEX nodes_by_kind",
        "CREATE INDEX nodes_by_kind ON nodes (node_id, node_kind)",
    ),
    "an index in the other order": (
        "DROP INDEX nodes_by_kind",
        "CREATE INDEX nodes_by_kind ON nodes (node_kind DESC, node_id)",
    ),
    "an index of some rows": (
        "DROP INDEX nodes_by_overlay",
        (
            "CREATE INDEX nodes_by_overlay ON nodes (overlay_in_force, overlay_target)"
            " WHERE overlay_target <> 'claim'"
        ),
    ),
    "another condition": (
        "DROP INDEX kernel_event_log_by_epoch",
        (
            "CREATE INDEX kernel_event_log_by_epoch ON kernel_event_log"
            " (commit_epoch_id, ec_sequence_number) WHERE commit_epoch_id IS NULL"
        ),
    ),
}
OF_SQLITE = OF_BOTH | {
    "a unique index": ("CREATE UNIQUE INDEX more ON kernel_event_log (row_hash)",),
    "another collation in an index": (
        "DROP INDEX nodes_by_kind",
        "CREATE INDEX nodes_by_kind ON nodes (node_kind COLLATE NOCASE, node_id)",
    ),
    "a trigger less": ("DROP TRIGGER receipts_refuses_update",),
    "a trigger that does nothing": (
        "DROP TRIGGER receipts_refuses_update",
        "CREATE TRIGGER receipts_refuses_update BEFORE UPDATE ON receipts BEGIN SELECT 1; END",
    ),
    "a trigger that never fires": (
        "DROP TRIGGER receipts_refuses_update",
        (
            "CREATE TRIGGER receipts_refuses_update BEFORE UPDATE ON receipts WHEN 0"
            " BEGIN SELECT RAISE(ABORT, 'append only'); END"
        ),
    ),
    "a log whose rows may go": (
        "DROP TRIGGER kernel_event_log_refuses_delete",
        (
            "CREATE TRIGGER kernel_event_log_refuses_delete BEFORE DELETE ON kernel_event_log"
            " WHEN 0 BEGIN SELECT RAISE(ABORT, 'append only'); END"
        ),
    ),
    "a trigger that rewrites": (
        (
            "CREATE TRIGGER rewrites AFTER INSERT ON nodes BEGIN"
            " UPDATE nodes SET overlay_in_force = 0 WHERE node_id = NEW.node_id; END"
        ),
    ),
    "a table more": ("CREATE TABLE more (a)",),
    "a view more": ("CREATE VIEW more AS SELECT * FROM nodes",),
    "a column more": ("ALTER TABLE nodes ADD COLUMN more VARCHAR",),
    "a key less": rewritten("receipts", ", \n\tUNIQUE (receipt_hash)", ""),
    "a check less": rewritten("outbox", "CHECK (open IN (0, 1))", "CHECK (1)"),
    "a check that is a comment": rewritten(
        "outbox", "CHECK (open IN (0, 1))", "CHECK (1 /* open IN (0, 1) */)"
    ),
    "a nullable column": rewritten("nodes", "node_kind VARCHAR NOT NULL", "node_kind VARCHAR"),
    "another type": rewritten("nodes", "overlay_in_force INTEGER", "overlay_in_force TEXT"),
    "another collation": rewritten(
        "nodes", "node_kind VARCHAR", "node_kind VARCHAR COLLATE NOCASE"
    ),
    "a conflict that replaces": rewritten(
        "receipts",
        "PRIMARY KEY (receipt_sequence)",
        "PRIMARY KEY (receipt_sequence) ON CONFLICT REPLACE",
    ),
    "a default": rewritten(
        "nodes", "overlay_in_force INTEGER NOT NULL", "overlay_in_force INTEGER NOT NULL DEFAULT 0"
    ),
    "a foreign key": rewritten(
        "edges",
        "PRIMARY KEY (edge_id)",
        "PRIMARY KEY (edge_id), FOREIGN KEY (edge_id) REFERENCES nodes",
    ),
    "stricter": rewritten("blobs", "PRIMARY KEY (blob_ref)\n)", "PRIMARY KEY (blob_ref)\n) STRICT"),
}
REPLACED = {
    "a view in place of a table": (
        "ALTER TABLE share_links RENAME TO hidden",
        "CREATE VIEW share_links AS SELECT * FROM hidden",
    ),
    "a generated column": (
        "ALTER TABLE share_links RENAME TO hidden",
        (
            "CREATE TABLE share_links (share_link_id VARCHAR NOT NULL, token_sha256 VARCHAR,"
            " record BLOB NOT NULL AS (CAST(share_link_id AS BLOB)), PRIMARY KEY (share_link_id))"
        ),
    ),
    "a table less": ("DROP TABLE share_links",),
    "a column less": ("ALTER TABLE edges DROP COLUMN record",),
}
NOT_READ_BY_SQLITE = {"a key less", "stricter"}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    path = tmp_path_factory.mktemp("honest") / "ledger.db"
    ledger = Ledger.create(SqliteStore(path), FakeHost().host)
    write_a_little(ledger)
    ledger.close()
    return path


def write_a_little(ledger):
    for name in ("claim", "other"):
        assert isinstance(submit(ledger, create(name, "Note")), SubmissionResult)
    lock = overlay("lock", "blocked", "document", "claim")
    assert isinstance(submit(ledger, lock, submitter="orchestrator"), SubmissionResult)


@pytest.fixture
def altered(honest, tmp_path):
    path = tmp_path / "ledger.db"
    shutil.copy(honest, path)

    def alter(*changes):
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for change in changes:
                sql, values = (change, ()) if isinstance(change, str) else change
                db.execute(sql, values)
        return path

    return alter


def findings_of(path):
    with (
        closing(SqliteStore(path, read_only=True)) as store,
        Ledger(store, FakeHost().host).view() as view,
    ):
        return verify(view, limit_findings=1000).findings


def test_an_honest_file_has_no_faults(honest):
    assert findings_of(honest) == ()


@pytest.mark.parametrize("change", [*OF_SQLITE, *REPLACED])
def test_on_sqlite_is_a_finding_and_no_ground_to_write_on(altered, change):
    path = altered(*(OF_SQLITE | REPLACED)[change])
    findings = findings_of(path)
    rules = {finding.rule for finding in findings}
    assert rules & {"schema_differs", "not_a_table", "schema_unreadable"}, findings
    assert ("not_a_table" in rules) == (change in REPLACED)
    assert ("schema_unreadable" in rules) == (change in NOT_READ_BY_SQLITE)
    with pytest.raises((LedgerSchemaDiffers, LedgerCorrupt)) as refused:
        SqliteStore(path)
    damaged = change in NOT_READ_BY_SQLITE
    assert refused.value.code == ("ledger_file_damaged" if damaged else "ledger_schema_altered")


def test_what_stands_in_place_of_a_table_is_not_read(altered):
    """A view may compute for ever; nothing of it is run."""
    endless = (
        "CREATE VIEW share_links AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
        " SELECT CAST(x AS TEXT) AS share_link_id, NULL AS token_sha256,"
        " x'00' AS record FROM n"
    )
    findings = findings_of(altered("DROP TABLE share_links", endless))
    assert {finding.table for finding in findings} == {"share_links"}


def test_an_audit_names_a_schema_that_was_altered_meanwhile(altered):
    path = altered(*OF_SQLITE["a trigger that rewrites"])
    with (
        closing(SqliteStore(path, read_only=True)) as store,
        Ledger(store, FakeHost().host).view() as view,
    ):
        audit = audit_since(view, AuditMark())
    assert [finding.rule for finding in audit.verification.findings] == ["schema_differs"]
    assert audit.mark == AuditMark()


def test_the_planners_statistics_are_no_difference(altered):
    path = altered("ANALYZE")
    assert findings_of(path) == ()
    SqliteStore(path).close()


def test_tables_of_the_migrations_are_those_of_this_program():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for step in migrations.revisions_after(0, "sqlite"):
            for statement in step.statements:
                db.execute(statement)
        assert sqlite_catalog.schema_faults(db) == []
        # As a rename leaves a name, and with a column in another place.
        db.execute("ALTER TABLE share_links RENAME TO moved")
        db.execute("ALTER TABLE moved RENAME TO share_links")
        assert sqlite_catalog.schema_faults(db) == []


def without_a_row(index, column, value):
    """Build an index without one row, and let its text say that it has all of them."""
    text = next(
        definition for definition in sqlite_schema.definitions() if f"INDEX {index} " in definition
    )
    return (
        f"DROP INDEX {index}",
        f"{text} {'AND' if ' WHERE ' in text else 'WHERE'} {column} <> '{value}'",
        "PRAGMA writable_schema = ON",
        ("UPDATE sqlite_master SET sql = ? WHERE name = ?", (text, index)),
    )


def outcome_of_a_forbidden_write(path):
    forbidden = envelope("annotate", [effect("node_write", "claim", note="x")])
    with closing(SqliteStore(path)) as store:
        return submit(Ledger(store, FakeHost().host), forbidden)


def test_an_index_without_the_row_of_an_overlay_is_found(altered):
    """The write that the overlay forbids goes through, and only the index says why."""
    assert isinstance(outcome_of_a_forbidden_write(altered()), RejectedResult)
    path = altered(*without_a_row("nodes_by_overlay", "node_id", "lock"))
    findings = findings_of(path)
    assert {(finding.table, finding.rule) for finding in findings} == {("nodes", "index_differs")}
    assert isinstance(outcome_of_a_forbidden_write(path), SubmissionResult)


def test_nothing_is_built_again_through_a_damaged_index(altered):
    """The state is replaced by looking rows up; what an index hides would stay as it is."""
    path = altered(*without_a_row("nodes_by_overlay", "node_id", "lock"))
    with (
        closing(SqliteStore(path)) as store,
        Ledger(store, FakeHost().host).transaction() as transaction,
        pytest.raises(RollbackRefused) as refused,
    ):
        plan_rebuild(Kernel(), transaction, 0)
    assert refused.value.code == "rebuild_record_damaged"


def test_an_index_without_a_row_of_history_is_found(altered):
    index = "applied_effects_by_record"
    assert findings_of(altered(*without_a_row(index, "record_key", "nobody"))) == ()
    findings = findings_of(altered(*without_a_row(index, "record_key", "claim")))
    assert {(finding.table, finding.rule) for finding in findings} == {
        ("applied_effects", "index_differs")
    }


# --- PostgreSQL -------------------------------------------------------------------------------

REFUSES_NOTHING = (
    "CREATE OR REPLACE FUNCTION rotulus_refuses() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN NEW; END $$"
)
OF_POSTGRES = OF_BOTH | {
    "an index that is not valid": (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'nodes_by_kind'::regclass",
    ),
    "a key whose index is not valid": (
        "UPDATE pg_index SET indisready = false WHERE indexrelid = 'nodes_pkey'::regclass",
    ),
    "a trigger less": ("DROP TRIGGER receipts_refuses_row ON receipts",),
    "a trigger that is off": ("ALTER TABLE receipts DISABLE TRIGGER receipts_refuses_row",),
    "all triggers off": ("ALTER TABLE receipts DISABLE TRIGGER ALL",),
    "a trigger of replicas": ("ALTER TABLE receipts ENABLE REPLICA TRIGGER receipts_refuses_row",),
    "a trigger with a condition": (
        "DROP TRIGGER receipts_refuses_row ON receipts",
        (
            "CREATE TRIGGER receipts_refuses_row BEFORE UPDATE OR DELETE ON receipts"
            " FOR EACH ROW WHEN (false) EXECUTE FUNCTION rotulus_refuses()"
        ),
    ),
    "a trigger that rewrites": (
        (
            "CREATE FUNCTION rewrites() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN NEW.overlay_in_force := 0; RETURN NEW; END $$"
        ),
        "CREATE TRIGGER rewrites BEFORE INSERT ON nodes FOR EACH ROW EXECUTE FUNCTION rewrites()",
    ),
    "another refusal": (REFUSES_NOTHING,),
    "a log whose rows may go": (
        REFUSES_NOTHING.replace("rotulus_refuses", "rotulus_refuses_unless_archived"),
    ),
    "a trigger that calls another refusal": (
        "DROP TRIGGER receipts_refuses_row ON receipts",
        (
            "CREATE TRIGGER receipts_refuses_row BEFORE UPDATE OR DELETE ON receipts"
            " FOR EACH ROW EXECUTE FUNCTION rotulus_refuses_unless_archived()"
        ),
    ),
    "a rule": ("CREATE RULE forgets AS ON UPDATE TO nodes DO INSTEAD NOTHING",),
    "row security": ("ALTER TABLE nodes ENABLE ROW LEVEL SECURITY",),
    "an heir": ("CREATE TABLE heir () INHERITS (nodes)",),
    "no write-ahead log": ("ALTER TABLE nodes SET UNLOGGED",),
    "a column more": ("ALTER TABLE nodes ADD COLUMN more text",),
    "a nullable column": ("ALTER TABLE nodes ALTER COLUMN node_kind DROP NOT NULL",),
    "a narrower integer": ("ALTER TABLE chain_head ALTER COLUMN committed_at_us TYPE integer",),
    "another collation": ('ALTER TABLE nodes ALTER node_kind TYPE varchar COLLATE "POSIX"',),
    "a default": ("ALTER TABLE nodes ALTER COLUMN overlay_in_force SET DEFAULT 0",),
    "a check less": ("ALTER TABLE outbox DROP CONSTRAINT outbox_open_check",),
    "a check that was never validated": (
        "ALTER TABLE outbox DROP CONSTRAINT outbox_open_check",
        "ALTER TABLE outbox ADD CHECK (open IN (0, 1)) NOT VALID",
    ),
    "another check": (
        "ALTER TABLE outbox DROP CONSTRAINT outbox_open_check",
        "ALTER TABLE outbox ADD CHECK (open IN (0, 1, 2))",
    ),
    "a unique less": ("ALTER TABLE receipts DROP CONSTRAINT receipts_receipt_hash_key",),
    "a unique that waits": (
        "ALTER TABLE receipts DROP CONSTRAINT receipts_receipt_hash_key",
        "ALTER TABLE receipts ADD UNIQUE (receipt_hash) DEFERRABLE INITIALLY DEFERRED",
    ),
    "a key less": ("ALTER TABLE nodes DROP CONSTRAINT nodes_pkey",),
    "a foreign key": ("ALTER TABLE edges ADD FOREIGN KEY (edge_id) REFERENCES nodes",),
    "a view in place of a table": (
        "ALTER TABLE share_links RENAME TO hidden",
        "CREATE VIEW share_links AS SELECT * FROM hidden",
    ),
    "a generated column": (
        "ALTER TABLE share_links DROP COLUMN token_sha256",
        (
            "ALTER TABLE share_links ADD COLUMN token_sha256 varchar"
            ' COLLATE "C" GENERATED ALWAYS AS (share_link_id) STORED'
        ),
    ),
    "a table less": ("DROP TABLE share_links",),
    "triggers off for a role": ("ALTER ROLE CURRENT_USER SET session_replication_role = replica",),
}
UNDO = ("ALTER ROLE CURRENT_USER RESET session_replication_role",)
NOT_READ = {
    "a rule",
    "row security",
    "an heir",
    "a view in place of a table",
    "a generated column",
    "a table less",
}


@pytest.fixture
def faults_after(postgres):
    """Tell what the catalog says after changes that are rolled back."""
    psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")
    from kernel.ledger.postgres import catalog as postgres_catalog  # noqa: PLC0415 - need the driver
    from kernel.ledger.postgres import schema as postgres_schema  # noqa: PLC0415 - need the driver

    url = postgres.new_database()
    with psycopg.connect(url) as connection:
        postgres_schema.create_schema(connection, url)
        connection.commit()

        def faults(*changes):
            for change in changes:
                connection.execute(change)
            try:
                return postgres_catalog.schema_faults(connection)
            finally:
                connection.rollback()

        yield faults
    postgres.drop(url)


def test_on_postgresql_every_change_of_the_schema_is_a_fault(faults_after):
    assert faults_after() == []
    for name, changes in OF_POSTGRES.items():
        rules = {fault.rule for fault in faults_after(*changes)}
        assert rules & {"schema_differs", "not_a_table", "setting_differs"}, name
        assert ("not_a_table" in rules) == (name in NOT_READ), name


def test_tables_of_the_migrations_are_those_of_this_program_on_postgresql(faults_after):
    made = [
        statement
        for step in migrations.revisions_after(0, "postgresql")
        for statement in step.statements
    ]
    tables = ", ".join(table.name for table in schema.metadata.sorted_tables)
    functions = f"DROP FUNCTION {', '.join(REFUSALS)}"
    assert faults_after(f"DROP TABLE {tables}", functions, *made) == []


def test_other_peoples_tables_are_no_difference_on_postgresql(faults_after):
    statements = ("CREATE TABLE more (a int)", "CREATE VIEW of_nodes AS SELECT * FROM nodes")
    assert faults_after(*statements) == []


def test_an_altered_database_is_no_ground_to_write_on(postgres, postgres_empty_url):
    import psycopg  # noqa: PLC0415 - see above

    from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

    PostgresStore(postgres_empty_url).close()
    with psycopg.connect(postgres_empty_url) as connection:
        connection.execute("ALTER TABLE receipts DISABLE TRIGGER receipts_refuses_row")
    with pytest.raises(LedgerSchemaDiffers) as refused:
        PostgresStore(postgres_empty_url)
    assert refused.value.code == "ledger_schema_altered"


def test_an_index_without_a_row_is_found_on_postgresql_where_amcheck_is(postgres_empty_url):
    import psycopg  # noqa: PLC0415 - see above

    from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

    ready = (
        "UPDATE pg_index SET indisready = {0}, indisvalid = {0} WHERE indexrelid = '{1}'::regclass"
    )
    with closing(PostgresStore(postgres_empty_url)) as store:
        ledger = Ledger.create(store, FakeHost().host)
        write_a_little(ledger)
        with psycopg.connect(postgres_empty_url, autocommit=True) as connection:
            installed = connection.execute(
                "SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'"
            ).fetchone()[0]
            if installed:
                connection.execute("CREATE EXTENSION amcheck")
            connection.execute(ready.format("false", "nodes_by_kind"))
        submit(ledger, create("unseen", "Note"))
        with psycopg.connect(postgres_empty_url, autocommit=True) as connection:
            connection.execute(ready.format("true", "nodes_by_kind"))
        with ledger.view() as view:
            verification = verify(view)
    if installed:
        assert [(finding.table, finding.rule) for finding in verification.findings] == [
            ("nodes", "index_differs")
        ]
        assert verification.not_checked == ()
    else:
        assert "amcheck is not installed" in verification.not_checked[0]
