"""Reads a SQLite file's tables, and whether its indexes and pages are sound.

Definitions are compared as SQLite keeps them, word by word: a collation, a generated column or a
conflict clause is in no pragma. The file is the ledger's alone, so anything else in it is a
difference, except the planner's statistics, which change no answer. Indexes are compared with their
tables by SQLite itself (decision kernel/0182).
"""

import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kernel.ledger.schema import SCHEMA_VERSION, metadata
from kernel.ledger.sqlite.schema import definitions, schema_version
from kernel.ledger.store.catalog import ContentReport, Fact, StorageFault, differences, table_fact
from kernel.ledger.store.keys import column_names

FAULTS_MAX = 100

_STATISTICS = frozenset({"sqlite_stat1", "sqlite_stat4"})
_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|$)|\s+|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[A-Za-z_]\w*|\d[\w.]*|.",
    re.DOTALL,
)
_CONSTRAINTS = frozenset({"primary", "unique", "check", "constraint", "foreign"})
_KINDS: tuple[tuple[str, Literal["index", "trigger"], str], ...] = (
    ("index ", "index", ""),
    ("unique index ", "index", " unique"),
    ("trigger ", "trigger", ""),
)
"""What follows CREATE in a definition, what it makes, and how its fact ends."""

_OF_INDEX = re.compile(r"(?:from|in|of) index (\S+)$")
_OF_COLUMN = re.compile(r"(?:value in|constraint failed in) ([A-Za-z_]\w*)")


def schema_faults(connection: sqlite3.Connection) -> list[StorageFault]:
    """Return every difference between a file's tables and those that this program makes."""
    try:
        is_own = schema_version(connection).is_own
        return differences(expected_facts(), stored_facts(connection), is_own=is_own)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        # The driver fails on an error message that quotes damaged text.
        return [StorageFault("ledger", "schema", "schema_unreadable", str(error))]


def content_faults(connection: sqlite3.Connection) -> ContentReport:
    """Compare every index with its table and look at every page; linear in the file's size."""
    rows = _fetch(connection, f"PRAGMA integrity_check({FAULTS_MAX})")
    messages = [line for (text,) in rows for line in str(text).splitlines()]
    indexes = dict(
        _fetch(connection, "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'")
    )
    sound = ("ok", "*** in database main ***")
    return ContentReport([_fault(line, indexes) for line in messages if line not in sound])


def _fetch(connection: sqlite3.Connection, sql: str) -> list[Any]:
    """Return the rows of a query whose texts may be damaged."""
    before = connection.text_factory
    connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.text_factory = before


def version_faults(path: Path) -> list[StorageFault]:
    """Return a fault where a file states another version, and its tables are of this one."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            if schema_faults(file):
                return []
            stated = schema_version(file).version
            message = f"user_version is {stated}, the tables are of {SCHEMA_VERSION}"
            return [StorageFault("ledger", "user_version", "schema_differs", message)]
    except (sqlite3.Error, UnicodeDecodeError):
        return []


def _fault(line: str, indexes: dict[str, str]) -> StorageFault:
    of_index, of_column = _OF_INDEX.search(line), _OF_COLUMN.search(line)
    if of_index is not None:
        name = of_index[1]
        return StorageFault(
            str(indexes.get(name, "ledger")), f"index {name}", "index_differs", line
        )
    if of_column is not None and of_column[1] in metadata.tables:
        return StorageFault(of_column[1], "a row", "constraint_broken", line)
    return StorageFault("ledger", "a page", "page_damaged", line)


@cache
def expected_facts() -> frozenset[Fact]:
    """Return what this program makes of the tables."""
    facts = {table_fact(name, names, dict.fromkeys(names, True)) for name, names in _columns()}
    return frozenset(facts.union(*_facts_by_definition().values()))


@cache
def _facts_by_definition() -> dict[str, set[Fact]]:
    """Return the facts of each definition of this program, by its text."""
    return {sql.strip(): _facts_of(_tokens(sql)) for sql in definitions()}


@cache
def _columns() -> list[tuple[str, tuple[str, ...]]]:
    return [(str(table.name), column_names(table)) for table in metadata.sorted_tables]


def stored_facts(connection: sqlite3.Connection) -> set[Fact]:
    """Return what a file says of its tables."""
    facts: set[Fact] = set()
    entries = _fetch(connection, "SELECT type, name, tbl_name, sql FROM sqlite_master")
    defined = _facts_by_definition()
    tables = {
        str(name)
        for kind, name, _, sql in entries
        if kind == "table" and (sql in defined or _tokens(str(sql))[:2] == ["create", "table"])
    }
    for kind, name, table, sql in entries:
        if name in _STATISTICS or (sql is None and kind == "index"):
            # An index without a text is that of a constraint, and goes with its table's text.
            continue
        if kind in ("table", "index", "trigger") and sql in defined:
            facts |= defined[sql]
            continue
        tokens = _tokens(str(sql))
        if kind in ("table", "index", "trigger") and tokens[:1] == ["create"]:
            facts |= _facts_of(tokens)
        else:
            facts.add(Fact(str(table), "object", f"{kind} {name}"))
    for name, names in _columns():
        if name in tables:
            info = _fetch(connection, f"PRAGMA table_xinfo({name})")
            facts.add(table_fact(name, names, {row[1]: row[6] == 0 for row in info}))
    return facts


def _tokens(sql: str) -> list[str]:
    """Part a definition into its words, without white space, comments and needless quotes."""
    tokens = []
    for word in _TOKEN.findall(sql):
        if word.isspace() or word.startswith(("--", "/*")):
            continue
        if word.startswith('"') and re.fullmatch(r'"[A-Za-z_]\w*"', word):
            tokens.append(word[1:-1].lower())
        else:
            tokens.append(word if word.startswith("'") else word.lower())
    return tokens


def _facts_of(tokens: list[str]) -> set[Fact]:
    """Return the facts of one CREATE statement: a table's parts one by one, all else whole."""
    if tokens[:2] != ["create", "table"] or "(" not in tokens:
        return {_whole(tokens)}
    opening = tokens.index("(")
    table = " ".join(tokens[2:opening])
    facts, depth, part = set(), 0, list[str]()
    for at, word in enumerate(tokens[opening:], opening):
        depth += (word == "(") - (word == ")")
        if depth == 0 or (depth == 1 and word == ","):
            facts.add(_part(table, part))
            part = []
        elif at > opening:
            part.append(word)
        if depth == 0:
            if tokens[at + 1 :]:
                facts.add(Fact(table, "constraint", " ".join(tokens[at + 1 :])))
            return facts
    return {Fact(table, "object", " ".join(tokens))}


def _part(table: str, part: list[str]) -> Fact:
    of_table = bool(part) and part[0] in _CONSTRAINTS
    return Fact(table, "constraint" if of_table else "column", " ".join(part))


def _whole(tokens: list[str]) -> Fact:
    """Return an index or a trigger as one fact, of the table behind its ON."""
    table = tokens[tokens.index("on") + 1] if "on" in tokens[:-1] else "ledger"
    text = " ".join(tokens[1:])
    for begin, kind, suffix in _KINDS:
        if text.startswith(begin):
            return Fact(table, kind, f"{text.removeprefix(begin)}{suffix}")
    return Fact(table, "object", text)
