"""Statements that no query tool may carry out, for both databases; `{file}` is a file's path."""

from collections.abc import Iterator

WRITES = (
    "INSERT INTO nodes (node_id) VALUES ('x')",
    "INSERT INTO nodes SELECT * FROM nodes",
    "INSERT OR REPLACE INTO chain_head SELECT * FROM chain_head",
    "REPLACE INTO chain_head SELECT * FROM chain_head",
    "UPDATE chain_head SET frontier = NULL",
    "UPDATE OR IGNORE nodes SET node_kind = 'x'",
    "DELETE FROM receipts",
    "DELETE FROM nodes WHERE node_id IN (SELECT node_id FROM nodes)",
    "DROP TABLE nodes",
    "DROP INDEX IF EXISTS nodes_by_kind",
    "DROP DATABASE postgres",
    "TRUNCATE nodes",
    "TRUNCATE TABLE nodes CASCADE",
    "ALTER TABLE nodes ADD COLUMN x TEXT",
    "ALTER TABLE nodes RENAME TO other",
    "ALTER SYSTEM SET archive_command = 'touch {file}'",
    "CREATE TABLE x (a INTEGER)",
    "CREATE TABLE x AS SELECT * FROM nodes",
    "CREATE TEMP TABLE x (a INTEGER)",
    "CREATE TEMPORARY VIEW v AS SELECT 1",
    "CREATE VIEW v AS SELECT * FROM nodes",
    "CREATE INDEX x ON nodes (node_kind)",
    "CREATE TRIGGER t AFTER INSERT ON nodes BEGIN DELETE FROM nodes; END",
    "CREATE VIRTUAL TABLE x USING fts5(a)",
    "CREATE VIRTUAL TABLE x USING csv(filename='{file}')",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE EXTENSION dblink",
    "CREATE ROLE x SUPERUSER",
    "CREATE SERVER s FOREIGN DATA WRAPPER file_fdw",
    "GRANT ALL ON nodes TO PUBLIC",
    "REVOKE ALL ON nodes FROM PUBLIC",
    "MERGE INTO nodes USING nodes AS n ON true WHEN MATCHED THEN DELETE",
    "VACUUM",
    "VACUUM INTO '{file}'",
    "VACUUM FULL nodes",
    "ANALYZE",
    "REINDEX",
    "CLUSTER nodes",
    "COMMENT ON TABLE nodes IS 'x'",
    "REFRESH MATERIALIZED VIEW x",
    "WITH x AS (SELECT 1) INSERT INTO nodes (node_id) SELECT 'x'",
    "WITH x AS (SELECT 1) DELETE FROM nodes",
    "WITH x AS (SELECT 1) UPDATE nodes SET node_kind = 'x'",
    "WITH x AS (DELETE FROM nodes RETURNING *) SELECT * FROM x",
    "WITH x AS (INSERT INTO nodes (node_id) VALUES ('x') RETURNING 1) SELECT * FROM x",
    "WITH x AS (UPDATE nodes SET node_kind = 'x' RETURNING 1) SELECT * FROM x",
    "WITH x AS (MERGE INTO nodes USING nodes n ON true WHEN MATCHED THEN DELETE) SELECT 1",
    "SELECT * INTO other FROM nodes",
    "SELECT * INTO TEMP other FROM nodes",
    "SELECT 1 INTO OUTFILE '{file}'",
    "SELECT * FROM nodes FOR UPDATE",
    "SELECT * FROM chain_head FOR NO KEY UPDATE",
    "SELECT * FROM chain_head FOR SHARE",
    "SELECT * FROM (SELECT * FROM nodes FOR UPDATE) x",
)

