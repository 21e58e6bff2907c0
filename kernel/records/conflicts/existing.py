"""Finds what was written inside the window and unseen by an envelope's author (K10).

An author who names the operation that wrote a record last has seen the record as that operation
left it, so everything that was written into it before is seen as well. A record's writers are
walked from the newest until one that was seen, or one before the window.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.tables import TableQuery
from kernel.records.comparison import Comparison
from kernel.records.conflicts.writes import Write, write_of_record

WRITERS_MAX = 64
"""Writers of one record that are walked; behind them, every field counts as written."""

SAME_ENTITY_MAX = 64
"""Records of one entity that are compared."""


@dataclass(slots=True)
class ExistingState:
    """A record with what was written into it unseen."""

    table: Table
    comparison: Comparison
    record_key: str
    record: Document
    operation_ids: list[str] = field(default_factory=list)
    """The unseen writers, newest first."""

    fields: Document = field(default_factory=dict)
    """What they wrote; of a field that several wrote, the newest value."""

    written_by: dict[str, str] = field(default_factory=dict)
    """The newest unseen writer of each field."""

    whole: bool = False
    """Whether the record was created or stated anew unseen, so that its fields are the whole
    entity."""

    @property
    def node_kind(self) -> str | None:
        """The kind of a node; no other record has one."""
        return self.record.get("node_kind")

    @property
    def payload(self) -> Document:
        """The fields as they stand."""
        return self.comparison.standing(self.record)

    def note(self, operation_id: str, fields: Document) -> None:
        """Add what an earlier writer wrote, where no later one wrote the same."""
        for name, value in fields.items():
            if name not in self.fields:
                self.fields[name], self.written_by[name] = value, operation_id


def existing_states(
    view: LedgerView, write: Write, seen_operation_ids: AbstractSet[str], since: str
) -> list[ExistingState]:
    """Return the states that a write had not seen: of its record, and of the same entity.

    `since` is the time after which a commit is concurrent.
    """
    record = view.record(write.table, write.record_key)
    states = []
    if record is not None and not write.has_seen(record):
        states.append(_unseen(view, write, record, seen_operation_ids, since))
    same = write.comparison.same_thing
    name = None if same is None else same.named_by(write.fields)
    if same is None or not isinstance(name, str):
        return [state for state in states if state is not None]
    node_kind = write.node_kind if record is None else record.get("node_kind")
    query = TableQuery(
        write.table,
        {same.column: name},
        order_by="updated_at",
        after=since,
        limit=SAME_ENTITY_MAX,
    )
    rows = view.tables.scan(query)
    (key_name,) = key_names(write.table)
    for row in rows:
        other_record = orjson.loads(row["record"])
        of_kind = other_record.get("node_kind") == node_kind and other_record["state"] == "active"
        if of_kind and row[key_name] != write.record_key:
            states.append(_unseen(view, write, other_record, seen_operation_ids, since))
    return [state for state in states if state is not None]


def _unseen(
    view: LedgerView,
    write: Write,
    record: Document,
    seen_operation_ids: AbstractSet[str],
    since: str,
) -> ExistingState | None:
    if record["updated_at"] <= since or record["updated_by_operation_id"] in seen_operation_ids:
        return None
    table = write.table
    (key_name,) = key_names(table)
    key = record.get(key_name, write.record_key)
    state = ExistingState(table, write.comparison, key, record)
    query = TableQuery(
        schema.applied_effects,
        {"store": table.name, "record_key": key},
        order_by="ec_sequence_number",
        descending=True,
        limit=WRITERS_MAX,
    )
    rows = view.tables.scan(query)
    for row in rows:
        if not _add_writer(view, state, row, seen_operation_ids, since):
            break
    else:
        if len(rows) == WRITERS_MAX:
            state.note(state.operation_ids[-1], state.payload)
    return state if state.operation_ids else None


def _add_writer(
    view: LedgerView,
    state: ExistingState,
    effect: Any,
    seen_operation_ids: AbstractSet[str],
    since: str,
) -> bool:
    """Add the writer of an effect; False where it was seen or is before the window."""
    row = view.tables.get(schema.kernel_event_log, effect["ec_sequence_number"])
    if row is None or row["committed_at"] <= since or row["operation_id"] in seen_operation_ids:
        return False
    if not effect["pre_image_hash"]:
        state.whole = True
    operation_id = row["operation_id"]
    if operation_id in state.operation_ids:
        return True
    state.operation_ids.append(operation_id)
    content = view.blob(row["envelope_payload_blob_ref"])
    # Of an envelope that was erased, every field counts as written.
    if content is None:
        state.note(operation_id, state.payload)
        return True
    write = write_of_record(orjson.loads(content), state.table, state.record_key)
    if write is not None:
        state.whole |= write.is_whole
        state.note(operation_id, write.fields)
    return True
