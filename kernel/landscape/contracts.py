"""Holds a run's rows to what its source and nodes say of their data (seed 003, analysis).

A schema is what the pipeline stated. Its fields are the properties of a JSON Schema, a list of
fields with names, or else its keys. A field may have a name in the source and another after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel.landscape.canonical_types import restore_value
from kernel.landscape.digest import records_of
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_rules import TABLES, check_stored
from kernel.landscape.reports import run_of_id
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row

FIELDS_NAMED_MAX = 40


@dataclass(frozen=True, slots=True)
class RunContract:
    """The schema of a run's source, and the names that the source gave to its fields."""

    source_fields: Mapping[str, Any]
    renamed: Mapping[str, str]
    """Names after the source, by those in it."""

    def names_of(self, field_name: str) -> set[str]:
        """Return every name of a field."""
        before = {name for name, renamed in self.renamed.items() if renamed == field_name}
        return {field_name, *before, self.renamed.get(field_name, field_name)}

    def misfits(self, row_data: Any) -> tuple[list[str], list[str]]:
        """Return the declared fields that a row has not, and those of the row that nobody declared.

        Of what is no object, and where nothing is declared, there are none.
        """
        if not isinstance(row_data, dict) or "__repr__" in row_data or not self.source_fields:
            return [], []
        held, declared = set(row_data), set(self.source_fields)
        missing = [name for name in self.source_fields if not self.names_of(name) & held]
        undeclared = [name for name in held if not self.names_of(name) & declared]
        return sorted(missing), sorted(undeclared)


@dataclass(frozen=True, slots=True)
class FieldDeclarations:
    """What the schemas of a run say of a field."""

    original_name: str
    normalized_name: str
    in_source: Any
    """What the source's schema declares, None where it does not name the field."""

    in_nodes: list[tuple[Row, Any]]


def contract_of(view: LedgerView, run_id: str) -> RunContract:
    """Return the contract of a run.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        RecordDamaged: the record breaks a rule.
    """
    run = run_of_id(view, run_id)
    stated = _data(run["source_field_resolution_json"])
    mapping = stated.get("resolution_mapping", stated) if isinstance(stated, dict) else None
    names = mapping.items() if isinstance(mapping, dict) else ()
    renamed = {name: new for name, new in names if isinstance(new, str)}
    return RunContract(declared_fields(_data(run["source_schema_json"])), renamed)


def nodes_with_schema(view: LedgerView, run_id: str) -> list[Row]:
    """Return the nodes of a run that state a schema, in the order of the pipeline."""
    rows = (
        check_stored(TABLES["nodes"], node) for node in records_of(view.tables, run_id, "nodes")
    )
    nodes = [node for node in rows if node["schema_json"] is not None]
    nodes.sort(
        key=lambda node: (node["sequence_in_pipeline"] is None, node["sequence_in_pipeline"] or 0)
    )
    return nodes


def field_declarations(view: LedgerView, run_id: str, field_name: str) -> FieldDeclarations:
    """Return what a run says of a field, asked for by its name in the source or after it.

    Raises:
        LandscapeRefused: `landscape_unknown` where nothing names the field.
    """
    contract = contract_of(view, run_id)
    renamed = contract.renamed
    original = next((name for name, new in renamed.items() if new == field_name), field_name)
    names = contract.names_of(field_name)
    declared = [
        (node, fields[name])
        for node in nodes_with_schema(view, run_id)
        for fields in [declared_fields(_data(node["schema_json"]))]
        for name in sorted(names & fields.keys())
    ]
    of_source = [contract.source_fields[name] for name in names & contract.source_fields.keys()]
    if not (of_source or declared or original in renamed):
        known = ", ".join([*renamed, *contract.source_fields][:FIELDS_NAMED_MAX]) or "none"
        message = f"no schema of the run names {field_name!r}; its source has {known}"
        raise LandscapeRefused(message, code="landscape_unknown")
    return FieldDeclarations(
        original, renamed.get(original, field_name), next(iter(of_source), None), declared
    )


def declared_fields(schema: Any) -> dict[str, Any]:
    """Return the fields that a schema names, each with what it says of it."""
    if not isinstance(schema, dict):
        return {}
    properties, listed = schema.get("properties"), schema.get("fields")
    if isinstance(properties, dict):
        return properties
    if isinstance(listed, list):
        named = [field for field in listed if isinstance(field, dict)]
        return {field["name"]: field for field in named if isinstance(field.get("name"), str)}
    return schema


def _data(text: str | None) -> Any:
    return None if text is None else restore_value(text.encode())