COMMANDS = (
    "ATTACH '{file}' AS other",
    "ATTACH DATABASE '{file}' AS other",
    "ATTACH ':memory:' AS other",
    "DETACH main",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA user_version = 7",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA table_info(nodes)",
    "PRAGMA database_list",
    "PRAGMA hard_heap_limit = 1",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT x",
    "RELEASE x",
    "START TRANSACTION READ WRITE",
    "SET TRANSACTION READ WRITE",
    "SET default_transaction_read_only = off",
    "SET statement_timeout = 0",
    "SET ROLE postgres",
    "RESET ALL",
    "RESET statement_timeout",
    "DISCARD ALL",
    "SHOW data_directory",
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE DELETE FROM nodes",
    "EXPLAIN QUERY PLAN SELECT 1",
    "COPY nodes TO '{file}'",
    "COPY nodes FROM '{file}'",
    "COPY (SELECT 1) TO PROGRAM 'touch {file}'",
    "DO 'BEGIN DELETE FROM nodes; END'",
    "CALL x()",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DECLARE c CURSOR FOR SELECT 1",
    "FETCH ALL FROM c",
    "LISTEN x",
    "NOTIFY x, 'y'",
    "LOAD '{file}'",
    "LOCK TABLE chain_head",
    "CHECKPOINT",
    "TABLE pg_authid",
    "TABLE nodes",
    "KILL 1",
    "SHUTDOWN",
    ".read {file}",
    "\\copy nodes to '{file}'",
    "",
    ";",
    "--",
    "/* SELECT */",
    "nodes",
    "(",
    "not sql at all",
)

SEVERAL = (
    "SELECT 1; DELETE FROM nodes",
    "SELECT 1; DROP TABLE nodes; --",
    "SELECT 1;;DELETE FROM nodes;",
    "SELECT 1; COMMIT; DELETE FROM nodes",
    "SELECT 1; PRAGMA query_only = OFF",
    "SELECT 1) AS q; DELETE FROM nodes; --",
    "SELECT 1) q LIMIT 0; COMMIT; DELETE FROM nodes; SELECT (1",
    "SELECT 1) AS a, (SELECT 2",
    "SELECT 1 /* */; DELETE FROM nodes",
    "SELECT ';'; DELETE FROM nodes",
    "SELECT 1 -- \n; DELETE FROM nodes",
    "SELECT 1;\nATTACH '{file}' AS other",
    "VALUES (1); DELETE FROM nodes",
    "WITH x AS (SELECT 1) SELECT * FROM x; DELETE FROM nodes",
    "SELECT $x$; DELETE FROM nodes; SELECT $x$",
    "SELECT E'\\'; DELETE FROM nodes; --'",
    "SELECT 1\x00; DELETE FROM nodes",
    "SELECT '\ud800'",
    "SELECT 1 AS x --\x0b\n, pg_sleep(100) AS y",
    "SELECT 1 AS x --\u2028\n, pg_sleep(100) AS y",
    "SELECT lower\u00a0('x')",
    'SELECT U&"\\0070g_sleep"(100)',
    "SELECT U&'\\0027; DELETE FROM nodes'",
    "SELECT B'1' || E'\\''",
    "SELECT '\\'; DELETE FROM nodes; --'",
    "SELECT (n).pg_column_size FROM nodes AS n",
    "SELECT * FROM (TABLE foreigners) AS t",
    "SELECT * FROM nodes WHERE node_id = (TABLE pg_authid)",
    "SELECT 1 AS recursive, recursive pg_sleep(100)",
    "WITH pg_sleep(a) AS (SELECT 1) SELECT pg_sleep(100)",
    "WITH set_config(a) AS (SELECT 1) SELECT set_config('a.b', 'c', true)",
    "SELECT ?",
    "SELECT $1",
    "SELECT :name",
    "SELECT 1 AS a, 2 AS a",
    "SELECT 'open",
    'SELECT "open',
    "SELECT (1",
    "SELECT 1)",
    "SELECT" + "(" * 3000 + "1" + ")" * 3000,
    "SELECT '" + "x" * 30_000 + "'",
)

