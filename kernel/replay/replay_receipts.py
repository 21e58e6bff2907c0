"""Records each replay of an operation by one receipt, whatever came of it (§6.6, §17.2).

A receipt is ephemeral where an operation was reproduced and nothing had to be overlooked. It is
durable where the replay was blocked, where `record_only` went past a fingerprint that does not
match, and where the context asks for it. A replay blocked by a fingerprint leaves a second, durable
receipt of its own kind.

A replay's receipt names the operation and was not emitted by it: its id is the host's.
"""

from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.receipts import append_receipt
from kernel.model.receipt import CURRENT_RECEIPTS, Receipt
from kernel.model.replay import AuditContext, AuditReplayReceipt, AuditReplayStrategy
from kernel.replay.judgement import ReplayVerdict, replay_all, replay_one
from kernel.values.errors import KernelError, LedgerCorrupt
from kernel.values.model_registry import ModelRegistry

RANGE_MAX = 10_000
"""Operations that one transaction replays."""

REPLAY_KIND = "audit_replay"
BLOCKED_KIND = "replay_blocked_fingerprint_mismatch"


def replay_operation(
    transaction: LedgerTransaction,
    operation_id: str,
    strategy: AuditReplayStrategy,
    registry: ModelRegistry,
    audit_context: AuditContext | None = None,
) -> AuditReplayReceipt:
    """Replay one operation and record the result (§6.3); its parents count as replayed.

    Raises:
        LedgerCorrupt: when what is recorded is not what the envelope does; nothing is written.
    """
    verdict = replay_one(transaction, operation_id, strategy, registry)
    [receipt] = _record(transaction, [verdict], strategy, audit_context or AuditContext())
    return receipt


def replay_range(
    transaction: LedgerTransaction,
    first: int,
    last: int,
    strategy: AuditReplayStrategy,
    registry: ModelRegistry,
    audit_context: AuditContext | None = None,
) -> tuple[AuditReplayReceipt, ...]:
    """Replay the operations of a range in sequence, parents first, and record each.

    Raises:
        KernelError: `replay_range_invalid`, when it is empty or larger than `RANGE_MAX`.
        LedgerCorrupt: when what is recorded is not what an envelope does; nothing is written.
    """
    if not 0 < first <= last < first + RANGE_MAX:
        message = f"a range begins at 1 or later and holds 1 to {RANGE_MAX} operations"
        raise KernelError(message, code="replay_range_invalid")
    verdicts = list(replay_all(transaction, first, last, strategy, registry))
    return _record(transaction, verdicts, strategy, audit_context or AuditContext())


def _record(
    transaction: LedgerTransaction,
    verdicts: list[ReplayVerdict],
    strategy: AuditReplayStrategy,
    context: AuditContext,
) -> tuple[AuditReplayReceipt, ...]:
    for verdict in verdicts:
        if verdict.difference is not None:
            place = f"row {verdict.ec_sequence_number}, {verdict.operation_id}"
            raise LedgerCorrupt(f"{place}: {verdict.difference}")
    transaction.next_commit_time_us()
    return tuple(_receipt(transaction, verdict, strategy, context) for verdict in verdicts)


def _receipt(
    transaction: LedgerTransaction,
    verdict: ReplayVerdict,
    strategy: AuditReplayStrategy,
    context: AuditContext,
) -> AuditReplayReceipt:
    body = _body(verdict, strategy)
    drifted = verdict.output_reproduced and not verdict.fingerprint_match
    durable = drifted or not verdict.output_reproduced or context.asks_for_durable
    stated = Receipt(REPLAY_KIND, body | {"audit_context": context.document()}, upgraded=durable)
    receipt_id = _append(transaction, stated, verdict.operation_id)
    if verdict.block_reason == "fingerprint_mismatch":
        blocked = body | {
            "replay_receipt_id": receipt_id,
            "recorded_output_id": verdict.recorded_output_id,
        }
        _append(transaction, Receipt(BLOCKED_KIND, blocked), verdict.operation_id)
    retention_class = CURRENT_RECEIPTS.retention_of(stated)
    return AuditReplayReceipt(receipt_id=receipt_id, retention_class=retention_class, **body)


def _append(transaction: LedgerTransaction, receipt: Receipt, operation_id: str) -> str:
    receipt_id = f"receipt:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, receipt, operation_id)
    return receipt_id


def _body(verdict: ReplayVerdict, strategy: AuditReplayStrategy) -> Document:
    fields = {
        "original_operation_id": verdict.operation_id,
        "replay_strategy": strategy,
        "fingerprint_match": verdict.fingerprint_match,
        "output_reproduced": verdict.output_reproduced,
        "block_reason": verdict.block_reason,
        "recorded_model_version": verdict.recorded_model_version,
        "current_model_version": verdict.current_model_version,
        "blocked_by_operation_id": verdict.blocked_by_operation_id,
        "request_id": verdict.request_id,
    }
    return {name: value for name, value in fields.items() if value is not None}
