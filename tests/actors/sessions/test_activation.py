"""Activation: a long session is taken up from its snapshots, and held against the record."""

import anyio
import anyio.lowlevel
import orjson
import pytest

from actors.errors import SessionCorrupt
from actors.messages import Audit, Query
from actors.sessions import session_actor
from kernel.belief.errors import BeliefError
from kernel.belief.session import BeliefSession
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.verify import verify
from tests.actors.harness import declare, running_sessions, scripted_ledger, strike
from tests.kernel.build import findings

pytestmark = pytest.mark.anyio

EVERY = 8
EVENTS = 3 * EVERY + 5
NAMES = tuple(f"h{number:02d}" for number in range(EVENTS))


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(session_actor, "SNAPSHOT_EVERY_EVENTS", EVERY)


@pytest.fixture
async def ledger():
    """A ledger with a session of many events, and another of one."""
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("other", declare("a", "b"))
        await sessions.ask("s", declare(*NAMES, metadata={"case_name": "A v. B"}))
        for number in range(1, EVENTS):
            await sessions.ask("s", strike(f"o-{number}", NAMES[number]))
    return ledger


@pytest.fixture
def replayed(monkeypatch):
    """How many eliminations were carried out again."""
    done = []
    plain = BeliefSession.eliminate

    def counted(self, *arguments, **named):
        done.append(arguments)
        return plain(self, *arguments, **named)

    monkeypatch.setattr(BeliefSession, "eliminate", counted)
    return done


def snapshots(ledger):
    with ledger.view() as view:
        return [row["n_events"] for row in view.tables.scan(TableQuery(schema.belief_snapshots))]


async def test_only_what_came_after_the_newest_snapshot_is_replayed(ledger, replayed):
    assert snapshots(ledger) == [EVERY, 2 * EVERY, 3 * EVERY]
    async with running_sessions(ledger) as sessions:
        reply = await sessions.ask("s", Query())
        assert len(replayed) == EVENTS - 3 * EVERY
        assert reply["survivors"] == [NAMES[0]]
        answer = await sessions.ask("s", strike("o-new", NAMES[0]))
        assert answer["applied_eliminated"] == [NAMES[0]]
        page = await sessions.ask("s", Audit())
    assert len(page["events"]) == EVENTS + 1
    assert page["events"][-1]["event_id"] == answer["audit_event_id"]
    with ledger.view() as view:
        assert verify(view).ok
        assert view.belief_session("s")["title"] == "A v. B"


async def test_an_elimination_of_before_the_snapshot_is_known(ledger):
    async with running_sessions(ledger) as sessions:
        again = await sessions.ask("s", strike("o-1", NAMES[1]))
        assert (again["duplicate"], again["applied_eliminated"]) == (True, [NAMES[1]])
        with pytest.raises(BeliefError, match="other content"):
            await sessions.ask("s", strike("o-2", NAMES[3]))


async def test_the_audit_is_read_from_any_event_on(ledger):
    async with running_sessions(ledger) as sessions:
        first = await sessions.ask("s", Audit(limit=3))
        rest = await sessions.ask("s", Audit(first["next_since_event_id"]))
    assert len(first["events"]) + len(rest["events"]) == EVENTS


async def test_snapshots_of_which_one_is_gone_are_not_used(ledger, replayed):
    with ledger.transaction() as transaction:
        transaction.tables.delete(schema.belief_snapshots, "s", 2 * EVERY)
    async with running_sessions(ledger) as sessions:
        assert (await sessions.ask("s", Query()))["survivors"] == [NAMES[0]]
        assert len(replayed) == EVENTS - 1
        for number in range(EVERY):
            await sessions.ask("s", strike(f"o-more-{number}", NAMES[0]))
    async with running_sessions(ledger) as sessions:
        assert (await sessions.ask("s", Query()))["survivors"] == []
    assert findings(ledger) == ()


def rewritten(ledger, key, change):
    with ledger.transaction() as transaction:
        row = transaction.tables.get(schema.belief_snapshots, "s", key)
        document = orjson.loads(row["snapshot_bytes"])
        change(document)
        content = {"snapshot_bytes": orjson.dumps(document, option=orjson.OPT_SORT_KEYS)}
        transaction.tables.update(schema.belief_snapshots, ("s", key), content)


def column(table, **values):
    def lie(ledger):
        with ledger.transaction() as transaction:
            transaction.tables.update(table, ("s",), values)

    return lie


LIES = {
    "the snapshot names another head": lambda ledger: rewritten(
        ledger, 3 * EVERY, lambda snapshot: snapshot.update(head_event_hash="0" * 64)
    ),
    "the snapshot has other survivors": lambda ledger: rewritten(
        ledger, 3 * EVERY, lambda snapshot: snapshot.update(bitmap="eJxjAAAAAQAB")
    ),
    "the snapshot claims another length": lambda ledger: rewritten(
        ledger, 3 * EVERY, lambda snapshot: snapshot.update(n_events=3 * EVERY - 1)
    ),
    "the summary counts other survivors": column(schema.belief_sessions, n_survivors=7),
    "the summary counts other events": column(schema.belief_sessions, n_events=7),
    "the summary has another head": column(schema.belief_sessions, head_event_hash="0" * 64),
    "the anchor has another head": column(schema.belief_anchors, head_event_hash="0" * 64),
    "the anchor counts other events": column(schema.belief_anchors, n_events=7),
    "the log has no such anchor": column(schema.belief_anchors, ec_sequence_number=10_000),
    "the log anchors another session there": column(schema.belief_anchors, ec_sequence_number=1),
    "the log anchors another event there": column(schema.belief_anchors, ec_sequence_number=3),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_session_that_its_record_contradicts_is_not_served(ledger, lie):
    LIES[lie](ledger)
    async with running_sessions(ledger) as sessions:
        with pytest.raises(SessionCorrupt):
            await sessions.ask("s", Query())
        assert (await sessions.ask("other", Query()))["n_survivors"] == 2
        await anyio.lowlevel.checkpoint()
    assert findings(ledger) != ()


async def test_a_snapshot_that_lies_about_what_no_event_says_is_found_by_verifying(ledger):
    rewritten(ledger, 2 * EVERY, lambda part: part["observations"].pop())
    with ledger.view() as view:
        [finding] = verify(view).findings
    assert (finding.table, finding.key) == ("belief_snapshots", f"s/{2 * EVERY}")
