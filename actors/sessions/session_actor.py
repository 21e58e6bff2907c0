"""Takes a session's messages one after the other, and commits a batch of them at once.

It runs the messages that wait in order against the session in memory, hands everything that must be
recorded to the committer as one batch, and answers when that is durable. The events of the belief
session that arose in the batch are anchored once, at its end.

A session whose tombstones live in a store elsewhere writes them there before the commit and after
the core has accepted them (seed 000 §4.2). If the store fails, nothing is committed; if the commit
fails, the store is ahead of the record, and the next activation repairs that.

The memory runs ahead of the record while a batch is being committed. So when a commit fails the
actor stops, forgets, and is activated again from the ledger (decision actors/0002).

An actor lives under one fence of its shard: it writes under that fence, and an answer that needs no
commit is checked against the same fence (decision actors/0021). A message from the shard's mailbox
is taken once, because its place there is recorded together with its results. A copy of it at
another place changes nothing either: envelopes, intents, observations and reports have keys of
their own, and any other verb makes an event under the id of the forwarded request, of which a
ledger takes only one. For such a verb a session whose first events were left out of memory reads
its whole trail, once for each activation.

An actor that was activated from a snapshot has no events from before it. For a page of the audit,
or an elimination that it may know from before, it reads them, checks that they lead up to its own,
and keeps them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NoReturn

import anyio
import anyio.to_thread
import structlog

from actors.commit.belief_units import BeliefUnit
from actors.commit.group_committer import Committer
from actors.commit.recompute_units import RecomputeUnit
from actors.commit.thought_units import (
    UNSIGNED,
    ChainVerifiedUnit,
    EndAuditSessionUnit,
    FinalizeUnit,
    RecordThoughtUnit,
    Sealing,
    StartAuditSessionUnit,
)
from actors.commit.units import (
    ConsumedUnit,
    EnvelopeUnit,
    IntentUnit,
    SimulationUnit,
    Unit,
)
from actors.commit.work_units import WorkReportUnit
from actors.errors import (
    ActorError,
    ActorFailed,
    EliminationStoreConflict,
    ReplyLost,
    RequestUnprocessable,
    ThoughtNotTaken,
)
from actors.messages import (
    Audit,
    BeliefVerb,
    Declare,
    Eliminate,
    EndAuditSession,
    FinalizeMerkle,
    Message,
    Operate,
    Query,
    Recomputed,
    RecordThought,
    Reports,
    Simulate,
    StartAuditSession,
    SubmitEnvelope,
    Succeed,
    VerifyThoughtChain,
)
from actors.sessions.belief_verbs import VERBS, successor_named_after, take, takes_long
from actors.sessions.elimination_store import AsyncEliminationStore, write_through
from actors.sessions.operation_log import log_results
from kernel.belief.errors import BeliefError
from kernel.belief.events import BeliefEvent
from kernel.belief.id_lists import STEP_IDS
from kernel.belief.record import BeliefBatch, check_session_id
from kernel.belief.session import BeliefSession
from kernel.belief.succession import declare_successor
from kernel.belief.terms import TombstonePlace
from kernel.ledger.shards import Fence, Position
from kernel.model.result import SubmissionResult
from kernel.model.stated_receipts import SESSION_ID_CHARS_MAX
from kernel.thoughts.sessions import ThoughtRefused
from kernel.values.canonical import digest
from kernel.values.host import Host, iso_time

_log = structlog.get_logger(__name__)

SNAPSHOT_EVERY_EVENTS = 512
"""Events after which a snapshot is due, so about as many are replayed at an activation at most."""

ReadLeftOut = Callable[[str, int], Awaitable[list[bytes]]]
"""Reads the first events of a session, as many as the number says."""

IsDeclared = Callable[[str], Awaitable[bool]]
"""Tells whether the record has a session."""

ReadChain = Callable[[str], Awaitable[tuple[int, str]]]
"""Reads the chain of a session's thoughts again; returns how many there are, and its head."""

Finish = Callable[[list[Any]], Any]
"""Turns the results of a message's units into its answer."""


