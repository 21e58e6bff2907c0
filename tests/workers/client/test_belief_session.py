"""The typed client of the belief protocol, against the routes and against failures."""

import httpx
import pytest

from kernel.ledger import schema
from tests.kernel.build import FakeHost
from tests.workers.api.door import ONTOLOGY, SESSION, rows, running_door
from tests.workers.client.test_gateway import ScriptedAnswers, error
from workers.client.errors import GatewayError
from workers.client.typed.belief_session import SessionClient
from workers.use_cases.session_replay import replay_audit
from workers.views.belief_sessions import Ontology

pytestmark = pytest.mark.anyio

BUNDLE = Ontology(**ONTOLOGY)
SNAPSHOT = {
    "session_id": SESSION,
    "ontology": ONTOLOGY,
    "survivors": ["a"],
    "n_survivors": 1,
    "entropy_proxy": 0.0,
    "terminated": False,
    "active_obligation_id": None,
    "audit_head_event_id": "e-1",
}
ENTERED = {"audit_event_id": "e-2", "snapshot": SNAPSHOT}
LOST = httpx.ReadTimeout("nobody answered")


@pytest.fixture
async def door(anyio_backend):
    async with running_door(host=FakeHost().host) as door:
        yield door


async def test_a_session_goes_through_every_verb(door):
    async with door.client() as gateway:
        session_client = SessionClient(gateway, SESSION)
        declared = await session_client.declare(BUNDLE, ["b", "a"], metadata={"n": 1e21})
        assert declared.survivors == ["a", "b"]
        assert declared == await session_client.declare(BUNDLE, ["b", "a"], metadata={"n": 1e21})
        entered = await session_client.enter_obligation("ob/1", 1)
        assert entered.snapshot.active_obligation_id == "ob/1"
        assert not (await session_client.request_exit("ob/1")).approved
        struck = await session_client.eliminate("s", "o", ["a", "z"], {"why": 0.5})
        again = await session_client.eliminate("s", "o", ["a", "z"], {"why": 0.5})
        assert (struck.applied_eliminated, struck.ignored_eliminated) == (["a"], ["z"])
        assert (struck.duplicate, again.duplicate) == (False, True)
        assert again.audit_event_id == struck.audit_event_id
        assert (await session_client.request_exit("ob/1", {"by": "me"})).approved
        assert (await session_client.declare_conclusion("c")).accepted
        assert (await session_client.request_termination()).approved
        snapshot = await session_client.snapshot()
        trail = [entry async for entry in session_client.audit(page_max=2)]
        watched = [entry async for entry in session_client.watch(trail[2].event_id)]
    assert len(trail) == len(rows(door.ledger, schema.belief_events)) == 7
    assert watched == trail[3:]
    assert (
        replay_audit([event.model_dump() for event in trail], snapshot.model_dump()).differences
        == ()
    )


async def test_a_bounded_client_lists_no_more_than_it_asked_for(door):
    async with door.client() as gateway:
        session_client = SessionClient(gateway, SESSION, survivors=1)
        assert (await session_client.declare(BUNDLE, ["b", "a"])).survivors == ["a"]
        none = SessionClient(gateway, SESSION, survivors=0)
        assert (await none.snapshot()).survivors is None
        assert (await none.declare_conclusion("c")).snapshot.n_survivors == 2


async def test_a_refusal_has_the_servers_code_and_details(door):
    async with door.client() as gateway:
        session_client = SessionClient(gateway, SESSION)
        with pytest.raises(GatewayError) as missing:
            await session_client.snapshot()
        head = (await session_client.declare(BUNDLE, ["a", "b"])).audit_head_event_id
        moved = (await session_client.declare_conclusion("c", expected_head=head)).audit_event_id
        with pytest.raises(GatewayError) as stale:
            await session_client.declare_conclusion("c", expected_head=head)
    assert (missing.value.code, missing.value.status) == ("SESSION_NOT_FOUND", 404)
    assert stale.value.code == "CONFLICT"
    assert stale.value.details == {"expected_head": head, "head_event_id": moved}


async def test_watching_tells_what_comes_until_the_end(door):
    async with door.client() as gateway:
        session_client = SessionClient(gateway, SESSION)
        await session_client.declare(BUNDLE, ["a"])
        then = [lambda: session_client.declare_conclusion("c"), session_client.request_termination]

        async def sleep(_):
            await then.pop(0)()

        verbs = [entry.verb async for entry in session_client.watch(sleep=sleep)]
    assert verbs == ["DECLARE_SESSION", "DECLARE_CONCLUSION", "REQUEST_TERMINATION"]
    assert then == []


@pytest.mark.parametrize(
    "trouble",
    [
        httpx.ConnectError("refused"),
        error(429, "mailbox_full"),
        error(503, "gateway_full"),
        error(408, "body_too_slow"),
        error(503, "commit_failed"),
    ],
    ids=["unreachable", "full", "gateway full", "too slow", "not committed"],
)
async def test_a_verb_that_was_not_taken_is_asked_again(trouble):
    patience = ScriptedAnswers(trouble, httpx.Response(200, json=ENTERED))
    async with patience.client() as gateway:
        assert (await SessionClient(gateway, SESSION).enter_obligation("ob", 1)).snapshot
    assert len(patience.requests) == 2


@pytest.mark.parametrize(
    ("trouble", "code"),
    [(LOST, "gateway_unreachable"), (error(503, "reply_lost"), "reply_lost")],
    ids=["no answer", "reply lost"],
)
async def test_a_verb_that_may_have_been_taken_is_not_asked_again(trouble, code):
    patience = ScriptedAnswers(trouble, httpx.Response(200, json=ENTERED))
    async with patience.client() as gateway:
        with pytest.raises(GatewayError) as unknown:
            await SessionClient(gateway, SESSION).enter_obligation("ob", 1)
    assert unknown.value.code == code
    assert len(patience.requests) == 1


async def test_an_elimination_is_asked_again_whatever_happened():
    answer = {**ENTERED, "applied_eliminated": [], "ignored_eliminated": [], "duplicate": True}
    patience = ScriptedAnswers(LOST, error(503, "reply_lost"), httpx.Response(200, json=answer))
    async with patience.client() as gateway:
        assert (await SessionClient(gateway, SESSION).eliminate("s", "o", ["a"])).duplicate
    assert len({request.content for request in patience.requests}) == 1
    assert len(patience.requests) == 3
