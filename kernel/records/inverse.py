"""Undoes one effect: the record becomes what the operations in effect come to (§5.2, K2).

An inverse states which record it puts back, from which state to which; who plans it computes that
state from the log (`kernel/records/record_history.py`). It is refused where another state stands:
what was written since would be lost. The state that it replaces is kept, so that an inverse can
itself be undone.
"""

import orjson

from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import UndoneEffect
from kernel.model.receipt import Receipt
from kernel.records.columns import columns_of
from kernel.records.nodes import check_provenance
from kernel.records.record import Applied, Operation
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.values.errors import EffectInapplicable, LedgerCorrupt
from kernel.values.spans import sources_in
from kernel.values.visibility import is_lowered


def apply_inverse(undone: UndoneEffect, operation: Operation) -> Applied:
    """Put a record into the state that an inverse states, or remove it.

    Raises:
        EffectInapplicable: `rollback_superseded_by_later_write` where another state stands,
            `rollback_pre_image_missing` where the state to put back is not on record,
            `rollback_pre_image_corrupt` where what is kept of it is not what was recorded,
            `visibility_class_lowered` where a node would be less restricted than a source of it.
    """
    content = None
    if undone.restored_record is not None:
        content = canonicalize(undone.restored_record)
        if sha256_hex(content) != undone.restores_hash:
            raise _corrupt("the record that is stated has another hash")
    elif undone.restores_hash:
        content = _pre_image(undone, operation)
    table = schema.STORES[undone.store]
    if content is not None and table is schema.nodes:
        _check_restricted(operation, undone.record_key, orjson.loads(content))
    if content is not None and table is schema.policy_snapshots:
        _check_number(operation, undone.record_key, orjson.loads(content))
    return _put(undone, operation, content)


def apply_inverse_1(undone: UndoneEffect, operation: Operation) -> Applied:
    """Put a record back as it was before an effect, as version 1 of the rules does."""
    return _put(undone, operation, _pre_image(undone, operation) if undone.restores_hash else None)


def _put(undone: UndoneEffect, operation: Operation, content: bytes | None) -> Applied:
    transaction, key = operation.transaction, undone.record_key
    table = schema.STORES[undone.store]
    row = transaction.tables.get(table, key)
    stands = "" if row is None else sha256_hex(bytes(row["record"]))
    if stands != undone.replaces_hash:
        raise EffectInapplicable(
            f"{undone.store} {key} was written since",
            code="rollback_superseded_by_later_write",
            field="undoes.replaces_hash",
        )
    transaction.forget_overlays()
    before_policy = transaction.policy_generation_id()
    if row is not None:
        pre_image = {"content_hash": stands, "content": bytes(row["record"])}
        transaction.tables.put(schema.pre_images, pre_image)
    if content is not None:
        columns = columns_of(table, orjson.loads(content), transaction)
        key_column = table.primary_key.columns[0].name
        transaction.tables.put(table, {key_column: key, "record": content, **columns})
    else:
        transaction.tables.delete(table, key)
    if table is schema.policy_snapshots:
        transaction.forget_policy()
        body = {
            "prior_policy_generation_id": before_policy,
            "policy_generation_id": transaction.policy_generation_id(),
        }
        operation.emit(Receipt("policy_generation_advance", body))
    return Applied(undone.store, key, stands or None, undone.restores_hash or None)


def _pre_image(undone: UndoneEffect, operation: Operation) -> bytes:
    try:
        content = operation.transaction.pre_image(undone.restores_hash)
    except LedgerCorrupt as error:
        # Refusing changes nothing and verification names the row, so a request ends no process.
        raise _corrupt(str(error)) from error
    if content is None:
        raise EffectInapplicable(
            f"the state {undone.restores_hash} is not on record",
            code="rollback_pre_image_missing",
            field="undoes.restores_hash",
        )
    return content


def _corrupt(message: str) -> EffectInapplicable:
    return EffectInapplicable(
        message, code="rollback_pre_image_corrupt", field="undoes.restores_hash"
    )


def _check_restricted(operation: Operation, node_id: str, record: Document) -> None:
    """Refuse a node below its sources; one that keeps its class answers for new sources alone."""
    stands = operation.transaction.node(node_id)
    sources = sources_in(record["payload"])
    if stands is not None and not is_lowered(
        stands["visibility_class"], record["visibility_class"]
    ):
        known = set(sources_in(stands["payload"]))
        sources = [ref for ref in sources if ref not in known]
    check_provenance(record, sources, operation)


def _check_number(operation: Operation, policy_generation_id: str, record: Document) -> None:
    """Refuse a policy generation whose number another one has by now."""
    where = {"generation": record["generation"]}
    for row in operation.transaction.tables.scan(
        TableQuery(schema.policy_snapshots, where, limit=2)
    ):
        if row["policy_generation_id"] != policy_generation_id:
            raise EffectInapplicable(
                f"{row['policy_generation_id']} is in its place by now",
                code="rollback_superseded_by_later_write",
                field="undoes.restores_hash",
            )