@dataclass(slots=True)
class _Batch:
    """The units that messages ask to commit, and how each message is answered afterwards."""

    units: list[Unit] = field(default_factory=list)
    answers: list[tuple[Message, int, int, Finish]] = field(default_factory=list)
    """(message, first unit, end of its units, how to answer)."""

    events: list[BeliefEvent] = field(default_factory=list)

    successor: tuple[BeliefSession, list[BeliefEvent]] | None = None
    """The session that succeeds this one by a message of the batch, and its first events."""

    def add(self, message: Message, units: list[Unit], finish: Finish) -> None:
        start = len(self.units)
        self.units.extend(units)
        self.answers.append((message, start, len(self.units), finish))


@dataclass(frozen=True, slots=True)
class Beside:
    """The parts that an activation reads beside its belief session."""

    title: str | None = None
    consumed: Position | None = None
    """How far the entries of the shard's mailbox have taken effect."""

    adopted: BeliefEvent | None = None
    """The tombstones that the session took from its store, recorded with the first batch."""

    n_snapshot: int = 0
    """How many events its newest snapshot covers."""

    read_left_out: ReadLeftOut | None = None
    is_declared: IsDeclared | None = None
    read_chain: ReadChain | None = None
    sealing: Sealing = UNSIGNED
    """Who signs the seals of thoughts."""


NOTHING_BESIDE = Beside()


