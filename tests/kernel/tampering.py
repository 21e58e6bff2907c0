"""Copies of a ledger that are changed behind the kernel's back, and what is found in them."""

import sqlite3
from contextlib import closing
from typing import get_args

import orjson

from kernel.landscape.record_chain import entry_of
from kernel.landscape.record_rules import KEYS, TABLES
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.merkle_tree import Frontier, leaf_hash
from kernel.values.canonical import GENESIS_HASH, canonicalize, sha256_hex
from kernel.verify import verify
from kernel.verify.reading import Rule
from tests.kernel.build import (
    FakeHost,
)
from workers.environment.ledger_access import archive_of

RULES = frozenset(get_args(Rule))


class Copy:
    """A copy of the honest ledger that can be changed behind the kernel's back."""

    def __init__(self, path):
        self.path = path
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.row_factory = sqlite3.Row
        # What is thrown away need not reach the disk.
        self.db.execute("PRAGMA synchronous = OFF")
        self.db.execute("PRAGMA ignore_check_constraints = ON")
        triggers = self.db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        self._triggers = dict(triggers.fetchall())
        for name in self._triggers:
            self.db.execute(f"DROP TRIGGER {name}")

    def run(self, *words, values=()):
        return self.db.execute(" ".join(words), values)

    def rows(self, table):
        keys = ", ".join(column.name for column in table.primary_key.columns)
        rows = self.run("SELECT rowid AS place, * FROM", table.name, "ORDER BY", keys)
        return [dict(row) for row in rows]

    def a_row(self, table):
        """A row from the middle of a table that has one; of ephemeral receipts the oldest."""
        rows = self.rows(table)
        if table is schema.ephemeral_receipts:
            return min(rows, key=lambda row: (row["expires_at_us"], row["receipt_id"]))
        return rows[len(rows) // 2]

    def set(self, table, row, **values):
        assigned = ", ".join(f"{name} = ?" for name in values)
        where = (*values.values(), row["place"])
        changed = self.run("UPDATE", table.name, "SET", assigned, "WHERE rowid = ?", values=where)
        assert changed.rowcount == 1

    def insert(self, table, row):
        names = [column.name for column in table.columns]
        marks = ", ".join("?" for _ in names)
        self.run(
            "INSERT INTO",
            table.name,
            f"({', '.join(names)}) VALUES ({marks})",
            values=[row[name] for name in names],
        )

    def delete(self, table, row):
        self.run("DELETE FROM", table.name, "WHERE rowid = ?", values=(row["place"],))

    def fit_frontier(self):
        """Give the head the frontier of the rows as they are, fewer than fill a tile."""
        frontier = Frontier()
        for row in self.rows(schema.kernel_event_log):
            frontier = frontier.append(leaf_hash(row["row_bytes"]))
        head = self.a_row(schema.chain_head)
        self.set(schema.chain_head, head, frontier=frontier.to_bytes())

    def close(self):
        """Leave the schema as it was: it is not what is tampered with."""
        for sql in self._triggers.values():
            self.db.execute(sql)
        self._triggers = {}
        self.db.close()

    def verify(self, **options):
        self.close()
        return verify_file(self.path, **options)

    def first(self):
        findings = self.verify().findings
        assert findings, "nothing was found"
        return findings[0]


def forge_outcome(copy, width):
    """Change what a job answered, and compute the chain of receipts and its head again."""
    prior = "0" * 64
    for row in copy.rows(schema.receipts):
        document = orjson.loads(row["receipt_bytes"])
        if document.get("handler_result", {}).get("width") == 80:
            document["handler_result"]["width"] = width
        document["prior_receipt_hash"] = prior
        content = canonicalize(document)
        values = {"receipt_bytes": content, "prior_receipt_hash": prior}
        prior = sha256_hex(content)
        copy.set(schema.receipts, row, receipt_hash=prior, **values)
    head = copy.a_row(schema.chain_head)
    copy.set(schema.chain_head, head, receipt_hash=prior)


def forge_record(copy, table, key, **values):
    """Change a record, and compute its groups and all behind them anew, as the program would."""
    [row] = [
        row for row in copy.rows(table) if row[KEYS[table.name.removeprefix("landscape_")]] == key
    ]
    copy.set(table, row, **values)
    stored = {
        (held.name, row["run_id"], row[KEYS[name]]): row
        for name, held in TABLES.items()
        for row in copy.rows(held)
    }
    prior = GENESIS_HASH
    for group in copy.rows(schema.landscape_record_groups):
        document = orjson.loads(group["group_bytes"])
        for name, entry in document["records"].items():
            of = TABLES[name.removeprefix("landscape_")]
            rows = [stored[name, document["run_id"], each] for each in entry["keys"]]
            if not entry.get("open"):
                document["records"][name] = entry_of(of, rows)
        document["prior_group_hash"] = prior
        content = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
        hashes = {"prior_group_hash": prior, "group_hash": sha256_hex(content)}
        copy.set(schema.landscape_record_groups, group, group_bytes=content, **hashes)
        prior = hashes["group_hash"]


def verify_file(path, **options):
    with (
        closing(SqliteStore(path, read_only=True)) as store,
        Ledger(store, FakeHost().host, archive_of(path)).view() as view,
    ):
        result = verify(view, **options)
    assert {finding.rule for finding in result.findings} <= RULES
    return result


def key_of(table, row):
    return "/".join(str(row[column.name]) for column in table.primary_key.columns)


def names(finding, table, row):
    """Whether a finding is about this row, or about the row and one of its effects."""
    key = key_of(table, row)
    return finding.table == table.name and (key == finding.key or key.startswith(finding.key + "/"))


def flipped(content, position=None, bit=1):
    position = len(content) // 2 if position is None else position
    changed = bytearray(content)
    changed[position] ^= bit
    return bytes(changed)
