"""Every verb of the belief protocol through a session's actor."""

import pytest

from actors.messages import (
    Audit,
    DeclareConclusion,
    EnterObligation,
    Query,
    RequestExit,
    RequestTermination,
)
from actors.sessions.session_actor import SessionActor
from kernel.belief.errors import BeliefError
from kernel.belief.survivors import Survivors
from kernel.belief.terms import SessionPolicy
from tests.actors.harness import (
    anchor_of,
    declare,
    dump,
    running_committer,
    running_sessions,
    scripted_ledger,
    strike,
)

pytestmark = pytest.mark.anyio

TRIO = ("h1", "h2", "h3")
VERBS = [
    (EnterObligation, ("ob", 1)),
    (RequestExit, ("ob",)),
    (DeclareConclusion, ("c",)),
    (RequestTermination, ()),
]


async def ask(sessions, *messages):
    return [await sessions.ask("s-1", message) for message in messages]


@pytest.mark.spec("seed001-ENTER_OBLIGATION", "seed001-REQUEST_EXIT")
async def test_an_obligation_is_left_when_enough_was_eliminated_since():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        _, _, entered, early, _, left, after = await ask(
            sessions,
            declare(*TRIO),
            strike("before", "h1"),
            EnterObligation("ob", 1),
            RequestExit("ob", {"why": "too soon"}),
            strike("during", "h2"),
            RequestExit("ob"),
            Query(),
        )
        trail = (await sessions.ask("s-1", Audit()))["events"]

    assert entered["snapshot"]["active_obligation_id"] == "ob"
    assert (early["approved"], early["reason"]) == (False, "minimum eliminations not met")
    assert (left["approved"], left["reason"]) == (True, "approved")
    assert after["active_obligation_id"] is None
    audit_event_ids = [reply["audit_event_id"] for reply in (entered, early, left)]
    assert audit_event_ids == [event["event_id"] for event in trail if event["verb"] not in _QUIET]
    assert trail[3]["payload"]["context"] == {"why": "too soon"}
    assert anchor_of(ledger, "s-1")["n_events"] == len(trail) == 6


_QUIET = ("DECLARE_SESSION", "ELIMINATE")


@pytest.mark.spec("seed001-DECLARE_CONCLUSION", "seed001-REQUEST_TERMINATION")
async def test_an_open_obligation_holds_back_conclusion_and_end():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        _, _, held, kept, _, concluded, ended = await ask(
            sessions,
            declare("h1"),
            EnterObligation("ob", 0),
            DeclareConclusion("c"),
            RequestTermination(),
            RequestExit("ob"),
            DeclareConclusion("c"),
            RequestTermination(),
        )

    assert (held["accepted"], held["reason"]) == (False, "active obligation blocks conclusion")
    assert (kept["approved"], kept["reason"]) == (False, "active obligation blocks termination")
    assert concluded["accepted"]
    assert ended["approved"]
    assert ended["snapshot"]["terminated"]


@pytest.mark.parametrize(("force", "approved"), [(True, True), ("true", False), (1, False)])
async def test_force_ends_a_session_that_allows_it_and_says_so_as_true(force, approved):
    ledger, _ = scripted_ledger()
    policy = SessionPolicy(allow_force=True)
    async with running_sessions(ledger) as sessions:
        _, ended = await ask(
            sessions, declare(*TRIO, policy=policy), RequestTermination({"force": force})
        )
    assert ended["approved"] is approved


@pytest.mark.parametrize(
    ("kind", "fields"), VERBS, ids=lambda parameter: getattr(parameter, "__name__", "")
)
async def test_a_verb_on_another_head_changes_nothing(kind, fields):
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await ask(sessions, declare(*TRIO), EnterObligation("ob", 0))
        before = dump(ledger)
        with pytest.raises(BeliefError, match="CONFLICT"):
            await sessions.ask("s-1", kind(*fields, expected_head="somewhere else"))
    assert dump(ledger) == before


@pytest.mark.parametrize(
    ("kind", "fields"), VERBS, ids=lambda parameter: getattr(parameter, "__name__", "")
)
async def test_after_the_end_there_is_only_reading(kind, fields):
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await ask(sessions, declare("h1"), RequestTermination())
        before = dump(ledger)
        with pytest.raises(BeliefError, match="SESSION_TERMINATED"):
            await sessions.ask("s-1", kind(*fields))
        assert (await sessions.ask("s-1", Query()))["terminated"]
    assert dump(ledger) == before


@pytest.mark.parametrize(("survivors_max", "listed"), [(None, 3), (2, 2), (9, 3)])
async def test_a_snapshot_lists_as_many_survivors_as_are_asked_for(survivors_max, listed):
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        declared = await sessions.ask("s-1", declare(*TRIO, survivors_max=survivors_max))
        entered = await sessions.ask("s-1", EnterObligation("o", 0, survivors_max=survivors_max))
        answer = await sessions.ask("s-1", Query(survivors_max))
    for snapshot in (declared, entered["snapshot"], answer):
        assert snapshot["survivors"] == list(TRIO[:listed])
        assert snapshot["n_survivors"] == 3


async def test_a_minimal_answer_never_lists_the_universe(monkeypatch):
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        actor = SessionActor("s-1", None, committer, ledger.host)
        await actor.handle([declare(*TRIO, survivors_max=0)])
        monkeypatch.setattr(Survivors, "ids", lambda _: pytest.fail("the universe was listed"))
        message = strike("o-1", "h1", survivors_max=0)
        await actor.handle([message])
        answer = await message.reply.wait()
    assert answer["applied_eliminated"] == ["h1"]
    assert "survivors" not in answer["snapshot"]
    assert answer["snapshot"]["n_survivors"] == 2


async def test_the_pages_of_an_audit_are_the_whole_audit():
    ledger, _ = scripted_ledger()
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*TRIO))
        for number in range(6):
            await sessions.ask("s-1", strike(f"o-{number}", "h1"))
        whole = (await sessions.ask("s-1", Audit()))["events"]
        sizes, pages, since = [], [], None
        while True:
            page = await sessions.ask("s-1", Audit(since, 3))
            sizes.append(len(page["events"]))
            pages += page["events"]
            since = page["next_since_event_id"]
            if since is None:
                break
        end = await sessions.ask("s-1", Audit(whole[-1]["event_id"]))
    assert sizes == [3, 3, 1]
    assert pages == whole
    assert end == {"events": [], "next_since_event_id": None}


async def test_a_page_of_the_audit_has_a_size_and_at_least_one_entry():
    ledger, _ = scripted_ledger()
    names = [f"{number:05d}:{'x' * 500}" for number in range(10_000)]
    async with running_sessions(ledger) as sessions:
        await sessions.ask("s-1", declare(*names, survivors_max=0))
        await sessions.ask("s-1", strike("o-1", *names[:9000], survivors_max=0))
        first = await sessions.ask("s-1", Audit())
        second = await sessions.ask("s-1", Audit(first["next_since_event_id"]))
    assert [event["verb"] for event in first["events"]] == ["DECLARE_SESSION"]
    assert [event["verb"] for event in second["events"]] == ["ELIMINATE"]
    assert second["next_since_event_id"] is None
