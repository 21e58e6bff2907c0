"""A docket is an adapter: each entry's text eliminates what it excludes, with rule and words."""

import pytest

from kernel.belief.errors import BeliefInputError
from kernel.belief.session import BeliefSession
from tests.kernel.build import FakeHost
from tests.workers.dockets.dockets_for_tests import raw_docket, raw_entry, read_one
from workers.dockets.adapter import DocketAdapter
from workers.dockets.plan import Strike, plan_docket
from workers.dockets.postures import universe
from workers.dockets.reader import Docket, read_dockets
from workers.dockets.sample import sample_path
from workers.kits.play import LocalSession, play

DISMISSED = "ORDER Dismissing Case Debtor."


def sample() -> list[Docket]:
    found = read_dockets(sample_path().read_bytes().splitlines())
    return [docket for docket in found if isinstance(docket, Docket)]


@pytest.mark.parametrize("docket", sample(), ids=lambda docket: docket.court_kind)
async def test_reading_a_docket_strikes_what_its_plan_strikes(docket):
    adapter = DocketAdapter(docket)
    session = LocalSession(adapter, FakeHost().host)
    game = await play(adapter, adapter.answer, session, to_the_end=True)
    assert [turn.outcome for turn in game.turns] == [entry.description for entry in docket.entries]
    planned = [step for step in plan_docket(docket).steps() if isinstance(step, Strike)]
    told = [event["payload"] for event in (await session.audit())[1:]]
    assert [one["observation_id"] for one in told] == [step.observation_id for step in planned]
    left = set(adapter.hypothesis_ids()).difference(*(step.eliminated for step in planned))
    assert set(game.survivors) == left


async def test_a_strike_says_its_rule_and_the_words_it_read():
    docket = read_one(raw_docket([raw_entry("Notice of Hearing"), raw_entry(DISMISSED)]))
    adapter = DocketAdapter(docket)
    session = LocalSession(adapter, FakeHost().host)
    game = await play(adapter, adapter.answer, session, to_the_end=True)
    assert game.survivors == ["ended_by_dismissal"]
    [event] = (await session.audit())[1:]
    assert event["payload"]["source_id"] == "test/one"
    assert event["payload"]["justification"] == {
        "rule": "case_dismissed",
        "reason": "The court dismissed the case.",
        "source_node_id": "docket-entry:test/one#1",
        "offset": 0,
        "length": 21,
        "words": "ORDER Dismissing Case",
    }


def test_the_words_of_a_sealed_entry_stay_where_they_are():
    docket = read_one(raw_docket([raw_entry(f"{DISMISSED} (FILED UNDER SEAL)")]))
    adapter = DocketAdapter(docket)
    (message,) = adapter.observe(
        adapter.apply_action("test/one#0", {}), docket.entries[0].description
    )
    assert "words" not in message.justification
    assert message.justification["length"] == 21


def test_an_entry_is_read_once_and_as_it_is():
    adapter = DocketAdapter(read_one(raw_docket([raw_entry(DISMISSED)])))
    assert adapter.hypothesis_ids() == universe("bankruptcy")
    (action,) = adapter.list_actions({})
    context = adapter.apply_action(action.action_id, {})
    assert adapter.list_actions({}) == []
    for raw, code in ((None, "outcome_not_text"), ("Case Closed.", "response_unknown")):
        with pytest.raises(BeliefInputError) as caught:
            adapter.observe(context, raw)
        assert caught.value.code == code
    for name in (action.action_id, "test/one#9"):
        with pytest.raises(BeliefInputError) as caught:
            adapter.apply_action(name, {})
        assert caught.value.code == "action_unknown"


async def test_the_trail_of_a_docket_replays():
    adapter = DocketAdapter(sample()[1])
    session = LocalSession(adapter, FakeHost().host)
    await play(adapter, adapter.answer, session, to_the_end=True)
    stored = [event.to_bytes() for event in session._session.audit()]
    again = BeliefSession.restore(stored)
    assert again.snapshot() == await session.snapshot()
