"""Hostile requests from a seed: a legal request, spoiled in one or two places, as bytes.

A request is a function of its seed and number. What is spoiled is one of these: the values of the
body, its text, its bytes, the head of the request, or how the bytes get onto the connection.
"""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Literal
from urllib.parse import quote

from tests.fuzz.legal import HOSTILE_BASES, SHARED, Names, Request

Manner = Literal["ask", "pipeline", "raw", "cut"]
"""ask: an answer must come. pipeline: so many as there are requests. raw: what comes, if anything,
has to be an answer. cut: the connection is closed before anything can come."""

BIG_EACH: Final = 400
"""One request in so many is as large as a body may be, so that the bytes of a run stay bounded."""

BIG_BYTES: Final = (8 << 20) - 4096

_ODD_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e17, 5e-324, 1e308, 2.0**53),
    *(2**31, 2**53, 2**53 + 1, -(2**53), 2**63 - 1, 2**63, 2**64, 10**30),
    *("", " ", "a", "5", "null", "NaN", "-1", "\x00", "a\x00b", "\ud800", "a\udfffb", "\U0001f600"),
    *(
        "a|b",
        "a.b",
        "a/b",
        "../../etc/passwd",
        "%00",
        "'; DROP TABLE nodes;--",
        "{{7*7}}",
        "\r\nX:y",
    ),
    *(
        "x" * 400,
        "x" * 401,
        "x" * 513,
        "é" * 512,
        "\u202e\u0301" * 100,
        "ﬁ\ufeff\u200b",
        "x" * 70_000,
    ),
    *(
        [],
        {},
        [[]],
        [None],
        ["a"],
        [{}],
        {"a": 1},
        {"": {}},
        {"\x00": 1},
        {"\ud800": 1},
        ["\ud800"],
    ),
    *("n", "m", "topic", "source-shared", "cu-shared", "claim-shared", "edge", "binding", "PG-1"),
    *(
        "source-shared#0-9",
        "cu-shared#0-9",
        "n#-1-5",
        "n#0-99999999999999999999",
        "#",
        "n#",
        "n#a-b",
    ),
    *("source-shared#5-2", "source-shared#0-0", "source-shared#0-9#0-9", "n#\ud800-1"),
    *(
        "2026-02-30T00:00:00Z",
        "2026-02-09",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
    ),
    *("2026-02-09T24:00:00Z", "2026-02-09T00:00:60Z", "2026-02-09T00:00:00", "20260209T000000Z"),
    *(
        "sealed",
        "firewalled",
        "public_open",
        "recalculate_authority",
        "node_write",
        "user",
        "agent",
    ),
    *("orchestrator", "system", "1.6", "1.5", "ab" * 32, "AB" * 32, "zz" * 32, "op-first-attempt"),
    *SHARED[:2],
    "00000000-0000-0000-0000-000000000000",
)
_TOKENS: Final = (
    *("NaN", "Infinity", "-Infinity", "-0", "-0.0", "1e400", "-1e400", "1e-400", "9" * 400),
    *("9" * 5000, "0" * 5000, "1E308", "1.0", "1e2", "01", "+1", ".5", "1.", "0x10", "1_000"),
    *(
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '"\\u0000"',
        '"\\x"',
        '"',
        "nul",
        "tru",
        "'a'",
        "//",
        "/**/1",
    ),
    *('{"a":1,"a":2}', '{"":""}', "[,]", "{,}", "[1,]", '{"a":1,}', '{"\\ud800":1}', "\ufeff1", ""),
)
"""JSON that few readers agree about, and JSON that is none."""

_NAMES: Final = (
    *("", "undoes", "state", "visibility_class", "node_kind", "x", "\x00", "\ud800", "__proto__"),
    *("session_id", "epoch_id", "run_id", "supersedes", "capacity_override", "intent_digest"),
    *(
        "compensates_operation_id",
        "adjudicates_receipt_ids",
        "recorded_model_outputs",
        "source_refs",
    ),
    *(
        "content_node_ref",
        "read_set_versions",
        "actor_session_kind",
        "duration_ms",
        "schema_version",
    ),
)
_PLACE: Final = "\ue000"
_DEPTHS: Final = (8, 31, 32, 33, 64, 200, 500, 900, 1100, 5000, 100_000)
_COUNTS: Final = (2, 65, 256, 257, 1000, 10_001, 50_000)


