"""Finds where a fire would write, what stands there, and what it would state (§13.5).

Everything that is stated comes from the binding's snapshot, from the artifact as the record has it,
and from what its text was read to say, so that composing it again gives the same bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kernel.algebra.arguments import FIELD_LOCK
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.model.bindings.dispatch import (
    ABSENT,
    CASE_FIELDS,
    DIFFERENT,
    LOCKED,
    SAME,
    UNIT_UNKNOWN,
    UNSTATED,
)
from kernel.model.bindings.particulars import Particulars
from kernel.model.bindings.source_binding import BindingTargetKind, SourceBinding
from kernel.model.extraction_result import ExtractionRefused
from kernel.model.node_kinds import UNDERSTANDING
from kernel.records.court_dispositions import OBSERVATIONS
from kernel.records.dates import day_fields
from kernel.records.filing_relationships import RELATIONSHIPS, relationship_state
from kernel.records.source_artifacts import Artifact
from kernel.records.typed import LIVE
from kernel.values.canonical import digest
from kernel.values.untrusted import text_of
from kernel.work.extraction_runs import run_of

_REF_CHARS_MAX = 400


@dataclass(frozen=True, slots=True)
class FireTarget:
    """Where a fire would write, what stands there, and what it would state."""

    standing: str
    ref: str | None = None
    payload: Document = field(default_factory=dict)


def _membership(
    view: LedgerView, binding: SourceBinding, artifact: Artifact, _: Particulars
) -> FireTarget:
    key = f"{binding.corpus_id}|{artifact.ref}"
    record = view.record(schema.corpus_membership_records, key)
    stated = {"corpus_id": binding.corpus_id, "to_state": "candidate"}
    return FireTarget(ABSENT if record is None else record["state"], key, stated)


def _case(
    view: LedgerView, _: SourceBinding, artifact: Artifact, particulars: Particulars
) -> FireTarget:
    case = artifact.fields.get("case_ref")
    if case is None:
        return FireTarget(UNSTATED)
    ref = derived_id("case", case)
    stated = {name: artifact.fields[name] for name in CASE_FIELDS if name in artifact.fields}
    caption = artifact.metadata("case_name")
    stated |= {} if caption is None else {"caption": caption}
    stated |= particulars.case_metadata
    node = view.node(ref)
    if node is None:
        return FireTarget(ABSENT, ref)
    if node["state"] != "active":
        return FireTarget(node["state"], ref)
    payload = node["payload"]
    changed = {name: value for name, value in stated.items() if _text(payload.get(name)) != value}
    if not changed:
        return FireTarget(SAME, ref)
    locked = payload.get(FIELD_LOCK)
    is_locked = isinstance(locked, list) and not changed.keys().isdisjoint(locked)
    return FireTarget(LOCKED if is_locked else DIFFERENT, ref, changed)


def _relationship(
    view: LedgerView, _: SourceBinding, artifact: Artifact, particulars: Particulars
) -> FireTarget:
    related = particulars.related_filing
    if related is None:
        return FireTarget(UNSTATED)
    source = filing_unit_of(view, artifact.ref)
    target = filing_unit_of(view, related.target_artifact_ref)
    if source is None or target is None or source == target:
        return FireTarget(UNIT_UNKNOWN)
    ref = derived_id("filing-relationship", digest([related.relationship_type, source, target]))
    stated = {
        "relationship_type": related.relationship_type,
        "source_filing_unit_id": source,
        "target_filing_unit_id": target,
        "lifecycle_state": "candidate",
        "identity_confidence": related.identity_confidence,
        "evidence": related.evidence,
        **_proof(artifact, particulars),
    }
    record = view.record(RELATIONSHIPS.table, ref)
    return FireTarget(relationship_state(record) or ABSENT, ref, stated)


def _observation(
    view: LedgerView, _: SourceBinding, artifact: Artifact, particulars: Particulars
) -> FireTarget:
    entered = artifact.metadata("date_entered") or artifact.metadata("date_filed")
    if particulars.disposition is None or entered is None:
        return FireTarget(UNSTATED)
    ref = derived_id("court-disposition", artifact.ref)
    stated = {
        "disposition": particulars.disposition,
        "lifecycle_state": "observed",
        **day_fields("docket_entry_date", entered[:10]),
        "docket_entry_ref": artifact.ref,
        **_proof(artifact, particulars),
    }
    record = view.record(OBSERVATIONS.table, ref)
    if record is None:
        return FireTarget(ABSENT, ref, stated)
    if record["state"] != "active":
        return FireTarget(record["state"], ref)
    before = record["payload"]
    state = before["lifecycle_state"]
    is_same = {**before, "lifecycle_state": ""} == {**stated, "lifecycle_state": ""}
    if is_same and state in ("observed", "confirmed"):
        return FireTarget(SAME, ref)
    return FireTarget(DIFFERENT if state == "observed" else state, ref, stated)


def _extraction(
    view: LedgerView, binding: SourceBinding, artifact: Artifact, _: Particulars
) -> FireTarget:
    try:
        run, state = run_of(view, artifact.ref, corpus_id=binding.corpus_id)
    except ExtractionRefused:
        return FireTarget(UNSTATED)
    return FireTarget(state or ABSENT, run)


FIRE_TARGETS: Mapping[
    BindingTargetKind, Callable[[LedgerView, SourceBinding, Artifact, Particulars], FireTarget]
] = MappingProxyType(
    {
        "corpus_document_membership": _membership,
        "case_metadata_update": _case,
        "relationship_candidate": _relationship,
        "court_disposition_observation": _observation,
        "extraction_task": _extraction,
    }
)


def derived_id(kind: str, ref: str) -> str:
    """Return the id of what is made of something, the same for the same."""
    storable = len(ref) <= _REF_CHARS_MAX and "|" not in ref
    return f"{kind}:{ref if storable else digest(ref)}"


def filing_unit_of(view: LedgerView, artifact_ref: str) -> str | None:
    """Return the filing unit that was written last of those that name an artifact.

    None where there is none, and where the last one was taken back.
    """
    query = TableQuery(
        schema.filing_units,
        {"document_ref": artifact_ref},
        order_by="updated_at",
        descending=True,
        limit=1,
    )
    rows = view.tables.scan(query)
    name = rows[0]["filing_unit_id"] if rows else None
    record = None if name is None else view.record(schema.filing_units, name)
    return name if record is not None and record["state"] in LIVE else None


def understanding_of(view: LedgerView, artifact_ref: str) -> str | None:
    """Return the understanding that an artifact names as what it feeds, if it is active."""
    artifact = view.node(artifact_ref)
    name = None if artifact is None else artifact["payload"].get("understanding_id")
    node = view.node(name) if isinstance(name, str) else None
    is_active = (
        node is not None and node["node_kind"] == UNDERSTANDING and node["state"] == "active"
    )
    return name if is_active else None


def _proof(artifact: Artifact, particulars: Particulars) -> Document:
    spans = [
        {"source_ref": artifact.ref, "offset": stretch.offset, "length": stretch.length}
        for stretch in particulars.stretches
    ]
    return {"source_spans": spans} if spans else {}


def _text(value: Any) -> Any:
    return text_of(value) if isinstance(value, str) else value