class SessionActor:
    """The state of one session, and what each message does to it."""

    def __init__(
        self,
        session_id: str,
        belief: BeliefSession | None,
        committer: Committer,
        host: Host,
        *,
        fence: Fence | None = None,
        tombstones: AsyncEliminationStore | None = None,
        beside: Beside = NOTHING_BESIDE,
    ) -> None:
        """Hold a session as it was restored, and what else the record and its store had of it."""
        self.session_id = session_id
        self._fence = fence
        self._belief = belief
        self._title = beside.title or (session_id if belief is None else _title_of(belief))
        self._consumed = beside.consumed
        self._adopted = beside.adopted
        self._n_snapshot = beside.n_snapshot
        self._read_left_out = beside.read_left_out
        self._is_declared = beside.is_declared
        self._read_chain = beside.read_chain
        self._sealing = beside.sealing
        self._committer = committer
        self._host = host
        self._tombstones = tombstones

    @property
    def declared(self) -> bool:
        """Whether there is a belief session; without one the actor holds nothing."""
        return self._belief is not None

    @property
    def weight_bytes(self) -> int:
        """About how much memory the session holds."""
        return 0 if self._belief is None else self._belief.weight_bytes

    async def release(self) -> None:
        """Give the memory of a large session back, on a thread; the actor is not used again."""
        belief, self._belief = self._belief, None
        if belief is not None and len(belief.universe) > STEP_IDS:
            await anyio.to_thread.run_sync(belief.release)

    async def handle(self, messages: list[Message]) -> None:
        """Run messages in order, commit their units, and answer each.

        Raises:
            ActorFailed: when the commit failed: the memory can no longer be trusted.
            RequestUnprocessable: when their units were refused: likewise.
            StaleEpoch: when the shard has another owner; nobody was answered.
            EliminationStoreFailed, EliminationStoreConflict: when the store failed: likewise.
        """
        belief = self._belief
        leaves_out = belief is not None and belief.n_events_left_out > 0
        if leaves_out and any(self._needs_whole_trail(message) for message in messages):
            await self._fill_in()
        # A declaration is recorded before anything is struck, so that a crash leaves no tombstone
        # of a session that was never declared.
        while self._tombstones is not None and not self.declared and len(messages) > 1:
            first, *messages = messages
            await self._handle([first])
        # A chain is read from the record, where what was asked before has to stand.
        places = [
            at for at, message in enumerate(messages) if isinstance(message, VerifyThoughtChain)
        ]
        for start, end in pairwise([0, *(at for at in places if at), len(messages)]):
            await self._handle(messages[start:end])

    async def _handle(self, messages: list[Message]) -> None:
        batch = _Batch()
        written, self._adopted = self._adopted, None
        if written is not None:
            batch.events.append(written)
        for message in messages:
            position = message.position
            if position is not None and not message.again and self._is_consumed(position):
                # Its first caller had no answer, and nobody else knows the event.
                message.reply.fail(ReplyLost("the request was taken before; ask again"))
                continue
            try:
                await self._carry_out(message, batch)
            except BeliefError as error:
                # What it was refused for may not be durable yet, so it waits like an answer.
                batch.add(message, [], partial(_refuse, error))
        await self._record(batch, written)

    async def _carry_out(self, message: Message, batch: _Batch) -> None:
        if isinstance(message, VerifyThoughtChain):
            await self._verify_chain(message, batch)
            return
        if isinstance(message, Succeed):
            await self._check_free(message)
        handle = _HANDLERS[type(message)]
        if takes_long(message, self._belief):
            # It is finished although its caller may have gone, because others wait behind it.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(handle, self, message, batch)
        else:
            handle(self, message, batch)

    async def _record(self, batch: _Batch, written: BeliefEvent | None) -> None:
        """Write tombstones, commit, and answer; `written` is what the store has already."""
        if batch.events and self._tombstones is not None:
            try:
                new = [event for event in batch.events if event is not written]
                await write_through(self._tombstones, self._expect_belief(), new)
            except BeliefError as error:
                self._belief = None
                for message, *_ in batch.answers:
                    message.reply.fail(error)
                return
        if batch.successor is not None:
            await self._write_successor(*batch.successor)
        if batch.units or batch.events:
            results = await self._commit(batch)
        else:
            results = []
            await self._committer.confirm(self._fence)
        if batch.events and isinstance(results[-1], RequestUnprocessable):
            raise results[-1]
        if batch.events and not isinstance(results[-1], SubmissionResult):
            raise ActorFailed(f"the belief events were not recorded: {results[-1]}")
        _answer(batch, results)

    async def _write_successor(self, belief: BeliefSession, events: list[BeliefEvent]) -> None:
        try:
            await write_through(self._tombstones, belief, events)
        except BeliefError as error:
            raise EliminationStoreConflict(error.message, error.details) from error

    def _needs_whole_trail(self, message: Message) -> bool:
        """Tell whether a message asks for events that the session does not hold."""
        if isinstance(message, Eliminate):
            return self._expect_belief().is_left_out(message.source_id, message.observation_id)
        # Whether an asking was taken before is seen by the ids of all events.
        return isinstance(message, Audit | Succeed) or (
            isinstance(message, BeliefVerb) and message.ask_id is not None
        )

    async def _fill_in(self) -> None:
        belief = self._expect_belief()
        if self._read_left_out is None:
            raise ActorFailed("the beginning of the trail cannot be read here")
        events = await self._read_left_out(self.session_id, belief.n_events_left_out)
        await anyio.to_thread.run_sync(belief.fill_in, events)

    async def _commit(self, batch: _Batch) -> list[Any]:
        positions = [answer.position for answer, *_ in batch.answers if answer.position is not None]
        if positions:
            batch.units.append(ConsumedUnit(self.session_id, positions[-1]))
        if batch.events:
            belief = self._expect_belief()
            is_due = belief.n_events - self._n_snapshot >= SNAPSHOT_EVERY_EVENTS
            snapshot = belief.take_snapshot(self._n_snapshot) if is_due else None
            belief_batch = BeliefBatch.after(belief, batch.events, self._title, snapshot)
            successor = None if batch.successor is None else _first_batch(*batch.successor)
            batch.units.append(BeliefUnit(belief_batch, successor))
            if snapshot is not None:
                self._n_snapshot = snapshot.n_events
        results = await self._committer.commit(batch.units, self._fence)
        if positions:
            self._consumed = positions[-1]
        return results

    def _is_consumed(self, position: Position) -> bool:
        consumed = self._consumed
        return (
            consumed is not None
            and position.mailbox_id == consumed.mailbox_id
            and position.offset <= consumed.offset
        )

    def _expect_belief(self) -> BeliefSession:
        if self._belief is None:
            raise BeliefError(
                "SESSION_NOT_FOUND", "no such session", {"session_id": self.session_id}
            )
        return self._belief

    def _stamp(self, message: Message) -> dict[str, Any]:
        """Name the event by the forwarded request, so that a copy makes no second one."""
        event_id = self._host.new_id() if message.ask_id is None else message.ask_id
        return {"event_id": event_id, "ts": iso_time(self._host.now_us())}

    def _tombstone_places(self) -> tuple[TombstonePlace, ...]:
        return ("ledger",) if self._tombstones is None else ("ledger", self._tombstones.place)

    def _declare(self, message: Declare, batch: _Batch) -> None:
        if self._belief is not None:
            _check_same_declaration(self._belief, message)
        elif len(self.session_id) > SESSION_ID_CHARS_MAX:
            problem = f"session_id must have at most {SESSION_ID_CHARS_MAX} characters"
            raise BeliefError("INVALID_REQUEST", problem, {"field": "session_id"})
        elif "\x00" in f"{self.session_id}{(message.metadata or {}).get('case_name', '')}":
            # Not every store's text can hold it, and by then a whole batch would fail.
            problem = "a session's id and name do not hold the character U+0000"
            raise BeliefError("INVALID_REQUEST", problem, {"field": "metadata.case_name"})
        elif message.policy.elimination_store not in self._tombstone_places():
            places = " and ".join(self._tombstone_places())
            problem = f"tombstones are kept in {places} here (ROTULUS_ELIMINATION_STORE)"
            raise BeliefError("INVALID_REQUEST", problem, {"field": "policy.elimination_store"})
        else:
            self._belief, event = BeliefSession.declare(
                self.session_id,
                message.ontology,
                message.hypotheses,
                metadata=message.metadata,
                policy=message.policy,
                **self._stamp(message),
            )
            self._title = _title_of(self._belief)
            batch.events.append(event)
        snapshot = self._belief.snapshot(message.survivors_max)
        batch.add(message, [], lambda _: snapshot)

    def _verb(self, message: BeliefVerb, batch: _Batch) -> None:
        answer, event = take(self._expect_belief(), message, self._stamp(message))
        if event is not None:
            batch.events.append(event)
            if isinstance(message, Succeed):
                belief = self._expect_belief()
                batch.successor = declare_successor(belief, event, self._host.new_id)
        batch.add(message, [], lambda _: answer)

    def _query(self, message: Query, batch: _Batch) -> None:
        snapshot = self._expect_belief().snapshot(message.survivors_max)
        batch.add(message, [], lambda _: snapshot)

    def _audit(self, message: Audit, batch: _Batch) -> None:
        belief = self._expect_belief()
        events = belief.audit_page(message.since_event_id, message.limit)
        last = events[-1].event_id if events else belief.head_event_id
        page = {
            "events": [event.to_dict() for event in events],
            "next_since_event_id": None if last == belief.head_event_id else last,
        }
        batch.add(message, [], lambda _: page)

    async def _check_free(self, message: Succeed) -> None:
        """Refuse a successor that another author has declared.

        One that is declared meanwhile fails the commit, and is seen when this is asked again.
        """
        belief = self._expect_belief()
        successor_id = message.successor_id or successor_named_after(self.session_id)
        check_session_id(successor_id)
        is_first = belief.successor_id is None and successor_id != self.session_id
        if is_first and self._is_declared is not None and await self._is_declared(successor_id):
            details = {"session_id": successor_id}
            raise BeliefError("SESSION_EXISTS", "the successor is declared already", details)

    async def _verify_chain(self, message: VerifyThoughtChain, batch: _Batch) -> None:
        if self._read_chain is None:
            raise ActorFailed("the chain cannot be read here")
        try:
            count, head = await self._read_chain(self.session_id)
        except ThoughtRefused as error:
            message.reply.fail(ThoughtNotTaken(error.code, str(error)))
            return
        self._add_unit(message, batch, ChainVerifiedUnit(self.session_id, count, head))

    def _start_thoughts(self, message: StartAuditSession, batch: _Batch) -> None:
        self._add_unit(message, batch, StartAuditSessionUnit(self.session_id, message.task_id))

    def _think(self, message: RecordThought, batch: _Batch) -> None:
        unit = RecordThoughtUnit(
            self.session_id, message.thought_id, message.thought_type, message.content
        )
        self._add_unit(message, batch, unit)

    def _finalize(self, message: FinalizeMerkle, batch: _Batch) -> None:
        self._add_unit(message, batch, FinalizeUnit(self.session_id, self._sealing))

    def _end_thoughts(self, message: EndAuditSession, batch: _Batch) -> None:
        self._add_unit(message, batch, EndAuditSessionUnit(self.session_id))

    @staticmethod
    def _add_unit(message: Message, batch: _Batch, unit: Unit) -> None:
        batch.add(message, [unit], _first)

    def _operate(self, message: Operate, batch: _Batch) -> None:
        self._expect_belief()
        principal = message.principal
        units: list[Unit] = [
            IntentUnit(intent, self.session_id, principal=principal) for intent in message.intents
        ]
        batch.add(message, units, list)

    def _submit(self, message: SubmitEnvelope, batch: _Batch) -> None:
        self._expect_belief()
        unit = EnvelopeUnit(message.document, self.session_id, message.principal)
        batch.add(message, [unit], lambda results: results[0])

    def _simulate(self, message: Simulate, batch: _Batch) -> None:
        unit = SimulationUnit(message, self.session_id, _profile_hash(self._expect_belief()))
        batch.add(message, [unit], lambda results: results[0])

    def _add_recomputes(self, message: Recomputed, batch: _Batch) -> None:
        units: list[Unit] = [
            RecomputeUnit(intent, self.session_id, message.attempt) for intent in message.intents
        ]
        batch.add(message, units, list)

    def _add_reports(self, message: Reports, batch: _Batch) -> None:
        batch.add(message, [WorkReportUnit(report) for report in message.reports], list)