CALLS = (
    *("load_extension('{file}')", "readfile('{file}')", "writefile('{file}', 'x')"),
    *("edit('x')", "fts3_tokenizer('x')", "zeroblob(1000000000)", "randomblob(1000000000)"),
    *("printf('%1000000000d', 1)", "format('%.*c', 100000000, 'x')", "replace('a', 'a', 'b')"),
    *("instr('aaa', 'b')", "trim('aaa', 'a')", "sqlite_compileoption_get(1)", "changes()"),
    *("last_insert_rowid()", "sqlite_log(1, 'x')", "random()", "soundex('x')", "sha3('x')"),
    *("pg_sleep(100)", "pg_sleep_for('1 hour')", "pg_sleep_until('infinity')"),
    *("pg_read_file('{file}')", "pg_read_binary_file('{file}')", "pg_ls_dir('/')"),
    *("pg_stat_file('{file}')", "pg_ls_logdir()", "pg_ls_waldir()", "lo_import('{file}')"),
    *("lo_export(1, '{file}')", "lo_create(1)", "lo_get(1)", "lo_put(1, 0, 'x')"),
    *("lo_from_bytea(0, 'x')", "lo_unlink(1)", "dblink('dbname=postgres', 'SELECT 1')"),
    *("dblink_exec('dbname=postgres', 'DROP TABLE nodes')", "dblink_connect('x')"),
    *("pg_terminate_backend(1)", "pg_cancel_backend(1)", "pg_reload_conf()", "pg_promote()"),
    *("pg_rotate_logfile()", "pg_switch_wal()", "pg_create_restore_point('x')"),
    *("pg_logical_emit_message(false, 'x', 'y')", "pg_advisory_lock(1)", "pg_notify('x', 'y')"),
    *("pg_advisory_xact_lock(1)", "pg_try_advisory_lock(1)", "pg_export_snapshot()"),
    *("set_config('transaction_read_only', 'off', false)", "current_setting('hba_file')"),
    *("set_config('statement_timeout', '0', false)", "set_config('role', 'postgres', true)"),
    *("query_to_xml('DELETE FROM nodes', true, true, '')", "table_to_xml('nodes', true, true, '')"),
    *("database_to_xml(true, true, '')", "cursor_to_xml('c', 1, true, true, '')"),
    *("query_to_xml_and_xmlschema('SELECT 1', true, true, '')", "ts_stat('SELECT 1')"),
    *("schema_to_xml('public', true, true, '')", "xpath('/x', 'y')", "xmlparse(document '<a/>')"),
    *("nextval('x')", "setval('x', 1)", "currval('x')", "txid_current()", "setseed(0.5)"),
    *("pg_stat_reset()", "pg_file_write('{file}', 'x', false)", "pg_file_unlink('{file}')"),
    *("pg_backup_start('x')", "pg_log_backend_memory_contexts(1)", "pg_relation_size('nodes')"),
    *("inet_server_addr()", "version()", "has_table_privilege('nodes', 'select')"),
    *("repeat('x', 1000000000)", "lpad('x', 1000000000)", "rpad('x', 1000000000, 'y')"),
    *("pg_catalog.pg_sleep(100)", '"pg_sleep"(100)', '"pg_catalog"."pg_sleep"(100)'),
    *(
        "PG_SLEEP (100)",
        "pg_sleep/**/(100)",
        "pg_sleep\n(100)",
        "pg_catalog.set_config('a','b',true)",
    ),
    *("binary_upgrade_set_record_init_privs(true)", "brin_summarize_new_values('nodes')"),
    *("gin_clean_pending_list('x')", "pg_prewarm('nodes')", "pg_import_system_collations('x')"),
)
"""Expressions; each is asked for in several places of a statement."""

PLACES = (
    "SELECT {call} AS x",
    "SELECT 1 AS x FROM nodes WHERE {call} IS NOT NULL",
    "WITH t AS (SELECT {call} AS x) SELECT * FROM t",
)

TABLES = (
    *(
        "foreigners",
        '"foreigners"',
        "(SELECT * FROM foreigners)",
        "nodes CROSS JOIN foreigners AS m",
    ),
    *("pragma_table_info('nodes')", "pragma_database_list", "pragma_journal_mode('delete')"),
    *("pragma_query_only(0)", "dbstat", "sqlite_dbpage", "sqlite_stmt", "fts3tokenize"),
    *("bytecode('SELECT 1')", "generate_series_x(1, 2)", "csv('{file}')", "sqlite_temp_schema"),
    *("pg_authid", "pg_shadow", "pg_user_mapping", "pg_stat_activity", "pg_settings"),
    *("pg_hba_file_rules", "pg_file_settings", "pg_largeobject", "pg_config", "pg_class"),
    *("pg_catalog.pg_authid", '"pg_authid"', '"pg_catalog"."pg_authid"', "pg_proc"),
    *("information_schema.tables", '"information_schema"."tables"', "pg_stat_file('{file}')"),
    *("dblink('x', 'y') AS t(a int)", "pg_ls_dir('/') AS t(a)", "pg_read_file('{file}') AS t"),
    *("ROWS FROM (pg_sleep(100)) AS t", "LATERAL pg_sleep(100) AS t", "alembic_version"),
    *("nodes TABLESAMPLE system(1)", "other.nodes", "temp.nodes", "no_such_table"),
)

