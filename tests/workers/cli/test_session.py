"""`rotulus session` against a gateway, and `replay` against trails that lie."""

import gzip
import json
from functools import partial

import httpx
import pytest

from tests.workers.api.door import SESSION, URL
from tests.workers.api.kept import kept_door
from tests.workers.cli.command import rotulus
from workers.cli import gateway_call
from workers.client.typed.gateway import GatewayClient

NEW = "00000000-0000-4000-8000-000000000009"


class Bridge(httpx.AsyncBaseTransport):
    """Carries the requests of a command's own loop to the gateway's."""

    def __init__(self, kept):
        self._kept = kept

    async def handle_async_request(self, request):
        response = self._kept.send(
            request.method,
            f"{URL}{request.url.raw_path.decode()}",
            content=await request.aread(),
            headers=dict(request.headers),
        )
        return httpx.Response(response.status_code, json=response.json())


@pytest.fixture
def kept(monkeypatch):
    with kept_door() as kept:
        client = partial(GatewayClient, transport=Bridge(kept))
        monkeypatch.setattr(gateway_call, "GatewayClient", client)
        yield kept


def session(*arguments, code=0, **options):
    result = rotulus("session", *arguments, **options)
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def answered(*arguments, **options):
    return json.loads(session(*arguments, "--json", **options))


def test_a_session_goes_through_every_command(kept):
    declared = session("declare", "b", "a", "c", "--session-id", NEW)
    assert "survivors             a b c\nn_survivors           3\n" in declared
    assert answered("declare", "b", "a", "c", "--session-id", NEW)["n_survivors"] == 3
    session("obligation", NEW, "ob", "2")
    assert "approved              no" in session("exit", NEW, "ob", code=1)
    assert "active obligation" in session("conclude", NEW, "it is c", code=1)
    strike = ("eliminate", NEW, "a", "z", "--source", "me", "--observation", "o-1", "--why", "x")
    assert "ignored_eliminated    z" in session(*strike)
    assert answered(*strike)["duplicate"]
    answered("eliminate", NEW, "b", "--source", "me", "--observation", "o-2")
    assert answered("exit", NEW, "ob")["approved"]
    assert answered("conclude", NEW, "it is c")["accepted"]
    assert answered("terminate", NEW)["snapshot"]["terminated"]
    assert "terminated            yes" in session("show", NEW)
    trail = session("audit", NEW).splitlines()
    assert len(trail) == 9
    assert "ELIMINATE            o-1  -a" in trail[4]
    assert [json.loads(line) for line in session("watch", NEW, "--json").splitlines()] == answered(
        "audit", NEW
    )["events"]


def test_sessions_are_listed_and_searched(kept):
    session("declare", "a", "b", "--session-id", NEW)
    first = session("list", "--limit", "1")
    assert NEW in first
    assert SESSION not in first
    after = first.partition("more: --after ")[2].strip()
    assert SESSION in session("list", "--after", after)
    [listed] = answered("list", "--words", NEW[-4:])["sessions"]
    assert (listed["session_id"], listed["n_survivors"]) == (NEW, 2)
    assert session("list", "--words", "nothing") == "none\n"
    successor = answered("succeed", NEW, "--reason", "undone")["successor_id"]
    [closed] = [line for line in session("list").splitlines() if "closed" in line]
    assert closed.split(maxsplit=3)[1:3] == ["2/2", NEW]
    assert f"closed, goes on as {successor}" in closed


def test_if_match_and_force_are_passed_on(kept):
    stale = session("conclude", SESSION, "c", "--if-match", "somewhere", code=1)
    assert stale == "Error: conflict: the session has moved on\n"
    declared = answered(
        "declare", "a", "b", "--session-id", NEW, "--allow-force", "--survivors", "1"
    )
    assert declared["survivors"] == ["a"]
    assert not answered("terminate", NEW, code=1)["approved"]
    assert answered("terminate", NEW, "--force")["approved"]


def test_hypotheses_may_come_from_a_file(kept, tmp_path):
    (tmp_path / "names").write_text("x y\nz\n")
    printed = answered("declare", "a", "--file", str(tmp_path / "names"), "--session-id", NEW)
    assert printed["survivors"] == ["a", "x y", "z"]


