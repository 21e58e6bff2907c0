"""Applies a validated envelope to the state: effects, receipts, requests (§2.3 steps 3 and 4).

A function of the envelope, its place in the order and the state before it; nothing random and no
clock. So the state is a fold of the log, and verification folds it again, each row by the rules of
the version that it seals (`kernel/transaction/rules.py`).

1. The steps before the effects check what the operation states beside them.
2. The effects are applied in order, by the kinds.
3. The steps after the effects record what follows, and emit the receipts of that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernel.authority.graph import InputGraph
from kernel.authority.inputs import StatedInputs
from kernel.ledger import schema
from kernel.ledger.answers import emitted_receipt_id
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.receipts import append_receipt
from kernel.model.authority_strategy import AuthorityStrategy
from kernel.model.envelope import Envelope
from kernel.model.receipt import Receipt, ReceiptRules
from kernel.records.appliers import EffectRules
from kernel.records.operation_steps import AppliedOperation
from kernel.transaction.steps import ORDINARY, OrderedSteps
from kernel.values.host import iso_time

_RECEIPTS = str(schema.receipts.name)

Authority = Callable[[InputGraph, AuthorityStrategy, Document], tuple[float, StatedInputs]]


@dataclass(frozen=True, slots=True)
class AppliedEffects:
    """The documents of the applied effects and of the receipts, in the order of applying."""

    applied_effects: tuple[Document, ...]
    receipts: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """One version of the rules: the names that it knows, and how it applies an envelope."""

    version: int
    verbs: frozenset[str]
    """What a log row may say in `semantic_intent`."""

    operation_kinds: frozenset[str]
    receipts: ReceiptRules
    """The receipt kinds, what each says, and how long it is kept."""

    effects: EffectRules
    """The effect kinds, the stores that they write, and how each is applied."""

    steps: Mapping[str, OrderedSteps]
    """What is done for each verb beside the effects, where that is not what is ordinary."""

    envelope: type[Envelope]
    """How a recorded envelope is read; demands of checks are no part of it."""

    row_of_envelope: Callable[[Document], Document]
    """The fields of a log row that follow from its envelope."""

    receipt_writes: Mapping[str, Callable[[LedgerTransaction, Document], None]]
    """What receipts without an operation write, by their kind."""

    authority_of: Authority

    def apply(
        self,
        transaction: LedgerTransaction,
        envelope: Envelope,
        sequence: int,
        strategy: AuthorityStrategy,
    ) -> AppliedEffects:
        """Apply an envelope at its sequence; the head's clock already shows its commit time.

        Raises:
            EffectInapplicable: when the state does not admit an effect; the caller undoes the rest.
        """
        operation_id, verb, effects = envelope.operation_id, envelope.semantic_intent, self.effects
        receipts: list[dict[str, str]] = []

        # No reference back to the operation that holds it: each such cycle would be collected.
        def emit(receipt: Receipt) -> str:
            receipt_id = emitted_receipt_id(operation_id, len(receipts))
            append_receipt(transaction, receipt_id, receipt, operation_id, rules=self.receipts)
            receipts.append(
                {
                    "receipt_id": receipt_id,
                    "receipt_kind": receipt.receipt_kind,
                    "retention_class": self.receipts.retention_of(receipt),
                }
            )
            return receipt_id

        operation = AppliedOperation(
            transaction,
            operation_id,
            verb,
            iso_time(transaction.head_now.committed_at_us),
            sequence,
            emit,
            envelope,
            strategy,
            effects.mark_undone,
        )
        steps = self.steps.get(verb, ORDINARY)
        for step, field, _ in steps.before:
            if field is None or getattr(envelope, field):
                step(operation)
        wrote_records = False
        for effect in envelope.primitive_effects:
            write = effects.apply(effect, operation)
            operation.applied.append((effect, write))
            operation.writes.append(write)
            wrote_records |= write.store != _RECEIPTS
        for step, field, of_records in steps.after:
            follows = wrote_records if of_records else field is None
            if follows or (field is not None and getattr(envelope, field)):
                step(operation)
        documents = [
            write.document(
                effect, effects.kinds[effect.effect_kind].canonical, operation.applied_at
            )
            for effect, write in operation.applied
        ]
        return AppliedEffects(tuple(documents), tuple(receipts))
