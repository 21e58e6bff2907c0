"""Sessions that are asked: order, back pressure, passivation, failure, and records that lie."""

import sqlite3
from contextlib import closing
from functools import partial

import anyio
import orjson
import pytest
from anyio.lowlevel import checkpoint

from actors.error_codes import is_retryable
from actors.errors import (
    ActorError,
    ActorFailed,
    CommitFailed,
    MailboxFull,
    RuntimeFull,
    SessionCorrupt,
)
from actors.messages import Audit, Operate, Query
from actors.sessions.runtime import SessionRuntime
from kernel.belief.errors import BeliefError
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from tests.actors.harness import (
    Gate,
    anchor_of,
    declare,
    make_committer,
    running_sessions,
    scripted_ledger,
    settle,
    strike,
)
from tests.actors.intents import source
from tests.kernel.build import FakeHost

pytestmark = pytest.mark.anyio

TRIO = ("h1", "h2", "h3")
SHORTLY_S = 0.02


async def ask_into(answers, key, sessions, session_id, message):
    try:
        answers[key] = await sessions.ask(session_id, message)
    except Exception as error:  # noqa: BLE001 - the error is the answer
        answers[key] = error


async def ask_together(sessions, session_id, messages):
    """Ask everything at once and return the answers in the order of asking."""
    answers = {}
    async with anyio.create_task_group() as tasks:
        for number, message in enumerate(messages):
            tasks.start_soon(ask_into, answers, number, sessions, session_id, message)
    return [answers[number] for number in range(len(messages))]


def events_on_record(ledger, session_id):
    with ledger.view() as view:
        return view.tables.scan(TableQuery(schema.belief_events, {"session_id": session_id}))


async def assert_agreement(ledger, sessions, session_id):
    """The session in memory, its audit, the stored trail and the anchor all say the same."""
    snapshot = await sessions.ask(session_id, Query())
    trail = (await sessions.ask(session_id, Audit()))["events"]
    rows, anchor = events_on_record(ledger, session_id), anchor_of(ledger, session_id)
    assert [row["event_id"] for row in rows] == [event["event_id"] for event in trail]
    assert snapshot["audit_head_event_id"] == trail[-1]["event_id"]
    assert anchor["head_event_hash"] == rows[-1]["event_hash"] == trail[-1]["event_hash"]
    assert anchor["n_events"] == len(trail)
    assert orjson.loads(rows[-1]["event_bytes"])["event_id"] == snapshot["audit_head_event_id"]
    struck = {name for event in trail for name in event["delta"]["eliminated"]}
    declared = set(trail[0]["payload"]["hypotheses"])
    assert set(snapshot["survivors"]) == declared - struck


# --- order and batches ----------------------------------------------------------------------------


async def test_a_session_takes_messages_in_the_order_in_which_they_were_asked():
    ledger, _ = scripted_ledger()
    names = [f"h{number}" for number in range(100)]
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*names))
        answers = await ask_together(sessions, "s-1", [strike(f"o-{name}", name) for name in names])
        trail = (await sessions.ask("s-1", Audit()))["events"]

    assert [answer["snapshot"]["n_survivors"] for answer in answers] == list(range(99, -1, -1))
    assert [event["payload"]["eliminated"] for event in trail[1:]] == [[name] for name in names]
    assert [event["event_id"] for event in trail[1:]] == [
        answer["audit_event_id"] for answer in answers
    ]


async def test_what_waits_for_a_session_is_one_commit():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        store.transactions = 0
        answers = await ask_together(
            sessions, "s-1", [strike(f"o-{number}", "h1") for number in range(40)]
        )

    assert len({answer["audit_event_id"] for answer in answers}) == 40
    assert store.transactions <= 2


async def test_sessions_that_are_busy_together_share_commits():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        answers = {}
        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(ask_into, answers, number, sessions, f"s-{number}", declare(*TRIO))
        store.transactions = 0
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sessions.ask, "s-0", strike("o", "h1"))
            await gate.reached()
            for number in range(1, 30):
                message = strike("o", "h1")
                tasks.start_soon(ask_into, answers, number, sessions, f"s-{number}", message)
            await anyio.wait_all_tasks_blocked()
            gate.open()

    assert store.transactions == 2
    assert all(answers[number]["applied_eliminated"] == ["h1"] for number in range(1, 30))


