"""What a connection may send before a route: over sockets, against the gateway's own server."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import pytest
import uvicorn

from tests.system.tree_run import wait_for
from workers.environment.listening import listen
from workers.gateway.http_limits import (
    FRAMING_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    PIPELINED_MAX,
    TARGET_BYTES_MAX,
)
from workers.gateway.server import server_config

SMALL = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


class Answering:
    """An application that reads a body whole and tells its length, and what it was asked."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []
        self.left = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        length = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            length += len(message["body"])
            if not message.get("more_body", False):
                break
        while not self.go_on.is_set():
            await anyio.sleep(0.01)
        body = b"%d" % length
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@contextmanager
def serving() -> Iterator[tuple[Any, Answering]]:
    app = Answering()
    server = uvicorn.Server(server_config(app))  # type: ignore[arg-type]
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            wait_for("the server to start", lambda: server.started, 20)
            yield listening.getsockname(), app
        finally:
            server.should_exit = True
            thread.join(20)


@pytest.fixture(scope="module")
def module_server() -> Iterator[tuple[Any, Answering]]:
    with serving() as server:
        yield server


@pytest.fixture
def server(module_server: Any) -> Any:
    address, app = module_server
    app.scopes.clear()
    app.left.clear()
    return address, app


def said(address: Any, *parts: bytes, ends: bool = True) -> bytes:
    """Send parts, as far as they are taken, and return everything that is answered."""
    with socket.create_connection(address, timeout=20) as client:
        with suppress(OSError):
            for part in parts:
                client.sendall(part)
            if ends:
                client.shutdown(socket.SHUT_WR)
        return received(client)


def received(client: socket.socket) -> bytes:
    """Return everything until the server ends the connection."""
    answer = b""
    with suppress(ConnectionResetError):
        while chunk := client.recv(1 << 16):
            answer += chunk
    return answer


def error_of(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"content-length: %d" % len(body) in head
    error = json.loads(body)["error"]
    assert error["message"]
    return int(head.split(b" ", 2)[1]), error["code"]


def served(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK"), answer
    return body


def headers(count: int, size: int = 1) -> bytes:
    return b"".join(b"X-%d: %s\r\n" % (number, b"v" * size) for number in range(count))


LARGE = [
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * HEAD_BYTES_MAX + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (4 << 20),
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"N" * (1 << 20),
    b"GET / HTTP/1.1\r\nHost: a\r\n" + headers(HEADERS_MAX) + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n" + headers(20, 4000) + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n" + headers(1 << 17),
    b"\r\n" * (1 << 20),
]


@pytest.mark.parametrize("request_bytes", LARGE)
def test_headers_have_a_limit(server: Any, request_bytes: bytes) -> None:
    address, app = server
    assert error_of(said(address, request_bytes)) == (431, "headers_too_large")
    assert app.scopes == []
    assert served(said(address, SMALL)) == b"0"


def test_headers_that_fill_the_limit_are_taken(server: Any) -> None:
    address, app = server
    rest = HEAD_BYTES_MAX - len("Hosta") - len("X")
    full = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * rest + b"\r\n\r\n"
    assert served(said(address, full)) == b"0"
    many = b"GET / HTTP/1.1\r\nHost: a\r\n" + headers(HEADERS_MAX - 1) + b"\r\n"
    assert served(said(address, many)) == b"0"
    assert len(app.scopes[-1]["headers"]) == HEADERS_MAX


@pytest.mark.parametrize("size", [TARGET_BYTES_MAX, 1 << 20])
def test_a_target_has_a_limit(server: Any, size: int) -> None:
    address, app = server
    long = b"GET /" + b"a" * size + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    assert error_of(said(address, long)) == (414, "target_too_long")
    assert app.scopes == []
    full = b"GET /" + b"a" * (TARGET_BYTES_MAX - 1) + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    assert served(said(address, full)) == b"0"


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target_invalid"),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target_invalid"),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target_invalid"),
        (b"\x16\x03\x01\x02\x00\x01", 400, "http_invalid"),
        (b"EHLO there\r\n", 400, "http_invalid"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400, "http_invalid"),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "http_invalid"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400, "http_invalid"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, "http_invalid"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na", 400, "http_invalid"),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            400,
            "http_invalid",
        ),
        (
            CHUNKED.replace(b"chunked", b"chunked\r\nContent-Length: 4") + b"0\r\n\r\n",
            400,
            "http_invalid",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            400,
            "upgrade_refused",
        ),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            400,
            "upgrade_refused",
        ),
    ],
)
def test_what_is_no_request_of_ours_is_refused(
    server: Any, request_bytes: bytes, status: int, code: str
) -> None:
    address, app = server
    assert error_of(said(address, request_bytes)) == (status, code)
    assert app.scopes == []


