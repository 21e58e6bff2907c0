"""What the record says of the requests that had to succeed."""

from collections import Counter, defaultdict

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from tests.fuzz.legal_request import LEGAL_PREFIX


def open_legal_work(ledger: Ledger) -> dict[str, list[str]]:
    """Return the legal requests that have no outcome yet, by queue."""
    by_queue = defaultdict(list)
    with ledger.view() as view:
        for row in view.tables.scan(TableQuery(schema.outbox, {"open": 1})):
            if LEGAL_PREFIX.encode() in row["request_bytes"]:
                by_queue[row["queue"]].append(row["request_id"])
    return dict(by_queue)


def outcomes_by_queue(ledger: Ledger) -> Counter[str]:
    """Return how many requests of each queue have their outcome."""
    with ledger.view() as view:
        return Counter(
            row["queue"] for row in view.tables.scan(TableQuery(schema.outbox, {"open": 0}))
        )


def dead_legal_work(ledger: Ledger) -> list[str]:
    """Return the legal requests that were given up."""
    with ledger.view() as view:
        dead = view.tables.scan(TableQuery(schema.outbox_outcomes, {"outcome": "dead_letter"}))
        requests = [view.tables.get(schema.outbox, row["request_id"]) for row in dead]
    return [
        row["request_id"]
        for row in requests
        if row is not None and LEGAL_PREFIX.encode() in row["request_bytes"]
    ]
