"""Streams to a gateway that is killed or stopped in their middle: what was answered is there."""

import json
import signal
from contextlib import nullcontext, suppress

import anyio
import pytest

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from tests.system.gateways import RetryingClient, running_gateways, session_id
from tests.workers.api.door import source, understanding
from workers.client.errors import GatewayError
from workers.client.gateway_http import GatewayHttp
from workers.client.session_operations import SessionOperations
from workers.environment.ledger_access import open_record

pytestmark = [pytest.mark.timeout(120), pytest.mark.anyio, pytest.mark.may_block]

SESSIONS = [session_id(number) for number in range(2)]
SOURCES = 1000
KILLED_AFTER = (50, 300)
"""Answers of a session after which a life of the gateway ends."""


def intents_of(session):
    """Sources, and after every hundredth an understanding of it: more than one effect."""
    for number in range(SOURCES):
        name = f"{session}-{number}"
        yield source(name)
        if number % 100 == 0:
            yield understanding(f"u-{name}", name)


async def submit(url, session, answered, enough=None, count=0):
    """Send everything from its beginning; keep each operation that was answered as accepted."""
    async with GatewayHttp(url, give_up_after_s=0) as http:
        with nullcontext() if enough is None else suppress(GatewayError):
            async for outcome in SessionOperations(http, session).submit(intents_of(session)):
                assert outcome.result["validation_result"] == "accepted", outcome
                answered[outcome.result["operation_id"]] = outcome.result["ec_sequence_number"]
                if len(answered) >= count and enough is not None:
                    enough.set()


def recorded(place):
    """The sequence of every operation on the record, and the nodes."""
    with open_record(place) as view:
        log = view.tables.scan(TableQuery(schema.kernel_event_log))
        nodes = view.tables.scan(TableQuery(schema.nodes))
    operations = {row["operation_id"]: str(row["ec_sequence_number"]) for row in log}
    return operations, [row["node_id"] for row in nodes]


async def test_what_was_answered_is_on_the_record_and_the_rest_is_sent_again(tmp_path):
    answered = {session: {} for session in SESSIONS}
    with running_gateways(tmp_path) as gateways:
        for count in KILLED_AFTER:
            gateway = gateways.start("a")
            gateway.wait_until_ready()
            async with RetryingClient(gateway) as client:
                for session in SESSIONS:
                    await client.declare(session)
            enough = anyio.Event()
            async with anyio.create_task_group() as tasks:
                for session, of_session in answered.items():
                    tasks.start_soon(submit, gateway.url, session, of_session, enough, count)
                await enough.wait()
                gateway.process.kill()
            gateway.process.wait(10)
            operations, nodes = recorded(gateways.place)
            assert any(len(of_session) >= count for of_session in answered.values())
            assert len(nodes) < len(SESSIONS) * SOURCES, "it was killed when all was done"
            for of_session in answered.values():
                assert of_session.items() <= operations.items()
            gateways.verify()
        gateway = gateways.start("a")
        gateway.wait_until_ready()
        for session, of_session in answered.items():
            before = dict(of_session)
            await submit(gateway.url, session, of_session)
            assert before.items() <= of_session.items()
        _, nodes = recorded(gateways.place)
        wanted = {intent["node_id"] for session in SESSIONS for intent in intents_of(session)}
        assert sorted(nodes) == sorted(wanted)
        gateways.verify()


async def test_a_line_is_answered_before_the_next_and_a_stop_ends_the_stream_with_a_line(tmp_path):
    [session, *_] = SESSIONS
    head = f"POST /v1/sessions/{session}/operations:bulk HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with running_gateways(tmp_path) as gateways:
        gateway = gateways.start("a")
        gateway.wait_until_ready()
        async with RetryingClient(gateway) as client:
            await client.declare(session)
        async with await anyio.connect_tcp("127.0.0.1", gateway.port) as stream:
            await stream.send(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
            received = b""
            for number in range(1, 4):
                line = json.dumps(source(f"s-{number}")).encode() + b"\n"
                await stream.send(b"%x\r\n%b\r\n" % (len(line), line))
                with anyio.fail_after(30):
                    while f'"line":{number},'.encode() not in received:
                        received += await stream.receive()
            gateway.send(signal.SIGTERM)
            with anyio.fail_after(30):
                while not received.endswith(b"0\r\n\r\n"):
                    received += await stream.receive()
        assert b'"code":"gateway_stopping"' in received
        gateway.process.wait(10)
        _, nodes = recorded(gateways.place)
        assert sorted(nodes) == ["s-1", "s-2", "s-3"]
        gateways.verify()
