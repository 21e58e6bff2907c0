"""The columns beside a record, each derived from the record, so that it can be looked up.

A record that is written and one that is put back as it was get the same columns by the same rule.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Table

from kernel.ledger.ledger import Document, LedgerView
from kernel.overlays.overlay import overlay_of


def columns_of(table: Table, record: Document, view: LedgerView) -> dict[str, Any]:
    """Return every column of a record's row but its key and its bytes."""
    derive = _DERIVED.get(table.name)
    derived = {} if derive is None else derive(record, view)
    return {"updated_by_operation_id": record.get("updated_by_operation_id", ""), **derived}


def _node(record: Document, _: LedgerView) -> dict[str, Any]:
    # V9 lets no overlay pass that cannot be read.
    overlay = overlay_of(record)
    return {
        "node_kind": record["node_kind"],
        "identity_key": record["payload"].get("identity_key"),
        "updated_at": record["updated_at"],
        "overlay_in_force": int(overlay is not None),
        "overlay_target": None if overlay is None else overlay.target.target_ref,
    }


def _membership(record: Document, _: LedgerView) -> dict[str, Any]:
    return {"node_id": record["node_id"]}


def _edge(record: Document, view: LedgerView) -> dict[str, Any]:
    source = view.node(record["source_node_id"])
    feeds = record["state"] == "active" and "essentiality" in record["edge_metadata"]
    return {
        "source_node_id": record["source_node_id"],
        "target_node_id": record["target_node_id"],
        "input_from": source["node_kind"] if feeds and source is not None else None,
    }


def _policy(record: Document, _: LedgerView) -> dict[str, Any]:
    return {
        "generation": record["generation"],
        "in_force": int(record["state"] == "effective"),
    }


def _binding(record: Document, _: LedgerView) -> dict[str, Any]:
    return {
        "binding_id": record["binding_id"],
        "generation": int(record["binding_generation_id"]),
        "in_force": int(record["state"] == "effective"),
    }


def _extraction(record: Document, _: LedgerView) -> dict[str, Any]:
    names = ("extraction_run_id", "attempt_number")
    return {name: record[name] for name in names}


def _share_link(record: Document, _: LedgerView) -> dict[str, Any]:
    return {"token_sha256": record.get("token_sha256")}


def _model_output(record: Document, _: LedgerView) -> dict[str, Any]:
    return {"output_payload_blob_ref": record["output_payload_blob_ref"]}


_DERIVED: Mapping[str, Callable[[Document, LedgerView], dict[str, Any]]] = MappingProxyType(
    {
        "nodes": _node,
        "corpus_membership_records": _membership,
        "edges": _edge,
        "policy_snapshots": _policy,
        "binding_generation_snapshots": _binding,
        "extraction_attempts": _extraction,
        "share_links": _share_link,
        "recorded_model_outputs": _model_output,
    }
)