def _answer(batch: _Batch, results: list[Any]) -> None:
    log_results(
        (result, message.request_id)
        for message, start, end, _ in batch.answers
        for result in results[start:end]
    )
    for message, start, end, finish in batch.answers:
        try:
            message.reply.set(finish(results[start:end]))
        except (ActorError, BeliefError) as error:
            message.reply.fail(error)
        except Exception as error:  # noqa: BLE001 - the others are answered
            # It is on the record, and it is this one's answer alone that cannot be made of it.
            _log.exception("answer_failed", message=type(message).__name__)
            message.reply.fail(ActorFailed(f"the answer cannot be made: {error!r}"))


def _first(results: list[Any]) -> Any:
    """Return the result of a message's one unit.

    Raises:
        ActorError: the unit was refused.
    """
    [result] = results
    if isinstance(result, ActorError):
        raise result
    return result


def _refuse(error: BeliefError, _: list[Any]) -> NoReturn:
    raise error


def _first_batch(belief: BeliefSession, events: list[BeliefEvent]) -> BeliefBatch:
    return BeliefBatch.after(belief, events, _title_of(belief))


def _title_of(belief: BeliefSession) -> str:
    """The name of the case, where the declaration gave one."""
    metadata = belief.audit_page(None, 1)[0].payload.get("metadata", {})
    return str(metadata.get("case_name", belief.session_id))


