"""Sessions are sets that shrink, whatever the order of messages and whatever fails."""

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.error_codes import is_retryable
from actors.errors import ActorError
from actors.messages import Audit, Query
from tests.actors.harness import (
    Gate,
    anchor_of,
    declare,
    running_sessions,
    scripted_ledger,
    strike,
)

UNIVERSE = [f"h{number}" for number in range(12)]
SESSIONS = ["s-0", "s-1", "s-2"]

STRIKES = st.tuples(
    st.sampled_from(SESSIONS),
    st.lists(st.sampled_from([*UNIVERSE, "unknown"]), max_size=4),
)
HAPPENINGS = st.sampled_from(["", "", "lost", "found", "unavailable", "passivate", "crash"])
ROUNDS = st.lists(
    st.tuples(HAPPENINGS, st.lists(STRIKES, min_size=1, max_size=8)), min_size=1, max_size=6
)


class RepeatedElimination:
    """One elimination that is asked for until it is answered."""

    def __init__(self, number, session_id, ids):
        self.observation_id = f"o-{number}"
        self.session_id = session_id
        self.ids = ids
        self.answer = None

    async def once(self, sessions):
        try:
            message = strike(self.observation_id, *self.ids)
            self.answer = await sessions.ask(self.session_id, message)
        except ActorError as error:
            if not is_retryable(error.code):
                raise


async def ask_all(sessions, askings):
    async with anyio.create_task_group() as tasks:
        for asking in askings:
            if asking.answer is None:
                tasks.start_soon(asking.once, sessions)


async def crash_during(ledger, store, askings):
    """End the process while the first batch is just before its COMMIT."""
    gate = store.gate = Gate()
    async with anyio.create_task_group() as callers, running_sessions(ledger) as sessions:
        callers.start_soon(ask_all, sessions, askings)
        await gate.reached()
        gate.open()


async def play(rounds, per_session):
    """Live through the rounds and return what each session holds at the end."""
    ledger, store = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        for session_id in SESSIONS:
            await sessions.ask(session_id, declare(*UNIVERSE))
    number, all_askings = 0, []
    for happening, strikes in rounds:
        askings = [
            RepeatedElimination(number + offset, session_id, ids)
            for offset, (session_id, ids) in enumerate(strikes)
        ]
        number += len(askings)
        all_askings += askings
        if happening == "crash":
            await crash_during(ledger, store, askings)
        elif happening not in ("", "passivate"):
            store.faults.append(happening)
        passivate_after_s = 0.0 if happening == "passivate" else 60.0
        async with running_sessions(ledger, passivate_after_s=passivate_after_s) as sessions:
            while any(asking.answer is None for asking in askings):
                if per_session:
                    for session_id in SESSIONS:
                        await ask_all(sessions, [o for o in askings if o.session_id == session_id])
                else:
                    await ask_all(sessions, askings)
        store.faults.clear()
    async with running_sessions(ledger) as sessions:
        ends = {
            session_id: (
                await sessions.ask(session_id, Query()),
                (await sessions.ask(session_id, Audit()))["events"],
                anchor_of(ledger, session_id),
            )
            for session_id in SESSIONS
        }
    return ends, all_askings


@given(rounds=ROUNDS)
@settings(max_examples=settings().max_examples // 2)
def test_whatever_happens_each_session_is_its_universe_without_what_was_struck(rounds):
    ends, askings = anyio.run(play, rounds, False)

    for session_id, (snapshot, trail, anchor) in ends.items():
        own = [asking for asking in askings if asking.session_id == session_id]
        struck = {name for strike in own for name in strike.ids}
        assert snapshot["survivors"] == sorted(set(UNIVERSE) - struck)
        assert sorted(event["payload"]["observation_id"] for event in trail[1:]) == sorted(
            event.observation_id for event in own
        )
        assert anchor["head_event_hash"] == trail[-1]["event_hash"]
        assert {strike.answer["audit_event_id"] for strike in own} == {
            event["event_id"] for event in trail[1:]
        }
        removed = [name for strike in own for name in strike.answer["applied_eliminated"]]
        assert sorted(removed) == sorted(struck & set(UNIVERSE))


@given(rounds=ROUNDS)
@settings(max_examples=settings().max_examples // 4)
def test_the_order_across_sessions_makes_no_difference(rounds):
    quiet = [("", strikes) for _, strikes in rounds]

    together, _ = anyio.run(play, quiet, False)
    apart, _ = anyio.run(play, quiet, True)

    for session_id in SESSIONS:
        trails = [
            [(event["payload"], event["delta"], event["survivors_after_hash"]) for event in end[1]]
            for end in (together[session_id], apart[session_id])
        ]
        assert trails[0] == trails[1]
