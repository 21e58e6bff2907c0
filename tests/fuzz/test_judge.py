"""The judge of answers and of gateways finds what it is there for, and nothing else."""

import json
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from tests.fuzz.fleet import GATEWAYS
from tests.fuzz.health import LIMIT_S, machine_s
from tests.fuzz.hostile import hostile_shot, legal_shot
from tests.fuzz.judge import Answer, wrong_with
from tests.fuzz.legal import MUST_SUCCEED, legal_request
from tests.fuzz.report import MEBIBYTE, wrong_with_health, wrong_with_loops, wrong_with_memory
from tests.fuzz.shot import Shot
from tests.loop_watchdog import Stall
from tests.system.tree_run import wait_for

ASK, RAW = (Shot("r", "h", manner, b"") for manner in ("ask", "raw"))
LEGAL = Shot("r", "legal", "ask", b"", legal=frozenset({200}))
JSON = {"content-type": "application/json"}
LATER = JSON | {"retry-after": "1"}


def refused(status, code, headers=JSON, **fields):
    body = {"error": {"code": code, "message": "why"} | fields}
    return Answer(status, headers, json.dumps(body).encode())


HTML = {"content-type": "text/html; charset=utf-8"}


def page_of(status, body):
    return Answer(status, HTML | {"content-security-policy": "default-src 'none'"}, body)


RIGHT = [
    (ASK, Answer(200, JSON, b"{}")),
    (ASK, refused(422, "INVALID_REQUEST")),
    (ASK, refused(422, "envelope_schema_invalid", details={"field": "x"})),
    (ASK, refused(413, "request_too_large")),
    (ASK, refused(405, "method_not_allowed")),
    (ASK, refused(503, "gateway_full", LATER)),
    (ASK, refused(429, "mailbox_full", LATER)),
    (RAW, refused(400, "http_invalid")),
    (RAW, refused(431, "headers_too_large")),
    (LEGAL, Answer(200, JSON, b'{"results":[{"validation_result":"accepted"}]}')),
    (LEGAL, refused(503, "gateway_full", LATER)),
    (Shot("r", "h", "raw", b"", head_only=True), Answer(404, {}, b"")),
    (ASK, page_of(404, b'<p class="error"><strong>not_found</strong> no such run</p>')),
    (ASK, page_of(404, b'<p class="error" role="status"><strong>Not known.</strong> not_found: x')),
    (Shot("/readyz", "h", "ask", b""), Answer(503, JSON, b'{"status":"not ready","problems":{}}')),
]
WRONG = [
    (ASK, refused(500, "internal"), "failed"),
    (ASK, refused(500, "anything_else"), "not in the table"),
    (ASK, Answer(500, {"content-type": "text/plain"}, b"Internal Server Error"), "untyped"),
    (ASK, Answer(307, {"location": "/x"}, b""), "untyped"),
    (ASK, Answer(404, JSON, b'{"detail":"Not Found"}'), "untyped"),
    (RAW, Answer(400, {"content-type": "text/plain"}, b"Invalid HTTP request"), "untyped"),
    (ASK, page_of(404, b"<p>no such run</p>"), "untyped"),
    (ASK, page_of(500, b'<p class="error"><strong>internal</strong> x</p>'), "failed"),
    (ASK, page_of(500, b'<p class="error"><strong>not_found</strong> x</p>'), "not in the table"),
    (ASK, Answer(404, HTML, b'<p class="error"><strong>not_found</strong> x</p>'), "untyped"),
    (ASK, refused(422, "no_such_code_anywhere"), "not in the table"),
    (ASK, refused(404, "gateway_full", LATER), "not in the table"),
    (ASK, refused(422, "INVALID_REQUEST", {"content-type": "text/html"}), "untyped"),
    (ASK, refused(503, "gateway_full"), "without Retry-After"),
    (ASK, refused(503, "actor_failed", LATER), "failed"),
    (ASK, refused(503, "commit_failed", LATER), "failed"),
    (ASK, refused(503, "reply_lost", LATER), "failed"),
    (ASK, refused(422, ""), "untyped"),
    (ASK, refused(422, "INVALID_REQUEST", trace="…"), "untyped"),
    (ASK, Answer(200, JSON, b'{"results":[{"reason_code":"internal"}]}'), "a part"),
    (ASK, Answer(200, JSON, b'{"outcomes":[{"code":"commit_failed"}]}'), "a part"),
    (LEGAL, refused(422, "INVALID_REQUEST"), "legal"),
    (LEGAL, Answer(200, JSON, b'{"results":[{"validation_result":"rejected"}]}'), "legal"),
    (Shot("r", "h", "raw", b"", head_only=True), Answer(500, {}, b""), "status"),
]