@pytest.mark.parametrize("pack", [bytes, lambda content: gzip.compress(content, mtime=0)])
def test_a_file_of_hypotheses_is_read_however_it_was_written(kept, tmp_path, pack):
    (tmp_path / "names").write_bytes(pack(b"\xef\xbb\xbfx\r\n\n" + "y\u2028z\n".encode()))
    printed = answered("declare", "--file", str(tmp_path / "names"), "--session-id", NEW)
    assert printed["survivors"] == ["x", "y\u2028z"]


@pytest.mark.parametrize("name", [b"x" * 513, b"x" * 5_000, b"\xff"])
def test_a_line_that_is_no_hypothesis_is_said(kept, tmp_path, name):
    (tmp_path / "names").write_bytes(b"x\n" + name)
    said = session("declare", "--file", str(tmp_path / "names"), code=1)
    assert f"{tmp_path / 'names'}, line 2: no hypothesis" in said
    assert "at most 512 characters" in said


def test_a_session_that_nobody_declared_is_a_clean_error(kept):
    assert session("show", NEW, code=1).startswith("Error: session_not_found: no such session; ")


@pytest.mark.spec("seed001-acceptance")
def test_replay_goes_the_whole_way_and_agrees(kept):
    assert "3 audit entries: the trail replays" in session("replay")
    document = answered("replay")
    assert document["replays"]
    assert document["snapshot"]["survivors"] == ["dun"]
    assert answered("replay", "--session", SESSION)["events"] == 1


LIES = {
    "a payload": lambda events: events[1]["payload"].update(source_id="somebody else"),
    "a delta": lambda events: events[2]["delta"].update(eliminated=["blue"]),
    "a time": lambda events: events[2].update(ts="2026-01-01T00:00:00.000000Z"),
    "one missing": lambda events: events.pop(1),
    "another order": lambda events: events.reverse(),
    "none": lambda events: events.clear(),
    "no event": lambda events: events.append("x"),
}


@pytest.mark.spec("seed001-acceptance")
@pytest.mark.parametrize("lie", LIES)
def test_replay_of_a_trail_that_lies_ends_with_one(kept, tmp_path, lie):
    played = answered("replay")["snapshot"]["session_id"]
    trail = answered("audit", played)
    file = tmp_path / "audit.json"
    file.write_text(json.dumps(trail))
    assert "the trail replays" in session("replay", str(file))
    LIES[lie](trail["events"])
    file.write_text(json.dumps(trail))
    document = answered("replay", str(file), code=1)
    assert not document["replays"]
    assert document["differences"]
    assert "does NOT replay" in session("replay", str(file), code=1)


def test_replay_of_another_session_than_is_shown_ends_with_one(kept, monkeypatch):
    send = type(kept).send

    def lying(self, method, path, **options):
        response = send(self, method, path, **options)
        body = response.json()
        if "survivors" in body:
            response = httpx.Response(200, json={**body, "survivors": ["amber"]})
        return response

    monkeypatch.setattr(type(kept), "send", lying)
    assert "DIFFERS  survivors" in session("replay", "--session", SESSION, code=1)


def test_replay_of_a_session_that_moves_on_is_of_the_moment_that_was_shown(kept, monkeypatch):
    send = type(kept).send

    def moving(self, method, path, **options):
        response = send(self, method, path, **options)
        if path.endswith(SESSION):
            send(self, "POST", f"{path}/conclusions", json={"conclusion_id": "meanwhile"})
        return response

    monkeypatch.setattr(type(kept), "send", moving)
    assert answered("replay", "--session", SESSION)["events"] == 1
    assert answered("replay", "--session", SESSION)["events"] == 2


@pytest.mark.parametrize("content", ["", "[", "7", "{}", '"x"'])
def test_a_file_that_holds_no_trail_is_a_clean_error(kept, tmp_path, content):
    (tmp_path / "audit.json").write_text(content)
    output = session("replay", str(tmp_path / "audit.json"), code=1)
    assert output.startswith("Error: invalid_request")
