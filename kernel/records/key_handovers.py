"""Applies hand-overs of the keys that sign the log; stores nothing beside it (kernel/0400).

An operation is applied only where every key that it names has signed it, so a hand-over on the log
is one.
"""

from kernel.algebra.verbs import KEY_HANDOVER
from kernel.model.receipt import sole_receipt
from kernel.model.stated_receipts import KeyHandedOver
from kernel.proof.handover_proof import HANDOVER_RECEIPT
from kernel.proof.key_handover import KeyHandover
from kernel.proof.verification import ProofInvalid
from kernel.records.operation_steps import AppliedOperation
from kernel.values.errors import EffectInapplicable


def check_handover(operation: AppliedOperation) -> KeyHandover:
    """Return the hand-over that an operation states.

    Raises:
        EffectInapplicable: it states none, or one that not every key has signed.
    """
    try:
        stated = sole_receipt(operation.envelope, HANDOVER_RECEIPT, KeyHandedOver)
        return KeyHandover.of_document(stated.model_dump())
    except (ValueError, ProofInvalid) as error:
        raise EffectInapplicable(
            f"{KEY_HANDOVER}: {error}",
            code="key_handover_invalid",
            field="primitive_effects.0.payload",
        ) from None
