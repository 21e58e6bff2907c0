"""What tests of the actors stand on: a store that fails on demand, and running sessions."""

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, cast

import anyio

from actors.commit.group_committer import Committer
from actors.commit.unit_context import CommitContext
from actors.messages import Declare, Eliminate
from actors.orchestrator.orchestrator import Orchestrator
from actors.sessions.runtime import SessionLimits, SessionRuntime
from kernel.belief.terms import DEFAULT_POLICY, OntologyBundle
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import (
    Expected,
    HeadMoved,
    Store,
    TableQuery,
    Tables,
    WriterTurn,
    has_values,
)
from kernel.transaction.kernel import Kernel
from kernel.values.errors import CommitOutcomeUnknown, LedgerHeld, LedgerUnavailable
from tests.kernel.build import FakeHost

ONTOLOGY = OntologyBundle("space", "v1", "graphs://one", "v1")
GATE_WAIT_S = 20.0


class Gate:
    """Holds one transaction just before its COMMIT until a test opens it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()

    def hold(self) -> None:
        self._reached.set()
        if not self._opened.wait(GATE_WAIT_S):
            raise TimeoutError("the gate was never opened")

    async def reached(self) -> None:
        if not await anyio.to_thread.run_sync(self._reached.wait, GATE_WAIT_S):
            raise TimeoutError("nobody came to the gate")

    def open(self) -> None:
        self._opened.set()


class ScriptedStore:
    """A store whose transactions go as the test says: one fault a transaction, in order.

    `unavailable`: the server was not reached. `held`: the lock was not had, after the gate was
    opened. `broken`: the disk failed. `lost`: COMMIT failed and nothing was written. `found`:
    COMMIT failed after everything was written.
    """

    def __init__(self, inner: Store | None = None) -> None:
        self.inner: Store = inner or MemoryStore()
        self.faults: deque[str] = deque()
        self.gate: Gate | None = None
        self.transactions = 0
        self.after_commit: Callable[[], None] = lambda: None
        self.views_fail = False

    @contextmanager
    def transaction(self) -> Iterator[Tables]:
        self.transactions += 1
        gate, self.gate = self.gate, None
        fault = self.faults.popleft() if self.faults else ""
        if fault == "unavailable":
            raise LedgerUnavailable("the server was not reached")
        if fault == "held":
            if gate is not None:
                gate.hold()
            raise LedgerHeld("the lock was not had")
        if fault == "broken":
            raise OSError("the disk failed")
        with self.inner.transaction() as tables:
            yield tables
            if gate is not None:
                gate.hold()
            if fault == "lost":
                raise CommitOutcomeUnknown("COMMIT failed")
        if fault == "found":
            raise CommitOutcomeUnknown("COMMIT failed")
        self.after_commit()

    def view(self) -> Any:
        if self.views_fail:
            raise LedgerUnavailable("the ledger is gone")
        return self.inner.view()

    def server_time_us(self) -> int | None:
        return self.inner.server_time_us()

    def engine(self) -> dict[str, str]:
        return self.inner.engine()

    def close(self) -> None:
        self.inner.close()


class LateStore(ScriptedStore):
    """A scripted store whose head is locked when a transaction is written, not before."""

    def __init__(self, inner: Store | None = None) -> None:
        super().__init__(inner)
        self.meanwhile: deque[Callable[[], object]] = deque()
        """What others do between a turn's snapshot and its lock, one for each turn."""

        self.turns = 0

    @contextmanager
    def turn(self, *_: object) -> Iterator[WriterTurn]:
        self.turns += 1
        meanwhile = self.meanwhile.popleft() if self.meanwhile else None
        with ExitStack() as opened:
            snapshot = opened.enter_context(self.inner.view())

            def hold(expected: Sequence[Expected]) -> Tables:
                if meanwhile is not None:
                    meanwhile()
                tables = opened.enter_context(self.transaction())
                for table, row in expected:
                    there = tables.get(table, *(row[name] for name in key_names(table)))
                    if there is None or not has_values(there, row):
                        raise HeadMoved
                return tables

            yield WriterTurn(cast("Tables", snapshot), hold)


STORES = {"held": ScriptedStore, "late": LateStore}

kind_of_store = ContextVar("kind_of_store", default="held")
"""Which of them `scripted_ledger` makes."""


def scripted_ledger(inner: Store | None = None) -> tuple[Ledger, Any]:
    store = STORES[kind_of_store.get()](inner)
    ledger = Ledger.create(store, FakeHost().host)
    store.transactions = 0
    return ledger, store


def make_committer(ledger: Ledger, kernel: Kernel | None = None, **options: Any) -> Committer:
    return Committer(ledger, kernel or Kernel(), Orchestrator(ledger.host), **options)


@asynccontextmanager
async def running_committer(ledger: Ledger, **options: Any) -> AsyncIterator[Committer]:
    committer = make_committer(ledger, **options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(committer.run)
        yield committer
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def running_sessions(
    ledger: Ledger, kernel: Kernel | None = None, **options: Any
) -> AsyncIterator[SessionRuntime]:
    committer = make_committer(ledger, kernel)
    held = {name: options.pop(name) for name in ("held_shards", "tombstones") if name in options}
    runtime = SessionRuntime(ledger, committer, limits=SessionLimits(**options), **held)
    async with anyio.create_task_group() as tasks:
        ready = anyio.Event()
        tasks.start_soon(committer.run)
        tasks.start_soon(runtime.run, ready.set)
        await ready.wait()
        yield runtime
        tasks.cancel_scope.cancel()


def declare(*hypotheses: str, **changes: Any) -> Declare:
    fields: dict[str, Any] = {"policy": DEFAULT_POLICY, "ontology": ONTOLOGY, **changes}
    return Declare(hypotheses=hypotheses, **fields)


def strike(observation_id: str, *eliminated: str, **changes: Any) -> Eliminate:
    return Eliminate("adapter://test", observation_id, eliminated, **changes)


@contextmanager
def bench_on(ledger: Ledger, kernel: Kernel | None = None) -> Iterator[CommitContext]:
    with ledger.transaction() as transaction:
        yield CommitContext(transaction, kernel or Kernel(), Orchestrator(ledger.host))


def dump(ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    """Every row of the ledger."""
    with ledger.view() as view:
        return {
            table.name: view.tables.scan(TableQuery(table))
            for table in schema.metadata.sorted_tables
        }


def log_length(ledger: Ledger) -> int:
    with ledger.view() as view:
        return view.tables.count(TableQuery(schema.kernel_event_log))


def anchor_of(ledger: Ledger, session_id: str) -> dict[str, Any]:
    """What the newest anchor says of a session, empty where there is none."""
    with ledger.view() as view:
        return view.tables.get(schema.belief_anchors, session_id) or {}


async def settle(done: Callable[[], bool]) -> None:
    """Wait until something outside the test's control has happened."""
    with anyio.fail_after(10):
        while not done():
            await anyio.sleep(0.005)