async def test_one_observation_asked_many_times_at_once_counts_once():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        answers = await ask_together(sessions, "s-1", [strike("o-1", "h1") for _ in range(20)])
        trail = (await sessions.ask("s-1", Audit()))["events"]

    assert len({answer["audit_event_id"] for answer in answers}) == 1
    assert all(answer["applied_eliminated"] == ["h1"] for answer in answers)
    assert len(trail) == 2


# --- the verbs ------------------------------------------------------------------------------------


async def test_a_session_answers_declare_eliminate_query_and_audit():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        declared = await sessions.ask("s-1", declare(*TRIO))
        struck = await sessions.ask("s-1", strike("o-1", "h1", "elsewhere"))
        answer = await sessions.ask("s-1", Query())
        since = (await sessions.ask("s-1", Audit(declared["audit_head_event_id"])))["events"]
        await assert_agreement(ledger, sessions, "s-1")

    assert declared["survivors"] == ["h1", "h2", "h3"]
    assert struck["applied_eliminated"] == ["h1"]
    assert struck["ignored_eliminated"] == ["elsewhere"]
    assert struck["snapshot"] == answer
    assert [event["event_id"] for event in since] == [struck["audit_event_id"]]


async def test_two_declarations_at_once_make_one_session():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        same = await ask_together(sessions, "s-1", [declare(*TRIO), declare(*reversed(TRIO))])
        other = await ask_together(sessions, "s-2", [declare(*TRIO), declare("h1")])

    assert same[0] == same[1]
    assert other[1].code == "SESSION_EXISTS"
    assert len(events_on_record(ledger, "s-1")) == len(events_on_record(ledger, "s-2")) == 1


@pytest.mark.parametrize("message", [Query, Audit, partial(strike, "o-1", "h1")])
async def test_an_unknown_session_is_not_found(message):
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        with pytest.raises(BeliefError) as refused:
            await sessions.ask("nobody", message())
        await sessions.ask("nobody", declare(*TRIO))
        answer = await sessions.ask("nobody", Query())

    assert refused.value.code == "SESSION_NOT_FOUND"
    assert answer["n_survivors"] == 3


async def test_an_expected_head_is_compared_in_order():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        head = (await sessions.ask("s-1", declare(*TRIO)))["audit_head_event_id"]
        answers = await ask_together(
            sessions,
            "s-1",
            [strike("o-1", "h1", expected_head=head), strike("o-2", "h2", expected_head=head)],
        )

    assert answers[0]["applied_eliminated"] == ["h1"]
    assert answers[1].code == "CONFLICT"


# --- limits ---------------------------------------------------------------------------------------


async def test_a_full_mailbox_pushes_back_and_drops_nothing():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger, mailbox_max=4) as sessions:
        await sessions.ask("s-1", declare(*(f"h{number}" for number in range(9))))
        gate, answers = Gate(), {}
        store.gate = gate
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_into, answers, 0, sessions, "s-1", strike("o-0", "h0"))
            await gate.reached()
            for number in range(1, 5):
                message = strike(f"o-{number}", f"h{number}")
                tasks.start_soon(ask_into, answers, number, sessions, "s-1", message)
            await anyio.wait_all_tasks_blocked()
            refused = []
            for number in range(5, 9):
                with pytest.raises(MailboxFull) as full:
                    await sessions.ask("s-1", strike(f"o-{number}", f"h{number}"))
                refused.append(full.value)
            assert sessions.mailbox_depths == [4]
            assert answers == {}
            gate.open()
        left = await sessions.ask("s-1", Query())
        again = await sessions.ask("s-1", strike("o-5", "h5"))

    assert all(is_retryable(error.code) for error in refused)
    assert [answers[number]["applied_eliminated"] for number in range(5)] == [
        [f"h{number}"] for number in range(5)
    ]
    assert left["survivors"] == ["h5", "h6", "h7", "h8"]
    assert again["applied_eliminated"] == ["h5"]


async def test_a_full_mailbox_of_one_session_does_not_hold_another_back():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger, mailbox_max=1) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        await sessions.ask("s-2", declare(*TRIO))
        gate, answers = Gate(), {}
        store.gate = gate
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_into, answers, 0, sessions, "s-1", strike("o-0", "h1"))
            await gate.reached()
            tasks.start_soon(ask_into, answers, 1, sessions, "s-1", strike("o-1", "h2"))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(MailboxFull):
                await sessions.ask("s-1", Query())
            assert (await sessions.ask("s-2", Query()))["n_survivors"] == 3
            gate.open()


