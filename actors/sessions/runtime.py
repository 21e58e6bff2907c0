"""Keeps the sessions active in this process: activation, mailboxes, supervision, passivation.

A session is activated when somebody asks it something, and leaves memory when nobody has for a
while; its state is in the ledger all the time. A batch that fails because of a message is halved,
each half with an actor that was activated anew, until the message is alone; it is refused on the
record. Parts of the batch that were written before are found under their keys the second time. An
actor that fails ends the messages of its batch and of its mailbox with an error (their callers may
ask again), and the next message activates it anew. A session whose record does not verify stays
down (L3).

If gateways share a ledger, an actor lives under the fence of its session's shard: it is begun after
the shard was taken, ends with it, and is never asked under another. Actors without any fence belong
to a process that is alone.

`Sessions` is the port by which everybody else reaches a session, wherever it lives.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

import anyio
import anyio.abc
import anyio.to_thread
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from actors.commit.group_committer import Committer, ledger_away
from actors.commit.refusal_units import RefusalUnit
from actors.commit.thought_units import UNSIGNED, Sealing
from actors.commit.units import Unit
from actors.errors import (
    ActorError,
    ActorFailed,
    EliminationStoreConflict,
    EliminationStoreFailed,
    MailboxFull,
    RequestUnprocessable,
    RuntimeFull,
    SessionCorrupt,
    StaleEpoch,
)
from actors.messages import Message
from actors.sessions.elimination_store import AsyncEliminationStore
from actors.sessions.session_actor import Beside, SessionActor
from actors.sharding.held_shards import HeldShards
from kernel.belief.elimination_store import EliminationStoreUnavailable
from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.record import read_session
from kernel.belief.session import BeliefSession
from kernel.belief.tombstone_restoration import RestoredSession, restore_session
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import Fence, consumed_position
from kernel.thoughts.reading import read_chain
from kernel.values.errors import OF_THE_LEDGER, LedgerCorrupt, LedgerUnavailable
from kernel.values.host import iso_time

_OF_THE_SESSION = (ActorError, CorruptBeliefEvent)
"""Errors that end an actor with all of its messages; no message is to blame for them."""

_log = structlog.get_logger(__name__)


class Sessions(Protocol):
    """The port by which sessions are asked."""

    @property
    def corrupt_sessions(self) -> Mapping[str, str]:
        """The sessions that are not served here, and why."""

    async def ask(self, session_id: str, message: Message) -> Any:
        """Give a session a message and return its answer, which is durable.

        Raises:
            MailboxFull: when too much waits already; the message was not taken.
            ActorError: with a code that says whether asking again can help.
        """


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What the sessions of a process may take."""

    mailbox_max: int = 256
    passivate_after_s: float = 60.0
    active_sessions_max: int = 10_000
    active_bytes_max: int = 1 << 30
    """Beyond it the session that was idle longest leaves memory; without one, none comes."""


@dataclass(slots=True)
class _Active:
    """One activation of one session: its mailbox, its cancel scope and its fence."""

    session_id: str
    fence: Fence | None
    send: MemoryObjectSendStream[Message]
    receive: MemoryObjectReceiveStream[Message]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    error: ActorError | None = None
    """Why it was stopped from outside."""

    unanswered: int = 0
    """How many messages were put and are not handled yet."""

    weight_bytes: int = 0


Handled = Callable[[Sequence[Message], int], None]
"""Called with each batch of messages that was answered, and when it was taken (in ns)."""


