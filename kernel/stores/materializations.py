"""Artifacts and files that are to exist outside (§4.3.4, §4.3.11).

Nothing undoes them; a new write of the same thing supersedes the one before.
"""

from typing import Annotated

from pydantic import AfterValidator

from kernel.ledger import schema
from kernel.model.envelope import KernelEffect
from kernel.stores.external import request_external_effect
from kernel.stores.record import Applied, Operation
from kernel.stores.typed import Name, Payload, Sha256, TypedStore


def _relative(path: str) -> str:
    parts = path.split("/")
    if "\\" in path or "\x00" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError("a path below the folder of materialized files")
    return path


class DocumentArtifact(Payload):
    """Content that goes into the store of artifacts."""

    source_artifact_kind: Name
    content_hash: Sha256


class Materialization(Payload):
    """A document written out as a file."""

    materialized_path: Annotated[Name, AfterValidator(_relative)]
    content_hash: Sha256


_ARTIFACTS = TypedStore(schema.document_artifacts, DocumentArtifact, frozenset())
_MATERIALIZATIONS = TypedStore(schema.materializations, Materialization, frozenset())


def apply_document_artifact(effect: KernelEffect, operation: Operation) -> Applied:
    """Decide that an artifact is written."""
    applied = _ARTIFACTS.apply(effect, operation)
    request_external_effect(effect, operation)
    return applied


def apply_materialization(effect: KernelEffect, operation: Operation) -> Applied:
    """Decide that a file is emitted."""
    applied = _MATERIALIZATIONS.apply(effect, operation)
    request_external_effect(effect, operation)
    return applied
