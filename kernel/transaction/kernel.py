"""Submits an envelope: check, order, apply, receipt, seal (§1.4, §2.2, §2.3).

One call handles one envelope inside a transaction that the caller opened; several calls may share a
transaction (group commit), each under its own savepoint, so that one refusal undoes one envelope.
Nothing is true for anybody outside before the transaction has been committed. Decision kernel/0515
tells where the time of an envelope goes.
"""

from kernel.algebra.verbs import ROLLBACK
from kernel.authority.strategy import BetaPosteriorMean
from kernel.ledger.ledger import Document, LedgerTransaction
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import DuplicateKey
from kernel.ledger.supersession import check_order
from kernel.model.authority_strategy import AuthorityStrategy
from kernel.model.envelope import VOLATILE, Envelope
from kernel.model.receipt import Receipt
from kernel.model.result import RejectedResult, Rejection, SubmissionResult
from kernel.records.capacity import CapacityPort
from kernel.records.record_history import check_restoration
from kernel.records.rollbacks_under_way import check_left_alone
from kernel.transaction.checks.check import Passage, Refusal, Submission, Submitter
from kernel.transaction.checks.governance import priority_of
from kernel.transaction.checks.order import CHECKS
from kernel.transaction.checks.schema import Parsed, parse
from kernel.transaction.checks.shapes import remaining_checks
from kernel.transaction.log_row_seal import seal_log_row
from kernel.transaction.refusal_runs import RefusalReason, RefusalRuns
from kernel.transaction.rules import CURRENT_RULES, effect_rules_of
from kernel.values.canonical import CanonicalizationError, canonicalize, sha256_hex
from kernel.values.errors import EffectInapplicable, TextNotStorable
from kernel.values.idempotency_keys import answer_key

DEFAULT_IDEMPOTENCY_WINDOW_HOURS = 24
DEFAULT_CONFLICT_WINDOW_MS = 5000

_US_PER_HOUR = 3600 * 1_000_000
_US_PER_MS = 1000
_STATED_CHARS_MAX = 512
"""Characters of a text of a refused document that its receipt repeats."""

_OWN_CHECKS = tuple((name, check) for name, check in CHECKS if name not in ("V11", "V12"))
"""The checks that an envelope of the kernel's own passes: it draws no capacity of its own, and it
settles a conflict instead of having one."""


