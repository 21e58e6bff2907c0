"""A snapshot for one walk over the record, which comes to the same things by several ways."""

from functools import lru_cache

from sqlalchemy import Table

from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import Row

READS_KEPT = 512
"""Of each kind of answer; what many steps lead to is soon asked for again."""


class ReadOnceView(LedgerView):
    """The same snapshot, which keeps what was read and decoded last; nobody may change it."""

    def __init__(self, view: LedgerView) -> None:
        super().__init__(view.tables, view.archive)
        self._records = lru_cache(READS_KEPT)(super().record)
        self._rows_of = lru_cache(READS_KEPT)(super().log_row_of)
        self._rows_at = lru_cache(READS_KEPT)(super().log_row_at)

    def record(self, table: Table, key: str) -> Document | None:
        """Return the newest record of a typed store."""
        return self._records(table, key)

    def log_row_of(self, operation_id: str) -> Row | None:
        """Return the log row of an operation; of one that was superseded, the superseding row."""
        return self._rows_of(operation_id)

    def log_row_at(self, ec_sequence_number: int) -> Row | None:
        """Return the log row with a sequence number."""
        return self._rows_at(ec_sequence_number)
