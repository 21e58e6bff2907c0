"""Records of runs as JSON, in pages, and the contract of a run's data (seed 003).

Shown as in `workers.views.landscape`. Every function raises `LandscapeRefused`
(`landscape_unknown`) of what is not there, and `RecordDamaged` of a record that breaks its rules.
"""

from typing import Any

from typing_extensions import TypedDict

from kernel.landscape import contracts, listing
from kernel.landscape.reports import run_of_id
from kernel.landscape.runtime.views import run_view
from kernel.records.access.readable_view import ReadableView
from workers.views.landscape import Document, show_object, show_value


class RecordsDocument(TypedDict):
    """A page of records of a run; `next_after` is None after the last."""

    records: list[dict[str, Any]]
    next_after: str | int | None


def run_record(view: ReadableView, run_id: str) -> Document:
    """Return a run as it is recorded, with its configuration."""
    return show_object(run_of_id(run_view(view, run_id), run_id))


def run_records(
    view: ReadableView,
    run_id: str,
    name: str,
    *,
    after: str | int | None = None,
    limit: int = 100,
    **where: Any,
) -> RecordsDocument:
    """Return a page of a run's records of a table; of `where` what is None bounds nothing."""
    page = listing.page_of(run_view(view, run_id), run_id, name, where, after=after, limit=limit)
    return {"records": show_value(page.records), "next_after": page.next_after}


def calls_of(
    view: ReadableView,
    parents: str,
    parent_id: str,
    *,
    run_id: str | None = None,
    after: int | None = None,
    limit: int = 100,
) -> RecordsDocument:
    """Return a page of the calls of a state or an operation, whose table is `parents`."""
    view = run_view(view, run_id)
    page = listing.calls_of(view, parents, parent_id, run_id=run_id, after=after, limit=limit)
    return {"records": show_value(page.records), "next_after": page.next_after}


def run_contract(view: ReadableView, run_id: str) -> Document:
    """Return what a run's source and nodes say that its data is."""
    view = run_view(view, run_id)
    run = run_of_id(view, run_id)
    of_run = ("run_id", "source_schema_json", "source_field_resolution_json")
    of_node = ("node_id", "plugin_name", "node_type", "schema_hash", "schema_json")
    nodes = [
        {name: node[name] for name in of_node} for node in contracts.nodes_with_schema(view, run_id)
    ]
    return show_object({name: run[name] for name in of_run} | {"nodes": nodes})


def explain_field(view: ReadableView, run_id: str, field_name: str) -> Document:
    """Return by which name a field was read, what it was renamed to, and which schemas name it."""
    field = contracts.field_declarations(run_view(view, run_id), run_id, field_name)
    return {
        "run_id": run_id,
        "original_name": field.original_name,
        "normalized_name": field.normalized_name,
        "in_source_schema": field.in_source,
        "in_node_schemas": [
            {"node_id": node["node_id"], "node_type": node["node_type"], "declared": declared}
            for node, declared in field.in_nodes
        ],
    }


def contract_violations(
    view: ReadableView, run_id: str, *, after: str | None = None, limit: int = 100
) -> RecordsDocument:
    """Return a page of rows that were not valid, each with the names that do not fit.

    `missing` are fields that the source's schema declares and the row has not, `undeclared` those
    that the row has and the schema does not declare; types are not compared.
    """
    view = run_view(view, run_id)
    contract = contracts.contract_of(view, run_id)
    page = listing.page_of(view, run_id, "validation_errors", {}, after=after, limit=limit)
    records = [show_object(row) for row in page.records]
    for record in records:
        missing, undeclared = contract.misfits(record["row_data"])
        record |= {"missing": missing, "undeclared": undeclared}
    return {"records": records, "next_after": page.next_after}
