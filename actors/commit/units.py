"""Defines units of work for the committer, each all or nothing inside the batch's transaction.

A unit runs on the committer's thread, inside the transaction, under a savepoint of its own. Nobody
learns its result before the batch is durable.

Dead letters, rollbacks and replays are committed by whichever gateway is asked: their units read
what they need inside the transaction, and no actor keeps any of it in memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, cast

from typing_extensions import TypedDict

from actors.commit.belief_units import BeliefUnit
from actors.commit.prefetch import earlier_answer_to, records_of, records_of_envelope
from actors.commit.recompute_units import RecomputeUnit
from actors.commit.unit_context import CommitContext
from actors.errors import StaleEpoch
from actors.messages import Simulate
from actors.orchestrator.intents import (
    EnqueueRecompute,
    Intent,
    Priority,
    ReportExternalEffect,
)
from actors.orchestrator.model_outputs import outputs_of
from actors.orchestrator.orchestrator import Orchestrator
from kernel.authority.enqueue_pages import request_of
from kernel.authority.read_ahead import RecordKey
from kernel.authority.requests import (
    AUTHORITY_QUEUE,
    close_requests,
)
from kernel.authority.triggers import USER_REQUEST
from kernel.ledger.ledger import Ledger
from kernel.ledger.receipts import append_receipt
from kernel.ledger.record_keys import belief_anchor_key, belief_session_key
from kernel.ledger.shards import Fence, Position, holds, record_consumed
from kernel.model.receipt import Receipt
from kernel.model.replay import AuditContext, AuditReplayReceipt, AuditReplayStrategy
from kernel.model.result import EmittedReceiptDocument, RejectedResult, SubmissionResult
from kernel.model.stated_receipts import EnqueuedRequest, RecomputeRequested
from kernel.replay.replay_receipts import replay_operation, replay_range
from kernel.simulate.operation import Simulation, SimulationResult, simulate_operation
from kernel.transaction.checks.check import Submitter
from kernel.transaction.checks.schema import Parsed, parse
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import digest
from kernel.values.errors import KernelError, LedgerCorrupt
from kernel.values.model_registry import ModelRegistry
from kernel.work.receipts import dead_letter_id

Submitted = SubmissionResult | RejectedResult


class Unit(Protocol):
    """One piece of work for the committer."""

    def run(self, context: CommitContext) -> Any:
        """Do the work and return the result that the caller gets once it is durable."""


def commit_alone(
    unit: Unit,
    ledger: Ledger,
    kernel: Kernel,
    orchestrator: Orchestrator,
    fence: Fence | None = None,
) -> Any:
    """Run a unit in a transaction of its own, beside any committer; durable when this returns.

    Raises:
        StaleEpoch: the fence is not held any more; nothing was written.
    """
    with ledger.transaction() as transaction:
        if fence is not None and not holds(transaction, fence):
            raise stale(fence)
        return unit.run(CommitContext(transaction, kernel, orchestrator))


def stale(fence: Fence | None) -> StaleEpoch:
    """Return the error of whoever writes under a fence that another process has taken over."""
    shard = None if fence is None else fence.shard
    return StaleEpoch("another process owns the shard", {"shard": shard})


def records_read(unit: Unit, policy_generation_id: str) -> list[RecordKey]:
    """Return the records that a unit will read, as far as that is known before it runs."""
    if isinstance(unit, IntentUnit):
        keys = records_of(unit.intent)
        keys += earlier_answer_to(unit.intent, unit.actor, policy_generation_id, unit.principal)
        if unit.session_id is not None:
            # Whether the session is active decides how urgent it is.
            keys.append(belief_anchor_key(unit.session_id))
        return keys
    if isinstance(unit, RecomputeUnit):
        answer = earlier_answer_to(unit.intent, "system", policy_generation_id)
        return records_of(unit.intent) + answer
    if isinstance(unit, BeliefUnit):
        session_id = unit.batch.session_id
        return [belief_anchor_key(session_id), belief_session_key(session_id)]
    return records_of_envelope(unit.document) if isinstance(unit, EnvelopeUnit) else []


@dataclass(frozen=True, slots=True)
class IntentUnit:
    """Resolve an intent and submit its envelope."""

    intent: Intent
    session_id: str | None
    actor: Literal["user", "system", "migration"] = "user"
    principal: str | None = None
    """Whose key brought it."""

    def run(self, context: CommitContext) -> Submitted:
        """Construct the envelope and submit it as the orchestrator.

        A model's answers are on the record with the operation that they belong to, or not at all.
        """
        transaction = context.transaction
        answer_refs = [transaction.put_blob(output.answer) for output in outputs_of(self.intent)]
        document = context.orchestrator.construct(
            self.intent,
            transaction,
            actor=self.actor,
            session_id=self.session_id,
            answer_refs=answer_refs,
            principal=self.principal,
        )
        result = context.kernel.submit(
            transaction, document, "orchestrator", id_is_drawn=True, principal=self.principal
        )
        if isinstance(result, RejectedResult) or result.duplicate:
            for answer_ref in answer_refs:
                transaction.drop_blob(answer_ref)
        return result


@dataclass(frozen=True)
class EnvelopeUnit:
    """Submit an envelope that somebody outside has written, in the name of its session."""

    document: object
    session_id: str
    principal: str | None = None
    """Whose key brought it; what the envelope states itself is held against that."""

    @cached_property
    def _document_of_session(self) -> object:
        if isinstance(self.document, dict):
            return in_the_name_of(self.document, self.session_id, self.principal)
        return self.document

    @cached_property
    def parsed(self) -> Parsed:
        """The parsed envelope; parsing it in the transaction would prolong that."""
        return parse(self._document_of_session)

    def run(self, context: CommitContext) -> Submitted:
        """Submit it as a caller's."""
        return context.kernel.submit(
            context.transaction,
            self._document_of_session,
            "caller",
            parsed=self.parsed,
            principal=self.principal,
        )


