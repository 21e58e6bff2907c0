"""A session whose tombstones live in a store elsewhere: core, store and audit say one thing."""

import threading
from collections import deque
from contextlib import asynccontextmanager

import anyio
import pytest

from actors.error_codes import is_retryable
from actors.errors import ActorError, EliminationStoreConflict, EliminationStoreFailed
from actors.messages import Audit, Query
from actors.sessions.elimination_store import THREADS_MAX, AsyncEliminationStore
from kernel.belief.elimination_store import EliminationProvenance, EliminationStoreUnavailable
from kernel.belief.errors import BeliefError
from kernel.belief.memory_store import InMemoryStore
from kernel.belief.terms import SessionPolicy
from kernel.belief.tombstone_restoration import ADOPTED_SOURCE
from tests.actors.harness import declare, running_sessions, scripted_ledger, strike
from tests.kernel.build import findings

pytestmark = pytest.mark.anyio

TEE = SessionPolicy(elimination_store="tee")
NAMES = ("a", "b", "c", "d")
WHY = EliminationProvenance("adapter://test", "o")


class ScriptedTombstones(InMemoryStore):
    """A store whose writes go as the test says: one fault a write, before or after its work."""

    def __init__(self):
        super().__init__()
        self.faults = deque()
        self.written = []

    def create_session(self, session_id, hypothesis_ids):
        self._faulty(
            lambda: super(ScriptedTombstones, self).create_session(session_id, hypothesis_ids)
        )

    def eliminate(self, session_id, eliminated, provenance):
        self.written.append((sorted(eliminated), provenance))
        return self._faulty(
            lambda: super(ScriptedTombstones, self).eliminate(session_id, eliminated, provenance)
        )

    def _faulty(self, work):
        fault = self.faults.popleft() if self.faults else ""
        if fault == "before":
            raise EliminationStoreUnavailable("no answer")
        result = work()
        if fault == "after":
            raise EliminationStoreUnavailable("no answer")
        return result


@pytest.fixture
def tombstones():
    return ScriptedTombstones()


@asynccontextmanager
async def serving(ledger, tombstones):
    store = None if tombstones is None else AsyncEliminationStore(tombstones)
    async with running_sessions(ledger, tombstones=store) as sessions:
        yield sessions


async def check_agrees(sessions, tombstones, ledger, survivors):
    """§7.2, and the record verifies."""
    snapshot = await sessions.ask("s", Query())
    assert snapshot["survivors"] == sorted(survivors)
    assert tombstones.get_survivors("s") == frozenset(survivors)
    assert findings(ledger) == ()


@pytest.mark.spec("seed 000 §7.2", "seed 000 §4.2")
async def test_after_every_elimination_the_store_has_the_survivors_of_the_core(tombstones):
    ledger, _ = scripted_ledger()
    async with serving(ledger, tombstones) as sessions:
        await sessions.ask("s", declare(*NAMES, policy=TEE))
        left = set(NAMES)
        for number, struck in enumerate([("a",), ("a", "unknown"), (), ("b", "c")]):
            await sessions.ask("s", strike(f"o-{number}", *struck))
            left -= set(struck)
            await check_agrees(sessions, tombstones, ledger, left)
        await sessions.ask("s", strike("o-0", "a"))
    assert tombstones.written == [
        (["a"], EliminationProvenance("adapter://test", "o-0")),
        (["b", "c"], EliminationProvenance("adapter://test", "o-3")),
    ]


async def test_what_the_core_refuses_never_reaches_the_store(tombstones):
    ledger, _ = scripted_ledger()
    async with serving(ledger, tombstones) as sessions:
        await sessions.ask("s", declare(*NAMES, policy=TEE))
        await sessions.ask("s", strike("o", "a"))
        with pytest.raises(BeliefError):
            await sessions.ask("s", strike("o", "b"))
        await check_agrees(sessions, tombstones, ledger, {"b", "c", "d"})
    assert len(tombstones.written) == 1


async def test_a_session_that_keeps_its_tombstones_on_the_ledger_leaves_the_store_alone(tombstones):
    ledger, _ = scripted_ledger()
    async with serving(ledger, tombstones) as sessions:
        await sessions.ask("s", declare(*NAMES))
        await sessions.ask("s", strike("o", "a"))
    with pytest.raises(BeliefError):
        tombstones.recover("s")


async def test_a_store_that_fails_leaves_core_store_and_audit_as_they_were(tombstones):
    ledger, _ = scripted_ledger()
    async with serving(ledger, tombstones) as sessions:
        await sessions.ask("s", declare(*NAMES, policy=TEE))
        tombstones.faults.append("before")
        with pytest.raises(EliminationStoreFailed) as failed:
            await sessions.ask("s", strike("o", "a"))
        assert is_retryable(failed.value.code)
        await check_agrees(sessions, tombstones, ledger, NAMES)
        assert len((await sessions.ask("s", Audit()))["events"]) == 1
        answer = await sessions.ask("s", strike("o", "a"))
        assert answer["applied_eliminated"] == ["a"]
        await check_agrees(sessions, tombstones, ledger, {"b", "c", "d"})


