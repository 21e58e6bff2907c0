"""The causes of operations: every one is on an earlier row of the log (§2.7).

A lite row repeats what a log of version 1.5 says, and what takes its place repeats it again: causes
that such a log does not have, or has later, are its own.
"""

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.lite import LITE_INTENT
from kernel.verify.reading import Document, Reader, shown

KNOWN_MAX = 16_384
"""Ids of the newest rows that are kept in memory; older ones are looked up."""

_LOG = schema.kernel_event_log


class Causality:
    """The causes of the rows of one walk along the log."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, None] = {}

    def check(self, sequence: int, document: Document) -> None:
        """Check the causes of the next row."""
        is_migrated = "supersedes" in document or document.get("semantic_intent") == LITE_INTENT
        parents = () if is_migrated else document.get("causal_parent_operation_ids", ())
        for parent in parents:
            if parent not in self._known and not self._stands_before(parent, sequence):
                message = f"is caused by {shown(parent)}, which is on no earlier row"
                self._reader.findings.add(_LOG, sequence, "link_broken", message)
                break
        self._known[document["operation_id"]] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def _stands_before(self, operation_id: object, sequence: int) -> bool:
        rows = self._reader.scan(TableQuery(_LOG, {"operation_id": operation_id}))
        return any(row["ec_sequence_number"] < sequence for row in rows)