def in_the_name_of(
    envelope: dict[str, Any], session_id: str, principal: str | None
) -> dict[str, Any]:
    """Return an envelope in the name of its session, and of whose key brought it."""
    if principal is None:
        return {**envelope, "session_id": session_id}
    return {"principal": principal, **envelope, "session_id": session_id}


@dataclass(frozen=True, slots=True)
class SimulationUnit:
    """Simulate an operation, and record that somebody asked."""

    message: Simulate
    session_id: str
    session_profile_hash: str

    def run(self, context: CommitContext) -> SimulationResult:
        """Simulate an envelope as its author's, an intent as the orchestrator would submit it."""
        operation, principal = self.message.operation, self.message.principal
        submitter: Submitter = "caller"
        if isinstance(operation, Intent):
            submitter = "orchestrator"
            document = context.orchestrator.construct(
                operation,
                context.transaction,
                actor="user",
                session_id=self.session_id,
                principal=principal,
            )
        else:
            document = in_the_name_of(operation, self.session_id, principal)
        return simulate_operation(
            context.kernel,
            context.transaction,
            document,
            self.message.policy,
            self.session_profile_hash,
            simulation=Simulation(
                submitter,
                self.message.retention,
                self.session_id,
                self.message.simulation_key,
                principal,
            ),
        )


@dataclass(frozen=True, slots=True)
class ConsumedUnit:
    """Record how far a session's entries of the mailbox have taken effect.

    The place is recorded for each session: entries of one session are taken in order and those of
    different sessions at once, so one place for a shard would hold everybody up or say too little.
    It costs a row for each session that was ever asked from another gateway. A message that writes
    nothing leaves no place, and may be asked twice.
    """

    session_id: str
    to: Position

    def run(self, context: CommitContext) -> None:
        """Record the place, so that the same entries are recognised when they come again."""
        record_consumed(context.transaction, self.session_id, self.to)


class RecomputeRequestDocument(TypedDict):
    """A recompute that is asked for, as the record has it."""

    request_id: str
    target_cu_id: str
    trigger_kind: str
    trigger_source_id: str
    priority: Priority
    enqueued_at: str


class AuthorityRecomputeReceipt(TypedDict):
    """The answer to who asked for a recompute."""

    operation_id: str
    ec_sequence_number: str
    duplicate: bool
    request: RecomputeRequestDocument | None
    """None while a cascade is written down, and for the members of a cycle."""

    emitted_receipts: list[EmittedReceiptDocument]


