"""Heads of requests, and ways onto a connection, that somebody may not have thought of."""

from collections.abc import Callable
from random import Random
from typing import Final
from urllib.parse import quote

from tests.fuzz.legal_request import LegalRequest
from tests.fuzz.shot import Shot, bytes_of, text_of

# The head


_PATHS: Final[tuple[Callable[[Random, str], str], ...]] = (
    lambda _, path: path + "/",
    lambda _, path: "/" + path,
    lambda _, path: path.replace("/", "//"),
    lambda _, path: path.replace("/v1", "/v1/../v1"),
    lambda _, path: "/v1/nodes/" + quote(path, safe=""),
    lambda _, path: path + "%00",
    lambda _, path: path + "%ff%fe",
    lambda _, path: path + "%ed%a0%80",
    lambda _, path: path + "%2f%2e%2e%2f",
    lambda _, path: path + "%",
    lambda _, path: path + "%zz",
    lambda _, path: path + "\udcff\udcfe",
    lambda _, path: path + "é",
    lambda _, path: path + "?" + "a=b&" * 500,
    lambda _, path: path + "?survivors=-1&limit=1e9&after=%00&since=%ff&until=x&wait_s=nan",
    lambda _, path: path + "?limit=99999999999999999999&after=-9223372036854775809&survivors=1.5",
    lambda _, path: path + "?since=0000-00-00T00:00:00Z&entity=%ed%a0%80&state=%00&wait_s=1e400",
    lambda _, path: path + "?entity=" + "x" * 5000,
    lambda _, path: path + "?wait_s=inf&from_sequence=0x10&to_sequence=%D9%A3",
    lambda _, path: path + "?&&=&;a;b=%",
    lambda _, path: path.upper(),
    lambda chance, path: path.replace(
        "/", f"/{chance.choice(('%00', 'x' * 600, '..', '%2e'))}/", 3
    ),
    lambda _, __: "/v1/nodes/" + "%F0%9F%98%80" * 128,
    lambda _, __: "/v1/operations/" + "x" * 513,
    lambda _, __: "/v1/sessions/not-a-uuid/eliminate",
    lambda _, __: "/v1/sessions/%7B00000000-0000-4000-8000-000000000001%7D/audit",
    lambda _, __: "/v1/sessions/urn:uuid:00000000-0000-4000-8000-000000000001",
    lambda _, __: "/v1/queues/no-such/requests/x/outcome",
    lambda _, __: "/static/../../../../etc/passwd",
    lambda _, __: "/static/%2e%2e/%2e%2e",
    lambda _, __: "/internal/work",
    lambda _, __: "/events?x=1",
    lambda _, __: "*",
    lambda _, __: "http://evil.example/v1/log",
    lambda _, __: "//evil.example/v1/log",
)
_METHODS: Final = (
    *("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "POST", "post"),
    *("PRI", "FOO", "", "G" * 300, "GE T"),
)
_HEADERS: Final = (
    *(
        "host: evil.example",
        "host: evil@127.0.0.1",
        "host: 127.0.0.1:99999",
        "host: ",
        "host: \x01",
    ),
    *("host: [::1", "host: localhost", "host: 127.0.0.1\r\nhost: evil.example", "Host: 127.0.0.1"),
    *(
        "origin: http://evil.example",
        "origin: null",
        "sec-fetch-site: cross-site",
        "origin: \udcff",
    ),
    *(
        "content-type: text/plain",
        "content-type: ;;",
        "content-type: \udcff",
        "content-encoding: gzip",
    ),
    *(
        "content-type: application/json; charset=utf-16",
        "content-type: multipart/form-data; boundary=x",
    ),
    *("content-length: -1", "content-length: 1e3", "content-length: 99999999999999999999999"),
    *(
        "content-length: 5",
        "content-length: 0",
        "content-length: \u0663",
        "transfer-encoding: chunked",
    ),
    *(
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: x",
        "expect: 100-continue",
        "upgrade: x",
    ),
    "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x",
    "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQ",
    *(
        "authorization: Bearer \udcff\udcfe",
        "authorization: " + "x" * 9000,
        "cookie: " + "a=b;" * 3000,
    ),
    *(
        "if-match: \udcff",
        'if-match: "x',
        "if-match: " + "x" * 3000,
        "prefer: return=minimal,\udcff",
        "prefer: durability=witnessed, wait=0, proof",
        "prefer: durability=witnessed, wait=" + "9" * 400 + "\r\nprefer: durability=,=;=,",
    ),
    *(
        "x-request-id: \udcff\x01",
        "x-request-id: " + "é" * 40,
        "x-request-id: a\tb",
        "x" * 30_000 + ": a",
    ),
    *(
        "traceparent: 00-zz",
        "traceparent: 00-" + "0" * 32 + "-" + "0" * 16 + "-01",
        "baggage: \udcff==",
    ),
    *(
        "accept: \udcff",
        "accept-encoding: " + "gzip," * 500,
        "range: bytes=0-",
        "no colon",
        ": empty",
    ),
    *("a: b\r\n c", "\x00: a", "a: \x00", "last-event-id: \udcff"),
    "\r\n".join(f"x-{number}: y" for number in range(300)),
)


def head_spoiled(request: LegalRequest, chance: Random) -> Shot:
    """Spoil the head; whether it can still be read is not known, so nothing has to come."""
    body = None if request.body is None else text_of(request.body)
    method, path, extra = request.method, request.path, ""
    how = chance.choice(("path", "path", "method", "header", "header", "header"))
    if how == "path":
        path = chance.choice(_PATHS)(chance, path)
    elif how == "method":
        method = chance.choice(_METHODS)
    else:
        extra = chance.choice(_HEADERS) + "\r\n"
    odd = LegalRequest(request.route, method, path, None, request.headers)
    content = bytes_of(odd, body, extra=extra)
    description = {"path": path, "method": method, "header": extra}[how]
    return Shot(
        request.route, f"{how} {description[:60]!a}", "raw", content, head_only=method == "HEAD"
    )


# The connection


def connection_spoiled(request: LegalRequest, chance: Random) -> Shot:
    body = b"" if request.body is None else text_of(request.body)
    whole = bytes_of(request, body)
    how = chance.choice(("cut", "cut", "noise", "pipeline", "chunked", "short", "glued"))
    if how == "cut":
        return Shot(request.route, how, "cut", whole[: chance.randrange(1, len(whole))])
    if how == "noise":
        noise = chance.choice(
            (
                chance.randbytes(chance.randrange(1, 4000)),
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500),
                b"\r\n" * 200,
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET / HTTP/9.9\r\n\r\n",
                b"GET /healthz HTTP/1.0\r\n\r\n",
                b"GET /healthz\r\n",
                b"*1\r\n$8\r\nFLUSHALL\r\n",
                whole.replace(b"\r\n", b"\n"),
                whole.replace(b" HTTP/1.1", b""),
            )
        )
        return Shot(request.route, how, "raw", noise)
    if how == "pipeline":
        count = chance.randrange(2, 6)
        health = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
        return Shot(request.route, how, "pipeline", whole + health * (count - 1), count)
    if how == "chunked":
        head = bytes_of(LegalRequest("", request.method, request.path, None, request.headers), None)
        size = chance.choice((b"%x" % len(body), b"%x" % (len(body) + 1), b"-1", b"zz", b"f" * 30))
        content = (
            head[:-2] + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        return Shot(request.route, how, "raw", content + size + b"\r\n" + body + b"\r\n0\r\n\r\n")
    if how == "short":
        return Shot(request.route, how, "cut", whole[: len(whole) - max(1, len(body) // 2)])
    return Shot(request.route, how, "raw", whole + chance.randbytes(60))
