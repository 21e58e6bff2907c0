"""Reads PostgreSQL's catalog of the ledger's tables, and whether its indexes hold their rows.

Only what belongs to the ledger's own tables is looked at: a schema may hold other people's. The
catalogs tell what changes how they are read or written: rules, policies, inheritance, triggers that
are off, indexes that are not valid, constraints that were never validated, defaults. Expressions
are compared without the casts and brackets that PostgreSQL puts around them. Indexes are compared
with their tables where the extension amcheck is installed (decision kernel/0182).
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import psycopg
from sqlalchemy import CheckConstraint, Index, Table
from sqlalchemy.engine import make_url

from kernel.ledger.postgres.connection import Connection, without_reply_limit
from kernel.ledger.postgres.schema import (
    REFUSAL,
    REFUSALS,
    refusal_of,
    schema_version,
    tables,
)
from kernel.ledger.schema import APPEND_ONLY_TABLES
from kernel.ledger.store import keys
from kernel.ledger.store.catalog import ContentReport, Fact, StorageFault, differences, table_fact
from kernel.ledger.store.keys import column_names

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

_OURS = "c.relnamespace = current_schema()::regnamespace AND c.relname::text = ANY(%s::text[])"
_RELATIONS = f"""
SELECT c.relname::text, c.relkind::text, c.relpersistence::text, c.relrowsecurity,
       EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid),
       EXISTS (SELECT FROM pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent))
