"""Tells in what two writes differ, and of which class each difference is (§15.5, §19.2).

Only fields that both wrote are compared, and lists of references are compared as sets. If both
write a whole entity, a relationship that one has and the other lacks is a difference too: one of
them extends the other. Null is the same as nothing. The order of fields plays no part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kernel.ledger.ledger import Document
from kernel.records.conflicts.policy import ConflictClass
from kernel.values.canonical import canonicalize

PROVENANCE_FIELDS = frozenset(
    {
        "acquisition_shape",
        "content_kind",
        "extracted_at",
        "extracted_by",
        "extraction_method",
        "extraction_run_id",
        "extractor_version",
        "ingested_at",
        "metadata",
        "model_version",
        "provenance",
        "source_artifact_id",
        "source_artifact_ref",
        "source_refs",
        "source_spans",
        "span",
    }
)
"""Fields that say where a thing comes from and not what it is."""

VALIDITY_FIELDS = ("valid_from", "valid_to")

_REFERENCE = ("_id", "_ref")
_REFERENCES = ("_ids", "_refs")

_BEGINNING = datetime.min.replace(tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two writes differ."""

    conflict_class: ConflictClass
    field: str


def differences(
    existing: Mapping[str, Any], written: Mapping[str, Any], standing: Document, *, whole: bool
) -> tuple[Difference, ...]:
    """Return in what `written` differs from what was written before it, by field.

    `whole` says that both state an entity in full. `standing` is the record as it stands, which
    has the bounds of a validity that a write leaves alone.
    """
    differing = []
    for name in sorted(existing.keys() | written.keys()):
        if name in VALIDITY_FIELDS:
            continue
        both = name in existing and name in written
        conflict_class = _class_of(name, existing.get(name), written.get(name), both or whole)
        if conflict_class is not None:
            differing.append(Difference(conflict_class, name))
    validity = _validity(existing, written, {} if whole else standing, whole=whole)
    return (*differing, *validity)


def _class_of(name: str, before: Any, after: Any, comparable: bool) -> ConflictClass | None:  # noqa: FBT001 - a private helper
    if not comparable or _same(name, before, after):
        return None
    lacking = before is None or after is None
    if name in PROVENANCE_FIELDS:
        return None if lacking else "metadata_provenance_conflict"
    if not name.endswith((*_REFERENCE, *_REFERENCES)):
        return None if lacking else "field_value_disagree"
    if lacking or _extends(name, before, after):
        return "cardinality_conflict"
    return "relationship_target_conflict"


def _same(name: str, before: Any, after: Any) -> bool:
    if name.endswith(_REFERENCES) and isinstance(before, list) and isinstance(after, list):
        return _members(before) == _members(after)
    return canonicalize(before) == canonicalize(after)


def _extends(name: str, before: Any, after: Any) -> bool:
    if not (name.endswith(_REFERENCES) and isinstance(before, list) and isinstance(after, list)):
        return False
    members, members_after = _members(before), _members(after)
    return members < members_after or members_after < members


def _members(references: list[Any]) -> set[bytes]:
    return {canonicalize(reference) for reference in references}


def _validity(
    existing: Mapping[str, Any], written: Mapping[str, Any], standing: Document, *, whole: bool
) -> list[Difference]:
    """The first bound that differs, where both windows hold at some time."""
    bounds = {
        name: (
            existing.get(name, standing.get(name)),
            written.get(name, standing.get(name)),
        )
        for name in VALIDITY_FIELDS
    }
    comparable = (
        name for name in VALIDITY_FIELDS if whole or (name in existing and name in written)
    )
    differing = [name for name in comparable if bounds[name][0] != bounds[name][1]]
    if not differing or not _overlap(bounds):
        return []
    return [Difference("temporal_validity_overlap", differing[0])]


def _overlap(bounds: Mapping[str, tuple[Any, Any]]) -> bool:
    try:
        starts = [_moment(bound, _BEGINNING) for bound in bounds["valid_from"]]
        ends = [_moment(bound, _END) for bound in bounds["valid_to"]]
    except (TypeError, ValueError):
        # Windows that cannot be read are not known to be apart.
        return True
    return starts[0] < ends[1] and starts[1] < ends[0]


def _moment(text: str | None, without: datetime) -> datetime:
    if text is None:
        return without
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
