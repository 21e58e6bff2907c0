"""Judges whether an envelope was answered before, or takes the place of another (V2).

V2: a key that was answered inside its window is answered again, the same (§2.5, K6).

Answered is a key in the scope of who submits (`kernel/values/idempotency_keys.py`).

V2: an envelope that takes a lite one's place takes that of one that waits for it (§2.8, K24).

1. It names a lite row of the log that nobody has superseded and no reviewer has settled.
2. It is the same operation: its id, kind, key, causal parents and time of recording are the row's.
3. The migration speaks, and no model does.
4. Nothing that happened outside happens again.
"""

import orjson

from kernel.algebra.effects import IRREVERSIBLE
from kernel.ledger import schema
from kernel.ledger.answers import recall
from kernel.ledger.ledger import Document
from kernel.ledger.store.tables import Row
from kernel.ledger.supersession import is_lite, position_of
from kernel.model.envelope import Envelope
from kernel.model.receipt import MIGRATION_KIND
from kernel.records.conflicts.adjudications import items_of, resolution_of
from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.values.idempotency_keys import RESERVED, RUNTIME_FORM


def check_idempotency(submission: Submission) -> Verdict:
    """Return the earlier answer, refuse other content under its key, archive what expired.

    A key of the runtime's form is refused of whoever submits from outside.
    """
    transaction, key = submission.transaction, submission.answered_key
    if key is None:
        message = f"a key that begins with {RUNTIME_FORM} is the runtime's own; state another"
        return Refusal(RESERVED, "idempotency_key", message)
    record = transaction.live_idempotency_record(key)
    if record is None:
        return None
    if record["expires_at_us"] <= transaction.head_now.committed_at_us:
        sequence = record["ec_sequence_number"]
        transaction.tables.update(schema.idempotency_records, (sequence,), {"archived": sequence})
        return None
    answer = recall(transaction, record)
    if record["content_digest"] != submission.content_digest:
        return Refusal(
            "envelope_idempotency_conflict",
            "idempotency_key",
            f"the key belongs to operation {answer.operation_id} with other content",
        )
    return answer


_SAME = ("operation_kind", "idempotency_key", "causal_parent_operation_ids", "recorded_at")


def check_supersession(submission: Submission) -> Verdict:
    """Refuse an envelope that names no waiting lite operation, or that is another operation."""
    envelope = submission.envelope
    if envelope.supersedes is None:
        return None
    lite_row = submission.transaction.tables.get(
        schema.kernel_event_log, int(envelope.supersedes.ec_sequence_number)
    )
    if lite_row is None or not is_lite(lite_row) or not _names(envelope, lite_row):
        message = f"no lite envelope of {envelope.operation_id} stands there"
        return Refusal("envelope_supersession_target_invalid", "supersedes", message)
    return (
        _check_waiting(submission, lite_row)
        or _check_same(envelope, orjson.loads(lite_row["row_bytes"]))
        or _check_content(envelope)
    )


def _names(envelope: Envelope, row: Row) -> bool:
    superseded = envelope.supersedes
    return (
        superseded is not None
        and envelope.operation_id == superseded.operation_id == row["operation_id"]
    )


def _check_waiting(submission: Submission, lite_row: Row) -> Refusal | None:
    operation_id, transaction = str(lite_row["operation_id"]), submission.transaction
    newest = transaction.log_row_of(operation_id)
    if newest is not None and position_of(newest) != newest["ec_sequence_number"]:
        message = f"row {newest['ec_sequence_number']} took its place before"
        return Refusal("envelope_already_superseded", "supersedes", message)
    for item in items_of(transaction, operation_id, MIGRATION_KIND):
        settled = resolution_of(transaction, item["receipt_id"])
        if settled is not None:
            message = f"{settled['operation_id']} settled it after a review"
            return Refusal("envelope_already_superseded", "supersedes", message)
    return None


def _check_same(envelope: Envelope, lite: Document) -> Refusal | None:
    for name in _SAME:
        stated = getattr(envelope, name)
        if (list(stated) if isinstance(stated, tuple) else stated) != lite[name]:
            message = f"the lite envelope has another {name}"
            return Refusal("envelope_supersession_differs", name, message)
    return None


def _check_content(envelope: Envelope) -> Refusal | None:
    if envelope.actor != "migration":
        message = "what supersedes a lite envelope is the migration's"
        return Refusal("envelope_actor_unauthorized", "actor", message)
    if envelope.recorded_model_outputs:
        message = "a migration asks no model"
        return Refusal("envelope_schema_invalid", "recorded_model_outputs", message)
    for index, effect in enumerate(envelope.primitive_effects):
        if effect.reversibility == IRREVERSIBLE:
            field = f"primitive_effects.{index}"
            message = "what happened outside would happen again"
            return Refusal("envelope_supersession_repeats_external_effect", field, message)
    return None
