"""The invariants of seed 001 §4.1 through the real actor, restarts in between.

A history is a list of verbs; a restart is another runtime on the same ledger. What the session
may answer is told by a reference of a few lines, which knows sets and nothing of the kernel.
"""

from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages import (
    Audit,
    DeclareConclusion,
    EnterObligation,
    Query,
    RequestExit,
    RequestTermination,
)
from kernel.belief.errors import BeliefError
from kernel.belief.session import BeliefSession
from kernel.belief.terms import SessionPolicy
from kernel.values.canonical import canonicalize
from tests.actors.harness import declare, running_sessions, scripted_ledger, strike

UNIVERSE = [f"h{number}" for number in range(8)]
RESTART = ("restart",)

IDS = st.lists(st.sampled_from([*UNIVERSE, "unknown"]), max_size=4)
STRIKE = st.tuples(st.just("strike"), st.integers(0, 9), IDS)
VERBS = st.one_of(
    STRIKE,
    STRIKE,
    st.tuples(st.just("enter"), st.sampled_from("ab"), st.integers(0, 4)),
    st.tuples(st.just("exit"), st.sampled_from("ab")),
    st.tuples(st.just("conclude"), st.sampled_from("xy")),
    st.tuples(st.just("terminate"), st.booleans()),
    st.just(RESTART),
)
HISTORIES = st.lists(VERBS, max_size=25)
POLICIES = st.builds(
    SessionPolicy,
    validate_hypotheses=st.just(False),
    allow_force=st.booleans(),
    stability_window=st.sampled_from([0, 0, 1, 2]),
)

MAKE = {
    "strike": lambda number, ids: strike(f"o-{number}", *ids),
    "enter": EnterObligation,
    "exit": RequestExit,
    "conclude": DeclareConclusion,
    "terminate": lambda force: RequestTermination({"force": force}),
}


@dataclass
class ReferenceSession:
    """What a session is said to be: a set that shrinks, one obligation, an end."""

    policy: SessionPolicy
    left: set = field(default_factory=lambda: set(UNIVERSE))
    seen: dict = field(default_factory=dict)
    obligation: str | None = None
    least: int = 0
    struck_since: int = 0
    concluded: list = field(default_factory=list)
    ended: bool = False

    def say(self, verb, *arguments):
        if self.ended:
            return "SESSION_TERMINATED"
        return getattr(self, verb)(*arguments)

    def strike(self, number, ids):
        if number in self.seen:
            known, answer = self.seen[number]
            return answer if known == set(ids) else "CONFLICT"
        applied = set(ids) & self.left
        self.left -= applied
        self.struck_since += len(applied)
        answer = (sorted(applied), sorted(set(ids) - applied))
        self.seen[number] = (set(ids), answer)
        return answer

    def enter(self, name, least):
        if self.obligation is not None:
            return "CONFLICT"
        self.obligation, self.least, self.struck_since = name, least, 0
        return None

    def exit(self, name):
        if name != self.obligation:
            return "OBLIGATION_NOT_FOUND"
        approved = self.struck_since >= self.least
        if approved:
            self.obligation = None
        return approved

    def conclude(self, name):
        if self.obligation is None:
            self.concluded.append(name)
        return self.obligation is None

    def terminate(self, force):
        forced = force and self.policy.allow_force
        window = self.policy.stability_window
        last = self.concluded[-window:] if window else []
        stable = len(last) == window and len(set(last)) <= 1
        self.ended = self.obligation is None and (len(self.left) == 1 or forced) and stable
        return self.ended


def said(answer):
    """What an answer decides, in the words of the reference."""
    if isinstance(answer, BeliefError):
        return answer.code
    if "applied_eliminated" in answer:
        return (answer["applied_eliminated"], answer["ignored_eliminated"])
    return answer.get("approved", answer.get("accepted"))


