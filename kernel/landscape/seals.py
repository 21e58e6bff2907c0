"""Seals a run on the log: an operation states the digests of its records (ruling L4).

The statement is folded into `landscape_seals`. The records themselves are no part of the fold:
applying the operation does not read them, and verification holds them against the seal.
"""

from types import MappingProxyType
from typing import Any

from kernel.algebra.verbs import LANDSCAPE_SEAL
from kernel.landscape.digest import RunDigest, digest_of
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.record_rules import TABLES, check_stored
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.model.landscape_receipts import RunSealed
from kernel.model.receipt import sole_receipt
from kernel.records.operation_steps import AppliedOperation, Steps
from kernel.values.canonical import canonicalize
from kernel.values.errors import EffectInapplicable

SEAL_RECEIPT = "landscape_run_sealed"


def seal_of(view: LedgerView, run_id: str) -> Row | None:
    """Return the seal of a run, None before it has one."""
    return view.tables.get(schema.landscape_seals, run_id)


def seal_to_state(view: LedgerView, run_id: str) -> dict[str, Any]:
    """Return what the seal of a run that has ended states; reads every record of it.

    Raises:
        LandscapeRefused: `landscape_unknown`; `landscape_incomplete` while the run is running.
        RecordDamaged: a record breaks a rule.
    """
    check_over(view, run_id)
    return seal_body(digest_of(view, run_id))


def check_over(view: LedgerView, run_id: str) -> None:
    """Refuse a run that goes on.

    Raises:
        LandscapeRefused: `landscape_unknown`; `landscape_incomplete` while the run is running.
    """
    run = view.tables.get(TABLES["runs"], run_id)
    if run is None:
        raise LandscapeRefused(f"no run is called {run_id}", code="landscape_unknown")
    if check_stored(TABLES["runs"], run)["status"] == "running":
        raise LandscapeRefused(f"the run {run_id} is running", code="landscape_incomplete")


def seal_body(digest: RunDigest) -> dict[str, Any]:
    """Return the body of the receipt that states a digest."""
    return {
        "run_id": digest.run_id,
        "record_count": digest.record_count,
        "run_digest": digest.run_digest,
        "table_digests": digest.table_digests,
    }


def record_seal(operation: AppliedOperation) -> None:
    """Record the seal that an operation states.

    Raises:
        EffectInapplicable: `landscape_seal_invalid`; `landscape_run_sealed` where there is one.
    """
    try:
        seal = sole_receipt(operation.envelope, SEAL_RECEIPT, RunSealed)
    except ValueError as error:
        raise _inapplicable(str(error), "landscape_seal_invalid") from None
    tables = operation.transaction.tables
    if tables.get(schema.landscape_seals, seal.run_id) is not None:
        raise _inapplicable(f"{seal.run_id} has a seal", "landscape_run_sealed")
    document = seal.model_dump()
    tables.put(
        schema.landscape_seals,
        {
            "run_id": seal.run_id,
            "record_count": seal.record_count,
            "run_digest": seal.run_digest,
            "table_digests": canonicalize(document["table_digests"]),
            "ec_sequence_number": operation.sequence,
            "sealed_at_us": operation.transaction.head_now.committed_at_us,
        },
    )


def _inapplicable(message: str, code: str) -> EffectInapplicable:
    return EffectInapplicable(message, code=code, field="primitive_effects.0.payload")


VERB_STEPS = MappingProxyType({LANDSCAPE_SEAL: Steps(after=record_seal)})
