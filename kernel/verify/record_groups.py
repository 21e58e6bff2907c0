"""Verifies the chain of groups of records of runs, each computed from the records as they stand.

The chain is walked like the others. Of each group the records are read by their keys and digested
again; those that may still change are held against the newest group that has them. A run that is
in the chain has no record beside it. Each anchor states a group that is there.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table

from kernel.landscape.record_anchors import ANCHORED, Anchor, runs_in_no_group
from kernel.landscape.record_chain import changing_text, group_digest
from kernel.landscape.record_rules import TABLES, key_of, table_of
from kernel.ledger import schema
from kernel.ledger.landscape_tables import CHANGING
from kernel.ledger.store.tables import Row, TableQuery
from kernel.verify.hash_chains import Chain, ChainShape
from kernel.verify.reading import Document, Reader, join_key

GROUPS = ChainShape(
    schema.landscape_record_groups,
    "group_sequence",
    "prior_group_hash",
    "group_hash",
    "group_bytes",
    ("prior_group_hash", "run_id"),
    "group_sequence",
    "group_hash",
)

_GROUPS_AT_ONCE = 16
_KIND = {"receipt_kind": ANCHORED}

_Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """The groups there are, and how many of them no anchor commits to."""

    groups: int = 0
    not_anchored: int = 0
    earlier_runs: int = 0
    """Runs without a seal that are in no group: recorded before there were groups."""


def check_record_groups(reader: Reader) -> GroupCounts:
    """Check every group and every anchor."""
    walk = _Walk(reader)
    walk.run()
    walk.check_newest()
    walk.check_counts()
    anchored = _check_anchors(reader, 0)
    return GroupCounts(walk.chain.last, walk.chain.last - anchored, walk.earlier_runs())


def check_groups_behind(reader: Reader, receipt_sequence: int) -> GroupCounts:
    """Check the anchors behind a receipt, and the groups behind the anchor before it."""
    before = _anchor_before(reader, receipt_sequence)
    walk = _Walk(reader)
    if before is not None:
        walk.chain.go_on_after(*before)
        _check_anchor(reader, before)
    walk.run()
    anchored = _check_anchors(reader, receipt_sequence)
    anchored = max(anchored, 0 if before is None else before.group_sequence)
    return GroupCounts(walk.chain.last, walk.chain.last - anchored)


class _Walk:
    """One walk along the groups, and what they say of records that may still change."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.chain = Chain(GROUPS, reader.findings)
        self._open: dict[_Place, tuple[str, str]] = {}
        """Of each record that is not finished: what its newest group states, and which it is."""

        self._counts: Counter[tuple[str, str]] = Counter()
        self._runs: set[str] = set()

    def run(self) -> None:
        """Walk from where the chain stands to its end."""
        table = schema.landscape_record_groups
        for row in self._reader.pages(table, after=self.chain.last, page_rows=_GROUPS_AT_ONCE):
            with self._reader.findings.guard(table, row["group_sequence"]):
                document = self.chain.step(row)
                if document is not None:
                    self._check_group(document)
        # What stands behind the newest anchor has no other witness than itself.
        self.chain.finish(
            {"group_sequence": self.chain.last, "group_hash": self.chain.tail_hash}, witness=None
        )

    def _check_group(self, document: Document) -> None:
        run_id = document["run_id"]
        self._runs.add(run_id)
        for name, entry in document["records"].items():
            with self._reader.findings.guard(name, run_id):
                self._check_entry(document["group_sequence"], run_id, table_of(name), entry)

    def _check_entry(self, sequence: str, run_id: str, table: Table, entry: dict[str, Any]) -> None:
        name, keys, texts = str(table.name), entry["keys"], entry.get("open", [])
        self._note(name, run_id, sequence, keys, texts)
        rows = self._records(table, run_id, keys)
        missing = next((key for key, row in zip(keys, rows, strict=True) if row is None), None)
        if missing is not None:
            key = run_id if table is schema.landscape_runs else join_key(run_id, missing)
            message = f"group {sequence} of the records of runs has it"
            self._reader.findings.add(table, key, "missing", message)
            return
        stored = [row for row in rows if row is not None]
        whole = len(stored) - len(texts)
        if group_digest(table, stored[:whole], stored[whole:]) != entry["digest"]:
            message = f"records of the run are not those that group {sequence} states"
            self._reader.findings.add(table, run_id, "digest_differs", message)

    def _note(
        self, name: str, run_id: str, sequence: str, keys: list[str], texts: list[str]
    ) -> None:
        places = [(name, run_id, key) for key in keys] if name in CHANGING else []
        again = sum(place in self._open for place in places)
        self._counts[name, run_id] += len(keys) - again
        whole = len(keys) - len(texts)
        for place in places[:whole]:
            self._open.pop(place, None)
        for place, text in zip(places[whole:], texts, strict=True):
            self._open[place] = (text, sequence)

    def _records(self, table: Table, run_id: str, keys: list[str]) -> list[Row | None]:
        key = key_of(table)
        rows = self._reader.tables.scan(TableQuery(table, {"run_id": run_id}, any_of=(key, keys)))
        by_key = {row[key]: row for row in rows}
        return [by_key.get(each) for each in keys]

    def check_newest(self) -> None:
        """Hold records that are not finished against the newest group that has them."""
        for (name, run_id, key), (text, sequence) in self._open.items():
            table = table_of(name)
            parts = (run_id,) if table is schema.landscape_runs else (run_id, key)
            with self._reader.findings.guard(table, *parts):
                row = self._reader.tables.get(table, *parts)
                if row is not None and changing_text(table, row) != text:
                    message = f"group {sequence} is the newest that has it and states {text}"
                    self._reader.findings.add(table, join_key(*parts), "state_differs", message)

    def check_counts(self) -> None:
        """Name the runs of the chain that have records in no group."""
        for table in TABLES.values():
            name = str(table.name)
            with self._reader.findings.guard(table, "runs"):
                of_runs = TableQuery(table, columns=("run_id",), grouped=True)
                for run_id, count in self._reader.tables.scan(of_runs):
                    expected = self._counts[name, run_id]
                    if run_id in self._runs and count > expected:
                        message = f"it has {count} records there, of which groups have {expected}"
                        self._reader.findings.add(table, run_id, "extra", message)

    def earlier_runs(self) -> int:
        """Return how many runs have neither a group nor a seal."""
        with self._reader.findings.guard(schema.landscape_runs, "runs"):
            return len(runs_in_no_group(self._reader.tables))
        return 0


def _anchor_before(reader: Reader, receipt_sequence: int) -> Anchor | None:
    with reader.findings.guard(schema.receipts, receipt_sequence):
        rows = reader.tables.scan(
            TableQuery(schema.receipts, _KIND, after=receipt_sequence + 1, descending=True, limit=1)
        )
        return Anchor.of_receipt(rows[0]) if rows else None
    return None


def _check_anchors(reader: Reader, after: int) -> int:
    """Check the anchors behind a receipt and return the last group that one states."""
    anchored = 0
    for row in reader.pages(schema.receipts, _KIND, after=after):
        with reader.findings.guard(schema.receipts, row["receipt_sequence"]):
            anchor = Anchor.of_receipt(row)
            _check_anchor(reader, anchor)
            anchored = max(anchored, anchor.group_sequence)
    return anchored


def _check_anchor(reader: Reader, anchor: Anchor) -> None:
    table, sequence = schema.landscape_record_groups, anchor.group_sequence
    row = reader.get(table, sequence)
    if row is None:
        reader.findings.add(table, sequence, "missing", "a receipt states it as the newest one")
    elif row["group_hash"] != anchor.group_hash:
        message = "a receipt states another hash of it"
        reader.findings.add(table, sequence, "link_broken", message)
