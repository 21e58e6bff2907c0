"""Writes every typed record: the state before is kept, the state after is hashed.

The pre-image is content-addressed, so undoing restores exactly the bytes that were there (K2).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.store.keys import key_names
from kernel.model.envelope import KernelEffect
from kernel.model.receipt import Receipt
from kernel.records.columns import columns_of
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.values.errors import EffectInapplicable, TextNotStorable

_BACKSLASH = ord("\\")


@dataclass(slots=True)  # not frozen: see `kernel.transaction.checks.check.Submission`
class Operation:
    """What a store may know of the operation whose effect it applies; for reading only."""

    transaction: LedgerTransaction
    operation_id: str
    semantic_intent: str
    applied_at: str
    sequence: int
    """The operation's place in the log."""

    emit: Callable[[Receipt], str]
    """Emits a receipt of this operation and returns its id."""


@dataclass(slots=True)  # likewise
class Applied:
    """One effect as it was applied, for reading only.

    Hashes that are None mean that there was, or is, no record.
    """

    store: str
    record_key: str
    pre_image_hash: str | None
    post_image_hash: str | None

    def document(self, effect: KernelEffect, canonical_kind: str, applied_at: str) -> Document:
        """Return the row that is hashed into the log."""
        return {
            "effect_id": effect.effect_id,
            "effect_kind": effect.effect_kind,
            "canonical_kind": canonical_kind,
            "store": self.store,
            "record_key": self.record_key,
            "pre_image_hash": self.pre_image_hash or "",
            "post_image_hash": self.post_image_hash or "",
            "applied_at": applied_at,
        }


def write_record(
    operation: Operation,
    table: Table,
    key: str,
    record: Document,
) -> Applied:
    """Put a record in its store and keep the bytes that it replaces."""
    tables = operation.transaction.tables
    (key_column,) = key_names(table)
    before = operation.transaction.peek(table, key)
    pre_image_hash = None
    if before is not None:
        content = bytes(before["record"])
        pre_image_hash = sha256_hex(content)
        tables.put(schema.pre_images, {"content_hash": pre_image_hash, "content": content})
    content = canonicalize(record)
    columns = columns_of(table, record, operation.transaction)
    # Canonical form writes U+0000 only like this, and every column follows from the record.
    if "\x00" in key or (_BACKSLASH in content and b"\\u0000" in content):
        _check_names(key, columns)
    if columns.get("overlay_in_force"):
        operation.transaction.forget_overlays()
    tables.put(table, {key_column: key, "record": content, **columns})
    return Applied(str(table.name), key, pre_image_hash, sha256_hex(content))


def _check_names(key: str, columns: Mapping[str, Any]) -> None:
    """Refuse names that not every store's text can hold; a record's content is bytes."""
    for value in (key, *columns.values()):
        if type(value) is str and "\x00" in value:
            raise EffectInapplicable(
                "a name holds the character U+0000", code=TextNotStorable.code, field="payload"
            )
