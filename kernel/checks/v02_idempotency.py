"""V2: a key that was answered inside its window is answered again, the same (§2.5, K6)."""

from kernel.checks.check import Refusal, Submission, Verdict
from kernel.ledger import schema
from kernel.ledger.answers import recall


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
    answer = recall(transaction, record)
    if record["content_digest"] != submission.content_digest:
        return Refusal(
            "envelope_idempotency_conflict",
            "idempotency_key",
            f"the key belongs to operation {answer.operation_id} with other content",
        )
    return answer
