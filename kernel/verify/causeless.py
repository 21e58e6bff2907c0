"""Finds what is on record without an operation that caused it.

Requests, pauses, registered queues, grants and keys, pages of routing, segments of the archive.

Each has a durable receipt of its own, which lies in the chain between the two rows between which it
happened. So the outbox, its outcomes, the pauses and the pairs are a fold as well, and a row of
theirs that neither an operation nor one of these receipts gives is found by comparing.
"""

import heapq
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.outbox import DEAD_LETTER, SETTLED, end_request
from kernel.records.access.records import (
    ACCESS_WRITES,
    GRANTED,
    KEY_CREATED,
    KEY_REVOKED,
    WITHDRAWN,
    grant_in,
    grant_key,
)
from kernel.retention.log_archival import SEGMENT_WRITES
from kernel.retention.thought_records import THOUGHT_SEGMENT_WRITES
from kernel.transaction.apply import Rules
from kernel.transaction.rules import rules_of
from kernel.verify.reading import Reader, load_object, printable, time_us
from kernel.work.receipts import (
    BULK_ADVANCED,
    BULK_BEGUN,
    CLOSED,
    DISMISSED,
    PAUSED,
    REGISTERED,
    REQUESTED,
    RESUMED,
    ROUTED,
    WRITES,
    pause_key,
)

GIVEN_UP = "authority_recompute_dead_lettered"

_ARCHIVED = (*SEGMENT_WRITES, *THOUGHT_SEGMENT_WRITES)

ReceiptEntry = tuple[int, Document]
"""A receipt's place in the chain, and what it says."""


Step = Callable[[], AbstractContextManager[LedgerTransaction]]
"""Opens the next step of the fold."""