@pytest.mark.parametrize(("shot", "answer"), RIGHT)
def test_an_answer_of_ours_is_right(shot, answer):
    assert wrong_with(shot, answer, disturbed=False) is None


@pytest.mark.parametrize(("shot", "answer", "wrong"), WRONG)
def test_an_answer_that_is_not_ours_is_found(shot, answer, wrong):
    assert wrong in (wrong_with(shot, answer, disturbed=False) or "")


def test_what_redis_lacks_is_right_only_while_it_is_attacked():
    answer = refused(503, "reply_lost", LATER)
    assert wrong_with(ASK, answer, disturbed=True) is None
    assert wrong_with(ASK, refused(500, "internal"), disturbed=True) is not None


def test_a_request_is_a_function_of_its_seed_and_number():
    for number in range(500):
        assert hostile_shot(3, number) == hostile_shot(3, number)
    assert hostile_shot(3, 1) != hostile_shot(4, 1)
    legal = [legal_request(3, number) for number in range(500)]
    assert len({request.route for request in legal}) > len(set(MUST_SUCCEED))
    assert all(legal_shot(request).legal for request in legal)


def test_hostile_requests_go_to_every_route_in_every_manner():
    shots = [hostile_shot(1, number) for number in range(4000)]
    assert {shot.manner for shot in shots} == {"ask", "raw", "cut", "pipeline"}
    assert max(len(shot.content) for shot in shots) > 8 << 19
    assert sum(len(shot.content) for shot in shots) / len(shots) < 64 * 1024
    routes = {shot.route for shot in shots}
    for part in ("declare", "eliminate", "envelopes", "operations", "simulations", "syntheses"):
        assert part in routes
    assert {"internal/work", "internal/recomputed", "rollbacks", "audit/replay"} <= routes


@pytest.mark.slow
def test_what_once_ended_a_fleet_is_among_them():
    """A lone surrogate among the references of an envelope, in a body that is read."""
    spoiled = set()
    for number in range(10_000):
        shot = hostile_shot(1, number)
        if (shot.route, shot.manner) == ("envelopes", "ask") and len(shot.content) < 1 << 16:
            with suppress(ValueError, RecursionError):
                body = json.loads(shot.content.partition(b"\r\n\r\n")[2])
                names = body if isinstance(body, dict) else ()
                spoiled |= {name for name in names if "\\ud800" in json.dumps(body[name])}
    assert {"write_set_refs", "read_set_refs", "source_refs"} <= spoiled


def test_a_gateway_that_grew_is_found():
    idle = dict.fromkeys(GATEWAYS, 100 * MEBIBYTE)
    assert wrong_with_memory(idle, dict.fromkeys(GATEWAYS, 260 * MEBIBYTE)) == []
    assert len(wrong_with_memory(idle, {"a": 300 * MEBIBYTE, "b": 0})) == 1


def test_a_loop_that_was_held_is_found():
    short, long = (Stall("callback", seconds, "c", "") for seconds in (0.04, 0.06))
    assert wrong_with_loops({"a": [short, Stall("starved", 9.0, "c", "")], "b": []}) == []
    assert len(wrong_with_loops({"a": [short, long]})) == 1


