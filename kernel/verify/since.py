"""Verifies from a tree head on that was kept: it costs what came since, not what there is.

The head is a size and a root, as an earlier verification printed them, or as a checkpoint states
them. The log has to begin with that tree, which its tiles show. Rows behind it are checked as level
A checks them, the tree goes on over them, every operation is computed again on the state that it
met, and every record that they wrote has to stand as its newest effect left it. Groups of records
of runs are checked behind the last one to which the kept head commits.

What it does not do, and a whole verification does: read a row before the head (a tile would show
that it is another one, the row by itself does not), fold the state that no effect names, replay
belief sessions, read what no new row concerns, and check pages and indexes. So it is worth what the
keeping of the head is worth (decision kernel/0362).
"""

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.log_tree import LogTree
from kernel.ledger.store.tables import Row, TableQuery
from kernel.records.columns import columns_of
from kernel.replay.reproduce import reproduce_range
from kernel.values.canonical import GENESIS_HASH
from kernel.values.errors import LedgerCorrupt, RulesVersionUnknown
from kernel.verify import Verification
from kernel.verify.checked_reading import unchecked_view
from kernel.verify.expected import ExpectedHead, check_expected
from kernel.verify.hash_chains import RECEIPTS, Chain
from kernel.verify.log import LogCheck
from kernel.verify.names import check_receipt
from kernel.verify.reading import (
    LIMIT_FINDINGS,
    EnoughFindings,
    Findings,
    Reader,
    Rule,
    load_object,
    parts,
)
from kernel.verify.receipt_seals import check_receipt_seals
from kernel.verify.record_groups import GroupCounts, check_groups_behind
from kernel.verify.records import answer_row_hash, check_row_answers
from kernel.verify.storage import add_faults
from kernel.verify.tree import TreeCheck

NOT_CHECKED = (
    "rows before the kept head: only the tree over them",
    "state that no effect names, belief sessions, authorities, pages and indexes",
)

RECORDS_AT_ONCE = 20_000
"""Written records that are held in memory before they are compared."""

_FORM = re.compile(r"(0|[1-9][0-9]{0,15}):([0-9a-f]{64})")


class KeptTree(NamedTuple):
    """The size and the root of the tree at the time at which somebody kept them."""

    size: int
    root: bytes

    @classmethod
    def parse(cls, text: str) -> "KeptTree":
        """Read `SIZE:ROOT` as a verification prints it.

        Raises:
            ValueError: when it has another form.
        """
        matched = _FORM.fullmatch(text)
        if matched is None:
            raise ValueError("a tree head is SIZE:ROOT, such as 17:9f... with 64 hex digits")
        return cls(int(matched[1]), bytes.fromhex(matched[2]))


def verify_since(
    view: LedgerView,
    kept: KeptTree,
    *,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    expect_head: ExpectedHead | None = None,
) -> Verification:
    """Check what was recorded behind a kept head; nothing stored makes it raise.

    Raises:
        LedgerUnavailable: when the store went away meanwhile.
    """
    run = _Since(unchecked_view(view), kept, progress)
    with suppress(EnoughFindings):
        run.check(expect_head)
    return run.result()


