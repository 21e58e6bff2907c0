"""Ten thousand sessions live in one process, leave it when they are idle, and come back."""

import anyio
import pytest

from actors.messages import Query
from tests.actors.harness import declare, running_sessions, scripted_ledger, settle, strike

pytestmark = pytest.mark.anyio

SESSIONS = 10_000
ASKING_AT_ONCE = 100
SAMPLE = range(0, SESSIONS, 997)


@pytest.mark.slow
async def test_ten_thousand_sessions_live_in_one_process_and_come_back_after_it():
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
