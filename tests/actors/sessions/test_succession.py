"""A session is closed and its successor declared by one commit, or nothing happened."""

import time
from itertools import count
from pathlib import Path

import anyio
import pytest

from actors.errors import ActorError, EliminationStoreConflict
from actors.messages import Audit, Query, Succeed
from actors.sessions.belief_verbs import successor_named_after
from kernel.audit import proofs
from kernel.belief.elimination_store import EliminationProvenance
from kernel.belief.errors import BeliefError
from kernel.belief.events import BeliefEvent
from kernel.belief.memory_store import InMemoryStore
from kernel.belief.terms import SessionPolicy
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from kernel.verify import verify
from tests.actors.eliminating_process import real_host
from tests.actors.harness import (
    anchor_of,
    declare,
    log_length,
    running_sessions,
    scripted_ledger,
    strike,
)
from tests.actors.sessions.test_elimination_store import serving
from tests.forked import forked, sent
from tests.kernel.belief.test_restore import forge

pytestmark = [pytest.mark.anyio, pytest.mark.spec("seed001-succession")]

NAMES = ("a", "b", "c", "d")
UNDONE = [["adapter://test", "dismissal"]]


def succeed(**changes):
    return Succeed("reinstated", **({"undone": UNDONE, "cause": {"words": "vacated"}} | changes))


async def live(sessions, session_id="s", **declared):
    await sessions.ask(session_id, declare(*NAMES, **declared))
    await sessions.ask(session_id, strike("petition", "a"))
    await sessions.ask(session_id, strike("dismissal", "b", "c"))


def findings_of(ledger):
    with ledger.view() as view:
        return [(finding.rule, finding.key) for finding in verify(view).findings]


async def test_old_and_new_session_are_recorded_by_one_operation_that_anchors_both():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await live(sessions)
        before, store.transactions = log_length(ledger), 0
        answer = await sessions.ask("s", succeed())
        successor_id = answer["successor_id"]
        assert (log_length(ledger), store.transactions) == (before + 1, 1)
        after = await sessions.ask(successor_id, Query())
        trail = (await sessions.ask(successor_id, Audit()))["events"]
        struck = await sessions.ask(successor_id, strike("closing", "d"))
    assert answer["carried"] == [{"source_id": "adapter://test", "observation_id": "petition"}]
    assert answer["snapshot"]["successor_id"] == successor_id == successor_named_after("s")
    assert (after["survivors"], after["predecessor_id"]) == (["b", "c", "d"], "s")
    assert trail[0]["payload"]["succeeds"]["event_id"] == answer["audit_event_id"]
    assert struck["applied_eliminated"] == ["d"]
    sequences = {anchor_of(ledger, name)["ec_sequence_number"] for name in ("s",)}
    assert sequences == {before + 1}
    assert findings_of(ledger) == []


async def test_the_same_succession_again_makes_no_second_one():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await live(sessions)
        first = await sessions.ask("s", succeed())
        again = await sessions.ask("s", succeed())
    # After an activation the answer comes from the record.
    async with running_sessions(ledger) as sessions:
        once_more = await sessions.ask("s", succeed())
        known = await sessions.ask("s", strike("dismissal", "b", "c"))
        with pytest.raises(BeliefError) as refused:
            await sessions.ask("s", strike("new", "d"))
        with pytest.raises(BeliefError) as otherwise:
            await sessions.ask("s", succeed(successor_id="elsewhere"))
    assert not first["duplicate"]
    assert again == once_more == first | {"duplicate": True}
    assert known["duplicate"]
    assert known["applied_eliminated"] == ["b", "c"]
    for error in (refused.value, otherwise.value):
        assert error.code == "SESSION_SUCCEEDED"
        assert error.details == {"successor_id": first["successor_id"]}
    with ledger.view() as view:
        assert view.tables.count(TableQuery(schema.belief_sessions)) == 2
    assert findings_of(ledger) == []