def _profile_hash(belief: BeliefSession) -> str:
    """Return the digest of a session's declaration, the profile of its simulations (§11.2)."""
    profile = {"ontology": asdict(belief.ontology), "policy": belief.policy.to_dict()}
    return digest({"session_id": belief.session_id, **profile})


def _check_same_declaration(belief: BeliefSession, message: Declare) -> None:
    same = (
        belief.ontology == message.ontology
        and belief.policy == message.policy
        and belief.universe.is_of(message.hypotheses)
    )
    if not same:
        raise BeliefError(
            "SESSION_EXISTS",
            "the session was declared differently",
            {"session_id": belief.session_id},
        )


_HANDLERS: Mapping[type[Message], Callable[[SessionActor, Any, _Batch], None]] = MappingProxyType(
    {
        Declare: SessionActor._declare,  # noqa: SLF001 - the table of this module's own class
        **dict.fromkeys(VERBS, SessionActor._verb),  # noqa: SLF001
        Query: SessionActor._query,  # noqa: SLF001
        Audit: SessionActor._audit,  # noqa: SLF001
        Operate: SessionActor._operate,  # noqa: SLF001
        SubmitEnvelope: SessionActor._submit,  # noqa: SLF001
        Simulate: SessionActor._simulate,  # noqa: SLF001
        Recomputed: SessionActor._add_recomputes,  # noqa: SLF001
        Reports: SessionActor._add_reports,  # noqa: SLF001
        StartAuditSession: SessionActor._start_thoughts,  # noqa: SLF001
        RecordThought: SessionActor._think,  # noqa: SLF001
        FinalizeMerkle: SessionActor._finalize,  # noqa: SLF001
        EndAuditSession: SessionActor._end_thoughts,  # noqa: SLF001
    }
)
