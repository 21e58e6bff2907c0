"""V4, the batch: an operation belongs to an epoch that is open, or to none (K22).

An epoch is opened by the first operation that names it and closed by the last one, by whoever
opened it: the same actor in the same session. An operation
that names none is an epoch by itself.
"""

from kernel.algebra.verbs import EPOCH_CLOSE, EPOCH_OPEN
from kernel.ledger.ledger import LedgerView
from kernel.model.envelope import Envelope
from kernel.transaction.checks.check import Refusal, Submission, Verdict


def check(submission: Submission) -> Verdict:
    """Refuse an epoch that is not open, is opened twice, or is not named where it must be."""
    envelope, transaction = submission.envelope, submission.transaction
    epoch_id, field = envelope.epoch_id, "epoch_id"
    if epoch_id is None:
        if envelope.semantic_intent in (EPOCH_OPEN, EPOCH_CLOSE):
            return Refusal("envelope_epoch_missing", field, "names the epoch")
        return None
    opened = transaction.epoch_marker(epoch_id, EPOCH_OPEN)
    if envelope.semantic_intent == EPOCH_OPEN:
        if opened is not None or transaction.log_row_of(epoch_id) is not None:
            return Refusal("envelope_epoch_exists", field, f"epoch {epoch_id} exists")
        return None
    if opened is None or transaction.epoch_marker(epoch_id, EPOCH_CLOSE) is not None:
        return Refusal("envelope_epoch_not_open", field, f"epoch {epoch_id} is not open")
    if envelope.semantic_intent == EPOCH_CLOSE:
        return _check_closer(envelope, transaction, str(opened["operation_id"]))
    return None


def _check_closer(envelope: Envelope, view: LedgerView, opened_by: str) -> Verdict:
    opening = view.envelope(opened_by) or {}
    for field in ("actor", "session_id"):
        if getattr(envelope, field) != opening.get(field):
            message = f"epoch {envelope.epoch_id} is closed by the {field} that opened it"
            return Refusal("envelope_epoch_of_another", field, message)
    return None