@pytest.mark.spec("seed 000 §6")
@pytest.mark.parametrize("crash", ["the store's answer was lost", "the commit was lost"])
async def test_a_crash_between_store_and_audit_repairs_itself(tombstones, crash):
    ledger, rows = scripted_ledger()
    async with serving(ledger, tombstones) as sessions:
        await sessions.ask("s", declare(*NAMES, policy=TEE))
        (tombstones.faults if "store" in crash else rows.faults).append(
            "after" if "store" in crash else "lost"
        )
        with pytest.raises(ActorError):
            await sessions.ask("s", strike("o", "a"))
    assert tombstones.get_eliminated("s") == {"a"}
    with ledger.view() as view:
        assert len(view.belief_events("s")) == 1
    async with serving(ledger, tombstones) as sessions:
        await check_agrees(sessions, tombstones, ledger, {"b", "c", "d"})
        declared, adopted = (await sessions.ask("s", Audit()))["events"]
        assert adopted["payload"]["source_id"] == ADOPTED_SOURCE
        assert adopted["delta"] == {"eliminated": ["a"]}
        assert declared["verb"] == "DECLARE_SESSION"
        again = await sessions.ask("s", strike("o", "a", "b"))
        assert again["applied_eliminated"] == ["b"]
        await check_agrees(sessions, tombstones, ledger, {"c", "d"})
    async with serving(ledger, tombstones) as sessions:
        assert len((await sessions.ask("s", Audit()))["events"]) == 3


async def test_a_declaration_that_was_not_recorded_may_be_made_again(tombstones):
    ledger, rows = scripted_ledger()
    async with serving(ledger, tombstones) as sessions:
        rows.faults.append("lost")
        with pytest.raises(ActorError):
            await sessions.ask("s", declare(*NAMES, policy=TEE))
        await sessions.ask("s", declare(*NAMES, policy=TEE))
        await check_agrees(sessions, tombstones, ledger, NAMES)


async def test_a_declaration_that_the_store_refuses_did_not_happen(tombstones):
    ledger, _ = scripted_ledger()
    tombstones.create_session("s", NAMES)
    tombstones.eliminate("s", ["a"], WHY)
    async with serving(ledger, tombstones) as sessions:
        for hypotheses, code in ((NAMES, "CONFLICT"), (NAMES[1:], "SESSION_EXISTS")):
            with pytest.raises(BeliefError) as refused:
                await sessions.ask("s", declare(*hypotheses, policy=TEE))
            assert refused.value.code == code
        with pytest.raises(BeliefError) as refused:
            await sessions.ask("s", Query())
        assert refused.value.code == "SESSION_NOT_FOUND"
    with ledger.view() as view:
        assert view.belief_events("s") == []


async def test_a_store_that_has_lost_a_session_is_a_conflict_until_it_is_back(tombstones):
    ledger, _ = scripted_ledger()
    async with serving(ledger, tombstones) as sessions:
        await sessions.ask("s", declare(*NAMES, policy=TEE))
        await sessions.ask("s", strike("o", "a"))
    for other in (InMemoryStore(), InMemoryStore()):
        async with serving(ledger, other) as sessions:
            with pytest.raises(EliminationStoreConflict) as refused:
                await sessions.ask("s", Query())
            assert not is_retryable(refused.value.code)
            other.create_session("s", NAMES)
            with pytest.raises(EliminationStoreConflict):
                await sessions.ask("s", strike("o-2", "b"))
    async with serving(ledger, tombstones) as sessions:
        await check_agrees(sessions, tombstones, ledger, {"b", "c", "d"})


async def test_without_its_store_a_session_is_neither_declared_nor_served(tombstones):
    ledger, _ = scripted_ledger()
    async with serving(ledger, None) as sessions:
        with pytest.raises(BeliefError) as refused:
            await sessions.ask("s", declare(*NAMES, policy=TEE))
        assert refused.value.code == "INVALID_REQUEST"
        assert refused.value.details == {"field": "policy.elimination_store"}
    async with serving(ledger, tombstones) as sessions:
        await sessions.ask("s", declare(*NAMES, policy=TEE))
    async with serving(ledger, None) as sessions:
        with pytest.raises(EliminationStoreFailed):
            await sessions.ask("s", Query())


async def test_a_store_is_called_so_often_at_once_and_no_more():
    let_go = threading.Event()
    inside = []

    class Slow(InMemoryStore):
        def get_survivors(self, session_id):
            inside.append(session_id)
            let_go.wait(60)
            return frozenset()

    store = AsyncEliminationStore(Slow())
    async with anyio.create_task_group() as tasks:
        for _ in range(THREADS_MAX + 1):
            tasks.start_soon(store.get_survivors, "s")
        with anyio.fail_after(30):
            while len(inside) < THREADS_MAX:
                await anyio.sleep(0.001)
        await anyio.wait_all_tasks_blocked()
        assert len(inside) == THREADS_MAX
        let_go.set()
    assert len(inside) == THREADS_MAX + 1


async def test_the_five_methods_can_be_awaited_on_any_store():
    store = AsyncEliminationStore(InMemoryStore())
    await store.create_session("s", NAMES)
    assert (await store.eliminate("s", {"a", "x"}, WHY)).applied == {"a"}
    assert await store.get_eliminated("s") == {"a"}
    assert await store.get_survivors("s") == {"b", "c", "d"}
    recovered = await store.recover("s")
    assert recovered.hypothesis_ids == set(NAMES)
