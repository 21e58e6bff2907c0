"""Sessions whose tombstones go to `rotulus tee`, which keeps them on a ledger of its own."""

from contextlib import asynccontextmanager, closing

import anyio
import pytest
from anyio.to_thread import run_sync

from actors.errors import EliminationStoreFailed
from actors.incidents.incidents import Incidents
from actors.messages import Audit, Query
from actors.sessions.elimination_store import AsyncEliminationStore
from kernel.belief.errors import BeliefError
from kernel.belief.record import declared_universe
from kernel.belief.terms import SessionPolicy
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from tests.actors.harness import declare, running_sessions, strike
from tests.kernel.build import findings
from tests.workers.tee.fake_tee import calling, node, seed, serving
from workers.environment.system_host import system_host
from workers.tee import tee_pb2 as wire
from workers.tee.service import TeeService
from workers.tee.store import TeeStore

pytestmark = pytest.mark.anyio

EDGE = "edge:svc-a|svc-b|DEPENDS_ON"
UNIVERSE = ("svc-a", "svc-b", "svc-c", EDGE)
TEE = SessionPolicy(elimination_store="tee")


@pytest.fixture
def ledgers():
    """The session's and the Tee's."""
    both = [Ledger.create(MemoryStore(), system_host()) for _ in range(2)]
    yield both
    for ledger in both:
        assert findings(ledger) == ()


@asynccontextmanager
async def sessions_over(target, ledger):
    def known(session_id):
        with ledger.view() as view:
            return declared_universe(view, session_id)

    with closing(TeeStore(target, known=known, timeout_s=5)) as store:
        async with running_sessions(ledger, tombstones=AsyncEliminationStore(store)) as sessions:
            yield sessions, store


@pytest.mark.spec("seed 000 §7.2", "seed 000 §8.2", "seed 000 §5")
async def test_session_and_tee_agree_after_every_elimination_and_after_a_restart(ledgers):
    ours, theirs = ledgers
    with serving(TeeService(Incidents(theirs))) as target:
        await run_sync(seed, target, frozenset(UNIVERSE))
        left = set(UNIVERSE)
        async with sessions_over(target, ours) as (sessions, store):
            await sessions.ask("s", declare(*UNIVERSE, policy=TEE))
            await run_sync(grow, target)
            for struck in ("svc-a", EDGE, "svc-late"):
                snapshot = (await sessions.ask("s", strike(struck, struck)))["snapshot"]
                left.discard(struck)
                assert set(snapshot["survivors"]) == left
                assert await run_sync(store.get_survivors, "s") == left
        async with sessions_over(target, ours) as (sessions, store):
            assert set((await sessions.ask("s", Query()))["survivors"]) == left
            assert await run_sync(store.get_survivors, "s") == left
            assert len((await sessions.ask("s", Audit()))["events"]) == 4
    async with sessions_over(target, ours) as (sessions, _):
        with pytest.raises(EliminationStoreFailed):
            await sessions.ask("s", strike("o", "svc-b"))


def grow(target):
    with calling(target) as stub:
        stub.MergeHypothesis(wire.HypothesisDelta(nodes=[node("svc-late")]))


async def test_a_hypothesis_that_the_graph_does_not_hold_is_a_refused_declaration(ledgers):
    ours, theirs = ledgers
    with serving(TeeService(Incidents(theirs))) as target:
        await run_sync(seed, target, frozenset(UNIVERSE))
        async with sessions_over(target, ours) as (sessions, _):
            with pytest.raises(BeliefError) as refused:
                await sessions.ask("s", declare(*UNIVERSE, "svc-nowhere", policy=TEE))
            assert refused.value.code == "INVALID_REQUEST"
            assert refused.value.details["missing"] == ["svc-nowhere"]
            await sessions.ask("s", declare(*UNIVERSE, policy=TEE))


async def test_sessions_at_once_each_have_an_incident(ledgers):
    ours, theirs = ledgers
    with serving(TeeService(Incidents(theirs))) as target:
        await run_sync(seed, target, frozenset(UNIVERSE))
        async with sessions_over(target, ours) as (sessions, store):

            async def strike_in(session_id, struck):
                await sessions.ask(session_id, declare(*UNIVERSE, policy=TEE))
                await sessions.ask(session_id, strike("o", struck))

            async with anyio.create_task_group() as tasks:
                for struck in UNIVERSE:
                    tasks.start_soon(strike_in, f"s-{struck}", struck)
            for struck in UNIVERSE:
                eliminated = await run_sync(store.get_eliminated, f"s-{struck}")
                assert eliminated == {struck}
