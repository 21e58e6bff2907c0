"""Derives the columns beside a record, each derived from the record, so that it can be looked up.

A record that is written and one that is put back as it was get the same columns by the same rule.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import Table

from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.storage import Derive
from kernel.records.overlays.overlay import overlay_of


def columns_of(table: Table, record: Document, view: LedgerView) -> dict[str, Any]:
    """Return every column of a record's row but its key and its bytes."""
    derived = {name: derive(record) for name, derive in _derived_columns(table)}
    of_others = _OF_OTHERS.get(table.name)
    return derived if of_others is None else derived | of_others(record, view)


@cache
def _derived_columns(table: Table) -> tuple[tuple[str, Derive], ...]:
    """Return the columns that follow from the record alone, as the schema declares them."""
    columns = ((str(column.name), column.info.get("of_record")) for column in table.columns)
    return tuple((name, derive) for name, derive in columns if derive is not None)


def _node(record: Document, _: LedgerView) -> dict[str, Any]:
    # V9 lets no overlay pass that cannot be read.
    overlay = overlay_of(record)
    return {
        "overlay_in_force": int(overlay is not None),
        "overlay_target": None if overlay is None else overlay.target.target_ref,
    }


def _edge(record: Document, view: LedgerView) -> dict[str, Any]:
    source = view.node(record["source_node_id"])
    feeds = record["state"] == "active" and "essentiality" in record["edge_metadata"]
    return {"input_from": source["node_kind"] if feeds and source is not None else None}


_OF_OTHERS: Mapping[str, Callable[[Document, LedgerView], dict[str, Any]]] = MappingProxyType(
    {"nodes": _node, "edges": _edge}
)
"""Columns that need more than the record to be computed."""
