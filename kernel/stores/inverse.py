"""Undoing one effect: the record becomes, byte for byte, what it was before (K2).

An inverse states which record it puts back, from which state to which. It is refused where another
state stands: what was written since would be lost. The state that it replaces is kept, so that an
inverse can itself be undone.
"""

import orjson

from kernel.canonical import sha256_hex
from kernel.errors import EffectInapplicable, LedgerCorrupt
from kernel.ledger import schema
from kernel.model.envelope import UndoneEffect
from kernel.model.receipt import Receipt
from kernel.stores.columns import columns_of
from kernel.stores.record import Applied, Operation


def apply_inverse(undone: UndoneEffect, operation: Operation) -> Applied:
    """Put a record back as it was before an effect, or remove it if it was not there before.

    Raises:
        EffectInapplicable: `rollback_superseded_by_later_write` where another state stands,
            `rollback_pre_image_missing` where the state to put back is not on record,
            `rollback_pre_image_corrupt` where what is kept of it is not what was recorded.
    """
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
    if undone.restores_hash:
        _put_back(undone, operation)
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


def _put_back(undone: UndoneEffect, operation: Operation) -> None:
    transaction, table = operation.transaction, schema.STORES[undone.store]
    try:
        content = transaction.pre_image(undone.restores_hash)
    except LedgerCorrupt as error:
        # Refusing changes nothing and verification names the row, so a request ends no process.
        raise EffectInapplicable(
            str(error), code="rollback_pre_image_corrupt", field="undoes.restores_hash"
        ) from error
    if content is None:
        raise EffectInapplicable(
            f"the state {undone.restores_hash} is not on record",
            code="rollback_pre_image_missing",
            field="undoes.restores_hash",
        )
    columns = columns_of(table, orjson.loads(content), transaction)
    key_column = table.primary_key.columns[0].name
    transaction.tables.put(table, {key_column: undone.record_key, "record": content, **columns})
