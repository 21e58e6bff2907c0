"""A process that is killed has kept every word that it gave."""

import random
from pathlib import Path

import pytest

from actors.messages import Audit, Query
from kernel.belief.session import BeliefSession
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from tests.actors.eliminating_process import eliminate, real_host
from tests.actors.harness import anchor_of, running_sessions, strike
from tests.forked import forked, sent

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILLS = 5
SESSIONS = 3
HYPOTHESES = 500


def run_and_kill(path: Path, after_answers: int) -> list[tuple[str, str, str]]:
    """Start the process, kill it after so many answers, and return all that it told."""
    with forked(eliminate, path, SESSIONS, HYPOTHESES) as (process, connection):
        answered = [connection.recv() for _ in range(after_answers)]
        process.kill()
        return [*answered, *sent(connection)]


async def test_what_was_answered_survives_a_kill_and_the_session_goes_on(tmp_path):
    path, answered = tmp_path / "ledger.db", []
    chance = random.Random(20261121)
    for _ in range(KILLS):
        answered += run_and_kill(path, chance.randint(1, 60))
        ledger = Ledger.create(SqliteStore(path), real_host())
        check_record(ledger, answered)
        ledger.close()

    ledger = Ledger.create(SqliteStore(path), real_host())
    async with running_sessions(ledger) as sessions:
        for number in range(SESSIONS):
            session_id = f"s-{number}"
            before = await sessions.ask(session_id, Query())
            struck = before["survivors"][-1]
            after = await sessions.ask(session_id, strike("afterwards", struck))
            trail = (await sessions.ask(session_id, Audit()))["events"]
            assert after["applied_eliminated"] == [struck]
            assert after["snapshot"]["n_survivors"] == before["n_survivors"] - 1
            assert trail[-1]["event_id"] == after["audit_event_id"]
            assert anchor_of(ledger, session_id)["head_event_hash"] == trail[-1]["event_hash"]
    ledger.close()


def check_record(ledger: Ledger, answered: list[tuple[str, str, str]]) -> None:
    """Every answer is on record, every trail restores, and each anchor names its end."""
    with ledger.view() as view:
        recorded = {row["event_id"] for row in view.tables.scan(TableQuery(schema.belief_events))}
        assert {event_id for _, event_id, _ in answered} <= recorded
        assert (
            view.tables.count(TableQuery(schema.kernel_event_log)) == view.head().ec_sequence_number
        )
        for number in range(SESSIONS):
            session_id = f"s-{number}"
            events = view.belief_events(session_id)
            if not events:
                continue
            session = BeliefSession.restore(events)
            anchor = view.tables.get(schema.belief_anchors, session_id)
            assert anchor["head_event_hash"] == session.head_event_hash
            assert anchor["n_events"] == session.n_events
            left = set(session.snapshot()["survivors"])
            assert left.isdisjoint(
                observation_id for whose, _, observation_id in answered if whose == session_id
            )
