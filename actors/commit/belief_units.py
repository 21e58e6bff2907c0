"""Collects belief events session by session, and records and anchors them all together.

One operation of the log names the new events of all sessions in a transaction, so an elimination
does not cost an operation each. The units only collect their events. When all units have run, the
anchor writes the events and submits that operation, under one savepoint: a session that somebody
else has written to fails alone, a refused anchor fails all of them and leaves nothing.

Decision actors/0125 says why.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from actors.commit.unit_context import CommitContext, PendingBelief
from actors.orchestrator.intents import AnchorBelief
from kernel.belief.anchors import SESSION_IDS_BYTES_MAX
from kernel.belief.record import BeliefBatch, check_follows, record_belief
from kernel.ledger.store.tables import DuplicateKey
from kernel.model.result import RejectedResult, Rejection, SubmissionResult
from kernel.model.stated_receipts import ANCHORED_SESSIONS_MAX, BeliefAnchor
from kernel.values.canonical import canonicalize, digest
from kernel.values.errors import KernelError


class AnchorRefused(KernelError):
    """The kernel refused the operation that anchors sessions; nothing of them was recorded."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(f"anchor refused: {rejection.message}")
        self.may_pass = rejection.reason_code == "envelope_capacity_unavailable"
        """Whether it was refused for the moment, and not for what some session holds."""


@dataclass(frozen=True, slots=True)
class BeliefUnit:
    """Append a session's new events, to be anchored with those of other sessions."""

    batch: BeliefBatch
    successor: BeliefBatch | None = None
    """The first events of the session that succeeds it: recorded with these, or neither is."""

    def run(self, context: CommitContext) -> PendingBelief:
        """Leave the events for the anchor of the transaction."""
        batches = (self.batch,) if self.successor is None else (self.batch, self.successor)
        pending = PendingBelief(batches)
        context.pending_belief.append(pending)
        return pending


@dataclass(frozen=True, slots=True)
class AnchorUnit:
    """Record the collected events of all sessions, and anchor them."""

    def run(self, context: CommitContext) -> None:
        """Give every session's events their outcome.

        Raises:
            AnchorRefused: none of the events may stay.
        """
        recorded = [pending for pending in context.pending_belief if _is_recorded(pending, context)]
        for group in [recorded] if len(recorded) == 1 else _operations(recorded):
            result = _anchor([batch for part in group for batch in part.batches], context)
            for part in group:
                part.outcome = result


def record_and_anchor(batch: BeliefBatch, context: CommitContext) -> SubmissionResult:
    """Record the events of one session at once, with an anchor of their own.

    Raises:
        DuplicateKey: when somebody else wrote to the session.
        AnchorRefused: nothing may stay.
    """
    record_belief(context.transaction, batch)
    return _anchor([batch], context)


def _is_recorded(pending: PendingBelief, context: CommitContext) -> bool:
    try:
        # Before anything is written, because both are recorded or neither is.
        for successor in pending.batches[1:]:
            check_follows(context.transaction, successor)
        for batch in pending.batches:
            record_belief(context.transaction, batch)
    except DuplicateKey as error:
        pending.outcome = error
        return False
    return True


def _operations(pending: list[PendingBelief]) -> Iterator[list[PendingBelief]]:
    """Cut what was recorded into what one operation may anchor: nearly always all of it."""
    group: list[PendingBelief] = []
    size = sessions = 0
    for part in pending:
        length = sum(len(canonicalize(batch.session_id)) for batch in part.batches)
        sessions += len(part.batches)
        if group and (sessions > ANCHORED_SESSIONS_MAX or size + length > SESSION_IDS_BYTES_MAX):
            yield group
            group, size, sessions = [], 0, len(part.batches)
        group.append(part)
        size += length
    if group:
        yield group


def _anchor(batches: list[BeliefBatch], context: CommitContext) -> SubmissionResult:
    intent = AnchorBelief(
        intent_key=digest([batch.head_event_hash for batch in batches]),
        anchor=BeliefAnchor(sessions=[batch.anchored_events() for batch in batches]),
    )
    document = context.orchestrator.construct(
        intent, context.transaction, actor="system", session_id=None
    )
    result = context.kernel.submit(context.transaction, document, "orchestrator", id_is_drawn=True)
    if isinstance(result, RejectedResult):
        raise AnchorRefused(result.rejection)
    return result
