"""What was written inside the window and had not been seen by an envelope's author (K10).

An author who names the operation that wrote a record last has seen the record as that operation
left it, so everything that was written into it before is seen as well. A record's writers are
walked from the newest until one that was seen, or one before the window.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Table

from kernel.conflicts.writes import Write, fields_written
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView

WRITERS_MAX = 64
"""Writers of one record that are walked; behind them, every field counts as written."""

SAME_ENTITY_MAX = 64
"""Records of one entity that are compared."""


@dataclass(slots=True)
class ExistingState:
    """A record with what was written into it unseen."""

    table: Table
    record_key: str
    record: Document
    operation_ids: list[str] = field(default_factory=list)
    """The unseen writers, newest first."""

    fields: Document = field(default_factory=dict)
    """What they wrote; of a field that several wrote, the newest value."""

    written_by: dict[str, str] = field(default_factory=dict)
    """By field, the newest unseen writer of it."""

    whole: bool = False
    """Whether the record was created unseen, so that its fields are the whole entity."""

    @property
    def node_kind(self) -> str | None:
        """The kind of a node; no other record has one."""
        return self.record.get("node_kind")

    @property
    def payload(self) -> Document:
        """The fields as they stand."""
        if self.table is not schema.edges:
            return dict(self.record["payload"])
        ends = {name: self.record[name] for name in ("source_node_id", "target_node_id")}
        return {**self.record["edge_metadata"], **ends, "edge_type": self.record["edge_type"]}

    def note(self, operation_id: str, fields: Document) -> None:
        """Add what an earlier writer wrote, where no later one wrote the same."""
        for name, value in fields.items():
            if name not in self.fields:
                self.fields[name], self.written_by[name] = value, operation_id


def existing_states(
    view: LedgerView, write: Write, seen: AbstractSet[str], since: str
) -> list[ExistingState]:
    """Return the states that a write had not seen: of its record, and of the same entity.

    `since` is the time after which a commit is concurrent.
    """
    record = view.record(write.table, write.record_key)
    own = None if record is None else _unseen(view, write.table, record, seen, since)
    found = [] if own is None else [own]
    identity = write.fields.get("identity_key")
    if write.table is not schema.nodes or not isinstance(identity, str):
        return found
    node_kind = write.node_kind if record is None else record["node_kind"]
    rows = view.tables.select(
        schema.nodes,
        {"identity_key": identity},
        order_by="updated_at",
        after=since,
        limit=SAME_ENTITY_MAX,
    )
    for row in rows:
        if row["node_id"] == write.record_key or row["node_kind"] != node_kind:
            continue
        other = orjson.loads(row["record"])
        state = _unseen(view, schema.nodes, other, seen, since)
        if state is not None and other["state"] == "active":
            found.append(state)
    return found


def _unseen(
    view: LedgerView, table: Table, record: Document, seen: AbstractSet[str], since: str
) -> ExistingState | None:
    if record["updated_at"] <= since or record["updated_by_operation_id"] in seen:
        return None
    key = record[table.primary_key.columns[0].name]
    state = ExistingState(table, key, record)
    rows = view.tables.select(
        schema.applied_effects,
        {"store": table.name, "record_key": key},
        order_by="ec_sequence_number",
        descending=True,
        limit=WRITERS_MAX,
    )
    for row in rows:
        if not _add_writer(view, state, row, seen, since):
            break
    else:
        if len(rows) == WRITERS_MAX:
            state.note(state.operation_ids[-1], state.payload)
    return state if state.operation_ids else None


def _add_writer(
    view: LedgerView, state: ExistingState, effect: Any, seen: AbstractSet[str], since: str
) -> bool:
    """Add the writer of an effect; False where it was seen or is before the window."""
    row = view.tables.get(schema.kernel_event_log, effect["ec_sequence_number"])
    if row is None or row["committed_at"] <= since or row["operation_id"] in seen:
        return False
    if not orjson.loads(effect["effect_bytes"])["pre_image_hash"]:
        state.whole = True
    operation_id = row["operation_id"]
    if operation_id in state.operation_ids:
        return True
    state.operation_ids.append(operation_id)
    content = view.blob(row["envelope_payload_blob_ref"])
    # Of an envelope that was erased, every field counts as written.
    fields = (
        state.payload
        if content is None
        else fields_written(orjson.loads(content), state.table, state.record_key)
    )
    state.note(operation_id, fields)
    return True