FROM pg_class c WHERE {_OURS}"""  # noqa: S608 - a constant
_COLUMNS = f"""
SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       coalesce(o.collname::text, ''), a.attgenerated::text, a.attidentity::text, a.atthasdef
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_collation o ON o.oid = a.attcollation AND a.attcollation <> 0
WHERE {_OURS} AND NOT a.attisdropped"""  # noqa: S608 - a constant
_CONSTRAINTS = f"""
SELECT c.relname::text, n.contype::text, n.convalidated, n.condeferrable,
       coalesce(pg_get_expr(n.conbin, n.conrelid), ''),
       ARRAY(SELECT a.attname::text FROM unnest(n.conkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum ORDER BY k.place),
       coalesce(i.indisvalid AND i.indisready AND i.indislive, true),
       coalesce(f.relname::text, ''),
       ARRAY(SELECT a.attname::text FROM unnest(n.confkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_attribute a ON a.attrelid = f.oid AND a.attnum = k.attnum ORDER BY k.place),
       n.contype = 'f' AND (n.confupdtype, n.confdeltype, n.confmatchtype) <> ('a', 'a', 's')
FROM pg_class c JOIN pg_constraint n ON n.conrelid = c.oid
LEFT JOIN pg_index i ON i.indexrelid = n.conindid AND n.conindid <> 0
LEFT JOIN pg_class f ON f.oid = n.confrelid AND n.contype = 'f'
WHERE {_OURS} AND n.contype <> 'n'"""  # noqa: S608 - a constant
_INDEXES = f"""
SELECT c.relname::text, x.relname::text, pg_get_indexdef(i.indexrelid),
       i.indisvalid AND i.indisready AND i.indislive
FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid JOIN pg_class x ON x.oid = i.indexrelid
WHERE {_OURS}
  AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conindid = i.indexrelid)
"""  # noqa: S608 - a constant
TRIGGERS = f"""
SELECT c.relname::text, t.tgname::text, t.tgtype, t.tgenabled::text, t.tgqual IS NULL,
       p.proname::text, p.pronamespace = current_schema()::regnamespace
FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE {_OURS} AND NOT t.tgisinternal"""  # noqa: S608 - a constant
_FUNCTION = """
SELECT p.proname::text, p.prosrc, l.lanname::text, p.prosecdef, p.proconfig IS NULL FROM pg_proc p
JOIN pg_language l ON l.oid = p.prolang
WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = ANY(%s)"""
_SETTINGS = """
SELECT s FROM pg_db_role_setting d, unnest(d.setconfig) AS s WHERE d.setdatabase IN
(0, (SELECT oid FROM pg_database WHERE datname = current_database()))
UNION SELECT name || '=' || setting FROM pg_settings"""

_SAFE = {
    "session_replication_role": "origin",
    "zero_damaged_pages": "off",
    "ignore_checksum_failure": "off",
}
"""Settings under which triggers do not fire, or damaged pages are read as empty ones."""

_ROW_BEFORE_CHANGE, _STATEMENT_BEFORE_TRUNCATE = 27, 34
"""`pg_trigger.tgtype`: ROW, BEFORE, DELETE, UPDATE; and BEFORE, TRUNCATE."""

_DIALECT = make_url("postgresql+psycopg://").get_dialect()()
_CAST = re.compile(r"::(?:character varying|[a-z]+)(?:\[\])?")
_AMCHECK = """
SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'amcheck'"""
_BTREES = f"""
SELECT c.relname::text, x.relname::text, i.indexrelid FROM pg_class c
JOIN pg_index i ON i.indrelid = c.oid JOIN pg_class x ON x.oid = i.indexrelid
JOIN pg_am m ON m.oid = x.relam WHERE {_OURS}
AND m.amname = 'btree' ORDER BY 1, 2"""  # noqa: S608 - a constant
_CORRUPT = frozenset({"XX000", "XX001", "XX002"})


def schema_faults(connection: Connection) -> list[StorageFault]:
    """Return every difference between a database's tables and those that this program makes."""

    def ask(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return connection.execute(sql, values).fetchall()

    is_own = schema_version(connection).is_own
    faults = differences(expected_facts(), stored_facts(ask), is_own=is_own)
    for (setting,) in ask(_SETTINGS, ()):
        name, _, value = setting.partition("=")
        if name in _SAFE and value != _SAFE[name]:
            message = f"{name} is {value}, which is safe as {_SAFE[name]} alone"
            faults.append(StorageFault("ledger", name, "setting_differs", message))
    return faults


def content_faults(connection: Connection) -> ContentReport:
    """Compare every index with its table where the extension amcheck is installed."""
    row = connection.execute(_AMCHECK).fetchone()
    if row is None:
        reason = (
            "indexes were not compared with their tables: the extension amcheck is not installed"
        )
        return ContentReport(not_checked=[reason])
    check = f"SELECT {row[0]}.bt_index_check(%s::oid::regclass, true)"
    report = ContentReport()
    for table, index, oid in connection.execute(_BTREES, (_names(),)).fetchall():
        connection.execute("SAVEPOINT rotulus_index")
        try:
            with without_reply_limit(connection):
                connection.execute(check, (oid,))
        except psycopg.Error as error:
            connection.execute("ROLLBACK TO rotulus_index")
            _note(report, table, index, error)
        connection.execute("RELEASE rotulus_index")
    return report


def _note(report: ContentReport, table: str, index: str, error: psycopg.Error) -> None:
    if error.sqlstate in _CORRUPT:
        report.faults.append(StorageFault(table, f"index {index}", "index_differs", str(error)))
    else:
        report.not_checked.append(f"index {index} was not compared with {table}: {error}")


def _names() -> list[str]:
    return list(_tables())


@cache
def _tables() -> dict[str, Table]:
    return {str(table.name): table for table in tables().sorted_tables}


@cache
def expected_facts() -> frozenset[Fact]:
    """Return what this program makes of the tables."""
    facts: set[Fact] = set()
    append_only = {table.name for table in APPEND_ONLY_TABLES}
    for table in _tables().values():
        names = column_names(table)
        facts.add(table_fact(table.name, names, dict.fromkeys(names, True)))
        facts |= {_column(table, column.name) for column in table.columns}
        unique = keys.unique_columns(table)
        facts.add(Fact(table.name, "constraint", _key_text("p", keys.key_names(table))))
        facts |= {Fact(table.name, "constraint", _key_text("u", columns)) for columns in unique}
        for constraint in table.constraints:
            if isinstance(constraint, CheckConstraint):
                text = f"check {_bare(str(constraint.sqltext))}"
                facts.add(Fact(table.name, "constraint", text))
        facts |= {
            Fact(
                table.name, "constraint", _foreign(key.column_keys, key.referred_table.name, names)
            )
            for key in table.foreign_key_constraints
            for names in [[element.column.name for element in key.elements]]
        }
        facts |= {_index(table.name, index) for index in table.indexes}
        if table.name in append_only:
            facts |= {
                _trigger(table.name, f"{table.name}_refuses_{scope}", kind, function)
                for scope, kind, function in (
                    ("row", _ROW_BEFORE_CHANGE, refusal_of(table)),
                    ("statement", _STATEMENT_BEFORE_TRUNCATE, REFUSAL),
                )
            }
    facts |= {_function(name, body, "plpgsql") for name, body in REFUSALS.items()}
    return frozenset(facts)


def stored_facts(ask: Ask) -> set[Fact]:
    """Return what a database says of the ledger's tables when it is asked."""
    names = _names()
    by_name = _tables()
    facts: set[Fact] = set()
    plain: dict[str, dict[str, bool]] = {}
    for name, column, kind, not_null, collation, generated, identity, default in ask(
        _COLUMNS, (names,)
    ):
        plain.setdefault(name, {})[column] = not generated
        extras = [generated and "generated", identity and "identity", default and "default"]
        text = _column_text(column, kind, collation, not_null=not_null)
        facts.add(Fact(name, "column", " ".join([text, *filter(None, extras)])))
    for name, kind, persistence, row_security, rules, inherits in ask(_RELATIONS, (names,)):
        odd = {"row security": row_security, "rules": rules, "inheritance": inherits}
        if kind == "r" and not any(odd.values()):
            facts.add(table_fact(name, column_names(by_name[name]), plain.get(name, {})))
        if kind != "r" or persistence != "p":
            facts.add(Fact(name, "object", f"of the kind {kind}, persistence {persistence}"))
        facts |= {Fact(name, "object", f"with {oddity}") for oddity, there in odd.items() if there}
    facts |= {_constraint(*row) for row in ask(_CONSTRAINTS, (names,))}
    for name, _, definition, sound in ask(_INDEXES, (names,)):
        text = _bare_index(definition)
        facts.add(Fact(name, "index", _with(text, {"not valid": not sound})))
    for name, trigger, kind, enabled, plain_call, function, ours in ask(TRIGGERS, (names,)):
        odd = {
            "off": enabled != "O",
            "with a condition": not plain_call,
            "of another schema": not ours,
        }
        fact = _trigger(name, trigger, kind, function)
        facts.add(fact._replace(text=_with(fact.text, odd)))
    for name, body, language, definer, no_settings in ask(_FUNCTION, ([*REFUSALS],)):
        odd = {"security definer": definer, "with settings": not no_settings}
        fact = _function(name, body, language)
        facts.add(fact._replace(text=_with(fact.text, odd)))
    return facts


def _constraint(  # noqa: PLR0913, PLR0917 - a row of the query above
    name: str,
    kind: str,
    validated: bool,  # noqa: FBT001 - likewise
    deferrable: bool,  # noqa: FBT001 - likewise
    expression: str,
    columns: Sequence[str],
    sound: bool,  # noqa: FBT001 - likewise
    referred: str,
    referred_columns: Sequence[str],
    acts: bool,  # noqa: FBT001 - likewise
) -> Fact:
    text = f"check {_bare(expression)}" if kind == "c" else _key_text(kind, tuple(columns))
    if kind == "f":
        text = _foreign(columns, referred, referred_columns)
    odd = {
        "not validated": not validated,
        "deferrable": deferrable,
        "not valid": not sound,
        "with an action": acts,
    }
    return Fact(name, "constraint", _with(text, odd))


def _foreign(columns: Sequence[str], referred: str, referred_columns: Sequence[str]) -> str:
    return f"{_key_text('f', columns)} references {referred} ({', '.join(referred_columns)})"


def _with(text: str, odd: dict[str, bool]) -> str:
    return ", ".join([text, *(oddity for oddity, there in odd.items() if there)])


def _column(table: Table, name: str) -> Fact:
    column = table.columns[name]
    kind = column.type.compile(dialect=_DIALECT).lower()
    kind, _, collation = kind.partition(" collate ")
    kind = {"varchar": "character varying"}.get(kind, kind)
    stated = collation.strip('"').upper()
    return Fact(
        table.name, "column", _column_text(name, kind, stated, not_null=not column.nullable)
    )


def _column_text(name: str, kind: str, collation: str, *, not_null: bool) -> str:
    return f"{name} {kind} {collation}{' not null' if not_null else ''}"


def _key_text(kind: str, columns: Sequence[str]) -> str:
    constraint_names = {"p": "primary key", "u": "unique", "f": "foreign key", "x": "exclude"}
    return f"{constraint_names.get(kind, kind)} ({', '.join(columns)})"


def _index(table: str, index: Index) -> Fact:
    columns = ", ".join(column.name for column in index.columns)
    unique = "UNIQUE " if index.unique else ""
    where = index.dialect_options["postgresql"]["where"]
    text = f"CREATE {unique}INDEX {index.name} ON x.{table} USING btree ({columns})"
    if where is not None:
        condition = where.compile(dialect=_DIALECT)
        text += f" WHERE ({condition})"
    return Fact(table, "index", _bare_index(text))


def _bare_index(definition: str) -> str:
    """Return an index's definition without the schema's name and the brackets of its condition."""
    head, where, condition = definition.partition(" WHERE ")
    head = re.sub(r' ON (?:ONLY )?(?:"(?:[^"]|"")*"|\w+)\.', " ON ", head).replace('"', "")
    unique, _, index_name = head.removeprefix("CREATE ").partition("INDEX ")
    return f"{index_name}{where}{_bare(condition)}{' unique' if unique else ''}"


def _bare(expression: str) -> str:
    """Return an expression without casts, brackets and quotes of names, in single spaces."""
    parts = re.split(r"('(?:[^']|'')*')", expression)
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r'[()"\s]+', " ", _CAST.sub("", parts[at].lower()))
    words = " ".join("".join(parts).split()).replace(" ,", ",")
    return re.sub(r" = any array\[ ?([^\[\]]*?) ?\]", r" in \1", words)


def _trigger(table: str, name: str, kind: int, function: str) -> Fact:
    return Fact(table, "trigger", f"{name} of type {kind} calling {function}")


def _function(name: str, body: str, language: str) -> Fact:
    return Fact("ledger", "function", f"{name} in {language}: {body}")
