"""Lists what an envelope writes, record by record, in every store where writes are compared.

Which stores those are, and what an effect states there, stands in `compared.py`.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sqlalchemy import Table

from kernel.algebra.effects import EFFECT_KINDS
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import Envelope
from kernel.records.comparison import Comparison
from kernel.records.conflicts.compared import COMPARED


@dataclass(slots=True)
class Write:
    """All that one envelope writes into one record."""

    table: Table
    comparison: Comparison
    record_key: str
    effect_index: int
    """The index of the first effect that writes the record."""

    payload: Document
    """The payload of that effect."""

    fields: Document
    node_kind: str | None = None
    """Where it is stated."""

    visibility_class: str | None = None
    """Where it is stated."""

    is_whole: bool = False
    """Whether the fields are the whole record."""

    def has_seen(self, record: Document) -> bool:
        """Tell whether the write says that it goes on from a record as it stands."""
        return self.comparison.has_seen(self.payload, record)


def writes_of(envelope: Envelope) -> list[Write]:
    """Return what an envelope writes, in the order of its effects; an inverse states nothing."""
    return _merge_writes(
        (effect.effect_kind, effect.target_ref, effect.payload)
        for effect in envelope.primitive_effects
        if effect.undoes is None
    )


def writes_of_effects(effects: Iterable[Document]) -> list[Write]:
    """Return the same of the effects of a stored envelope."""
    return _merge_writes(
        (effect["effect_kind"], effect.get("target_ref"), effect.get("payload", {}))
        for effect in effects
        if effect.get("undoes") is None
    )


def write_of_record(document: Document, table: Table, record_key: str) -> Write | None:
    """Return what a stored envelope wrote into one record, None where it stated nothing of it."""
    writes = writes_of_effects(document["primitive_effects"])
    place = (table, record_key)
    return next((write for write in writes if (write.table, write.record_key) == place), None)


def is_compared(kind: str) -> bool:
    """Tell whether what an effect of a kind writes is compared with anything."""
    return None not in _store_of(kind)


def may_conflict(
    view: LedgerView, envelope: Envelope, seen_operation_ids: AbstractSet[str]
) -> bool:
    """Tell whether an envelope writes a record whose last writer it had not seen.

    False only where no write has anything to be compared with: neither its own record, nor one of
    the same entity.
    """
    for effect in envelope.primitive_effects:
        target = effect.target_ref
        if target is None or effect.undoes is not None:
            continue
        table, comparison = _store_of(effect.effect_kind)
        if table is None or comparison is None:
            continue
        key = comparison.key(target, effect.payload)
        record = None if key is None else view.record(table, key)
        if record is not None and record["updated_by_operation_id"] not in seen_operation_ids:
            return True
        same = comparison.same_thing
        if same is not None and same.named_by(effect.payload) is not None:
            return True
    return False


def _merge_writes(effects: Iterable[tuple[str, str | None, Document]]) -> list[Write]:
    writes: dict[tuple[str, str], Write] = {}
    for index, (kind, target, payload) in enumerate(effects):
        table, comparison = _store_of(kind)
        key = None if comparison is None or target is None else comparison.key(target, payload)
        fields = None if comparison is None else comparison.stated(kind, payload)
        if table is None or comparison is None or key is None or fields is None:
            continue
        new = Write(table, comparison, key, index, payload, {})
        write = writes.setdefault((table.name, key), new)
        write.fields |= fields
        if table is schema.nodes:
            write.node_kind = payload.get("node_kind", write.node_kind)
            write.visibility_class = payload.get("visibility_class", write.visibility_class)
        write.is_whole |= comparison.is_whole(kind)
    return list(writes.values())


def _store_of(kind: str) -> tuple[Table | None, Comparison | None]:
    """Return the store that an effect writes, where what it states there is compared."""
    return _STORE_OF_KIND.get(kind, (None, None))


def _store_comparison(name: str) -> tuple[Table | None, Comparison | None]:
    table = schema.STORES.get(name)
    return table, None if table is None else COMPARED.get(table)


_STORE_OF_KIND = {name: _store_comparison(kind.store) for name, kind in EFFECT_KINDS.items()}
