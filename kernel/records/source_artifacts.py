"""Reads artifacts as an evaluation needs them: a version, its fields, text and metadata."""

from collections.abc import Mapping
from dataclasses import dataclass

from kernel.ledger.ledger import Document, LedgerView
from kernel.model.bindings import artifacts
from kernel.values.untrusted import text_of


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact in one version."""

    ref: str
    version: int
    fields: Mapping[str, str]
    """By selector kind."""

    node: Document

    @property
    def text(self) -> str | None:
        """The text as it was taken in; None where the artifact has none."""
        content = self.node["payload"].get("content")
        return text_of(content) if isinstance(content, str) else None

    def metadata(self, name: str) -> str | None:
        """Return a field of the metadata as it was taken in; None where it is not stated."""
        metadata = self.node["payload"].get("metadata")
        value = metadata.get(name) if isinstance(metadata, dict) else None
        return text_of(value) if isinstance(value, str) else None


def read_artifact(view: LedgerView, ref: str) -> Artifact | None:
    """Return an artifact as it stands; None where no source is on record under the name."""
    node = view.node(ref)
    known = artifacts.read_artifact(node)
    return (
        None
        if node is None or known is None
        else Artifact(ref, node["version"], known.fields, node)
    )
