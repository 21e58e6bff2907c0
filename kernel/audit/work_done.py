"""Sums up the work that was done: by queue, by binding, and what came of it.

It counts whole tables, so it is for the end of a job and not for a page.
"""

from collections import Counter
from collections.abc import Iterator

import orjson
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.outbox import OPEN
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import PAGE_ROWS, TableQuery, rows_in_pages
from kernel.records.binding_pairs import UNFINISHED
from kernel.records.reviews.evidence import STORES


def work_counts(view: LedgerView) -> Document:
    """Return the counts; `deferred` are pairs that wait for a phase, or for a later cycle."""
    return {
        "queues": _queues(view),
        "bindings": _bindings(view),
        "evidence": {kind: _evidence(view, store.table) for kind, store in STORES.items()},
        "extractions": _extractions(view),
    }


def _queues(view: LedgerView) -> Document:
    queues: dict[str, dict[str, int]] = {}
    requests = TableQuery(schema.outbox, columns=("queue", "state"), grouped=True)
    for queue, state, count in view.tables.scan(requests):
        queues.setdefault(queue, {"done": 0, "open": 0})["open" if state == OPEN else "done"] += (
            count
        )
    return dict(sorted(queues.items()))


def _bindings(view: LedgerView) -> Document:
    bindings: dict[str, Counter[str]] = {}
    pairs = TableQuery(schema.binding_pairs, columns=("binding_id", "state"), grouped=True)
    for binding_id, state, count in sorted(view.tables.scan(pairs)):
        counted = bindings.setdefault(binding_id, Counter())
        counted["deferred" if state in UNFINISHED else state] += count
    return {binding_id: dict(counted) for binding_id, counted in bindings.items()}


def _evidence(view: LedgerView, table: Table) -> Document:
    return dict(
        Counter(
            str(record["payload"].get("lifecycle_state"))
            for record in _records(view, table)
            if record["state"] == "active"
        )
    )


def _extractions(view: LedgerView) -> Document:
    newest: dict[str, tuple[int, str, int]] = {}
    for step in _records(view, schema.extraction_attempts):
        claims = step.get("claim_refs")
        count = len(claims) if isinstance(claims, list) else 0
        stands = (step["attempt_number"], str(step["current_state"]), count)
        run_id = step["extraction_run_id"]
        newest[run_id] = max(newest.get(run_id, stands), stands)
    return {
        "runs": dict(Counter(state for _, state, _ in newest.values())),
        "claims": sum(claims for _, _, claims in newest.values()),
    }


def _records(view: LedgerView, table: Table) -> Iterator[Document]:
    (column,) = key_names(table)
    for row in rows_in_pages(view.tables, TableQuery(table, order_by=column, limit=PAGE_ROWS)):
        yield orjson.loads(row["record"])