class SessionRuntime:
    """Every active session of this process; run `run` in a task group."""

    def __init__(
        self,
        ledger: Ledger,
        committer: Committer,
        *,
        held_shards: HeldShards | None = None,
        limits: SessionLimits = SessionLimits(),
        tombstones: AsyncEliminationStore | None = None,
        handled: Handled | None = None,
        sealing: Sealing = UNSIGNED,
    ) -> None:
        """Serve the sessions of a ledger; `tombstones` is a store that some of them use."""
        self._sealing = sealing
        self._handled = handled
        self._tombstones = tombstones
        self._ledger = ledger
        self._committer = committer
        self._host = ledger.host
        self._held_shards = held_shards
        self._limits = limits
        self._active_bytes = 0
        self._active: OrderedDict[str, _Active] = OrderedDict()
        """The active sessions, the one that was asked last at the end."""

        self._corrupt: dict[str, str] = {}
        self._tasks: anyio.abc.TaskGroup | None = None

    @property
    def active_sessions(self) -> int:
        """How many sessions are active."""
        return len(self._active)

    @property
    def active_bytes(self) -> int:
        """About how much memory the active sessions hold."""
        return self._active_bytes

    @property
    def mailbox_depths(self) -> list[int]:
        """How many messages wait for each active session."""
        return [active.send.statistics().current_buffer_used for active in self._active.values()]

    @property
    def corrupt_sessions(self) -> dict[str, str]:
        """The sessions that are not served, and why."""
        return dict(self._corrupt)

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Run the actors until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            ready()
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    async def ask(self, session_id: str, message: Message) -> Any:
        """Give a session a message and return its answer; see `Sessions.ask`."""
        self.put(session_id, message)
        return await message.reply.wait()

    def put(self, session_id: str, message: Message) -> None:
        """Put a message into a session's mailbox: what is put later is handled later.

        Raises:
            ShardUnowned: when the session does not live here; the message was not taken.
            ActorError: when it cannot be taken.
        """
        fence = None if self._held_shards is None else self._held_shards.fence_for(session_id)
        if session_id in self._corrupt:
            raise SessionCorrupt(self._corrupt[session_id], {"session_id": session_id})
        active = self._active.get(session_id)
        if active is not None and active.fence != fence:
            self._stop(active)
            active = None
        active = active or self._activate(session_id, fence)
        if self._handled is not None:
            message.put_at_ns = time.time_ns()
        try:
            active.send.send_nowait(message)
        except anyio.WouldBlock:
            raise MailboxFull("the session has too much waiting") from None
        active.unanswered += 1
        self._active.move_to_end(session_id)

    async def record(self, unit: Unit, fence: Fence) -> Any:
        """Commit a unit beside the actors, under a fence, and return its result."""
        [result] = await self._committer.commit([unit], fence)
        return result

    async def confirm(self, fence: Fence) -> None:
        """Return if a fence is held, by the ledger as it is now.

        Raises:
            StaleEpoch: it is not held any more.
            CommitFailed: the ledger cannot be read.
        """
        await self._committer.confirm(fence)

    async def finish(self, shard: int) -> None:
        """Let the actors of a shard work off their mailboxes, and end them.

        Nobody may ask the shard's sessions any more. When this is cancelled, the actors are still
        to be stopped.
        """
        ending = [active for active in self._active.values() if _is_of(active, shard)]
        for active in ending:
            active.send.close()
        for active in ending:
            await active.ended.wait()

    def stop(self, shard: int) -> None:
        """End the actors of a shard that another gateway owns; their callers may ask again."""
        for active in [session for session in self._active.values() if _is_of(session, shard)]:
            self._stop(active)

    def _stop(self, active: _Active) -> None:
        active.error = StaleEpoch("another gateway owns the session")
        del self._active[active.session_id]
        active.scope.cancel()

    def _activate(self, session_id: str, fence: Fence | None) -> _Active:
        if self._tasks is None:
            raise ActorFailed("the runtime is stopping")
        if len(self._active) >= self._limits.active_sessions_max:
            raise RuntimeFull("too many sessions are active")
        if self._active_bytes > self._limits.active_bytes_max:
            raise RuntimeFull("the active sessions hold too much memory")
        send, receive = anyio.create_memory_object_stream[Message](self._limits.mailbox_max)
        active = self._active[session_id] = _Active(session_id, fence, send, receive)
        self._tasks.start_soon(self._live, active)
        return active

    def _weigh(self, active: _Active, weight_bytes: int) -> None:
        """Note what a session holds now; others that are idle make room for it."""
        self._active_bytes += weight_bytes - active.weight_bytes
        active.weight_bytes = weight_bytes
        if self._active_bytes <= self._limits.active_bytes_max:
            return
        for idle in [other for other in self._active.values() if not other.unanswered]:
            if self._active_bytes <= self._limits.active_bytes_max:
                return
            if idle is not active and idle.weight_bytes:
                self._passivate(idle)

    def _passivate(self, active: _Active) -> None:
        """Let a session leave memory that has nothing to do; it is activated anew when asked."""
        self._active_bytes -= active.weight_bytes
        active.weight_bytes = 0
        del self._active[active.session_id]
        active.scope.cancel()

    async def _live(self, active: _Active) -> None:
        """One activation of one session, from its record to its passivation or its failure."""
        session_id, receive = active.session_id, active.receive
        actor: SessionActor | None = None
        with active.scope, structlog.contextvars.bound_contextvars(session_id=session_id):
            batch: list[Message] = []
            failure: Exception = ActorFailed("the session's actor stopped")
            try:
                actor = await self._recover(session_id, active.fence)
                _log.debug("session_activated")
                while batch := await self._next_batch(receive):
                    taken_ns = 0 if self._handled is None else time.time_ns()
                    actor = await self._handle(actor, batch, active.fence)
                    active.unanswered -= len(batch)
                    self._weigh(active, actor.weight_bytes)
                    if self._handled is not None:
                        self._handled(batch, taken_ns)
                    if not actor.declared and not receive.statistics().current_buffer_used:
                        # Asking for sessions that are not there must not fill the runtime.
                        break
                _log.debug("session_passivated")
            except (CorruptBeliefEvent, LedgerCorrupt) as error:
                _log.critical("session_corrupt", error=str(error))
                self._corrupt[session_id] = str(error)
                failure = SessionCorrupt(str(error), {"session_id": session_id})
                self._ledger.damage.note(failure)
            except StaleEpoch as error:
                failure = error
                self._lose(active.fence)
            except ActorError as error:
                _log.error("actor_failed", error=str(error))
                failure = error
            except Exception as error:  # noqa: BLE001 - supervision: whatever it was, the actor ends
                _log.exception("actor_failed")
                failure = ActorFailed(f"the session's actor failed: {error!r}")
            finally:
                # No await between here and the end: nobody can put a message into the old mailbox.
                if self._active.get(session_id) is active:
                    del self._active[session_id]
                for message in [*batch, *_drain(receive)]:
                    message.reply.fail(active.error or failure)
                self._weigh(active, 0)
                active.send.close()
                receive.close()
                active.ended.set()
        await _release(actor)

    async def _handle(
        self, actor: SessionActor, batch: list[Message], fence: Fence | None
    ) -> SessionActor:
        """Let an actor handle a batch, by halves when something in it fails; return the actor.

        A failure leaves the memory in doubt, so each half has an actor that was activated anew. A
        message that fails alone is refused on the record.
        """
        session_id = actor.session_id
        to_handle = deque([batch])
        while to_handle:
            messages = to_handle.popleft()
            try:
                await actor.handle(messages)
            except RequestUnprocessable as error:
                cause: Exception = error
            except (*_OF_THE_SESSION, *OF_THE_LEDGER):
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, a message is to blame
                _log.exception("messages_failed", messages=len(messages))
                cause = error
            else:
                continue
            if len(messages) > 1:
                middle = len(messages) // 2
                unanswered = [
                    [message for message in half if not message.reply.is_filled]
                    for half in (messages[middle:], messages[:middle])
                ]
                to_handle.extendleft(unanswered)
                for message in messages:
                    message.again = True
            else:
                messages[0].reply.fail(await self._refuse(session_id, messages[0], cause, fence))
            actor = await self._recover(session_id, fence)
        return actor

    async def _refuse(
        self, session_id: str, message: Message, cause: Exception, fence: Fence | None
    ) -> Exception:
        if isinstance(cause, RequestUnprocessable):
            return cause
        refusal = RefusalUnit(message, cause, session_id)
        [refused] = await self._committer.commit([refusal], fence)
        error: Exception = refused
        return error

    def _lose(self, fence: Fence | None) -> None:
        if self._held_shards is not None and fence is not None:
            self._held_shards.lose(fence)

    async def _recover(self, session_id: str, fence: Fence | None) -> SessionActor:
        try:
            recorded, consumed = await anyio.to_thread.run_sync(
                self._ledger.read,
                lambda view: (read_session(view, session_id), consumed_position(view, session_id)),
            )
        except LedgerUnavailable as error:
            _log.warning("session_waits_for_ledger", error=str(error))
            raise ledger_away(error, "the record cannot be read") from error
        adopted = None
        belief = None if recorded is None else recorded.belief
        if belief is not None and belief.policy.elimination_store != "ledger":
            restored = await self._agree(belief)
            belief, adopted = restored.session, restored.adopted
        return SessionActor(
            session_id,
            belief,
            self._committer,
            self._host,
            fence=fence,
            tombstones=self._tombstones,
            beside=Beside(
                None if recorded is None else recorded.title,
                consumed,
                adopted,
                0 if recorded is None else recorded.n_snapshot,
                self._read_left_out,
                self._is_declared,
                self._read_chain,
                self._sealing,
            ),
        )

    async def _read_left_out(self, session_id: str, count: int) -> list[bytes]:
        try:
            return await anyio.to_thread.run_sync(
                self._ledger.read, lambda view: view.belief_events(session_id, limit=count)
            )
        except LedgerUnavailable as error:
            raise ledger_away(error, "the record cannot be read") from error

    async def _is_declared(self, session_id: str) -> bool:
        try:
            return await anyio.to_thread.run_sync(
                self._ledger.read, lambda view: view.belief_session(session_id) is not None
            )
        except LedgerUnavailable as error:
            raise ledger_away(error, "the record cannot be read") from error

    async def _read_chain(self, session_id: str) -> tuple[int, str]:
        try:
            return await anyio.to_thread.run_sync(
                self._ledger.read, lambda view: read_chain(view, session_id)
            )
        except LedgerUnavailable as error:
            raise ledger_away(error, "the record cannot be read") from error

    async def _agree(self, belief: BeliefSession) -> RestoredSession:
        """Hold a session against the store of its tombstones (seed 000 §6)."""
        place = belief.policy.elimination_store
        if self._tombstones is None or self._tombstones.place != place:
            message = f"the session's tombstones are kept in a {place}, and none is configured here"
            raise EliminationStoreFailed(message)
        try:
            recovered = await self._tombstones.recover(belief.session_id)
            return await anyio.to_thread.run_sync(
                lambda: restore_session(
                    belief.session_id,
                    recovered,
                    (event.to_bytes() for event in belief.audit()),
                    event_id=self._host.new_id(),
                    ts=iso_time(self._host.now_us()),
                )
            )
        except EliminationStoreUnavailable as error:
            raise EliminationStoreFailed(str(error)) from error
        except BeliefError as error:
            raise EliminationStoreConflict(error.message, error.details) from error

    async def _next_batch(self, receive: MemoryObjectReceiveStream[Message]) -> list[Message]:
        """Return the waiting messages, about one commit's; none when the session has been idle."""
        with anyio.move_on_after(self._limits.passivate_after_s), suppress(anyio.EndOfStream):
            first = await receive.receive()
            return [first, *_drain(receive, self._committer.batch_units - first.parts)]
        return _drain(receive, self._committer.batch_units)


def _is_of(active: _Active, shard: int) -> bool:
    return active.fence is not None and active.fence.shard == shard


async def _release(actor: SessionActor | None) -> None:
    if actor is not None:
        await actor.release()


def _drain(receive: MemoryObjectReceiveStream[Message], limit: float = inf) -> list[Message]:
    messages: list[Message] = []
    with suppress(anyio.WouldBlock, anyio.EndOfStream, anyio.ClosedResourceError):
        while limit > 0:
            messages.append(receive.receive_nowait())
            limit -= messages[-1].parts
    return messages
