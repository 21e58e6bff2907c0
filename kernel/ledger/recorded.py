"""Tells what a transaction has put on the record to those who follow the record."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernel.ledger import schema
from kernel.ledger.ledger import Head, LedgerTransaction
from kernel.ledger.outbox import SETTLED
from kernel.ledger.store.buffer import BufferedTables


@dataclass(frozen=True, slots=True)
class Recorded:
    """The tables and queues of one transaction, or of several one after another."""

    head: Head
    """Where the chains stand afterwards."""

    tables: frozenset[str]
    """The names of the tables in which rows were written."""

    queues: frozenset[str]
    """The queues of which a request was recorded, changed or closed."""

    ended: Sequence[tuple[str, int]] = ()
    """The queue of each request that has ended, and the state in which the request is now."""

    @classmethod
    def of(cls, transaction: LedgerTransaction) -> "Recorded":
        """Return what a transaction has written so far."""
        tables = transaction.tables
        assert isinstance(tables, BufferedTables)  # noqa: S101 - as a ledger opens them
        names = frozenset([table.name for table in tables.pending_tables()])
        requests = tables.pending_rows(schema.outbox)
        queues = frozenset([row["queue"] for row in requests])
        if schema.outbox_outcomes.name not in names:
            return cls(transaction.head_now.copy(), names, queues)
        # Who gives a request up does not settle it.
        ended = [
            (row["queue"], row["state"])
            for row in requests
            if not row["open"] and row["state"] != SETTLED
        ]
        return cls(transaction.head_now.copy(), names, queues, ended)

    def then(self, later: "Recorded | None") -> "Recorded":
        """Return this and what was recorded after it as one."""
        if later is None:
            return self
        return Recorded(
            later.head,
            self.tables | later.tables,
            self.queues | later.queues,
            [*self.ended, *later.ended],
        )

    @property
    def operations(self) -> bool:
        """Whether operations were recorded."""
        return schema.kernel_event_log.name in self.tables

    @property
    def outcomes(self) -> bool:
        """Whether requests have ended."""
        return schema.outbox_outcomes.name in self.tables

    @property
    def routing_marks(self) -> bool:
        """Whether it was written down from where routing has to go on."""
        return schema.routing_marks.name in self.tables

    @property
    def bulk_operations(self) -> bool:
        """Whether bulk operations began or went on."""
        return schema.bulk_operations.name in self.tables

    @property
    def running_extractions(self) -> bool:
        """Whether extractions began or ended, or their sources were changed."""
        return schema.running_extractions.name in self.tables

    @property
    def access(self) -> bool:
        """Whether grants or keys changed."""
        return schema.access_keys.name in self.tables or schema.access_grants.name in self.tables

    @property
    def registrations(self) -> bool:
        """Whether workers have registered queues."""
        return schema.queue_registrations.name in self.tables