async def test_messages_that_come_together_are_taken_in_their_order():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await live(sessions)
        before, closing, after = strike("last", "d"), succeed(), strike("late", "d")
        for message in (before, closing, after):
            sessions.put("s", message)
        assert (await before.reply.wait())["applied_eliminated"] == ["d"]
        carried = [pair["observation_id"] for pair in (await closing.reply.wait())["carried"]]
        with pytest.raises(BeliefError, match="SESSION_SUCCEEDED"):
            await after.reply.wait()
    assert carried == ["petition", "last"]
    assert findings_of(ledger) == []


async def test_a_successor_that_somebody_has_declared_is_refused_and_the_session_goes_on():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await live(sessions)
        await sessions.ask("taken", declare(*NAMES))
        with pytest.raises(BeliefError) as refused:
            await sessions.ask("s", succeed(successor_id="taken"))
        assert (refused.value.code, refused.value.details) == (
            "SESSION_EXISTS",
            {"session_id": "taken"},
        )
        assert (await sessions.ask("s", strike("next", "d")))["applied_eliminated"] == ["d"]
    assert findings_of(ledger) == []


async def test_of_a_successor_and_a_declaration_under_its_id_one_is_recorded_whole():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await live(sessions)
        async with anyio.create_task_group() as tasks:
            outcomes = []

            async def ask(session_id, message):
                try:
                    outcomes.append((session_id, await sessions.ask(session_id, message)))
                except (ActorError, BeliefError) as error:
                    outcomes.append((session_id, error))

            tasks.start_soon(ask, "taken", declare(*NAMES))
            tasks.start_soon(ask, "s", succeed(successor_id="taken"))
        snapshot = await sessions.ask("taken", Query())
        closed = (await sessions.ask("s", Query())).get("successor_id")
    assert ("predecessor_id" in snapshot) == (closed == "taken")
    assert findings_of(ledger) == []


@pytest.mark.parametrize("fault", ["lost", "found"])
async def test_a_commit_of_unknown_outcome_leaves_both_sessions_or_neither(fault):
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await live(sessions)
        store.faults.append(fault)
        if fault == "lost":
            with pytest.raises(ActorError):
                await sessions.ask("s", succeed())
        else:
            await sessions.ask("s", succeed())
        answer = await sessions.ask("s", succeed())
        assert answer["duplicate"] == (fault == "found")
        assert (await sessions.ask(answer["successor_id"], Query()))["n_survivors"] == 3
    assert findings_of(ledger) == []


async def test_what_was_proved_of_the_old_session_is_proved_as_before():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s", declare(*NAMES))
        struck = await sessions.ask("s", strike("dismissal", "b", "c"))
        with ledger.view() as view:
            before = proofs.elimination(view, struck["audit_event_id"])
        await sessions.ask("s", succeed())
    with ledger.view() as view:
        assert proofs.elimination(view, struck["audit_event_id"]) == before
    assert findings_of(ledger) == []


def other_ids(payload):
    payload["eliminated"] = ["d"]


def other_predecessor(payload):
    payload["succeeds"]["event_hash"] = "0" * 64


def other_successor(payload):
    payload["successor_id"] = "m"


