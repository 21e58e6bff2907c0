"""Reads a pipeline's own records, and what it does again because of them (seed 003).

Each question is answered behind all that this recorder has recorded before: that is written first.
A batch that failed is tried again as another batch with the same members, and a call that was
answered is answered from the record, so that nobody is called again (replay).
"""

from collections.abc import Callable
from typing import Any, TypeVar

from kernel.landscape.canonical_types import restored
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.listing import RecordPage, page_of
from kernel.landscape.payloads import read_payload
from kernel.landscape.record_group import RecordUnit
from kernel.landscape.record_rules import KEYS, TABLES, check_stored, key_text, part_key
from kernel.landscape.recording import Recording
from kernel.landscape.reports import newest_runs, run_of_id
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row

T = TypeVar("T")

RECORDS_READ_MAX = 1000
BATCHES_READ_MAX = 10_000
CALLS_ALIKE_MAX = 10_000

_INCOMPLETE = ("draft", "executing", "failed")


class RecordReading(Recording):
    """Reads a run's records, tries batches again, and finds the answers of calls."""

    def get_run(self, run_id: str) -> Row:
        """Return a run.

        Raises:
            LandscapeRefused: `landscape_unknown`.
        """
        return self._read(lambda view: run_of_id(view, run_id))

    def list_runs(self, *, status: str | None = None, limit: int = 50) -> list[Row]:
        """Return the newest runs, those of a status where one is named.

        Raises:
            LandscapeRefused: `landscape_unknown` of a status that no run has.
        """
        return self._read(lambda view: newest_runs(view, limit=limit, status=status))

    def get_record(self, run_id: str, name: str, record_id: str) -> Row:
        """Return a record of a table by its id.

        Raises:
            LandscapeRefused: `landscape_unknown`.
        """
        return self._read(lambda view: _stored(view, run_id, name, record_id))

    def get_records(
        self,
        /,
        run_id: str,
        name: str,
        *,
        after: str | int | None = None,
        limit: int = RECORDS_READ_MAX,
        **where: Any,
    ) -> RecordPage:
        """Return a page of the records of a table that equal `where`.

        Raises:
            LandscapeRefused: `landscape_unknown`.
        """
        return self._read(lambda view: page_of(view, run_id, name, where, after=after, limit=limit))

    def get_incomplete_batches(self, run_id: str) -> list[Row]:
        """Return the batches that are not completed, the oldest first; failed ones belong to them.

        Raises:
            LandscapeRefused: `landscape_unknown`.
        """

        def read(view: LedgerView) -> list[Row]:
            pages = (
                page_of(
                    view, run_id, "batches", {"status": status}, after=None, limit=BATCHES_READ_MAX
                )
                for status in _INCOMPLETE
            )
            batches = [batch for page in pages for batch in page.records]
            return sorted(batches, key=lambda batch: (batch["created_at_us"], batch["batch_id"]))

        return self._read(read)

    def retry_batch(self, run_id: str, batch_id: str) -> Row:
        """Record that a batch that failed is tried again: another one, with its members, as one.

        Its id names the first attempt and says which one it is, so of an attempt there is one.

        Raises:
            LandscapeRefused: `landscape_unknown`; `landscape_conflict` where it has not failed, or
                was tried again before (this one where that is written).
        """

        def read(view: LedgerView) -> tuple[Row, list[Row]]:
            batch = _stored(view, run_id, "batches", batch_id)
            where = {"run_id": run_id, "batch_id": batch_id}
            rows = view.tables.select(TABLES["batch_members"], where, order_by="ordinal")
            return batch, [check_stored(TABLES["batch_members"], row) for row in rows]

        batch, members = self._read(read)
        if batch["status"] != "failed":
            message = f"the batch {batch_id} is {batch['status']}; only one that failed is retried"
            raise LandscapeRefused(message)
        attempt, first = batch["attempt"], batch_id
        if batch_id.endswith(part_key("", attempt)):
            first = batch_id.removesuffix(part_key("", attempt))
        retry = self._row(
            "batches",
            run_id,
            part_key(first, attempt + 1),
            {
                "aggregation_node_id": batch["aggregation_node_id"],
                "attempt": attempt + 1,
                "status": "draft",
                "created_at_us": self._now_us(),
            },
        )
        unit = RecordUnit(run_id)
        unit.add(TABLES["batches"], retry)
        for member in members:
            key = part_key(retry["batch_id"], member["ordinal"])
            fields = {name: member[name] for name in ("token_id", "ordinal")}
            row = self._row("batch_members", run_id, key, fields | {"batch_id": retry["batch_id"]})
            unit.add(TABLES["batch_members"], row)
        self.group.add(unit)
        return dict(retry)

    def find_call_by_request_hash(
        self, run_id: str, call_type: str, request_hash: str, *, sequence_index: int = 0
    ) -> Row | None:
        """Return the so-manieth call of a run with a request, in the order of time, if there is."""

        def read(view: LedgerView) -> Row | None:
            where = {"run_id": run_id, "request_hash": request_hash, "call_type": call_type}
            rows = view.tables.select(TABLES["calls"], where, limit=CALLS_ALIKE_MAX)
            calls = [check_stored(TABLES["calls"], row) for row in rows]
            calls.sort(key=lambda row: (row["created_at_us"], row["call_id"]))
            return next(iter(calls[sequence_index : sequence_index + 1]), None)

        return self._read(read)

    def get_call_response_data(self, run_id: str, call_id: str) -> Any:
        """Return what a call was answered, from its payload.

        Raises:
            LandscapeRefused: `landscape_unknown`; `landscape_payload_gone` where the answer was
                never kept, or purged.
            RecordDamaged: the payload is not what the call says.
        """

        def read(view: LedgerView) -> Any:
            call = _stored(view, run_id, "calls", call_id)
            ref = call["response_ref"]
            content = None if ref is None else read_payload(view, run_id, ref)
            if content is None:
                message = f"the answer of the call {call_id} is not kept"
                raise LandscapeRefused(message, code="landscape_payload_gone")
            if ref != call["response_hash"]:
                key = key_text(TABLES["calls"], call)
                raise RecordDamaged("landscape_calls", key, "response_ref is another hash")
            return restored(content)

        return self._read(read)

    def _read(self, question: Callable[[LedgerView], T]) -> T:
        self.flush()
        return self.ledger.read(question)


def _stored(view: LedgerView, run_id: str, name: str, record_id: str) -> Row:
    row = view.tables.get(TABLES[name], run_id, record_id)
    if row is None:
        message = f"{name} of the run {run_id} have no {KEYS[name]} {record_id}"
        raise LandscapeRefused(message, code="landscape_unknown")
    return check_stored(TABLES[name], row)
