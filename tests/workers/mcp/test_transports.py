"""The command `rotulus mcp` as its clients start it and reach it: stdio, and HTTP on loopback."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.workers.mcp.driven import drive
from tests.workers.mcp.test_tools import READING
from workers.mcp.http_app import REQUESTS_MAX

pytestmark = [pytest.mark.anyio, pytest.mark.may_block, pytest.mark.slow]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
HEADERS = {"Accept": "application/json, text/event-stream"}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def command(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "workers", "mcp", "--data-dir", str(folder), *options]


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A server of its own process, on a free port of the loopback."""
    with subprocess.Popen(
        command(folder, "--http", "--port", "0"), stdout=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        try:
            yield line.removeprefix("MCP server listens on ").strip()
        finally:
            process.terminate()
            assert process.wait(timeout=20) in (0, -15)


async def test_a_client_drives_every_tool_over_stdio(folder: Path):
    program, *arguments = command(folder)
    server = StdioServerParameters(command=program, args=arguments)
    async with (
        stdio_client(server) as (incoming, outgoing),
        ClientSession(incoming, outgoing) as session,
    ):
        stated = await session.initialize()
        assert (stated.serverInfo.name, "diagnose" in stated.instructions) == ("rotulus", True)
        assert (await drive(session)).keys() == READING
    assert names_in(folder) == {"ledger.db"}


async def test_a_client_drives_every_tool_over_http(url: str):
    async with (
        streamable_http_client(url) as (incoming, outgoing, _),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        assert (await drive(session)).keys() == READING


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("", {"Host": "rebound.example"}, 421, "host_unknown"),
        ("", {"Host": "rebound.example:80"}, 421, "host_unknown"),
        ("", {"Host": "a b"}, 400, "host_invalid"),
        ("", {"Origin": "https://page.example"}, 403, "origin_refused"),
        ("", {"Origin": "null"}, 403, "origin_refused"),
        ("", {"Sec-Fetch-Site": "cross-site"}, 403, "origin_refused"),
        ("/other", {}, 404, "not_found"),
    ],
)
async def test_who_comes_from_elsewhere_is_refused(url: str, path, headers, status, code):
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.post(url + path, json=INITIALIZE, headers=HEADERS | headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        (b"{", {422}),
        (b"[]", {400}),
        (b"\xff", {422}),
        (b'{"jsonrpc":"2.0"}', {400}),
        (b"[" * 100_000, {422}),
        (b"[" * 500 + b"]" * 500, {422}),
        (b'{"x":"' + b"x" * (1 << 20) + b'"}', {413}),
    ],
)
async def test_what_is_no_request_is_refused_and_the_server_goes_on(url: str, body, statuses):
    async with httpx.AsyncClient(trust_env=False) as http:
        headers = HEADERS | {"Content-Type": "application/json"}
        answer = await http.post(url, content=body, headers=headers)
        assert answer.status_code in statuses
        assert (await http.post(url, json=INITIALIZE, headers=HEADERS)).status_code == 200


def test_over_stdio_a_line_that_is_no_message_ends_nothing(folder: Path):
    with subprocess.Popen(
        command(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write('{"\nnull\n[]\n\x00\n' + "[" * 5000 + "\n")
        process.stdin.write('{"jsonrpc":"2.0","id":7,"method":"ping"}\n')
        process.stdin.flush()
        answers = []
        while not answers or answers[-1].get("id") != 7:
            answers.append(json.loads(process.stdout.readline()))
        # Its end comes while an answer is on its way.
        process.stdin.write('{"\n{"jsonrpc":"2.0","id":8,"method":"ping"}\n')
        process.stdin.close()
        assert process.wait(timeout=20) == 0
    assert "result" in answers[-1]


async def test_nothing_but_a_message_takes_a_place(url: str):
    async with httpx.AsyncClient(trust_env=False) as client:
        for method in ("GET", "DELETE", "HEAD", "PUT"):
            for _ in range(REQUESTS_MAX + 1):
                answer = await client.request(
                    method, url, headers={"Accept": "text/event-stream"}, timeout=20
                )
                assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
