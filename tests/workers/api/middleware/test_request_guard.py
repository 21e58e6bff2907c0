"""What no request gets past: foreign names, foreign pages, bodies too large; and error bodies."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.values.fleet_protocol import HEADER, PROTOCOL
from tests.kernel.build import FakeHost
from tests.workers.api.door import (
    ANY_JSON,
    ONTOLOGY,
    SESSION,
    TOKEN,
    Door,
    error_of,
    is_uuid,
    log_length,
    running_door,
    source,
)
from workers.api.body_limits import MAX_BODY_BYTES
from workers.api.middleware import request_guard as guard

pytestmark = pytest.mark.anyio

OURS = "127.0.0.1:8440"
POSTED = {
    "type": "http",
    "scheme": "http",
    "method": "POST",
    "root_path": "",
    "path": "/v1/sessions",
    "query_string": b"",
    "headers": [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"content-length", b"100"),
    ],
    "client": ("127.0.0.1", 1),
    "server": ("127.0.0.1", 2),
}
"""What a server says of a request whose body is still to come."""


async def nobody(message: Any) -> None:
    pytest.fail(f"nobody is to be answered: {message}")


async def declare(door: Door, **headers: str) -> Any:
    body = {"ontology": ONTOLOGY, "hypotheses": ["a"]}
    return await door.http.post("/v1/sessions", json=body, headers=headers)


@pytest.mark.parametrize(
    "host",
    [
        "rotulus.example",
        "rotulus.example:8440",
        "127.0.0.1.example",
        "localhost.example",
        "192.0.2.1",
        "[::2]",
    ],
)
async def test_a_name_that_is_not_ours_is_refused_whatever_is_asked(door: Door, host):
    for path in ("/", "/healthz", "/v1/log", "/nothing"):
        error_of(await door.http.get(path, headers={"Host": host}), 421, "host_unknown")
    error_of(await declare(door, Host=host), 421, "host_unknown")
    assert log_length(door.ledger) == 0


@pytest.mark.parametrize(
    "host",
    [
        "",
        "[::",
        "::1",
        "evil@127.0.0.1",
        "127.0.0.1:8440@evil",
        "127.0.0.1/",
        "127.0.0.1#x",
        "127.0.0.1 ",
        "127.0.0.1:port",
        "127.0.0.1:123456",
        "127.0.0.1, evil",
        "localhost,localhost",
        "http://localhost",
        "loc%61lhost",
        "[1]",
        "[::1]evil",
        "x" * 300,
    ],
)
async def test_a_host_that_is_malformed_is_refused(door: Door, host):
    for path in ("/", "/events", "/v1/log"):
        error_of(await door.http.get(path, headers={"Host": host}), 400, "host_invalid")


async def test_a_request_names_one_host(door: Door):
    for second in ("evil.example", "127.0.0.1:8440"):
        headers = [("Host", "127.0.0.1:8440"), ("Host", second)]
        error_of(await door.http.get("/healthz", headers=headers), 400, "host_invalid")


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "LOCALHOST:8440", "[::1]:8440"])
async def test_the_loopback_has_these_names(door: Door, host):
    assert (await door.http.get("/healthz", headers={"Host": host})).status_code == 200


async def test_a_gateway_for_other_machines_answers_to_the_names_that_it_was_given():
    names = frozenset({"rotulus.example", "192.0.2.1"})
    async with running_door(host=FakeHost().host, hosts=names) as door:
        error_of(await door.http.get("/", headers={"Host": "evil.example"}), 421, "host_unknown")
        for name in ("127.0.0.1:8440", "192.0.2.1", "ROTULUS.example:1"):
            assert (await door.http.get("/healthz", headers={"Host": name})).status_code == 200
        headers = {"Host": "rotulus.example"}
        assert (await door.http.get("/healthz", headers=headers)).status_code == 200
        own = await declare(door, Host="rotulus.example", Origin="https://rotulus.example")
        assert own.status_code == 201
        foreign = await declare(door, Host="rotulus.example", Origin="https://other.example")
        error_of(foreign, 403, "origin_refused")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://other.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "http://localhost:8440"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://[::"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": f"http://{OURS}", "Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_a_page_of_another_origin_changes_nothing(door: Door, headers):
    error_of(await declare(door, **headers), 403, "origin_refused")
    assert log_length(door.ledger) == 0


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": f"http://{OURS}"},
        {"Origin": f"http://{OURS}", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_our_own_page_and_no_page_at_all_may_change_things(door: Door, headers):
    assert (await declare(door, **headers)).status_code == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://other.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://other.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
async def test_a_page_of_another_origin_reads_nothing_and_opens_no_stream(door: Door, headers):
    for path in ("/events", "/v1/log", "/snapshot.json", "/", "/metrics"):
        response = await door.http.get(path, headers=headers)
        error_of(response, 403, "origin_refused")
        assert not [name for name in response.headers if name.startswith("access-control-")]


async def test_a_link_from_elsewhere_opens_the_page(door: Door):
    followed = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    assert (await door.http.get("/", headers=followed)).status_code == 200
    error_of(await declare(door, **followed), 403, "origin_refused")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-Encoding": "gzip"}, "content_encoding_unsupported"),
        ({"Content-Encoding": "identity, br"}, "content_encoding_unsupported"),
        ({"Content-Type": "application/json; charset=utf-16"}, "charset_unsupported"),
        ({"Content-Type": 'application/json; Charset="latin-1"'}, "charset_unsupported"),
    ],
)
async def test_a_body_that_is_not_plain_utf_8_is_refused(door: Door, headers, code):
    error_of(await declare(door, **headers), 415, code)
    assert log_length(door.ledger) == 0


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"', "utf8"])
async def test_a_body_may_say_that_it_is_utf_8(door: Door, charset):
    said = {"Content-Type": f"application/json; charset={charset}", "Content-Encoding": "identity"}
    assert (await declare(door, **said)).status_code == 201


async def test_a_request_id_is_echoed_and_one_is_made_where_there_is_none(door: Door):
    given_one = await door.http.get("/healthz", headers={"X-Request-Id": "mine-7"})
    assert given_one.headers["x-request-id"] == "mine-7"
    made = {(await door.http.get("/healthz")).headers["x-request-id"] for _ in range(3)}
    assert len(made) == 3
    assert all(is_uuid(request_id) for request_id in made)
    long = await door.http.get("/nothing", headers={"X-Request-Id": "x" * 1000})
    assert long.headers["x-request-id"] == "x" * 64


async def test_a_refusal_of_the_guard_has_a_request_id_too(door: Door):
    headers = {"Host": "rotulus.example", "X-Request-Id": "mine-8"}
    refused = await door.http.get("/healthz", headers=headers)
    assert refused.headers["x-request-id"] == "mine-8"


async def test_a_body_that_says_it_is_too_large_is_not_read(door: Door):
    body = b" " * (MAX_BODY_BYTES + 1)
    response = await door.http.post("/v1/sessions", content=body)
    error_of(response, 413, "request_too_large")


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "9" * 5000])
async def test_a_length_that_is_none_is_refused(door: Door, length):
    headers = {"Content-Length": length}
    response = await door.http.post("/v1/sessions", content=b"{}", headers=headers)
    error_of(response, 413, "request_too_large")


async def test_a_body_that_grows_too_large_is_cut_off_where_it_does(door: Door):
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"hypotheses": ["'
        for _ in range(64):
            sent += 1 << 20
            yield b"a" * (1 << 20)
        yield b'"]}'

    headers = {"Content-Type": "application/json"}
    response = await door.http.post("/v1/sessions", content=chunks(), headers=headers)
    error_of(response, 413, "request_too_large")
    assert sent <= MAX_BODY_BYTES + (2 << 20)


@pytest.mark.parametrize("pause_s", [0.02, 30.0])
async def test_a_body_that_never_ends_is_given_up_and_nothing_of_it_taken(
    door: Door, monkeypatch, pause_s
):
    """Whether the rest never comes, or comes a byte at a time."""
    monkeypatch.setattr(guard, "BODY_S_MAX", 0.2)

    async def chunks() -> AsyncIterator[bytes]:
        yield json.dumps({"ontology": ONTOLOGY, "hypotheses": ["a"]}).encode()
        while True:
            await anyio.sleep(pause_s)
            yield b" "

    headers = {"Content-Type": "application/json"}
    with anyio.fail_after(20):
        response = await door.http.post("/v1/sessions", content=chunks(), headers=headers)
    error_of(response, 408, "body_too_slow")
    assert response.headers["connection"] == "close"
    assert log_length(door.ledger) == 0
    monkeypatch.undo()
    assert (await declare(door)).status_code == 201


async def test_who_has_sent_the_whole_body_may_stay(monkeypatch):
    """A stream listens for its reader's going for longer than any body may take."""
    monkeypatch.setattr(guard, "BODY_S_MAX", 0.05)
    gone = anyio.Event()

    async def receive() -> dict[str, Any]:
        if not read:
            read.append(True)
            return {"type": "http.request", "body": b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def go() -> None:
        await anyio.sleep(0.2)
        gone.set()

    async def stream(_scope: Any, receive: Any, _send: Any) -> None:
        received.append((await receive())["type"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            received.append((await receive())["type"])

    read: list[bool] = []
    received: list[str] = []
    guarded = guard.RequestGuardMiddleware(stream, hosts=frozenset(), host=FakeHost().host)
    await guarded(POSTED, receive, nobody)
    assert received == ["http.request", "http.disconnect"]


async def test_who_goes_before_the_body_is_whole_is_not_logged_as_a_failure(door: Door):
    received = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return received.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    with capture_logs() as logs:
        await door.app(dict(POSTED), receive, send)
    assert (sent, logs) == ([], [])


async def test_a_body_of_the_greatest_size_is_taken(door: Door):
    await door.declare(SESSION, "a")
    body = json.dumps({"intents": [source("s-1")]}).encode()
    body += b" " * (MAX_BODY_BYTES - len(body))
    headers = {"Content-Type": "application/json"}
    path = f"/v1/sessions/{SESSION}/operations"
    assert (await door.http.post(path, content=body, headers=headers)).status_code == 200


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/internal/nothing", "/v1", "/redoc"])
async def test_a_path_that_leads_nowhere_is_not_found(door: Door, path):
    error_of(await door.http.get(path), 404, "not_found")


async def test_a_method_that_a_path_does_not_know_is_named_as_such(door: Door):
    response = await door.http.delete("/v1/log")
    error_of(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"{'a': 1}", b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}"],
)
async def test_a_body_that_is_no_json_is_refused(door: Door, content):
    headers = {"Content-Type": "application/json"}
    for path in ("/v1/sessions", f"/v1/sessions/{SESSION}/envelopes"):
        response = await door.http.post(path, content=content, headers=headers)
        error_of(response, 422, "INVALID_REQUEST")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_a_form_that_any_page_could_send_is_no_request(door: Door, content_type):
    """These need no permission of ours to be sent by a browser, so none may be understood."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    body = json.dumps({"ontology": ONTOLOGY, "hypotheses": ["a"]}).encode()
    response = await door.http.post("/v1/sessions", content=body, headers=headers)
    error_of(response, 422, "INVALID_REQUEST")
    assert log_length(door.ledger) == 0


async def test_a_session_id_that_is_none_is_refused(door: Door):
    error_of(await door.http.get("/v1/sessions/seven"), 422, "INVALID_REQUEST")


async def test_an_error_of_ours_says_nothing_about_our_insides(door: Door, monkeypatch):
    def fail(_: object) -> None:
        raise RuntimeError("the password is 1234")

    monkeypatch.setattr(type(door.services.work.queues[AUTHORITY_QUEUE]), "depths", fail)
    headers = {"X-Request-Id": "mine-9"}
    with capture_logs([merge_contextvars]) as logged:
        response = await door.http.get("/v1/queues", headers=headers)
    [failure] = [entry for entry in logged if entry["event"] == "request_failed"]
    assert failure["request_id"] == "mine-9"
    assert failure["exc_info"]
    error = error_of(response, 500, "internal")
    assert "1234" not in json.dumps(error)
    assert response.headers["x-request-id"] == "mine-9"


async def test_any_json_at_any_door_is_answered_with_a_typed_error_or_success():
    doors = {
        "/v1/sessions": {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["a"]},
        f"/v1/sessions/{SESSION}/eliminate": {
            "source_id": "s",
            "observation_id": "o",
            "eliminated": ["a"],
            "justification": {},
        },
        f"/v1/sessions/{SESSION}/operations": {"intents": [source("s-1")]},
        "/internal/recomputed": {"results": [{"intent": {"intent_kind": "x"}}]},
        "/internal/retry-policy": {"queue": "binding-evaluation", "policy": {"attempts": 3}},
    }
    posted: list[tuple[str, Any]] = []

    @settings(max_examples=settings().max_examples * 3)
    @given(st.sampled_from(sorted(doors)), st.data())
    def collect(path: str, data: st.DataObject) -> None:
        body = doors[path]
        name = data.draw(st.sampled_from(sorted(body)))
        changed = st.fixed_dictionaries({name: ANY_JSON}).map(lambda change: body | change)
        posted.append((path, data.draw(changed | ANY_JSON)))

    collect()
    async with running_door(host=FakeHost().host) as door:
        await door.declare(SESSION, "a", "b")
        for path, body in posted:
            response = await door.send(path, body, Authorization=f"Bearer {TOKEN}")
            if not response.is_success:
                assert 400 <= response.status_code < 500, (path, body, response.text)
                error_of(response, response.status_code, response.json()["error"]["code"])


async def test_what_a_process_of_another_version_says_is_refused_before_it_is_read(door: Door):
    answer = await declare(door, **{HEADER: str(PROTOCOL + 1)})
    error_of(answer, 503, "protocol_differs")
    assert log_length(door.ledger) == 0
    assert (await declare(door, **{HEADER: str(PROTOCOL)})).status_code == 201


async def test_what_a_stopping_server_cuts_off_is_told_that_it_may_have_taken_effect():
    sent: list[Any] = []
    waits = anyio.Event()

    async def never(_scope: Any, _receive: Any, _send: Any) -> None:
        waits.set()
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    app = guard.RequestGuardMiddleware(never, hosts=frozenset(), host=FakeHost().host)
    # As uvicorn cuts off what it still has when its time to stop is over.
    request = asyncio.ensure_future(app(POSTED, nobody, send))
    await waits.wait()
    request.cancel()
    await request
    start, body = sent
    assert start["status"] == 503
    assert json.loads(body["body"])["error"]["code"] == "reply_lost"
