"""Keeps artifacts and files that are to exist outside (§4.3.4, §4.3.11).

Nothing undoes them; a new write of the same thing supersedes the one before.
"""

from typing import Annotated

from pydantic import AfterValidator

from kernel.ledger import schema
from kernel.model.envelope import KernelEffect
from kernel.records.content import Emitted, check_content, without_content
from kernel.records.external import request_external_effect
from kernel.records.record import Applied, Operation
from kernel.records.typed import Name, TypedStore, validate_payload


def _relative(path: str) -> str:
    parts = path.split("/")
    if "\\" in path or "\x00" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError("a path below the folder of materialized files")
    return path


def _one_name(name: str) -> str:
    if "/" in _relative(name):
        raise ValueError("the name of one folder")
    return name


class DocumentArtifact(Emitted):
    """Content that goes into the store of artifacts."""

    source_artifact_kind: Annotated[Name, AfterValidator(_one_name)]


class Materialization(Emitted):
    """A document written out as a file."""

    materialized_path: Annotated[Name, AfterValidator(_relative)]


ARTIFACTS = TypedStore(schema.document_artifacts, DocumentArtifact, frozenset())
MATERIALIZATIONS = TypedStore(schema.materializations, Materialization, frozenset())


def apply_document_artifact(effect: KernelEffect, operation: Operation) -> Applied:
    """Decide that an artifact is written."""
    return _decide(ARTIFACTS, DocumentArtifact, "source_artifact_kind", effect, operation)


def apply_materialization(effect: KernelEffect, operation: Operation) -> Applied:
    """Decide that a file is emitted."""
    return _decide(MATERIALIZATIONS, Materialization, "materialized_path", effect, operation)


def _decide(
    store: TypedStore,
    model: type[Emitted],
    place: str,
    effect: KernelEffect,
    operation: Operation,
) -> Applied:
    emitted = validate_payload(model, effect.payload)
    content_fields = check_content(emitted, operation)
    applied = store.apply(without_content(effect), operation)
    payload = {
        place: getattr(emitted, place),
        "content_hash": emitted.content_hash,
        **content_fields,
    }
    request_external_effect(effect, operation, payload)
    return applied