async def test_a_runtime_holds_so_many_sessions_and_no_more():
    ledger, _ = scripted_ledger()
    async with running_sessions(
        ledger, active_sessions_max=2, passivate_after_s=SHORTLY_S
    ) as sessions:
        for session_id in ("s-1", "s-2", "s-3"):
            if session_id == "s-3":
                await settle(lambda: sessions.active_sessions == 0)
            await sessions.ask(session_id, declare(*TRIO))

    async with running_sessions(ledger, active_sessions_max=2) as sessions:
        await sessions.ask("s-1", Query())
        await sessions.ask("s-2", Query())
        with pytest.raises(RuntimeFull) as full:
            await sessions.ask("s-3", Query())
        assert (await sessions.ask("s-1", Query()))["n_survivors"] == 3
        assert sessions.active_sessions == 2
    assert is_retryable(full.value.code)


async def test_a_runtime_that_does_not_run_takes_nothing():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))

    with pytest.raises(ActorFailed):
        await sessions.ask("s-1", Query())


# --- passivation ----------------------------------------------------------------------------------


async def test_an_idle_session_passivates_and_comes_back_the_same():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger, passivate_after_s=SHORTLY_S) as sessions:
        await sessions.ask("s-1", declare(*TRIO, metadata={"case_name": "A v. B"}))
        before = (await sessions.ask("s-1", strike("o-1", "h2")))["snapshot"]
        trail = (await sessions.ask("s-1", Audit()))["events"]
        await settle(lambda: sessions.active_sessions == 0)

        assert await sessions.ask("s-1", Query()) == before
        assert (await sessions.ask("s-1", Audit()))["events"] == trail
        again = await sessions.ask("s-1", strike("o-1", "h2"))
        assert again["audit_event_id"] == trail[-1]["event_id"]
        await sessions.ask("s-1", strike("o-2", "h1"))
        await assert_agreement(ledger, sessions, "s-1")
    with ledger.view() as view:
        assert view.belief_session("s-1")["title"] == "A v. B"


async def test_asking_while_a_session_passivates_is_always_answered():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger, passivate_after_s=0.001) as sessions:
        await sessions.ask("s-1", declare(*(f"h{number}" for number in range(60))))
        with anyio.fail_after(20):
            for number in range(60):
                answer = await sessions.ask("s-1", strike(f"o-{number}", f"h{number}"))
                assert answer["snapshot"]["n_survivors"] == 59 - number
                # Some asking finds the session active, some passive, some in between.
                for _ in range(number % 7):
                    await checkpoint()
                if number % 3 == 0:
                    await anyio.sleep(0.001)
        await assert_agreement(ledger, sessions, "s-1")


async def test_an_asker_who_leaves_does_not_take_the_message_along():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sessions.ask, "s-1", strike("o-1", "h1"))
            await gate.reached()
            tasks.cancel_scope.cancel()
        gate.open()

        assert (await sessions.ask("s-1", Query()))["survivors"] == ["h2", "h3"]
        await assert_agreement(ledger, sessions, "s-1")


# --- failure --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["lost", "unavailable"])
async def test_a_session_whose_commit_failed_forgets_and_starts_again_from_the_record(fault):
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        await sessions.ask("s-1", strike("o-1", "h1"))
        gate, answers = Gate(), {}
        store.gate = gate
        store.faults.extend(["lost" if fault == "lost" else "", fault])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_into, answers, 0, sessions, "s-1", strike("o-2", "h2"))
            await gate.reached()
            tasks.start_soon(ask_into, answers, 1, sessions, "s-1", strike("o-3", "h3"))
            tasks.start_soon(ask_into, answers, 2, sessions, "s-1", Query())
            await anyio.wait_all_tasks_blocked()
            gate.open()
        store.faults.clear()

        failed = [1, 2] if fault == "unavailable" else [0, 1, 2]
        assert {key for key, answer in answers.items() if isinstance(answer, ActorError)} == set(
            failed
        )
        assert all(type(answers[key]) is CommitFailed for key in failed)
        assert (await sessions.ask("s-1", Query()))["survivors"] == (
            ["h2", "h3"] if fault == "lost" else ["h3"]
        )
        await assert_agreement(ledger, sessions, "s-1")
        retried = await sessions.ask("s-1", strike("o-3", "h3"))
        assert retried["applied_eliminated"] == ["h3"]
        await assert_agreement(ledger, sessions, "s-1")


