"""The recorded effects of consecutive operations, read in bulk."""

from kernel.errors import LedgerCorrupt
from kernel.ledger import schema
from kernel.ledger.tables import TablesView

PAGE_ROWS = 2000


class RecordedEffects:
    """The stored bytes of applied effects, asked for in ascending sequence."""

    def __init__(self, tables: TablesView, first_sequence: int) -> None:
        self._tables = tables
        self._after = first_sequence - 1
        self._read: dict[int, list[tuple[int, bytes]]] = {}
        self._ended = False

    def of(self, sequence: int) -> list[bytes]:
        """Return the effects of an operation in their order; forgets those before it."""
        while not self._ended and sequence > self._after:
            self._next_page()
        return [content for _, content in sorted(self._read.pop(sequence, ()))]

    def _next_page(self) -> None:
        rows = self._tables.select(
            schema.applied_effects,
            order_by="ec_sequence_number",
            after=self._after,
            limit=PAGE_ROWS,
        )
        self._ended = len(rows) < PAGE_ROWS
        self._read = {}
        for row in rows:
            place = self._read.setdefault(row["ec_sequence_number"], [])
            place.append((row["ordinal"], row["effect_bytes"]))
        if self._ended:
            return
        # The last operation may go on behind the page.
        last = rows[-1]["ec_sequence_number"]
        if len(self._read) == 1:
            raise LedgerCorrupt(f"row {last} has more effects than an operation may have")
        del self._read[last]
        self._after = last - 1