FORGERIES = {
    "an entry that was carried over": ("n", 1, other_ids, "s"),
    "the predecessor that the successor names": ("n", 0, other_predecessor, "n"),
    "the successor that the predecessor names": ("s", 3, other_successor, "n"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_verification_holds_each_session_against_the_other(forgery):
    """Each of both chains is whole by itself and was forged as a whole."""
    session_id, place, change, found_at = FORGERIES[forgery]
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await live(sessions)
        await sessions.ask("s", succeed(successor_id="n"))
    with ledger.view() as view:
        stored = view.belief_events(session_id)
    forged = forge(stored, place, lambda fields: change(fields["payload"]))
    with ledger.transaction() as transaction:
        for index, content in enumerate(forged):
            row = transaction.tables.get(schema.belief_events, session_id, index)
            event = BeliefEvent.from_bytes(content)
            row = {**row, "event_hash": event.event_hash, "event_bytes": content}
            transaction.tables.put(schema.belief_events, row)
    assert ("link_broken", found_at) in findings_of(ledger)


async def test_verification_misses_a_successor_that_is_gone():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await live(sessions)
        await sessions.ask("s", succeed(successor_id="n"))
    with ledger.transaction() as transaction:
        for index in range(2):
            transaction.tables.delete(schema.belief_events, "n", index)
        transaction.tables.delete(schema.belief_sessions, "n")
        transaction.tables.delete(schema.belief_anchors, "n")
    assert ("link_broken", "s") in findings_of(ledger)


# --- tombstones elsewhere -------------------------------------------------------------------------

TEE = SessionPolicy(elimination_store="tee")


async def test_a_successor_has_its_tombstones_where_its_predecessor_has_them():
    ledger, store = scripted_ledger()
    tombstones = InMemoryStore()
    async with serving(ledger, tombstones) as sessions:
        await live(sessions, policy=TEE)
        store.faults.append("lost")
        with pytest.raises(ActorError):
            await sessions.ask("s", succeed(successor_id="n"))
        await sessions.ask("s", succeed(successor_id="n"))
        await sessions.ask("n", strike("next", "b"))
    assert tombstones.get_eliminated("n") == {"a", "b"}
    assert tombstones.get_eliminated("s") == {"a", "b", "c"}
    async with serving(ledger, tombstones) as sessions:
        assert (await sessions.ask("n", Query()))["survivors"] == ["c", "d"]


async def test_a_store_that_has_more_of_the_successor_than_is_carried_is_a_conflict():
    ledger, _ = scripted_ledger()
    tombstones = InMemoryStore()
    tombstones.create_session("n", NAMES)
    tombstones.eliminate("n", ["d"], EliminationProvenance("adapter://test", "o"))
    async with serving(ledger, tombstones) as sessions:
        await live(sessions, policy=TEE)
        with pytest.raises(EliminationStoreConflict):
            await sessions.ask("s", succeed(successor_id="n"))
        answer = await sessions.ask("s", succeed(successor_id="m"))
    assert answer["successor_id"] == "m"
    assert findings_of(ledger) == []


# --- kills ----------------------------------------------------------------------------------------

KILLS = 4


def succeed_over_and_over(connection, path: Path) -> None:
    """Tell the id of each session and of the successor that it was answered, until killed."""

    async def run():
        ledger = Ledger.create(SqliteStore(path), real_host())
        async with running_sessions(ledger) as sessions:
            session_id = f"s-{time.time_ns()}"
            await sessions.ask(session_id, declare(*NAMES))
            for number in count():
                await sessions.ask(session_id, strike(f"petition-{number}", "a"))
                await sessions.ask(session_id, strike("dismissal", "b", "c"))
                answer = await sessions.ask(session_id, succeed())
                connection.send((session_id, answer["successor_id"]))
                session_id = answer["successor_id"]

    anyio.run(run)


@pytest.mark.slow
async def test_a_kill_leaves_no_session_closed_without_its_successor(tmp_path):
    path, answered = tmp_path / "ledger.db", []
    for kill in range(KILLS):
        with forked(succeed_over_and_over, path) as (process, connection):
            answered += [connection.recv() for _ in range(3 * (kill + 1))]
            process.kill()
            answered += sent(connection)
        ledger = Ledger.create(SqliteStore(path), real_host())
        assert findings_of(ledger) == []
        async with running_sessions(ledger) as sessions:
            for session_id, successor_id in answered:
                closed = await sessions.ask(session_id, Query())
                successor = await sessions.ask(successor_id, Query())
                assert closed["successor_id"] == successor_id
                assert successor["predecessor_id"] == session_id
                again = await sessions.ask(session_id, succeed())
                assert again["duplicate"]
        ledger.close()
