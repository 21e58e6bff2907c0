"""Defines an intent that knows its effects, and the effects that intents come to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel.algebra.effects import EFFECT_KINDS
from kernel.ledger.ledger import Document


@dataclass(frozen=True, slots=True)
class ResolvedOperation:
    """An intent that knows its effects (§2.1 step 2)."""

    semantic_intent: str
    effects: tuple[Document, ...]
    target_refs: tuple[str, ...]
    source_refs: tuple[str, ...] = ()
    """The context: every node whose visibility the output inherits."""

    read_set: tuple[str, ...] = ()
    write_set: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()
    """Nodes beside the target that the operation touches."""

    edge_refs: tuple[str, ...] = ()
    scope_kind: str | None = None
    """The kind of scope, if it does not follow from the neighbours."""

    versions_read: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """For a node that was read before the transaction: the operation that wrote it, and when."""

    visibility: tuple[str, ...] = ()
    """The class of what is written, if it follows from no source."""

    causes: Mapping[str, str] = field(default_factory=dict)
    """Operations that asked for this one without writing what it reads, and when they did."""

    operation_kind: str | None = None
    """The kind of operation, if the intent's name does not say it."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple["ResolvedOperation", ...] = ()
    """The recomputes of a page, each as it would be resolved alone."""


def make_effect(kind: str, target: str, payload: Document, inverse: str | None = None) -> Document:
    """Return an effect of a registered, fully reversible kind."""
    return {
        "effect_kind": kind,
        "reversibility": EFFECT_KINDS[kind].reversibility,
        "inverse_operation_kind": inverse or EFFECT_KINDS[kind].inverses[0],
        "target_ref": target,
        "payload": payload,
        "schema_version": 1,
    }
