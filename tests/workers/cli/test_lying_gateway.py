"""A command that asks a gateway says in a line when the answer is not one of a gateway."""

import json
from functools import partial
from uuid import UUID

import httpx
import pytest

from tests.workers.cli.command import rotulus
from tests.workers.cli.test_status import deep
from workers.cli import gateway_call
from workers.client.typed.gateway import GatewayClient

LIES = {
    "nothing": "{}",
    "another kind": "[]",
    "no JSON": "<html>",
    "deep": deep(200_000),
    "deep, and read": deep(500),
    "null": "null",
    "numbers for lists": json.dumps(
        dict.fromkeys(
            ("queues", "pauses", "requests", "dead_letters", "bulk_operations", "bindings"), 7
        )
    ),
    "escapes": json.dumps({"queues": {}, "pauses": "\x1b[2J"}),
}

COMMANDS = (
    "queues",
    "queues list mail",
    "queues dead",
    "queues failures",
    "queues why mail r-1",
    "queues bulk list",
    "binding list",
    f"session show {UUID(int=1)}",
    f"session audit {UUID(int=1)}",
    "session list",
    "implications",
    "round list",
    "hold list",
    "tree head",
    "thought root s-1",
)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_command_says_that_what_answered_is_no_gateway(monkeypatch, lie):
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text=lie))
    monkeypatch.setattr(gateway_call, "GatewayClient", partial(GatewayClient, transport=transport))
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", "http://127.0.0.1:9")
    for command in COMMANDS:
        result = rotulus(*command.split())
        assert "\x1b" not in result.output, command
        if result.exit_code:
            [said] = result.stderr.splitlines()
            assert said.startswith("Error: gateway_failed: "), (command, said)
