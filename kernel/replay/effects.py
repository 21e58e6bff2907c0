"""The recorded effects of consecutive operations, read in bulk."""

from collections import defaultdict
from typing import Any

from kernel.ledger import schema
from kernel.ledger.applied_effects import STATED, effect_in
from kernel.ledger.ledger import Document
from kernel.ledger.store.tables import TableQuery, TablesView
from kernel.values.errors import LedgerCorrupt

PAGE_ROWS = 2000

_COLUMNS = ("ec_sequence_number", "ordinal", *STATED)


class RecordedEffects:
    """Applied effects as they are recorded, asked for in ascending sequence."""

    def __init__(self, tables: TablesView, first_sequence: int) -> None:
        self._tables = tables
        self._after = first_sequence - 1
        self._read: dict[int, list[list[Any]]] = {}
        self._ended = False

    def of(self, sequence: int) -> list[Document]:
        """Return the effects of an operation in their order; forgets those before it.

        Raises:
            AttributeError: when a hash is not stored as bytes.
        """
        while not self._ended and sequence > self._after:
            self._next_page()
        contents = self._read.pop(sequence, [])
        if len(contents) > 1:
            contents.sort()
        return [effect_in(values) for _, *values in contents]

    def _next_page(self) -> None:
        query = TableQuery(
            schema.applied_effects,
            columns=_COLUMNS,
            order_by="ec_sequence_number",
            after=self._after,
            limit=PAGE_ROWS,
        )
        rows = self._tables.scan(query)
        self._ended = len(rows) < PAGE_ROWS
        self._read = defaultdict(list)
        for sequence, *effect in rows:
            self._read[sequence].append(effect)
        if self._ended:
            return
        # The last operation may go on behind the page.
        last = rows[-1][0]
        if len(self._read) == 1:
            raise LedgerCorrupt(f"row {last} has more effects than an operation may have")
        del self._read[last]
        self._after = last - 1