async def test_a_declaration_that_was_not_committed_never_was():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        store.faults.append("lost")
        with pytest.raises(CommitFailed):
            await sessions.ask("s-1", declare(*TRIO))
        with pytest.raises(BeliefError) as refused:
            await sessions.ask("s-1", Query())
        other = await sessions.ask("s-1", declare("h1"))

    assert refused.value.code == "SESSION_NOT_FOUND"
    assert other["n_survivors"] == 1


async def test_a_commit_that_turned_out_well_is_answered_as_if_nothing_had_been():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        store.faults.append("found")
        answer = await sessions.ask("s-1", strike("o-1", "h1"))
        await assert_agreement(ledger, sessions, "s-1")

    assert answer["snapshot"]["survivors"] == ["h2", "h3"]


async def test_a_session_that_fails_takes_no_other_along():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        await sessions.ask("s-2", declare(*TRIO))
        store.faults.append("lost")
        with pytest.raises(CommitFailed):
            await sessions.ask("s-1", strike("o-1", "h1"))

        assert sessions.active_sessions == 1
        assert (await sessions.ask("s-2", strike("o-1", "h1")))["snapshot"]["n_survivors"] == 2


async def test_a_record_that_cannot_be_read_now_may_be_asked_for_again():
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
    async with running_sessions(ledger) as sessions:
        store.views_fail = True
        # Not an actor that fails: nobody's fault, and nothing was taken.
        with pytest.raises(CommitFailed) as failed:
            await sessions.ask("s-1", Query())
        store.views_fail = False

        assert is_retryable(failed.value.code)
        assert (await sessions.ask("s-1", Query()))["n_survivors"] == 3


async def test_a_runtime_that_stops_answers_everybody_who_waits():
    ledger, store = scripted_ledger()
    committer = make_committer(ledger)
    sessions = SessionRuntime(ledger, committer)
    answers = {}
    async with anyio.create_task_group() as callers, anyio.create_task_group() as process:
        ready = anyio.Event()
        process.start_soon(committer.run)
        process.start_soon(sessions.run, ready.set)
        await ready.wait()
        await sessions.ask("s-1", declare(*TRIO))
        gate = store.gate = Gate()
        callers.start_soon(ask_into, answers, 0, sessions, "s-1", strike("o-1", "h1"))
        await gate.reached()
        callers.start_soon(ask_into, answers, 1, sessions, "s-1", strike("o-2", "h2"))
        await anyio.wait_all_tasks_blocked()
        process.cancel_scope.cancel()
        gate.open()

    assert [type(answers[key]) for key in (0, 1)] == [ActorFailed] * 2
    async with running_sessions(ledger) as sessions:
        assert (await sessions.ask("s-1", strike("o-1", "h1")))["snapshot"]["n_survivors"] == 2
        assert (await sessions.ask("s-1", strike("o-2", "h2")))["snapshot"]["n_survivors"] == 1
        await assert_agreement(ledger, sessions, "s-1")


# --- records that lie -----------------------------------------------------------------------------


def flip(content):
    return content[:40] + bytes([content[40] ^ 1]) + content[41:]


def tamper(store, change):
    """Change the stored events of session s-1 behind the ledger's back."""
    with store.inner.transaction() as tables:
        rows = tables.scan(TableQuery(schema.belief_events, {"session_id": "s-1"}))
        for row in rows:
            tables.delete(schema.belief_events, "s-1", row["event_index"])
        tables.insert_many(schema.belief_events, change(rows))


