"""Lists the extractions that a worker performs now, and those whose source has changed under them.

A run has a row from its step to `running` until its next step. A write that gives its source
another text marks the row in its own transaction; whoever reads the marks cancels the run and asks
for one that begins anew (INV-EXT-6, decision kernel/0340). A run whose steps somebody else performs
names no request of its own, and has no row.
"""

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.records.operation_steps import AppliedOperation
from kernel.values.untrusted import text_of

MARKED_AT_ONCE = 1000
"""Runs that one write marks; the reports of further ones find the change (decision kernel/0340)."""


def follow_extractions(operation: AppliedOperation) -> None:
    """Write what an operation means for extractions that run, once all of it was applied."""
    befores = dict[str, str | None]()
    for write in operation.writes:
        if write.store == schema.extraction_attempts.name:
            step = operation.transaction.record(schema.extraction_attempts, write.record_key)
            if step is not None:
                _note_step(operation.transaction, step)
        elif write.store == schema.nodes.name:
            befores.setdefault(write.record_key, write.pre_image_hash)
    for node_id, before_hash in befores.items():
        if before_hash is not None and _has_other_text(operation.transaction, node_id, before_hash):
            _mark(operation.transaction, node_id)


def has_changed_source(view: LedgerView, run_id: str) -> bool:
    """Tell whether a run reads a source that was changed since it began to."""
    row = view.tables.get(schema.running_extractions, run_id)
    return row is not None and row["source_changed"] is not None


def runs_of_changed_sources(view: LedgerView, *, after: str, limit: int) -> list[str]:
    """Return runs that read a source which was changed since they began to, by their names."""
    query = TableQuery(
        schema.running_extractions,
        {"source_changed": 1},
        order_by="extraction_run_id",
        after=after,
        limit=limit,
    )
    rows = view.tables.scan(query)
    return [row["extraction_run_id"] for row in rows]


def _note_step(transaction: LedgerTransaction, step: Document) -> None:
    """Take a run in that begins to read, and out what does not any more."""
    run_id, tables = step["extraction_run_id"], transaction.tables
    source_ref = step.get("source_ref")
    is_performed = isinstance(source_ref, str) and isinstance(step.get("request_id"), str)
    if step["current_state"] == "running" and is_performed:
        row = {"extraction_run_id": run_id, "source_ref": source_ref, "source_changed": None}
        tables.put(schema.running_extractions, row)
    elif tables.get(schema.running_extractions, run_id) is not None:
        tables.delete(schema.running_extractions, run_id)


def _has_other_text(transaction: LedgerTransaction, node_id: str, before_hash: str) -> bool:
    node = transaction.node(node_id)
    content = None if node is None else node["payload"].get("content")
    if not isinstance(content, str):
        return False  # no text: what reads it finds that it is not there
    image = transaction.pre_image(before_hash)
    before = None if image is None else orjson.loads(image)["payload"].get("content")
    if before == content:
        return False
    return not isinstance(before, str) or text_of(before) != text_of(content)


def _mark(transaction: LedgerTransaction, source_ref: str) -> None:
    where = {"source_ref": source_ref}
    rows = transaction.tables.scan(
        TableQuery(schema.running_extractions, where, limit=MARKED_AT_ONCE)
    )
    for row in rows:
        key = (row["extraction_run_id"],)
        transaction.tables.update(schema.running_extractions, key, {"source_changed": 1})
