"""Lists what a run has on record and has not done, for whoever goes on with it."""

from collections.abc import Iterator

from kernel.landscape.canonical_types import Canonical, is_hash_of
from kernel.landscape.digest import records_of
from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.payloads import read_payload
from kernel.landscape.record_rules import TABLES, check_stored, key_text
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery


def source_rows(view: LedgerView, run_id: str) -> Iterator[Row]:
    """Yield the rows of a run in the order of ids."""
    for row in records_of(view.tables, run_id, "rows"):
        yield check_stored(TABLES["rows"], row)


def count_failed_tokens(view: LedgerView, run_id: str) -> int:
    """Return how many tokens of a run ended as failed, or as quarantined in no sink."""
    ends = ({"outcome": "failed"}, {"outcome": "quarantined", "sink_name": None})
    of_run = {"run_id": run_id}
    return sum(
        view.tables.count(TableQuery(TABLES["token_outcomes"], of_run | end)) for end in ends
    )


def load_without_rows(view: LedgerView, run_id: str, node_id: str) -> Row | None:
    """Return the operation by which a source loads the rows of a run, None where it has some."""
    if view.tables.scan(TableQuery(TABLES["rows"], {"run_id": run_id}, limit=1)):
        return None
    where = {"run_id": run_id, "node_id": node_id, "operation_type": "source_load"}
    loads = view.tables.scan(TableQuery(TABLES["operations"], where, limit=1))
    return check_stored(TABLES["operations"], loads[0]) if loads else None


def rows_behind(view: LedgerView, run_id: str, row_id: str | None) -> list[tuple[Row, Canonical]]:
    """Return the rows of a run behind an id, in the order of ids, with their data.

    Raises:
        LandscapeRefused: `landscape_payload_gone`.
        RecordDamaged: the data of a row is not what its hash says.
    """
    rows = view.tables.scan(TableQuery(TABLES["rows"], {"run_id": run_id}, after=row_id))
    return [(row, referenced_payload(view, "rows", row, "source_data")) for row in rows]


def members_of(view: LedgerView, run_id: str, batch_id: str) -> list[Row]:
    """Return the tokens of a batch, in their order in it."""
    where = {"run_id": run_id, "batch_id": batch_id}
    members = view.tables.scan(TableQuery(TABLES["batch_members"], where, order_by="ordinal"))
    for member in members:
        check_stored(TABLES["batch_members"], member)
    return [record(view, "tokens", run_id, member["token_id"]) for member in members]


def open_operations(view: LedgerView, run_id: str, node_id: str) -> list[tuple[Row, Canonical]]:
    """Return the operations of a node that are open, with what they began with.

    Raises:
        LandscapeRefused: `landscape_payload_gone`.
    """
    where = {"run_id": run_id, "node_id": node_id, "status": "open"}
    rows = view.tables.scan(TableQuery(TABLES["operations"], where))
    return [(row, referenced_payload(view, "operations", row, "input_data")) for row in rows]


def state_input(view: LedgerView, run_id: str, state_id: str) -> Canonical:
    """Return the data with which a state began.

    Raises:
        LandscapeRefused: `landscape_payload_gone`.
        RecordDamaged: it is not what the state's hash says.
    """
    state = record(view, "node_states", run_id, state_id)
    return referenced_payload(view, "node_states", state, "input")


def edge_ids(view: LedgerView, run_id: str) -> dict[tuple[str, str], str]:
    """Return the ids of the edges of a run by the node from which they lead and their label."""
    rows = view.tables.scan(TableQuery(TABLES["edges"], {"run_id": run_id}))
    edges = [check_stored(TABLES["edges"], row) for row in rows]
    return {(edge["from_node_id"], edge["label"]): edge["edge_id"] for edge in edges}


def record(view: LedgerView, name: str, run_id: str, record_id: str) -> Row:
    """Return a record that another one names.

    Raises:
        RecordDamaged: it is not there, or breaks a rule.
    """
    row = view.tables.get(TABLES[name], run_id, record_id)
    if row is None:
        rule = f"another record names it, and it is not in landscape_{name}"
        raise RecordDamaged(f"landscape_{name}", f"{run_id}/{record_id}", rule)
    return check_stored(TABLES[name], row)


def referenced_payload(view: LedgerView, name: str, row: Row, column: str) -> Canonical:
    """Return the payload that a record names in a column `..._ref`.

    Raises:
        LandscapeRefused: `landscape_payload_gone` where it was never kept, or purged.
        RecordDamaged: it is not what the record's own hash says, where the table has one.
    """
    check_stored(TABLES[name], row)
    ref, recorded = row[f"{column}_ref"], row.get(f"{column}_hash")
    content = None if ref is None else read_payload(view, row["run_id"], ref)
    key = key_text(TABLES[name], row)
    if content is None:
        raise LandscapeRefused(f"the data of {key} is not kept", code="landscape_payload_gone")
    if recorded is not None and not is_hash_of(content, recorded):
        rule = f"{column}_hash is not that of the payload"
        raise RecordDamaged(f"landscape_{name}", key, rule)
    return Canonical(content)