class Causeless:
    """The receipts of no operation, in the order of their chain, written into a ledger."""

    def __init__(self, reader: Reader, step: Step, *, after: int | None = None) -> None:
        self._reader = reader
        self._after = after
        self._step = step
        self._entries = heapq.merge(
            *(self._receipts(kind) for kind in (GIVEN_UP, *WRITES, *ACCESS_WRITES, *_ARCHIVED)),
            key=lambda entry: entry[0],
        )
        self._next = next(self._entries, None)

    def write_until(self, position: int | None) -> None:
        """Write what the receipts up to a place of the chain say; without one, all of them."""
        while self._next is not None:
            place, document = self._next
            if position is not None and place > position:
                return
            with self._reader.findings.guard(schema.receipts, place):
                self._write(place, document)
            self._next = next(self._entries, None)

    def _receipts(self, kind: str) -> Iterator[ReceiptEntry]:
        for row in self._reader.pages(schema.receipts, {"receipt_kind": kind}, after=self._after):
            document = load_object(row["receipt_bytes"])
            # An operation may emit a receipt of any kind; only those without one write here.
            if document is not None and row["operation_id"] is None:
                yield row["receipt_sequence"], document

    def _write(self, place: int, document: Document) -> None:
        kind = document["receipt_kind"]
        emitted_us = time_us(document.get("emitted_at"))
        if emitted_us is None:
            self._differs(place, "it does not say when")
            return
        rules = rules_of(document.get("rules_version"))
        if rules is None:
            # The walk along the chain reports it.
            return
        with self._step() as transaction, transaction.savepoint():
            # The ledger's head does not move here, and what was known of requests changes.
            transaction.stand_at(transaction.head_now)
            transaction.head_now.committed_at_us = emitted_us
            if kind in _ARCHIVED:
                rules.receipt_writes[kind](transaction, document)
                return
            check = _CHECKED.get(kind)
            if check is not None:
                check(self, transaction, place, document, rules)
                return
            request = transaction.tables.get(schema.outbox, str(document.get("request_id")))
            if request is None or not request["open"]:
                message = f"closes request {printable(document.get('request_id'))}, not open then"
                self._differs(place, message)
            elif kind == GIVEN_UP:
                self._give_up(transaction, document)
                if document.get("target_cu_id") != request["item_key"]:
                    message = f"gives up {printable(request['item_key'])} under another name"
                    self._differs(place, message)
            else:
                rules.receipt_writes[kind](transaction, document)
                if kind == CLOSED and document["queue"] != request["queue"]:
                    self._differs(place, f"closes a request of {printable(request['queue'])}")

    def _ask(
        self, transaction: LedgerTransaction, place: int, document: Document, rules: Rules
    ) -> None:
        if transaction.tables.get(schema.outbox, document["request_id"]) is not None:
            self._differs(place, f"asks again for {printable(document['request_id'])}")
            return
        rules.receipt_writes[REQUESTED](transaction, document)

    def _switch(
        self, transaction: LedgerTransaction, place: int, document: Document, rules: Rules
    ) -> None:
        kind, key = document["receipt_kind"], pause_key(document)
        stood = transaction.tables.get(schema.queue_pauses, key) is not None
        if stood == (kind == PAUSED):
            self._differs(place, f"{printable(key)} was {'' if stood else 'not '}paused then")
        rules.receipt_writes[kind](transaction, document)

    def _route(
        self, transaction: LedgerTransaction, place: int, document: Document, rules: Rules
    ) -> None:
        mark = transaction.tables.get(schema.routing_marks, str(document.get("mark_id")))
        if mark is None or mark["routed_to"] != document.get("routed_from"):
            self._differs(
                place, f"goes on from {printable(document.get('mark_id'))}, not there then"
            )
        rules.receipt_writes[ROUTED](transaction, document)

    def _register(
        self, transaction: LedgerTransaction, place: int, document: Document, rules: Rules
    ) -> None:
        replaced = document.get("replaces")
        if replaced is not None and (
            transaction.tables.get(schema.queue_registrations, str(replaced)) is None
        ):
            self._differs(place, f"replaces {printable(replaced)}, not registered then")
        rules.receipt_writes[REGISTERED](transaction, document)

    def _change_access(
        self, transaction: LedgerTransaction, place: int, document: Document, rules: Rules
    ) -> None:
        kind = document["receipt_kind"]
        if kind in (KEY_CREATED, KEY_REVOKED):
            table, key = schema.access_keys, document["key_id"]
        else:
            table = schema.access_grants
            key = grant_key(grant_in(document))
        row = transaction.tables.get(table, key)
        # A grant with another clearance takes the place of the one that stood.
        stood = row is not None and (kind != GRANTED or grant_in(row) == grant_in(document))
        if stood != (kind in (WITHDRAWN, KEY_REVOKED)):
            self._differs(place, f"{printable(key)} {'stood' if stood else 'did not stand'} then")
        rules.receipt_writes[kind](transaction, document)

    def _bulk(
        self, transaction: LedgerTransaction, place: int, document: Document, rules: Rules
    ) -> None:
        kind, number = document["receipt_kind"], document["bulk_number"]
        is_there = transaction.tables.get(schema.bulk_operations, number) is not None
        if is_there == (kind == BULK_BEGUN):
            self._differs(place, f"{printable(number)} was {'' if is_there else 'not '}begun then")
        rules.receipt_writes[kind](transaction, document)

    def _dismiss(
        self, transaction: LedgerTransaction, place: int, document: Document, rules: Rules
    ) -> None:
        request = transaction.tables.get(schema.outbox, document["request_id"])
        if request is None or request["state"] not in (DEAD_LETTER, SETTLED):
            self._differs(
                place, f"dismisses {printable(document['request_id'])}, no dead letter then"
            )
        rules.receipt_writes[DISMISSED](transaction, document)

    def _give_up(self, transaction: LedgerTransaction, document: Document) -> None:
        request_id = document["request_id"]
        end_request(
            transaction.tables,
            request_id,
            error_signature=document["error_signature"],
            outcome="dead_letter",
            operation_id=None,
            closed_sequence=transaction.head_now.ec_sequence_number,
            closed_at_us=transaction.head_now.committed_at_us,
        )

    def _differs(self, place: int, message: str) -> None:
        self._reader.findings.add(schema.receipts, place, "state_differs", message)


_CHECKED = {
    REQUESTED: Causeless._ask,  # noqa: SLF001 - our own
    BULK_BEGUN: Causeless._bulk,  # noqa: SLF001 - likewise
    BULK_ADVANCED: Causeless._bulk,  # noqa: SLF001 - likewise
    DISMISSED: Causeless._dismiss,  # noqa: SLF001 - likewise
    PAUSED: Causeless._switch,  # noqa: SLF001 - likewise
    RESUMED: Causeless._switch,  # noqa: SLF001 - likewise
    ROUTED: Causeless._route,  # noqa: SLF001 - likewise
    REGISTERED: Causeless._register,  # noqa: SLF001 - likewise
    **dict.fromkeys(ACCESS_WRITES, Causeless._change_access),  # noqa: SLF001 - likewise
}
"""What looks at the state before such a receipt is written, by its kind."""