def test_waiting_for_a_processor_is_the_machines():
    before, after = {"7": 1.0, "8": 0.0, "9": 5.0}, {"7": 1.2, "8": 0.3, "9": 5.1, "10": 0.05}
    assert machine_s(7, before, after) == pytest.approx((0.2 + 0.3, 0.2 + 0.3 + 0.1 + 0.05))


# A server like a gateway, whose loop is held as its command line says.

_SERVER = """
import asyncio, sys, threading, time

def compute():
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass

def hold():
    {"sleeps": lambda: time.sleep(0.3), "computes": compute, "does nothing": lambda: None}[how]()

async def serve(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok")
    await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while True:
        await asyncio.sleep(0.5)
        hold()

how = sys.argv[1]
asyncio.run(main())
"""
_BURN = "while True: pass"


@contextmanager
def started(*arguments, **options):
    process = subprocess.Popen([sys.executable, *arguments], **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def asked_after(how, seconds):
    """Ask a server after its health for a while, and return what the judge says."""
    with started("-c", _SERVER, how, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        asking = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.health"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        asking.stdin.write(json.dumps({"a": (port, server.pid)}) + "\n")
        asking.stdin.flush()
        with pytest.raises(AssertionError):
            wait_for("nothing", lambda: False, seconds)
        printed, _ = asking.communicate(timeout=60)
    return json.loads(printed)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="waiting is read in /proc")
@pytest.mark.parametrize("how", ["sleeps", "computes"])
def test_a_gateway_whose_loop_is_held_is_found(how):
    health = asked_after(how, 4.0)
    assert health["a"]["asked"] > 5
    assert any("of its own" in wrong for wrong in wrong_with_health(health))
    assert health["a"]["late_for_certain"] > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="waiting is read in /proc")
def test_a_gateway_on_a_busy_machine_is_not():
    with started("-c", _BURN), started("-c", _BURN), started("-c", _BURN), started("-c", _BURN):
        health = asked_after("does nothing", 4.0)
    assert wrong_with_health(health) == []
    assert health["a"]["worst"][0]["own_s"] < LIMIT_S
    assert health["a"]["late_for_certain"] == 0


def test_a_gateway_that_nobody_reaches_is_found():
    health = {"asked": 3, "unanswered": 1, "late": 0, "late_for_certain": 0, "worst": []}
    assert len(wrong_with_health({"a": health, "b": health | {"asked": 0, "unanswered": 0}})) == 2


@pytest.mark.parametrize(
    ("questions", "late", "own_s", "is_wrong"),
    [
        (2000, 2, 0.14, False),
        (2000, 3, 0.14, True),
        (2000, 1, 0.31, True),
        (20, 1, 0.14, False),
        (20, 2, 0.14, True),
    ],
)
def test_an_answer_may_be_late_once_in_a_thousand_but_not_by_much(questions, late, own_s, is_wrong):
    question = {"own_s": own_s, "certain_s": 0.0, "elapsed_s": 0.4, "at_s": 9.0, "status": 200}
    health = {
        "asked": questions,
        "unanswered": 0,
        "late": late,
        "late_for_certain": 0,
        "worst": [question],
    }
    assert bool(wrong_with_health({"a": health})) == is_wrong
    assert wrong_with_health({"a": health | {"late_for_certain": 1}})


@pytest.mark.parametrize(
    ("seconds", "collecting_s", "is_wrong"),
    [(0.049, 0.0, False), (0.051, 0.0, True), (0.08, 0.04, False), (0.06, 0.055, True)],
)
def test_a_callback_and_the_collection_that_it_met_have_a_limit_each(
    seconds, collecting_s, is_wrong
):
    stall = Stall("callback", seconds, "", "", collecting_s)
    assert bool(wrong_with_loops({"a": [stall]})) == is_wrong