@dataclass(frozen=True, slots=True)
class RequestRecomputeUnit:
    """Ask for one recompute and for all that depends on it (§8.2)."""

    target_cu_id: str
    trigger_source_id: str
    priority: Priority
    trigger_kind: str = USER_REQUEST

    def run(self, context: CommitContext) -> AuthorityRecomputeReceipt | RejectedResult:
        """Submit it as a user's and return its receipt, or the refusal."""
        request = EnqueuedRequest(
            target_cu_id=self.target_cu_id, trigger_kind=self.trigger_kind, priority=self.priority
        )
        intent = EnqueueRecompute(
            intent_key=digest([self.target_cu_id, self.trigger_kind, self.trigger_source_id]),
            asked_for=RecomputeRequested(
                trigger_source_id=self.trigger_source_id, requests=[request], cascades=True
            ),
        )
        result = IntentUnit(intent, None).run(context)
        if isinstance(result, RejectedResult):
            return result
        recorded = request_of(
            context.transaction, self.target_cu_id, self.trigger_kind, self.trigger_source_id
        )
        request_document = None if recorded is None else recorded.document
        return {
            "operation_id": result.operation_id,
            "ec_sequence_number": str(result.ec_sequence_number),
            "duplicate": result.duplicate,
            "request": cast("RecomputeRequestDocument | None", request_document),
            "emitted_receipts": result.document()["emitted_receipts"],
        }


@dataclass(frozen=True, slots=True)
class ExternalReportUnit:
    """Record the outcome of an effect outside, if its request has none yet."""

    intent: ReportExternalEffect

    def run(self, context: CommitContext) -> Literal["recorded", "closed", "rejected"]:
        """Submit the report; one that comes too late leaves no trace."""
        if context.transaction.outcome_of(self.intent.report["request_id"]) is not None:
            return "closed"
        result = IntentUnit(self.intent, None, "system").run(context)
        return "rejected" if isinstance(result, RejectedResult) else "recorded"


@dataclass(frozen=True, slots=True)
class DeadLetterUnit:
    """Give up on an item: requests get the outcome dead_letter, with a receipt each.

    A request that was asked for later is another cause, and stays open (decision queues/0096).
    """

    item_key: str
    error_signature: str
    request_ids: tuple[str, ...]
    """Those that were tried; one that is closed, or is of another item, is left alone."""

    def run(self, context: CommitContext) -> list[str]:
        """Close the requests and return their ids."""
        transaction = context.transaction
        sequence = transaction.head_now.ec_sequence_number
        transaction.next_commit_time_us()
        closed = close_requests(
            transaction,
            self.item_key,
            sequence,
            outcome="dead_letter",
            operation_id=None,
            closed_sequence=sequence,
            closed_at_us=transaction.head_now.committed_at_us,
            request_ids=frozenset(self.request_ids),
            error_signature=self.error_signature,
        )
        for request_id in closed:
            body: Mapping[str, Any] = {
                "request_id": request_id,
                "queue": AUTHORITY_QUEUE,
                "target_cu_id": self.item_key,
                "error_signature": self.error_signature,
            }
            receipt = Receipt("authority_recompute_dead_lettered", dict(body))
            append_receipt(transaction, dead_letter_id(request_id), receipt, None)
        return closed


@dataclass(frozen=True, slots=True)
class ReplayUnit:
    """Replay one operation, or a range, and leave a receipt of each; asks no model."""

    target: str | tuple[int, int]
    """An operation's id, or the first and the last sequence of a range."""

    strategy: AuditReplayStrategy
    registry: ModelRegistry
    context: AuditContext

    def run(self, context: CommitContext) -> tuple[AuditReplayReceipt, ...]:
        """Replay and return the receipts, in the order of replaying."""
        rules = (self.strategy, self.registry, self.context)
        try:
            if isinstance(self.target, str):
                return (replay_operation(context.transaction, self.target, *rules),)
            first, last = self.target
            return replay_range(context.transaction, first, last, *rules)
        except LedgerCorrupt as error:
            # Only the past cannot be read; this transaction does not depend on it.
            raise KernelError(str(error), code="replay_differs") from error