@pytest.mark.parametrize(
    "framing",
    [
        b"1\r\na\r\n" * FRAMING_BYTES_MAX,
        b"1;" + b"x" * 2 * FRAMING_BYTES_MAX,
        b"1\r\na\r\n0\r\n" + b"X: y\r\n" * FRAMING_BYTES_MAX,
        b"1\r\na\r\n0\r\nX: " + b"y" * 2 * FRAMING_BYTES_MAX,
    ],
    ids=["many small chunks", "an extension", "many trailers", "a long trailer"],
)
def test_what_is_neither_head_nor_content_has_a_limit(server: Any, framing: bytes) -> None:
    address, app = server
    assert error_of(said(address, CHUNKED + framing)) == (413, "request_too_large")
    assert app.left.wait(20), "the route was not told"


@pytest.mark.parametrize(
    "broken",
    [CHUNKED + b"zz\r\n", CHUNKED.replace(b"chunked", b"gzip") + b"abc"],
    ids=["a chunk without a size", "another encoding"],
)
def test_a_broken_body_is_answered_and_its_route_told(server: Any, broken: bytes) -> None:
    address, app = server
    assert error_of(said(address, broken)) == (400, "http_invalid")
    assert app.left.wait(20)


def test_a_body_in_usual_chunks_is_taken_and_its_trailers_are_dropped(server: Any) -> None:
    address, app = server
    chunk = b"200\r\n" + b"a" * 512 + b"\r\n"
    body = chunk * ((8 << 20) // 512)
    answer = said(address, CHUNKED + body + b"0\r\nX-Trailer: 1\r\n\r\n")
    assert served(answer) == b"%d" % (8 << 20)
    assert b"x-trailer" not in dict(app.scopes[0]["headers"])


def test_what_follows_a_body_is_another_request(server: Any) -> None:
    address, _ = server
    short = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
    assert said(address, short + LAST, ends=False).count(b"HTTP/1.1 200 OK") == 2
    assert said(address, short + b"{}" + LAST).count(b"HTTP/1.1 200 OK") <= 1


def test_requests_ahead_of_answers_are_served_in_order_up_to_a_limit() -> None:
    with serving() as (address, app):
        posts = [
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (size, b"a" * size)
            for size in range(PIPELINED_MAX)
        ]
        answers = said(address, *posts, LAST, ends=False).split(b"HTTP/1.1 200 OK")[1:]
        lengths = [int(answer.rpartition(b"\r\n")[2]) for answer in answers]
        assert lengths == [*range(PIPELINED_MAX), 0]
        app.go_on.clear()
        app.scopes.clear()
        assert said(address, SMALL * 100_000) == b""
        assert len(app.scopes) == 1
        app.go_on.set()
        assert served(said(address, SMALL)) == b"0"


def test_a_refusal_never_takes_the_place_of_another_answer() -> None:
    with serving() as (address, app):
        app.go_on.clear()
        with socket.create_connection(address, timeout=20) as client:
            client.sendall(SMALL + b"GET http://evil/ HTTP/1.1\r\nHost: a\r\n\r\n")
            assert received(client) == b""
        app.go_on.set()


def test_a_head_may_come_byte_by_byte(server: Any) -> None:
    address, _ = server
    assert served(said(address, *(bytes([byte]) for byte in SMALL))) == b"0"
