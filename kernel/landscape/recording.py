"""Makes a record, gives it an id and a time, and hands it on: for every method of a recorder."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from kernel.landscape.canonical_types import typed_data
from kernel.landscape.payloads import payload_row
from kernel.landscape.record_group import GROUP_RECORDS, RecordGroup
from kernel.landscape.record_rules import KEYS, TABLES
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.tables import Row


class Recording:
    """Holds the group in which records wait, and makes them."""

    def __init__(self, ledger: Ledger, *, group_records: int = GROUP_RECORDS) -> None:
        """Record on a ledger, so many records in one transaction."""
        self.ledger = ledger
        self.group = RecordGroup(ledger, group_records)

    def flush(self) -> None:
        """Write what was recorded; when this returns, everything recorded before is durable.

        Raises:
            LandscapeRefused: something did not fit what the store holds; the rest was written.
            LedgerUnavailable: nothing was written, everything waits.
        """
        self.group.flush()

    def whole(self, run_id: str) -> AbstractContextManager[None]:
        """Write what a block records in one transaction, or, if the block raises, none of it.

        One thread records meanwhile; the records are durable after the next `flush`.
        """
        return self.group.whole(run_id)

    def record_of(self, run_id: str, name: str, **fields: Any) -> Row:
        """Record a record of a table under a new id, made now."""
        return self._record_of(run_id, name, self._new_id(), created_at_us=self._now_us(), **fields)

    def _record(self, name: str, record_id: str, **fields: Any) -> Row:
        return self._record_of(record_id, name, record_id, **fields)

    def _record_of(self, run_id: str, name: str, record_id: str, **fields: Any) -> Row:
        row = self._row(name, run_id, record_id, fields)
        self.group.add_record(TABLES[name], row)
        return row.copy()

    def _row(self, name: str, run_id: str, record_id: str, fields: Mapping[str, Any]) -> Row:
        empty, key = _empty(name)
        return {**empty, "run_id": run_id, key: record_id, **fields}

    def _change(self, name: str, run_id: str, record_id: str, **changes: Any) -> Row:
        return self.group.change(TABLES[name], run_id, record_id, changes)

    def _kept(self, run_id: str, content: bytes) -> str:
        payload = payload_row(run_id, content)
        self.group.add_payload(payload)
        return str(payload["content_hash"])

    def _json(self, value: Any) -> str | None:
        return None if value is None else typed_data(value).decode()

    def _new_id(self) -> str:
        return self.ledger.host.new_id()

    def _now_us(self) -> int:
        return self.ledger.host.now_us()


@cache
def _empty(name: str) -> tuple[Row, str]:
    return dict.fromkeys(column_names(TABLES[name])), KEYS[name]
