"""V4, the batch: an operation belongs to an epoch that is open, or to none (K22).

An epoch is opened by the first operation that names it and closed by the last one. An operation
that names none is an epoch by itself.
"""

from kernel.algebra.verbs import EPOCH_CLOSE, EPOCH_OPEN
from kernel.checks.check import Refusal, Submission, Verdict


def check(submission: Submission) -> Verdict:
    """Refuse an epoch that is not open, is opened twice, or is not named where it must be."""
    envelope, transaction = submission.envelope, submission.transaction
    epoch_id, field = envelope.epoch_id, "epoch_id"
    if epoch_id is None:
        if envelope.semantic_intent in (EPOCH_OPEN, EPOCH_CLOSE):
            return Refusal("envelope_epoch_missing", field, "names the epoch")
        return None
    opened = transaction.epoch_marker(epoch_id, EPOCH_OPEN) is not None
    if envelope.semantic_intent == EPOCH_OPEN:
        if opened or transaction.log_row_of(epoch_id) is not None:
            return Refusal("envelope_epoch_exists", field, f"epoch {epoch_id} exists")
        return None
    if not opened or transaction.epoch_marker(epoch_id, EPOCH_CLOSE) is not None:
        return Refusal("envelope_epoch_not_open", field, f"epoch {epoch_id} is not open")
    return None
