"""Seals the row of an operation into the log: its columns, its bytes, its hash, its place (K20).

A row's bytes hold the hash of the row before and the head of the chain of receipts, so its own hash
covers both. The head of the chain, which the transaction has locked, moves on to the new row.
"""

from kernel.ledger import schema
from kernel.ledger.answers import remember
from kernel.ledger.applied_effects import effect_row
from kernel.ledger.ledger import Document
from kernel.ledger.store.tables import DuplicateKey
from kernel.model.result import SubmissionResult
from kernel.transaction.apply import AppliedEffects
from kernel.transaction.checks.check import Submission
from kernel.transaction.rules import CURRENT_RULES
from kernel.values.canonical import canonicalize_plain, sha256_hex
from kernel.values.host import iso_time


def seal_log_row(
    submission: Submission, sequence: int, outcome: AppliedEffects
) -> SubmissionResult:
    """Append the row of an operation whose effects are applied, and return its answer.

    Raises:
        DuplicateKey: an operation of that id is on the record.
    """
    transaction, envelope = submission.transaction, submission.envelope
    superseded = envelope.supersedes
    known_new = submission.id_is_drawn or superseded is not None
    if not known_new and transaction.log_row_of(envelope.operation_id) is not None:
        raise DuplicateKey(envelope.operation_id)
    head, tables = transaction.head_now, transaction.tables
    effects = [canonicalize_plain(document) for document in outcome.applied_effects]
    for ordinal, document in enumerate(outcome.applied_effects):
        tables.append(schema.applied_effects, effect_row(sequence, ordinal, document))
    effects_hash = sha256_hex(b"[" + b",".join(effects) + b"]")
    committed_at = iso_time(head.committed_at_us)
    blob_ref = transaction.put_blob(submission.content)
    row_bytes = canonicalize_plain(
        _row_document(submission, sequence, outcome, effects_hash, blob_ref, committed_at)
    )
    row_hash = sha256_hex(row_bytes)
    tables.append(
        schema.kernel_event_log,
        {
            "ec_sequence_number": sequence,
            "operation_id": envelope.operation_id,
            "supersedes_sequence": 0 if superseded is None else int(superseded.ec_sequence_number),
            "prior_row_hash": head.row_hash,
            "row_hash": row_hash,
            "rules_version": CURRENT_RULES.version,
            "row_bytes": row_bytes,
            "envelope_payload_blob_ref": blob_ref,
            "semantic_intent": envelope.semantic_intent,
            "session_id": envelope.session_id,
            "commit_epoch_id": envelope.epoch_id,
            "committed_at": committed_at,
        },
    )
    if envelope.causal_parent_operation_ids:
        transaction.write_causes(sequence, envelope.causal_parent_operation_ids)
    head.ec_sequence_number, head.row_hash = sequence, row_hash
    applied = [
        {"effect_id": effect["effect_id"], "applied_at": effect["applied_at"]}
        for effect in outcome.applied_effects
    ]
    result = SubmissionResult(
        envelope.operation_id, sequence, committed_at, tuple(applied), outcome.receipts, row_hash
    )
    key = submission.answered_key
    assert key is not None, "V2 refuses a key that is not the submitter's"  # noqa: S101 - for the types
    remember(
        transaction,
        result,
        key,
        submission.content_digest,
        submission.idempotency_window_us,
    )
    return result


def _row_document(
    submission: Submission,
    sequence: int,
    outcome: AppliedEffects,
    effects_hash: str,
    blob_ref: str,
    committed_at: str,
) -> Document:
    """Return the log row (§17.4) as it is hashed (K20); sequences are strings (K27)."""
    envelope, head = submission.envelope, submission.transaction.head_now
    scope = envelope.affected_subgraph_descriptor
    document = {
        "prior_row_hash": head.row_hash,
        "ec_sequence_number": str(sequence),
        "operation_id": envelope.operation_id,
        "envelope_payload_blob_ref": blob_ref,
        "semantic_intent": envelope.semantic_intent,
        "operation_kind": envelope.operation_kind,
        "actor": envelope.actor,
        "idempotency_key": envelope.idempotency_key,
        "effect_kind_set": sorted({effect["effect_kind"] for effect in outcome.applied_effects}),
        "canonical_effect_kind_set": sorted(
            {effect["canonical_kind"] for effect in outcome.applied_effects}
        ),
        "causal_parent_operation_ids": list(envelope.causal_parent_operation_ids),
        "affected_subgraph_descriptor_summary": {
            "scope_kind": scope.scope_kind if scope else "",
            "affected_node_count": len(scope.affected_node_refs) if scope else 0,
        },
        "recorded_at": envelope.recorded_at,
        "committed_at": committed_at,
        "applied_effects_hash": effects_hash,
        "receipt_chain_head": head.receipt_hash,
        "rules_version": CURRENT_RULES.version,
        "schema_version": 1,
    }
    if envelope.session_id is not None:
        document["session_id"] = envelope.session_id
    if envelope.principal is not None:
        document["principal"] = envelope.principal
    if envelope.epoch_id is not None:
        document["commit_epoch_id"] = envelope.epoch_id
    if envelope.supersedes is not None:
        document["supersedes"] = submission.document["supersedes"]
    return document