class _Since:
    def __init__(
        self, view: LedgerView, kept: KeptTree, progress: Callable[[int, int], None]
    ) -> None:
        self._view, self._kept, self._progress = view, kept, progress
        self._findings = Findings(LIMIT_FINDINGS)
        self._reader = Reader(view.tables, self._findings)
        self._log = LogCheck(self._reader)
        self._receipts = Chain(RECEIPTS, self._findings)
        self._tree = TreeCheck(self._reader, LIMIT_FINDINGS)
        self._root = b""
        self._done = self._total = self._sealed_to = 0
        self._groups = GroupCounts()

    def check(self, expect_head: ExpectedHead | None) -> None:
        findings = self._findings
        with findings.guard("ledger", "schema"):
            add_faults(findings, self._view.tables.schema_faults())
        with findings.guard(schema.tree_tiles, "kept"):
            if not self._begin():
                return
        self._check_rows()
        self._check_receipts()
        head = self._reader.get(schema.chain_head, "main")
        if head is not None:
            with findings.guard(schema.chain_head, "main"):
                self._receipts.finish(head, witness=str(self._log.receipt_hash))
                last = self._log.chain.last
                self._log.chain.finish(head, witness=answer_row_hash(self._reader, last))
        if expect_head is not None:
            check_expected(self._reader, expect_head)
        self._root, of_the_tree = self._tree.finish(head)
        for finding in of_the_tree:
            findings.note(finding)
        with findings.guard(schema.kernel_event_log, "operations"):
            self._reproduce()
        with findings.guard(schema.applied_effects, "records"):
            self._check_records()

    def _begin(self) -> bool:
        """Go to the kept head; tell whether the log begins with its tree."""
        size, log = self._kept.size, schema.kernel_event_log
        tree: LogTree | None = None
        with suppress(LedgerCorrupt):
            tree = self._view.log_tree()
        if tree is None or size > tree.size:
            message = f"the log has fewer than {size} rows, of which a tree was kept"
            self._findings.add(log, size, "head_not_found", message)
            return False
        root: bytes | None = None
        with suppress(LedgerCorrupt):
            root = tree.root(size)
        if root != self._kept.root:
            message = f"the tree over the first {size} rows is not the one that was kept"
            self._findings.add(log, size, "head_not_found", message)
            return False
        self._total = tree.size - size
        self._tree.go_on_after(tree, size)
        row = self._reader.get(log, size) if size else None
        if row is not None:
            self._log.go_on_after(row)
            sealed = self._log.state
            receipt_hash = sealed.receipt_hash
            stated = (load_object(row["row_bytes"]) or {}).get("receipt_chain_head")
            if stated != receipt_hash:
                message = "no receipt has the hash that receipt_chain_head names"
                self._findings.add(log, size, "link_broken", message)
            if isinstance(receipt_hash, str) and receipt_hash != GENESIS_HASH:
                self._receipts.go_on_after(sealed.receipt_position, receipt_hash)
        return True

    def _check_rows(self) -> None:
        reader, clock_us = self._reader, self._clock_us()
        for part in parts(reader.pages(schema.kernel_event_log, after=self._kept.size)):
            self._log.check(part, self._step)
            check_row_answers(reader, part, clock_us)
            for row in part:
                with self._findings.guard(schema.kernel_event_log, row["ec_sequence_number"]):
                    self._tree.add(row["row_bytes"])

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)

    def _clock_us(self) -> int:
        head = self._reader.get(schema.chain_head, "main")
        return 0 if head is None else int(head["committed_at_us"])

    def _check_receipts(self) -> None:
        before = self._receipts.last
        for row in self._reader.pages(schema.receipts, after=self._receipts.last):
            with self._findings.guard(schema.receipts, row["receipt_sequence"]):
                document = self._receipts.step(row)
                if document is not None:
                    check_receipt(self._reader, schema.receipts, row["receipt_sequence"], document)
        with self._findings.guard(schema.receipts, "seals"):
            self._sealed_to = check_receipt_seals(self._reader, after=before)
        with self._findings.guard(schema.landscape_record_groups, "groups"):
            self._groups = check_groups_behind(self._reader, before)

    def _reproduce(self) -> None:
        try:
            for again in reproduce_range(self._view, self._kept.size + 1, self._log.chain.last):
                if again.difference is not None:
                    message = f"computed again it comes out otherwise: {again.difference}"
                    key = again.ec_sequence_number
                    self._findings.add(schema.kernel_event_log, key, "state_differs", message)
        except RulesVersionUnknown as error:
            key = self._log.chain.last
            self._findings.add(schema.kernel_event_log, key, "rules_unknown", str(error))

    def _check_records(self) -> None:
        """Compare what was written with what its newest effect left."""
        newest: dict[tuple[str, str], Row] = {}
        pages = self._reader.pages(
            schema.applied_effects, order_by="ec_sequence_number", after=self._kept.size
        )
        for effect in pages:
            if effect["store"] in schema.STORES:
                newest[effect["store"], effect["record_key"]] = effect
            if len(newest) >= RECORDS_AT_ONCE:
                self._compare(newest)
                newest = {}
        self._compare(newest)

    def _compare(self, newest: dict[tuple[str, str], Row]) -> None:
        for (store, key), effect in newest.items():
            table = schema.STORES[store]
            with self._findings.guard(table, key):
                stored = self._reader.get(table, key)
                if not self._is_as_left(store, stored, effect) and not self._is_written_later(
                    effect
                ):
                    sequence = effect["ec_sequence_number"]
                    message = f"it is not what row {sequence}, which wrote it last, left"
                    rule: Rule = "missing" if stored is None else "state_differs"
                    self._findings.add(table, key, rule, message)

    def _is_as_left(self, store: str, stored: Row | None, effect: Row) -> bool:
        left = bytes(effect["post_image_hash"])
        if stored is None or not left:
            return stored is None and not left
        if hashlib.sha256(stored["record"]).digest() != left:
            return False
        table = schema.STORES[store]
        record = _document(stored["record"])
        expected = columns_of(table, record, self._view)
        return all(stored[name] == value for name, value in expected.items())

    def _is_written_later(self, effect: Row) -> bool:
        where = {"store": effect["store"], "record_key": effect["record_key"]}
        after = effect["ec_sequence_number"]
        order_by = "ec_sequence_number"
        return bool(
            self._reader.scan(
                TableQuery(schema.applied_effects, where, order_by=order_by, after=after, limit=1)
            )
        )

    def result(self) -> Verification:
        log = self._log
        return Verification(
            rows=self._kept.size + log.chain.rows,
            receipts=self._receipts.last,
            receipts_sealed=self._sealed_to,
            receipts_not_under_the_tree=self._receipts.last - self._log.receipt_position,
            run_groups=self._groups.groups,
            run_groups_not_under_the_tree=self._groups.not_anchored,
            blobs=log.blobs,
            belief_sessions=0,
            belief_events=0,
            requests_open=0,
            requests_closed=0,
            head_hash=log.chain.tail_hash,
            authorities_equal=0,
            authorities_pending=0,
            tree_root=self._root.hex(),
            not_checked=NOT_CHECKED,
            findings=tuple(self._findings.entries),
        )


def _document(content: bytes) -> dict[str, object]:
    document: dict[str, object] = orjson.loads(content)
    return document