LIES = {
    "a byte is another": lambda rows: [
        {**row, "event_bytes": flip(row["event_bytes"])} if row["event_index"] == 1 else row
        for row in rows
    ],
    "the last event is missing": lambda rows: rows[:-1],
    "an event in the middle is missing": lambda rows: [rows[0], *rows[2:]],
    "the first event is missing": lambda rows: rows[1:],
    "every event is missing": lambda _: [],
    "two events have changed places": lambda rows: [
        rows[0],
        {**rows[1], "event_bytes": rows[2]["event_bytes"]},
        {**rows[2], "event_bytes": rows[1]["event_bytes"]},
    ],
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_session_whose_record_lies_is_not_served_and_stays_down(lie):
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        for session_id in ("s-1", "s-2"):
            await sessions.ask(session_id, declare(*TRIO))
            await sessions.ask(session_id, strike("o-1", "h1"))
            await sessions.ask(session_id, strike("o-2", "h2"))
    truth = events_on_record(ledger, "s-1")
    tamper(store, LIES[lie])

    async with running_sessions(ledger) as sessions:
        answers = await ask_together(
            sessions, "s-1", [Query(), declare(*TRIO), strike("o-3", "h3"), Audit()]
        )
        assert [type(answer) for answer in answers] == [SessionCorrupt] * 4
        assert not is_retryable(answers[0].code)
        assert list(sessions.corrupt_sessions) == ["s-1"]
        assert sessions.active_sessions == 0

        tamper(store, lambda _: truth)
        with pytest.raises(SessionCorrupt):
            await sessions.ask("s-1", Operate((source("src-1"),)))
        assert (await sessions.ask("s-2", strike("o-3", "h3")))["snapshot"]["n_survivors"] == 0
    assert events_on_record(ledger, "s-1") == truth


async def test_a_byte_that_was_changed_in_the_file_is_found(tmp_path):
    path = tmp_path / "ledger.db"
    host = FakeHost().host
    ledger = Ledger.create(SqliteStore(path), host)
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        await sessions.ask("s-1", strike("o-1", "h1"))
    ledger.close()
    with closing(sqlite3.connect(path)) as raw, raw:
        (content,) = raw.execute(
            "SELECT event_bytes FROM belief_events WHERE event_index = 1"
        ).fetchone()
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            raw.execute("UPDATE belief_events SET event_bytes = ?", (flip(content),))
        trigger = "belief_events_refuses_update"
        (restored,) = raw.execute(
            "SELECT sql FROM sqlite_schema WHERE name = ?", (trigger,)
        ).fetchone()
        raw.execute(f"DROP TRIGGER {trigger}")
        raw.execute(
            "UPDATE belief_events SET event_bytes = ? WHERE event_index = 1", (flip(content),)
        )
        raw.execute(restored)

    ledger = Ledger.create(SqliteStore(path), host)
    async with running_sessions(ledger) as sessions:
        for _ in range(2):
            with pytest.raises(SessionCorrupt, match="event 1"):
                await sessions.ask("s-1", Query())
    ledger.close()


# --- anchors --------------------------------------------------------------------------------------


async def test_after_every_commit_each_anchor_names_the_head_of_its_sessions_trail():
    ledger, store = scripted_ledger()
    seen = []

    def check():
        with ledger.view() as view:
            for row in view.tables.scan(TableQuery(schema.belief_sessions)):
                session_id = row["session_id"]
                events = view.tables.scan(
                    TableQuery(schema.belief_events, {"session_id": session_id})
                )
                payload = view.tables.get(schema.belief_anchors, session_id)
                seen.append(
                    payload["head_event_hash"] == row["head_event_hash"] == events[-1]["event_hash"]
                    and payload["n_events"] == row["n_events"] == len(events)
                )

    store.after_commit = check
    async with running_sessions(ledger) as sessions:
        answers = {}
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(_live_through, sessions, f"s-{number}", answers)

    assert len(answers) == 4
    assert len(seen) > 20
    assert all(seen)


async def _live_through(sessions, session_id, answers):
    await sessions.ask(session_id, declare(*(f"h{number}" for number in range(20))))
    for number in range(0, 20, 2):
        await ask_together(
            sessions,
            session_id,
            [strike(f"o-{at}", f"h{at}") for at in (number, number + 1)],
        )
    answers[session_id] = await sessions.ask(session_id, Query())


async def test_reading_other_sessions_does_not_wait_for_a_commit_on_sqlite(tmp_path):
    ledger, store = scripted_ledger(SqliteStore(tmp_path / "ledger.db"))
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        await sessions.ask("s-2", declare(*TRIO))
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", Query())
        gate, answers = Gate(), {}
        store.gate = gate
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_into, answers, 1, sessions, "s-1", strike("o-1", "h1"))
            await gate.reached()
            answers[2] = await sessions.ask("s-2", Query())
            assert 1 not in answers
            gate.open()
    ledger.close()

    assert answers[2]["n_survivors"] == 3
    assert answers[1]["applied_eliminated"] == ["h1"]
