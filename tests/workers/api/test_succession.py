"""A session that is succeeded, through the door, by the client and by the command."""

import json
import re

import pytest

from kernel.ledger import schema
from tests.workers.api.door import SESSION, Door, error_of, log_length, rows, transport_to
from tests.workers.cli.test_session import NEW, answered, kept, session
from workers.client import Rotulus
from workers.client.errors import GatewayError
from workers.client.typed.belief_session import SessionClient
from workers.gateway.dashboard_source import LiveSource
from workers.use_cases.session_replay import replay_audit

__all__ = ["kept"]

pytestmark = pytest.mark.spec("seed001-succession")

PATH = f"/v1/sessions/{SESSION}"
OTHER = "00000000-0000-4000-8000-000000000002"
STRUCK = {"source_id": "s", "observation_id": "dismissal", "eliminated": ["a", "b"]}
KNOWN = {"source_id": "s", "observation_id": "dismissal"}
SUCCESSION = {"reason": "reinstated", "undone": [KNOWN], "cause": {"words": "vacated"}}
REFUSED = {
    "eliminate": {"source_id": "s", "observation_id": "new", "eliminated": ["c"]},
    "obligations": {"obligation_id": "ob", "min_total_eliminations": 0},
    "obligations/ob/exit": {},
    "conclusions": {"conclusion_id": "c"},
    "terminate": {},
    "succeed": SUCCESSION | {"reason": "something else"},
}


async def undone(door: Door) -> str:
    await door.declare(SESSION, "a", "b", "c")
    await door.post("eliminate", STRUCK)
    answer = (await door.post("succeed", SUCCESSION)).json()
    return str(answer["successor_id"])


@pytest.mark.anyio
async def test_the_conclusion_that_stands_is_that_of_the_successor(door: Door):
    successor_id = await undone(door)
    closed = (await door.http.get(PATH)).json()
    stands = (await door.http.get(f"/v1/sessions/{successor_id}")).json()
    assert (closed["survivors"], closed["successor_id"]) == (["c"], successor_id)
    assert (stands["survivors"], stands["predecessor_id"]) == (["a", "b", "c"], SESSION)
    trail = (await door.http.get(f"{PATH}/audit")).json()["events"]
    assert trail[-1]["payload"]["cause"] == {"words": "vacated"}
    assert not replay_audit(trail, closed).differences


@pytest.mark.anyio
async def test_lists_say_that_a_session_is_closed_and_which_goes_on(door: Door):
    successor_id = await undone(door)
    await door.declare(OTHER, "a")
    ended = await door.http.post(f"/v1/sessions/{OTHER}/terminate", json={})
    assert ended.json()["approved"]
    states = {SESSION: (False, successor_id), successor_id: (False, None), OTHER: (True, None)}
    listed = (await door.http.get("/v1/sessions")).json()["sessions"]
    assert {row["session_id"]: (row["terminated"], row["successor_id"]) for row in listed} == states
    async with Rotulus("http://127.0.0.1", transport=transport_to(door.app)) as rotulus:
        assert [row async for row in rotulus.records.sessions()] == listed
    page = (await door.http.get("/sessions")).text
    closed = rf'closed, goes on as <a href="[./]*/sessions/{successor_id}">{successor_id}</a>'
    for shown in (closed, "<td>terminated", "<td>open"):
        assert len(re.findall(shown, page)) == 1
    assert re.search(closed, (await door.http.get(f"/sessions/{SESSION}")).text)
    live = (await LiveSource(door.services, 4).read()).sessions.value
    assert live is not None
    assert {session.session_id: session.state for session in live.newest} == {
        SESSION: f"closed, goes on as {successor_id}",
        successor_id: "open",
        OTHER: "terminated",
    }


@pytest.mark.anyio
@pytest.mark.parametrize("path", REFUSED)
async def test_a_verb_on_a_closed_session_is_refused_by_the_name_of_its_successor(door, path):
    successor_id = await undone(door)
    length = log_length(door.ledger)
    error = error_of(await door.post(path, REFUSED[path]), 409, "SESSION_SUCCEEDED")
    assert error["details"] == {"successor_id": successor_id}
    assert log_length(door.ledger) == length


@pytest.mark.anyio
async def test_the_same_succession_again_is_answered_as_it_was(door: Door):
    await undone(door)
    again = (await door.post("succeed", SUCCESSION)).json()
    assert again["duplicate"]
    assert len(rows(door.ledger, schema.belief_sessions)) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"undone": [KNOWN | {"observation_id": "never"}]}, 422, "INVALID_REQUEST"),
        ({"carried": []}, 422, "INVALID_REQUEST"),
        ({"undone": None}, 422, "INVALID_REQUEST"),
        ({"reason": ""}, 422, "INVALID_REQUEST"),
        ({"successor_id": SESSION}, 422, "INVALID_REQUEST"),
        ({"successor_id": OTHER}, 409, "SESSION_EXISTS"),
    ],
)
async def test_a_succession_that_cannot_be_leaves_no_trace(door: Door, changes, status, code):
    await door.declare(SESSION, "a", "b", "c")
    await door.declare(OTHER, "a", "b", "c")
    await door.post("eliminate", STRUCK)
    length = log_length(door.ledger)
    error_of(await door.post("succeed", SUCCESSION | changes), status, code)
    assert log_length(door.ledger) == length
    assert (await door.post("eliminate", REFUSED["eliminate"])).status_code == 200


@pytest.mark.anyio
async def test_a_client_goes_on_in_the_successor(door: Door):
    await door.declare(SESSION, "a", "b", "c")
    await door.post("eliminate", STRUCK)
    async with door.client() as gateway:
        closed = SessionClient(gateway, SESSION)
        answer = await closed.succeed("withdrawn", carried=[("s", "dismissal")])
        assert [pair.observation_id for pair in answer.carried] == ["dismissal"]
        goes_on = closed.successor(answer.successor_id)
        assert (await goes_on.snapshot()).predecessor_id == SESSION
        assert (await goes_on.eliminate("s", "next", ["c"])).snapshot.survivors == []
        assert [entry.verb async for entry in closed.watch()][-1] == "SUCCEED_SESSION"
        with pytest.raises(GatewayError) as refused:
            await closed.eliminate("s", "next", ["c"])
    assert refused.value.code == "SESSION_SUCCEEDED"


def test_a_command_closes_a_session_and_names_its_successor(kept):
    session("declare", "a", "b", "c", "--session-id", NEW)
    for observation, name in (("petition", "a"), ("dismissal", "b")):
        session("eliminate", NEW, name, "--source", "me", "--observation", observation)
    command = ("succeed", NEW, "--reason", "reinstated", "--undone", "me", "dismissal")
    shown = session(*command, "--cause", "order of 3 May")
    assert "carried               me:petition\n" in shown
    again = answered(*command, "--cause", "order of 3 May")
    assert again["duplicate"]
    assert answered("show", again["successor_id"])["survivors"] == ["b", "c"]
    assert f"successor_id          {again['successor_id']}\n" in session("show", NEW)
    refused = session("conclude", NEW, "c", code=1)
    assert again["successor_id"] in refused
    trail = json.loads(session("audit", NEW, "--json"))["events"]
    assert trail[-1]["payload"]["cause"] == {"cause": "order of 3 May"}