class _OwnRefused(Exception):
    """A check refused an envelope of the kernel's own."""

    def __init__(self, check: str, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.check = check
        self.refusal = refusal


_NOTHING_BESIDE = Passage()
_PRINCIPAL_DIFFERS = Refusal(
    "principal_differs",
    "principal",
    "the principal is whoever's key brought the envelope; leave the field out",
)

_UNDOING = (
    DuplicateKey,
    CanonicalizationError,
    EffectInapplicable,
    TextNotStorable,
    _OwnRefused,
)


class Kernel:
    """The rules of submission; holds no state between calls."""

    def __init__(
        self,
        strategy: AuthorityStrategy | None = None,
        idempotency_window_hours: int = DEFAULT_IDEMPOTENCY_WINDOW_HOURS,
        *,
        dev_mode: bool = False,
        capacity: CapacityPort | None = None,
        throttle_ops_per_sec: int | None = None,
        conflict_window_ms: int = DEFAULT_CONFLICT_WINDOW_MS,
        refusals: RefusalRuns | None = None,
    ) -> None:
        """Take the rules' parameters.

        `capacity` says what the leases hold (§18.2), without limit where it is left out.
        `throttle_ops_per_sec` is the threshold of the emergency throttle where the policy in force
        states none (§18.1); None throttles nothing.
        `conflict_window_ms` is how long after a commit a write that had not seen it conflicts
        with it (§19.2, K10). `refusals` says which of them have a receipt, all where it is left
        out.
        """
        self.strategy = strategy or BetaPosteriorMean()
        self.dev_mode = dev_mode
        """Whether a simulation may go on after a violation where its policy says so (§11.3)."""

        self._window_us = idempotency_window_hours * _US_PER_HOUR
        self._capacity = capacity
        self._throttle_ops_per_sec = throttle_ops_per_sec
        self._refusals = refusals
        self._conflict_window_us = conflict_window_ms * _US_PER_MS

    def submit(
        self,
        transaction: LedgerTransaction,
        document: object,
        submitter: Submitter,
        *,
        draws: bool = True,
        id_is_drawn: bool = False,
        parsed: Parsed | None = None,
        principal: str | None = None,
    ) -> SubmissionResult | RejectedResult:
        """Record one envelope, or a receipt that says why it was refused.

        `parsed` is what `parse` returned for the document, where somebody has asked it before the
        transaction began.

        `principal` is whose key brought the document, which states the same or none where none is.
        `id_is_drawn` says that the caller has just drawn the operation's id at random
        (`Host.new_id`), so that it need not be looked for on the record.

        Durable when the caller's transaction has been committed. A duplicate inside the
        idempotency window gets the first answer and changes nothing. What the kernel has to add
        of its own about a conflict is recorded with it, as operations of their own. `draws` is
        False for what is going to be taken back: it uses up no capacity.
        """
        transaction.next_commit_time_us()
        runs = self._refusals if draws else None
        parsed = parsed or parse(document)
        if isinstance(parsed, Refusal) or parsed[0].principal != principal:
            refusal = parsed if isinstance(parsed, Refusal) else _PRINCIPAL_DIFFERS
            return _reject(transaction, document, "V1", refusal, runs)
        submission = self.submission_of(transaction, parsed, submitter, principal)
        submission.id_is_drawn = id_is_drawn
        beside = _NOTHING_BESIDE
        for name, check in remaining_checks(submission):
            try:
                verdict = check(submission)
            except CanonicalizationError as error:
                return _reject(transaction, document, *_why(error), runs)
            if verdict is None:
                continue
            if isinstance(verdict, Refusal):
                return self._refuse(submission, name, verdict, runs)
            if isinstance(verdict, SubmissionResult):
                return verdict
            beside = Passage(
                beside.receipts + verdict.receipts,
                beside.follow_ups + verdict.follow_ups,
                beside.cost + verdict.cost,
            )
        try:
            with transaction.savepoint():
                for receipt in beside.receipts:
                    receipt_id = f"receipt:{transaction.host.new_id()}"
                    operation_id = submission.envelope.operation_id
                    append_receipt(transaction, receipt_id, receipt, operation_id)
                result = self._record(submission)
                self._record_own(transaction, beside.follow_ups)
        except _UNDOING as error:
            return _reject(transaction, document, *_why(error), runs)
        if draws and beside.cost and self._capacity is not None:
            envelope = submission.envelope
            self._capacity.draw(envelope.operation_kind, priority_of(envelope), beside.cost)
        return result

    def has_receipt(
        self,
        transaction: LedgerTransaction,
        reason: RefusalReason,
        operation_id: str | None,
        message: str,
    ) -> bool:
        """Tell whether a refusal gets a receipt of its own; count it where it gets none."""
        now_us = transaction.head_now.committed_at_us
        runs = self._refusals
        return runs is None or runs.has_receipt(reason, now_us, operation_id, message)

    def submission_of(
        self,
        transaction: LedgerTransaction,
        parsed: tuple[Envelope, Document, bytes],
        submitter: Submitter,
        principal: str | None = None,
    ) -> Submission:
        """Return what the checks examine of an envelope that could be read."""
        envelope, known, content = parsed
        digest = known.get("intent_digest")
        # What the orchestrator adds to an intent depends on the moment (causal parents, taint), so
        # for its envelopes the content is the intent, whose digest it states.
        if submitter != "orchestrator" or not isinstance(digest, str):
            digest = _content_digest(known)
        return Submission(
            known,
            content,
            digest,
            envelope,
            submitter,
            transaction,
            self._window_us,
            self._capacity,
            self._throttle_ops_per_sec,
            self._conflict_window_us,
            answered_key=answer_key(
                submitter,
                envelope.idempotency_key,
                supersedes=envelope.supersedes is not None,
                principal=principal,
            ),
        )

    def _record(self, submission: Submission) -> SubmissionResult:
        transaction = submission.transaction
        sequence = transaction.head_now.ec_sequence_number + 1
        if submission.envelope.semantic_intent == ROLLBACK:
            check_restoration(transaction, submission.envelope, effect_rules_of)
        outcome = CURRENT_RULES.apply(transaction, submission.envelope, sequence, self.strategy)
        if submission.envelope.supersedes is not None:
            check_order(transaction, submission.envelope.supersedes, outcome.applied_effects)
        if transaction.rollback_under_way() is not None:
            check_left_alone(transaction, submission.envelope, outcome.applied_effects)
        return seal_log_row(submission, sequence, outcome)

    def _record_own(self, transaction: LedgerTransaction, documents: tuple[Document, ...]) -> None:
        """Record envelopes of the kernel's own, each at a time of its own."""
        for document in documents:
            transaction.next_commit_time_us()
            parsed = parse(document)
            if isinstance(parsed, Refusal):
                raise _OwnRefused("V1", parsed)
            submission = self.submission_of(transaction, parsed, "orchestrator")
            for name, check in _OWN_CHECKS:
                verdict = check(submission)
                if isinstance(verdict, Refusal):
                    raise _OwnRefused(name, verdict)
            self._record(submission)

    def _refuse(
        self, submission: Submission, check: str, refusal: Refusal, runs: RefusalRuns | None
    ) -> RejectedResult:
        """Record what is done instead of a refused operation, if anything, and the receipt.

        Without a receipt of its own a refusal changes nothing at all.
        """
        transaction, document = submission.transaction, submission.document
        if not refusal.follow_ups:
            return _reject(transaction, document, check, refusal, runs)
        if not _has_receipt(transaction, document, check, refusal, runs):
            return _rejection_of(document, check, refusal, None)
        try:
            with transaction.savepoint():
                self._record_own(transaction, refusal.follow_ups)
        except _UNDOING as error:
            return _reject(transaction, document, *_why(error), None)
        return _reject(transaction, document, check, refusal, None)


def _why(error: Exception) -> tuple[str, Refusal]:
    """Return the check and the refusal for the error that undid an operation."""
    if isinstance(error, _OwnRefused):
        return error.check, error.refusal
    if isinstance(error, EffectInapplicable):
        return "apply", Refusal(error.code, error.field, str(error))
    if isinstance(error, TextNotStorable):
        return "apply", Refusal(error.code, "", str(error))
    if isinstance(error, DuplicateKey):
        # The keys of everything that an operation appends begin with its id, so they are new by
        # construction where the id is.
        message = "this operation is on the record"
        return "V1", Refusal("envelope_schema_invalid", "operation_id", message)
    # A float beyond 2^53 is whole in canonical form, and too large when it is read back.
    return "V1", Refusal("envelope_schema_invalid", "", str(error))


def _content_digest(document: Document) -> str:
    """Return the digest by which two submissions of one key are told apart (K6)."""
    content = {name: value for name, value in document.items() if name not in VOLATILE}
    return sha256_hex(canonicalize(content))


_STATED_NAMES = ("idempotency_key", "actor", "semantic_intent", "session_id")


def _reject(
    transaction: LedgerTransaction,
    document: object,
    check: str,
    refusal: Refusal,
    runs: RefusalRuns | None,
) -> RejectedResult:
    """Leave a durable receipt and nothing else (K5); none where the refusal is counted."""
    if not _has_receipt(transaction, document, check, refusal, runs):
        return _rejection_of(document, check, refusal, None)
    known = document if isinstance(document, dict) else {}
    body: Document = {
        **{name: known[name] for name in _STATED_NAMES if _repeatable(known.get(name))},
        "check": check,
        "reason_code": refusal.reason_code,
        "field": refusal.field,
        "message": refusal.message[:1000],
        **refusal.details,
    }
    if refusal.retry_after_s is not None:
        body["retry_after_s"] = refusal.retry_after_s
    receipt_id = f"receipt:{transaction.host.new_id()}"
    receipt = Receipt(refusal.receipt_kind, body)
    append_receipt(transaction, receipt_id, receipt, _repeatable_text(document, "operation_id"))
    return _rejection_of(document, check, refusal, receipt_id)


def _rejection_of(
    document: object, check: str, refusal: Refusal, receipt_id: str | None
) -> RejectedResult:
    rejection = Rejection(
        check, refusal.reason_code, refusal.field, refusal.message, refusal.retry_after_s
    )
    return RejectedResult(_repeatable_text(document, "operation_id"), rejection, receipt_id)


def _has_receipt(
    transaction: LedgerTransaction,
    document: object,
    check: str,
    refusal: Refusal,
    runs: RefusalRuns | None,
) -> bool:
    if runs is None:
        return True
    reason = RefusalReason(
        _repeatable_text(document, "session_id") or "", check, refusal.reason_code
    )
    now_us = transaction.head_now.committed_at_us
    operation_id = _repeatable_text(document, "operation_id")
    return runs.has_receipt(reason, now_us, operation_id, refusal.message)


def _repeatable_text(document: object, name: str) -> str | None:
    value = document.get(name) if isinstance(document, dict) else None
    return value if _repeatable(value) else None


def _repeatable(value: object) -> bool:
    """Tell whether a receipt can hold what a refused document states."""
    if type(value) is not str or len(value) > _STATED_CHARS_MAX or "\x00" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
