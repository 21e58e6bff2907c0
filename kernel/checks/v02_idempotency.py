"""V2: a key that was answered inside its window is answered again, the same (§2.5, K6)."""

import orjson

from kernel.checks.check import Refusal, Submission, Verdict
from kernel.ledger import schema
from kernel.model.result import SubmissionResult


def check(submission: Submission) -> Verdict:
    """Return the earlier answer, refuse other content under its key, archive what expired."""
    transaction, key = submission.transaction, submission.envelope.idempotency_key
    record = transaction.live_idempotency_record(key)
    if record is None:
        return None
    if record["expires_at_us"] <= transaction.head_now.committed_at_us:
        sequence = record["ec_sequence_number"]
        transaction.tables.update(schema.idempotency_records, (sequence,), {"archived": sequence})
        return None
    if record["content_digest"] != submission.content_digest:
        return Refusal(
            "envelope_idempotency_conflict",
            "idempotency_key",
            f"the key belongs to operation {record['operation_id']} with other content",
        )
    return SubmissionResult.from_document(orjson.loads(record["result_bytes"]))
