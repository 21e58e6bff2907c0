"""Thousands of sessions live in one process, leave it when they are idle, and come back.

By night there are ten thousand of them.
"""

import os
import tracemalloc

import anyio
import pytest

from actors.errors import RuntimeFull
from actors.messages import Query
from kernel.belief.session import BeliefSession
from tests.actors.harness import (
    ONTOLOGY,
    Gate,
    declare,
    running_sessions,
    scripted_ledger,
    settle,
    strike,
)

pytestmark = pytest.mark.anyio

SESSIONS = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 3_000
ASKING_AT_ONCE = 100
SAMPLE = range(0, SESSIONS, SESSIONS // 10 - 3)


@pytest.mark.slow
async def test_thousands_of_sessions_live_in_one_process_and_come_back_after_it():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:

        async def open_every(first: int) -> None:
            for number in range(first, SESSIONS, ASKING_AT_ONCE):
                await sessions.ask(f"s-{number}", declare("a", "b", survivors_max=0))

        async with anyio.create_task_group() as tasks:
            for first in range(ASKING_AT_ONCE):
                tasks.start_soon(open_every, first)
        assert sessions.active_sessions == SESSIONS
        for number in SAMPLE:
            await sessions.ask(f"s-{number}", strike("o-1", "a"))
    async with running_sessions(ledger, passivate_after_s=0.02) as sessions:
        for number in SAMPLE:
            assert (await sessions.ask(f"s-{number}", Query()))["survivors"] == ["b"]
            assert (await sessions.ask(f"s-{number + 1}", Query()))["survivors"] == ["a", "b"]
        await settle(lambda: sessions.active_sessions == 0)
        assert (await sessions.ask("s-0", Query()))["survivors"] == ["b"]


IDS = 2_000
"""Enough hypotheses that a session is worth weighing: about 400 kB."""


TIME = "2026-01-01T00:00:00.000000Z"


def _strike(session: BeliefSession, event_id: str, hypothesis_id: str) -> None:
    names = {"source_id": "adapter://test", "observation_id": event_id}
    session.eliminate(
        **names, eliminated=[hypothesis_id], justification={}, event_id=event_id, ts=TIME
    )


def _ids(name: str) -> list[str]:
    return [f"{name}-{number:06d}" for number in range(IDS)]


async def test_beyond_their_memory_the_sessions_that_are_idle_longest_leave_it(monkeypatch):
    ledger, _ = scripted_ledger()
    activations = []

    def read(question):
        activations.append(question)
        return read_ledger(question)

    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-0", declare(*_ids("0"), survivors_max=0))
        one_bytes = sessions.active_bytes
    assert one_bytes > IDS * 100
    read_ledger = ledger.read
    monkeypatch.setattr(ledger, "read", read)
    async with running_sessions(ledger, active_bytes_max=3 * one_bytes) as sessions:
        for number in range(1, 8):
            await sessions.ask(f"s-{number}", declare(*_ids(str(number)), survivors_max=0))
            assert sessions.active_bytes <= 3 * one_bytes
        activations.clear()
        for name in ("s-5", "s-6", "s-7", "s-5"):
            await sessions.ask(name, Query(survivors_max=0))
        await sessions.ask("s-5", strike("o-1", "5-000000"))
        assert activations == []
        # What it has recorded weighs as well, so the one that was idle longest has left.
        await sessions.ask("s-7", Query(survivors_max=0))
        assert activations == []
        await sessions.ask("s-6", Query(survivors_max=0))
        assert len(activations) == 1
        for number in range(8):
            survivors = (await sessions.ask(f"s-{number}", Query()))["survivors"]
            assert len(survivors) == IDS - (number == 5)
            assert sessions.active_bytes <= 3 * one_bytes
        await settle(lambda: sessions.active_sessions <= 3)


async def test_a_session_that_is_busy_keeps_its_memory_and_others_are_refused():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger, active_bytes_max=1000) as sessions:
        await sessions.ask("s-0", declare(*_ids("0"), survivors_max=0))
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sessions.ask, "s-0", strike("o-1", "0-000000"))
            await gate.reached()
            with pytest.raises(RuntimeFull):
                await sessions.ask("s-1", declare("a"))
            gate.open()
        assert len((await sessions.ask("s-0", Query()))["survivors"]) == IDS - 1


def test_a_session_weighs_about_what_it_takes():
    """Within a factor of two, for few and many hypotheses, short and long ones, and for events."""
    for count, text in ((50_000, "h"), (900, "x" * 400)):
        for events in (0, 60):
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            ids = [f"{text}{number}" for number in range(count)]
            session = BeliefSession.declare("s", ONTOLOGY, ids, event_id="e", ts=TIME)[0]
            for number in range(events):
                _strike(session, f"e{number}", ids[number])
            del ids
            taken = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            assert taken / 2 <= session.weight_bytes <= 2 * taken
