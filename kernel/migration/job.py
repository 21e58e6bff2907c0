"""Supersedes every lite row, or holds it until a reviewer has settled it (§2.8).

Rows are taken in sequence. An envelope that maps mechanically is submitted like every other. One
that does not, or is refused, gets a receipt `needs_migration_review` and is held, and the job goes
on. An operation waits while an earlier one is held that it names as a cause, or with which it
shares a record: it was written after that one, and is applied after that one is settled. So a
record that many operations name can let many wait. Capacity that is not there stops the job, and
holds nothing.

Everything that the job knows is on the record, so it goes on wherever it was killed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kernel.ledger import schema
from kernel.ledger.ledger import Document, Ledger, LedgerTransaction
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import Row, TableQuery
from kernel.ledger.supersession import lite_document
from kernel.migration.mapping import Unmapped, map_lite
from kernel.model.lite import LITE_INTENT
from kernel.model.receipt import MIGRATION_KIND, Receipt
from kernel.model.result import Rejection, SubmissionResult
from kernel.records.conflicts.adjudications import items_of, resolution_of
from kernel.transaction.kernel import Kernel

BATCH_ROWS = 256
"""Lite rows of one transaction."""

_MESSAGE_MAX = 1000
_CAPACITY_CHECK = "V11"

Progress = Callable[[int], None]
"""Told how many lite rows are done."""


@dataclass(slots=True)
class LogMigration:
    """Where the migration of a ledger stands."""

    migrated: int = 0
    """Superseded by this run."""

    superseded: int = 0
    """Superseded so far, by any run."""

    settled: int = 0
    """Held once, and settled by a reviewer's operation."""

    held: int = 0
    waiting: int = 0
    """Waiting for an earlier operation that is held."""

    left: int = 0
    """Operations that were not tried, because the job was stopped."""

    stopped_by: Rejection | None = None

    @property
    def complete(self) -> bool:
        """Whether every lite operation was superseded or settled (the completeness gate)."""
        return not (self.held or self.waiting or self.left)


def migrate(kernel: Kernel, ledger: Ledger, progress: Progress | None = None) -> LogMigration:
    """Supersede or hold every lite row; durable batch by batch, resumable by calling it again."""
    run = _Run(kernel)
    after = done = 0
    while True:
        with ledger.transaction() as transaction:
            query = TableQuery(
                schema.kernel_event_log,
                {"semantic_intent": LITE_INTENT},
                order_by="ec_sequence_number",
                after=after,
                limit=BATCH_ROWS,
            )
            rows = transaction.tables.scan(query)
            for row in rows:
                run.step(transaction, row)
        done += len(rows)
        if progress is not None:
            progress(done)
        if len(rows) < BATCH_ROWS:
            return run.migration
        after = rows[-1]["ec_sequence_number"]


@dataclass(slots=True)
class _Run:
    kernel: Kernel
    migration: LogMigration = field(default_factory=LogMigration)
    _kept_back: set[str] = field(default_factory=set)
    """Earlier operations that are neither superseded nor settled, and their records."""

    def step(self, transaction: LedgerTransaction, row: Row) -> None:
        """Supersede one lite row, hold it, or let it wait.

        Raises:
            RangeQuarantined: the row is quarantined.
        """
        transaction.quarantines().expect_none_over(row["ec_sequence_number"])
        operation_id, migration = row["operation_id"], self.migration
        newest = transaction.log_row_of(operation_id)
        if newest is not None and newest["supersedes_sequence"]:
            migration.superseded += 1
            return
        items = items_of(transaction, operation_id, MIGRATION_KIND)
        if any(resolution_of(transaction, item["receipt_id"]) is not None for item in items):
            migration.settled += 1
            return
        lite = lite_document(transaction, row)
        if items:
            migration.held += 1
        elif migration.stopped_by is not None:
            migration.left += 1
        elif self._waits(lite):
            migration.waiting += 1
        elif self._supersede(transaction, row, lite):
            migration.migrated += 1
            migration.superseded += 1
            return
        self._kept_back.update([_operation(operation_id), *_records(lite)])

    def _waits(self, lite: Document) -> bool:
        parents = [
            _operation(parent_id) for parent_id in lite.get("causal_parent_operation_ids") or ()
        ]
        return not self._kept_back.isdisjoint([*parents, *_records(lite)])

    def _supersede(self, transaction: LedgerTransaction, row: Row, lite: Document) -> bool:
        """Submit what the row maps to; where that fails, hold the row or stop the job."""
        mapped = map_lite(transaction, lite, row["ec_sequence_number"])
        if isinstance(mapped, Unmapped):
            transaction.next_commit_time_us()
            self._hold(transaction, row, mapped, {})
            return False
        result = self.kernel.submit(transaction, mapped, "orchestrator")
        if isinstance(result, SubmissionResult):
            return True
        refused = result.rejection
        if refused.check == _CAPACITY_CHECK:
            self.migration.stopped_by = refused
            self.migration.left += 1
            return False
        unmapped = Unmapped(refused.reason_code, refused.field, refused.message)
        self._hold(transaction, row, unmapped, {"rejection_receipt_id": result.receipt_id})
        return False

    def _hold(
        self, transaction: LedgerTransaction, row: Row, unmapped: Unmapped, details: Document
    ) -> None:
        body = {
            "ec_sequence_number": str(row["ec_sequence_number"]),
            "reason_code": unmapped.reason_code,
            "field": unmapped.field,
            "message": unmapped.message[:_MESSAGE_MAX],
            "missing_fields": list(unmapped.missing_fields),
            **details,
        }
        receipt_id = f"receipt:{transaction.host.new_id()}"
        append_receipt(transaction, receipt_id, Receipt(MIGRATION_KIND, body), row["operation_id"])
        self.migration.held += 1


def _operation(operation_id: str) -> str:
    return f"operation|{operation_id}"


def _records(lite: Document) -> Iterator[str]:
    """Yield the records that an operation says it touches."""
    for name in ("target_refs", "read_set_refs", "write_set_refs"):
        yield from lite.get(name) or ()
    for effect in lite.get("primitive_effects") or ():
        payload = effect.get("payload")
        known = payload if isinstance(payload, dict) else {}
        ends = (known.get(name) for name in ("source_node_id", "target_node_id"))
        yield from (ref for ref in (effect.get("target_ref"), *ends) if isinstance(ref, str))
