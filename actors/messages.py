"""Defines the messages that a session actor takes, and the slot that its answer fills."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import anyio
import structlog

from actors.orchestrator.intents import Intent, RecalculateAuthority
from kernel.belief.limits import AUDIT_PAGE_MAX
from kernel.belief.terms import OntologyBundle, SessionPolicy
from kernel.ledger.shards import Position
from kernel.model.simulation import ALL_FORBIDDEN, Retention, SimulationExternalEffectPolicy
from kernel.proof.thought_chain import ThoughtType
from kernel.work.reports import SuccessfulAttempt, WorkReport

Answer = TypeVar("Answer")


class Reply(Generic[Answer]):
    """A place for one answer or one error, filled once."""

    def __init__(self) -> None:
        self._done = anyio.Event()
        self._answer: Answer | None = None
        self._error: Exception | None = None

    def set(self, answer: Answer) -> None:
        """Answer."""
        self._answer = answer
        self._done.set()

    def fail(self, error: Exception) -> None:
        """Answer with an error, unless an answer is there."""
        if not self._done.is_set():
            self._error = error
            self._done.set()

    @property
    def is_filled(self) -> bool:
        """Whether there is an answer or an error."""
        return self._done.is_set()

    def outcome(self) -> tuple[Answer | None, Exception | None]:
        """Return the answer and the error, both None before the reply is filled."""
        return self._answer, self._error

    async def wait(self) -> Answer:
        """Return the answer; cancelling the wait does not take the message back."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]


PRINCIPAL: ContextVar[str | None] = ContextVar("PRINCIPAL", default=None)
"""Whose key brought the request that is carried out; None where access is open."""


def _request_id() -> str | None:
    request_id: str | None = structlog.contextvars.get_contextvars().get("request_id")
    return request_id


@dataclass(slots=True)
class Message:
    """Base of all messages."""

    reply: Reply[Any] = field(default_factory=Reply, init=False)
    request_id: str | None = field(default_factory=_request_id, init=False)
    """The request in whose context the message was made, for the log."""

    principal: str | None = field(default_factory=PRINCIPAL.get, init=False)
    """Whose key brought it; other gateways believe the one that has sealed it."""

    position: Position | None = field(default=None, init=False)
    """The message's place in a mailbox, when it came from another gateway."""

    again: bool = field(default=False, init=False)
    """Whether it is handled once more, after its batch failed; then its place says nothing."""

    ask_id: str | None = field(default=None, init=False)
    """The id of the forwarded request, which the event of the message gets."""

    traceparents: tuple[tuple[str, ...], ...] = field(default=(), init=False)
    """For each part of what it reports, the spans that this belongs to; empty where none are."""

    put_at_ns: int = field(default=0, init=False)
    """When the message came into its session's mailbox, for traces."""

    @property
    def parts(self) -> int:
        """About how many units it makes."""
        return 1


@dataclass(slots=True)
class Declare(Message):
    """Open the belief session; the same declaration again is answered with its snapshot."""

    ontology: OntologyBundle
    hypotheses: Sequence[str]
    """As a stranger has sent them: what stands in the list is looked at on a thread."""

    policy: SessionPolicy
    metadata: dict[str, Any] | None = None
    survivors_max: int | None = None


@dataclass(slots=True)
class BeliefVerb(Message):
    """Base of what changes a belief session (seed 001 §2.1)."""

    expected_head: str | None = field(default=None, kw_only=True)
    """Only if this is the session's last event."""

    survivors_max: int | None = field(default=None, kw_only=True)
    """How many survivors the snapshot lists; None for all, 0 for a snapshot without the list."""


@dataclass(slots=True)
class Eliminate(BeliefVerb):
    """Strike hypotheses."""

    source_id: str
    observation_id: str
    eliminated: Sequence[str]
    """Likewise."""

    justification: dict[str, Any] | None = None


@dataclass(slots=True)
class EnterObligation(BeliefVerb):
    """Open an obligation that a number of eliminations discharges."""

    obligation_id: str
    min_total_eliminations: int


@dataclass(slots=True)
class RequestExit(BeliefVerb):
    """Ask to close the obligation."""

    obligation_id: str
    context: dict[str, Any] | None = None


@dataclass(slots=True)
class DeclareConclusion(BeliefVerb):
    """Declare what follows."""

    conclusion_id: str
    context: dict[str, Any] | None = None


@dataclass(slots=True)
class RequestTermination(BeliefVerb):
    """Ask to end the session."""

    context: dict[str, Any] | None = None


@dataclass(slots=True)
class Succeed(BeliefVerb):
    """Close the session and go on in another one, without what was undone.

    Observations are pairs of source_id and observation_id; either list is given.
    """

    reason: str
    undone: list[list[str]] | None = None
    carried: list[list[str]] | None = None
    cause: dict[str, Any] | None = None
    successor_id: str | None = None
    """A session that is not declared; None for one that is named after the session."""


@dataclass(slots=True)
class Query(Message):
    """Ask for the state of the session."""

    survivors_max: int | None = None


@dataclass(slots=True)
class Audit(Message):
    """Ask for a page of the audit entries after one."""

    since_event_id: str | None = None
    limit: int = AUDIT_PAGE_MAX


@dataclass(slots=True)
class StartAuditSession(Message):
    """Begin a session of thoughts (seed 002, `audit_session_start`)."""

    task_id: str


@dataclass(slots=True)
class RecordThought(Message):
    """Record a thought (`thought_record`); the same id with the same content is the same one."""

    thought_id: str
    thought_type: ThoughtType
    content: str


@dataclass(slots=True)
class VerifyThoughtChain(Message):
    """Read the chain of the session again, and record that it holds (`audit_verify_chain`)."""


@dataclass(slots=True)
class FinalizeMerkle(Message):
    """Seal the session and return its root (`merkle_finalize`)."""


@dataclass(slots=True)
class EndAuditSession(Message):
    """End the session (`audit_session_end`)."""


@dataclass(slots=True)
class Operate(Message):
    """Put intents through the kernel, in order."""

    intents: tuple[Intent, ...]

    @property
    def parts(self) -> int:
        """The number of intents: each is a part of its own."""
        return len(self.intents)


@dataclass(slots=True)
class SubmitEnvelope(Message):
    """Put an envelope through the kernel as its author wrote it."""

    document: object


@dataclass(slots=True)
class Simulate(Message):
    """Ask what an operation would come to; it is an intent, or an envelope as its author wrote it.

    Under the same `simulation_key` the same asking is answered as it was the first time.
    """

    operation: Intent | dict[str, Any]
    policy: SimulationExternalEffectPolicy = ALL_FORBIDDEN
    retention: Retention = "ephemeral"
    simulation_key: str | None = None


@dataclass(slots=True)
class Recomputed(Message):
    """Record what a worker computed."""

    intents: tuple[RecalculateAuthority, ...]
    attempt: SuccessfulAttempt | None = None

    @property
    def parts(self) -> int:
        """The number of results: each is a part of its own."""
        return len(self.intents)


@dataclass(slots=True)
class Reports(Message):
    """Put what workers report of asked-for work through the kernel, in order."""

    reports: tuple[WorkReport, ...]

    @property
    def parts(self) -> int:
        """The number of reports: each is a part of its own."""
        return len(self.reports)