SECRETS = (
    "SELECT key FROM (SELECT 1 AS key WHERE 0) FULL JOIN foreigners USING (key)",
    "SELECT key FROM (SELECT 1 AS key WHERE 0) NATURAL FULL JOIN foreigners",
    "SELECT key FROM foreigners RIGHT JOIN (SELECT 1 AS key WHERE 0) USING (key)",
    "SELECT key FROM (SELECT 1 AS key WHERE false) AS a FULL JOIN foreigners USING (key)",
    "SELECT max(key) AS k FROM (SELECT 'x' AS key) AS a FULL JOIN foreigners AS m USING (key)",
    "WITH nodes AS (SELECT 1 AS key) SELECT key FROM nodes FULL JOIN foreigners USING (key)",
    "SELECT (SELECT key FROM (SELECT 1 AS key) AS a FULL JOIN foreigners USING (key) LIMIT 1) AS k",
    "SELECT count(*) AS n FROM foreigners",
    "SELECT count(*) AS n FROM main.foreigners",
    "SELECT count(*) AS n FROM [foreigners]",
    "SELECT count(*) AS n FROM `FOREIGNERS`",
    "SELECT count(*) AS n FROM 'foreigners'",
    'SELECT count(*) AS n FROM "Foreigners"',
    "SELECT 1 AS n FROM nodes, foreigners",
    "SELECT EXISTS (SELECT 1 FROM foreigners) AS n",
    "SELECT 1 AS n WHERE 'mail' IN foreigners",
    "SELECT row_number() OVER () AS n FROM foreigners",
    "SELECT count(*) AS n FROM alembic_version",
    "SELECT count(*) AS n FROM sqlite_stat1",
    "SELECT count(*) AS n FROM sqlite_temp_schema",
    "SELECT count(*) AS n FROM temp.sqlite_schema",
)
"""Each asks for a secret, or for how many rows a table has that no query may read."""

HIDDEN_FROM_OTHER_LEXERS = (
    "SELECT 1 AS x --\r, pg_sleep(100) AS y",
    "SELECT 1 AS x --\r, set_config('statement_timeout', '0', false) AS y",
    "SELECT 1 AS x --\r FROM pg_authid",
)
"""PostgreSQL ends a comment where a line of SQLite goes on."""


def statements(file: str) -> Iterator[str]:
    """Yield every statement; each has to be refused."""
    calls = (place.replace("{call}", call) for call in CALLS for place in PLACES)
    tables = (f"SELECT * FROM {table}" for table in TABLES)  # noqa: S608 - that is the point
    for texts in (WRITES, COMMANDS, SEVERAL, SECRETS, calls, tables):
        for text in texts:
            yield text.replace("{file}", file)


ENDLESS = (
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) SELECT max(n) FROM t",
    (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 10000),"
        " u AS (SELECT a.n AS n FROM t AS a, t AS b, t AS c) SELECT count(*) FROM u"
    ),
    (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 10000)"
        " SELECT a.n FROM t AS a, t AS b, t AS c ORDER BY a.n + b.n + c.n"
    ),
)
"""Each runs until it is ended."""

LARGE = (
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 999) SELECT n FROM t",
    (
        "WITH RECURSIVE t(n, x) AS (SELECT 1, 'xxxxxxxxxxxxxxxxxxxxxxxx' UNION ALL"
        " SELECT n + 1, x || x FROM t WHERE n < 12) SELECT n, x FROM t"
    ),
)
"""Each has more than the bounds let through."""
