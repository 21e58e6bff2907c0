"""Verifies authorities: each is what its inputs give, unless it is still to be recomputed.

Left out, and counted as pending, is an understanding with an open request; and where the value
differs, one that waits for the nightly tick (§8.5), one whose newest request was given up, and one
that a receipt names as lying on a cycle or beyond the depth cap: those have no recompute of their
own (§8.4).
"""

import struct
from contextlib import suppress
from dataclasses import dataclass

from kernel.authority.graph import is_nightly
from kernel.authority.read_ahead import Around, read_ahead
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.model.authority_strategy import AuthorityStrategy
from kernel.model.node_kinds import UNDERSTANDING
from kernel.transaction.rules import RULES
from kernel.verify.reading import Document, Reader, load_object, parts, printable

INDEX_NAME = "authority_index"
_LEFT_OUT_KINDS = ("cu_authority_cycle_detected", "cascade_depth_exceeded")


@dataclass(slots=True)
class AuthorityCounts:
    """How many authorities were compared, and how many could not be yet."""

    equal: int = 0
    pending: int = 0


class AuthorityCheck:
    """One computation of every authority from scratch."""

    def __init__(self, reader: Reader, view: LedgerView, strategy: AuthorityStrategy) -> None:
        self.counts = AuthorityCounts()
        self._reader = reader
        self._snapshot = self._view = view
        self._strategy = strategy
        self._left_out: set[str] | None = None

    def run(self) -> None:
        """Compare every stored authority with its inputs, bit for bit."""
        where = {"node_kind": UNDERSTANDING}
        for part in parts(self._reader.pages(schema.nodes, where)):
            self._view = self._snapshot.batch()
            # What cannot be read so is read when it is asked for.
            with suppress(Exception):
                read_ahead(self._view, ((Around.INPUTS, row["node_id"]) for row in part))
            for row in part:
                with self._reader.findings.guard(schema.nodes, row["node_id"]):
                    self._check(row)

    def _check(self, row: Row) -> None:
        node_id, node = row["node_id"], load_object(row["record"])
        if node is None:
            message = "record is not a JSON object"
            self._reader.findings.add(schema.nodes, node_id, "unreadable", message)
            return
        if self._view.open_requests_of(AUTHORITY_QUEUE, node_id):
            self.counts.pending += 1
            return
        expected = self._authorities_of(node)
        stored = node["payload"].get("cu_authority")
        if any(_same(stored, value) for value in expected):
            self.counts.equal += 1
            self._check_index(node_id, stored)
        elif is_nightly(node) or self._is_given_up(node_id) or node_id in self._nodes_left_out():
            self.counts.pending += 1
        else:
            message = (
                f"cu_authority is {printable(stored)}, its inputs give {printable(expected[0])}"
            )
            self._reader.findings.add(schema.nodes, node_id, "authority_differs", message)

    def _authorities_of(self, node: Document) -> list[float]:
        """Return what the inputs give under each version of the rules, the newest first.

        Nobody computes an authority again because the rules changed, so each version may speak;
        that the value was written by the rules of its row, the fold sees.
        """
        rules = dict.fromkeys(RULES[version].authority_of for version in sorted(RULES)[::-1])
        return [compute(self._view, self._strategy, node)[0] for compute in rules]

    def _check_index(self, node_id: str, stored: object) -> None:
        entry_id = f"{INDEX_NAME}|{node_id}"
        row = self._reader.get(schema.derived_indexes, entry_id)
        if row is None:
            return
        record = load_object(row["record"]) or {}
        entry = record.get("entry")
        indexed = entry.get("cu_authority") if isinstance(entry, dict) else None
        if not _same(indexed, stored):
            message = f"the entry is {printable(indexed)}, the node has {printable(stored)}"
            self._reader.findings.add(
                schema.derived_indexes, entry_id, "authority_differs", message
            )

    def _is_given_up(self, node_id: str) -> bool:
        requests = self._view.request_rows_of(AUTHORITY_QUEUE, node_id)
        outcome = self._view.outcome_of(requests[-1]["request_id"]) if requests else None
        return outcome is not None and outcome["outcome"] != "completed"

    def _nodes_left_out(self) -> set[str]:
        if self._left_out is None:
            self._left_out = set()
            for kind in _LEFT_OUT_KINDS:
                for row in self._reader.pages(schema.receipts, {"receipt_kind": kind}):
                    document: Document = load_object(row["receipt_bytes"]) or {}
                    self._left_out.update(document.get("node_refs", ()))
        return self._left_out


def _same(recorded: object, computed: object) -> bool:
    if _is_number(recorded) and _is_number(computed):
        return struct.pack("<d", recorded) == struct.pack("<d", computed)
    return type(recorded) is type(computed) and recorded == computed


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