@dataclass(frozen=True, slots=True)
class Shot:
    """Bytes for a connection, and what must come back."""

    route: str
    how: str
    """What was spoiled."""

    manner: Manner
    content: bytes
    answers: int = 1
    head_only: bool = False
    """Whether the answer has a head and no body."""

    legal: frozenset[int] = frozenset()
    """The statuses of which one has to come, once whatever passes has passed; empty for any."""


def bytes_of(request: Request, body: bytes | None, *, extra: str = "") -> bytes:
    """Return a request as it is written."""
    lines = [f"{request.method} {request.path} HTTP/1.1", "host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    head = "\r\n".join(lines) + "\r\n" + extra + "\r\n"
    return head.encode("utf-8", "surrogateescape") + (body or b"")


def text_of(value: Any) -> bytes:
    """Return a body as JSON, lone surrogates as escapes."""
    return json.dumps(value).encode()


def legal_shot(request: Request) -> Shot:
    """Return a request that is not spoiled."""
    body = None if request.body is None else text_of(request.body)
    return Shot(request.route, "legal", "ask", bytes_of(request, body), legal=request.statuses)


def hostile_shot(seed: int, number: int) -> Shot:
    """Return a hostile request."""
    chance = Random(f"hostile {seed} {number}")
    names = Names(f"x-{seed}-{number}", chance.choice(SHARED), chance)
    [build] = chance.choices(list(HOSTILE_BASES), list(HOSTILE_BASES.values()))
    request = build(names)
    # What is spoiled is nobody else's.
    request = replace(request, body=copy.deepcopy(request.body))
    if number % BIG_EACH == BIG_EACH - 1:
        return _big(request, chance)
    [spoil] = chance.choices([one for one, _ in _SPOILERS], [weight for _, weight in _SPOILERS])
    return spoil(request, chance)


# Values


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document, as its container and its key."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        items = one.items() if isinstance(one, dict) else enumerate(one)
        for key, item in items:
            yield one, key
            if isinstance(item, dict | list):
                waiting.append(item)


def _odd_value(chance: Random, value: Any) -> Any:
    how = chance.randrange(10)
    if how == 0:
        return _nested(chance.choice(_DEPTHS[:6]), value)
    if how == 1 and isinstance(value, list | str):
        return value * min(chance.choice(_COUNTS[:5]), 100_000 // (len(value) or 1) + 1)
    if how == 2:
        return {f"{chance.choice(_NAMES)}{place}": value for place in range(chance.choice((2, 70)))}
    return chance.choice(_ODD_VALUES)


def _nested(depth: int, value: Any) -> Any:
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def _spoil_values(body: Any, chance: Random) -> str:
    """Change a document in one or two places, and say how."""
    done = []
    for _ in range(chance.choice((1, 1, 2))):
        places = list(_places(body))
        if not places:
            break
        container, key = chance.choice(places)
        how = chance.choice(
            ("value", "value", "value", "value", "gone", "more", "elsewhere", "twin")
        )
        if how == "value":
            container[key] = _odd_value(chance, container[key])
        elif how == "gone":
            del container[key]
        elif how == "more" and isinstance(container, dict):
            container[chance.choice(_NAMES)] = chance.choice(_ODD_VALUES)
        elif how == "elsewhere":
            other, place = chance.choice(places)
            container[key] = json.loads(json.dumps(other[place]))
        elif isinstance(container, list):
            container.append(container[key])
        done.append(f"{how} {str(key)[:40]!a}")
    return ", ".join(done)


def _values(request: Request, chance: Random) -> Shot:
    if not request.body:
        return _head(request, chance)
    how = _spoil_values(request.body, chance)
    return _asked(request, text_of(request.body), how)


def _asked(request: Request, content: bytes, how: str) -> Shot:
    head_only = request.method == "HEAD"
    return Shot(request.route, how, "ask", bytes_of(request, content), head_only=head_only)


# Text and bytes


def _texts(request: Request, chance: Random) -> Shot:
    if not request.body:
        return _head(request, chance)
    how = chance.choice(("token", "token", "twice", "deep", "long", "whole"))
    if how == "whole":
        return _asked(request, _odd_text(chance).encode("utf-8", "surrogatepass"), how)
    if how == "twice":
        key, value = chance.choice(list(request.body.items()))
        odd = chance.choice((json.dumps(value), json.dumps(chance.choice(_ODD_VALUES)), "{}"))
        text = f"{{{json.dumps(key)}:{odd},{json.dumps(request.body)[1:]}"
    else:
        container, key = chance.choice(list(_places(request.body)))
        container[key] = _PLACE
        odd = {"token": _odd_token, "deep": _deep, "long": _long}[how](chance)
        text = json.dumps(request.body).replace(json.dumps(_PLACE), odd)
    return _asked(request, text.encode("utf-8", "surrogatepass"), f"text {how}")


def _odd_token(chance: Random) -> str:
    return chance.choice(_TOKENS)


def _deep(chance: Random) -> str:
    depth = chance.choice(_DEPTHS)
    opened, closed = chance.choice((("[", "]"), ('{"a":', "}"), ("[", ""), ("[{},", "]")))
    return opened * depth + "1" + closed * depth


def _long(chance: Random) -> str:
    item = chance.choice(("1", '"a"', "{}", "null", "[]", '"n"', '"source-shared#0-1"'))
    return f"[{','.join([item] * chance.choice(_COUNTS))}]"


def _odd_text(chance: Random) -> str:
    return chance.choice((_odd_token, _deep, _long))(chance)


def _bytes(request: Request, chance: Random) -> Shot:
    content = text_of(request.body)
    cut = chance.randrange(len(content) + 1)
    spoilt = chance.choice(
        (
            content[:cut],
            content[:cut] + b"\xff\xfe" + content[cut:],
            content[:cut] + b"\xed\xa0\x80" + content[cut:],
            content[:cut] + b"\x00" + content[cut:],
            content + content[:cut],
            b"\xef\xbb\xbf" + content,
            content.decode().encode("utf-16"),
            content.decode().encode("utf-32-be"),
            chance.randbytes(cut),
            b"",
        )
    )
    return _asked(request, spoilt, "bytes")


def _big(request: Request, chance: Random) -> Shot:
    """A body as large as may be, of one of the shapes that cost the most."""
    room = BIG_BYTES
    if request.body and chance.random() < 0.8:
        container, key = chance.choice(list(_places(request.body)))
        container[key] = _PLACE
        text = json.dumps(request.body)
    else:
        text = json.dumps(_PLACE)
    item = chance.choice(
        ("{},", "[],", '"",', "1,", '{"a":1},', '"a",', "1.5,", "x", "[", '{"a":', "9")
    )
    if item == "x":
        odd = '"' + "x" * room + '"'
    elif item in ("[", '{"a":', "9"):
        odd = item * (room // len(item))
    else:
        odd = "[" + item * (room // len(item) - 1) + item.rstrip(",") + "]"
    content = text.replace(json.dumps(_PLACE), odd).encode()
    shot = _asked(request, content, f"big {item}")
    return Shot(shot.route, shot.how, "ask", shot.content)


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


def _head(request: Request, chance: Random) -> Shot:
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
    odd = Request(request.route, method, path, None, request.headers)
    content = bytes_of(odd, body, extra=extra)
    told = {"path": path, "method": method, "header": extra}[how]
    return Shot(request.route, f"{how} {told[:60]!a}", "raw", content, head_only=method == "HEAD")


# The connection


def _connection(request: Request, chance: Random) -> Shot:
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
        head = bytes_of(Request("", request.method, request.path, None, request.headers), None)
        size = chance.choice((b"%x" % len(body), b"%x" % (len(body) + 1), b"-1", b"zz", b"f" * 30))
        content = (
            head[:-2] + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        return Shot(request.route, how, "raw", content + size + b"\r\n" + body + b"\r\n0\r\n\r\n")
    if how == "short":
        return Shot(request.route, how, "cut", whole[: len(whole) - max(1, len(body) // 2)])
    return Shot(request.route, how, "raw", whole + chance.randbytes(60))


_SPOILERS: Final[tuple[tuple[Callable[[Request, Random], Shot], int], ...]] = (
    (_values, 60),
    (_texts, 16),
    (_bytes, 6),
    (_head, 12),
    (_connection, 6),
)
