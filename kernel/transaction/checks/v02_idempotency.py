"""V2: a key that was answered inside its window is answered again, the same (§2.5, K6).

Answered is a key in the scope of who submits (`kernel/values/idempotency_keys.py`).
"""

from kernel.ledger import schema
from kernel.ledger.answers import recall
from kernel.transaction.checks.check import Refusal, Submission, Verdict
from kernel.values.idempotency_keys import RESERVED, RUNTIME_FORM


def check(submission: Submission) -> Verdict:
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