async def live(history, policy=None):
    """Live through a history and return the answers, the last snapshot and the trail."""
    ledger, _ = scripted_ledger()
    answers, lives = [], [[]]
    for event in history:
        if event == RESTART:
            lives.append([])
        else:
            lives[-1].append(event)
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*UNIVERSE, policy=policy or SessionPolicy()))
    for verbs in lives:
        async with running_sessions(ledger) as sessions:
            for verb, *given_ in verbs:
                try:
                    answers.append(await sessions.ask("s-1", MAKE[verb](*given_)))
                except BeliefError as error:
                    answers.append(error)
            snapshot = await sessions.ask("s-1", Query())
            trail = (await sessions.ask("s-1", Audit()))["events"]
    return answers, snapshot, trail


def verbs_of(history):
    return [event for event in history if event != RESTART]


@pytest.mark.spec("seed001-monotonicity")
@given(history=HISTORIES, policy=POLICIES)
def test_survivors_never_grow_and_every_verb_answers_as_the_rules_say(history, policy):
    answers, snapshot, _ = anyio.run(live, history, policy)
    reference, left = ReferenceSession(policy), set(UNIVERSE)
    for call, answer in zip(verbs_of(history), answers, strict=True):
        assert said(answer) == reference.say(*call)
        if not isinstance(answer, BeliefError):
            after = set(answer["snapshot"]["survivors"])
            assert after <= left
            assert after == reference.left
            left = after
    assert snapshot["survivors"] == sorted(reference.left)
    assert snapshot["active_obligation_id"] == reference.obligation
    assert snapshot["terminated"] is reference.ended


@pytest.mark.spec("seed001-idempotence")
@given(history=HISTORIES)
def test_every_elimination_again_changes_nothing_and_answers_the_same(history):
    once = [event for event in history if event[0] != "terminate"]
    answers, snapshot, trail = anyio.run(live, once)
    twice, numbers = [], []
    for step in once:
        twice += [step, RESTART, step] if step[0] == "strike" else [step]
        numbers += [step[0] == "strike"] if step != RESTART else []
    repeated, again, trail_again = anyio.run(live, twice)
    rest = iter(repeated)
    for answer, is_strike in zip(answers, numbers, strict=True):
        first, second = next(rest), next(rest) if is_strike else None
        assert said(first) == said(answer)
        if is_strike:
            assert said(second) == said(first)
    assert again["survivors"] == snapshot["survivors"]
    assert [event["payload"] for event in trail_again] == [event["payload"] for event in trail]


@pytest.mark.spec("seed001-order-independence")
@given(data=st.data(), strikes=st.lists(IDS, max_size=8))
def test_eliminations_in_any_order_leave_the_same(data, strikes):
    history = [("strike", number, ids) for number, ids in enumerate(strikes)]
    other = data.draw(st.permutations([*history, RESTART, RESTART]))
    _, first, trail = anyio.run(live, history)
    _, two, trail_of_other = anyio.run(live, other)
    assert first["survivors"] == two["survivors"] == sorted(set(UNIVERSE).difference(*strikes))
    assert trail[-1]["survivors_after_hash"] == trail_of_other[-1]["survivors_after_hash"]


@pytest.mark.spec("seed001-replayability")
@given(history=HISTORIES, policy=POLICIES)
def test_the_audit_replayed_is_the_session_as_it_stands(history, policy):
    _, snapshot, trail = anyio.run(live, history, policy)
    replayed = BeliefSession.restore(canonicalize(event) for event in trail)
    assert replayed.snapshot() == snapshot
    assert replayed.head_event_hash == trail[-1]["event_hash"]


@pytest.mark.spec("seed001-replayability")
@settings(max_examples=settings().max_examples // 2)
@given(history=HISTORIES, policy=POLICIES)
def test_a_restart_is_not_noticed(history, policy):
    answers, snapshot, trail = anyio.run(live, history, policy)
    quiet_answers, quiet, quiet_trail = anyio.run(live, verbs_of(history), policy)
    assert list(map(said, answers)) == list(map(said, quiet_answers))
    named = ("verb", "payload", "delta", "survivors_after_hash")
    assert [[event[name] for name in named] for event in trail] == [
        [event[name] for name in named] for event in quiet_trail
    ]
    ids = ("audit_head_event_id",)
    assert {k: v for k, v in snapshot.items() if k not in ids} == {
        k: v for k, v in quiet.items() if k not in ids
    }
