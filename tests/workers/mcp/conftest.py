"""A ledger that holds something of everything, and clients of the SDK that ask it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import CallToolResult, TextContent

from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.landscape.runs import whole_run
from tests.ledgers.make import write
from workers.environment.ledger_access import LedgerPlace
from workers.environment.system_host import system_host
from workers.mcp.server import build_server
from workers.mcp.tool import ToolContext

NO_GATEWAY = "http://127.0.0.1:9"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose ledger has an operation of every kind; nothing writes to it."""
    folder = tmp_path_factory.mktemp("record") / "data"
    folder.mkdir(mode=0o700)
    write(folder / "ledger.db")
    with closing(Ledger(SqliteStore(folder / "ledger.db"), system_host())) as ledger:
        run_once(ledger)
    return folder


def run_once(ledger: Ledger) -> None:
    """Record a run with a fork, a batch, calls to a model and errors, as it ends."""
    recorder = Recorder(ledger)
    whole_run(recorder)
    recorder.complete_run("run-1")


def _json(result: CallToolResult) -> Any:
    [content] = result.content
    assert isinstance(content, TextContent)
    return json.loads(content.text)


@dataclass
class Asker:
    """A client that reads the answers of tools."""

    session: ClientSession

    async def __call__(self, tool: str, /, **arguments: Any) -> Any:
        """Return the answer of a tool, which must not be an error."""
        result = await self.session.call_tool(tool, arguments)
        assert not result.isError, result.content
        return _json(result)

    async def refused(self, tool: str, /, **arguments: Any) -> Any:
        """Return the error of a tool, which must not answer."""
        result = await self.session.call_tool(tool, arguments)
        assert result.isError, result.content
        return _json(result)["error"]

    async def values(self, sql: str) -> list[Any]:
        """Return the first column of a query."""
        return [row[0] for row in (await self("query", sql=sql))["rows"]]


@asynccontextmanager
async def asking(place: LedgerPlace, **options: Any) -> AsyncIterator[Asker]:
    """Connect a client to a server in this process."""
    options = {"gateway_url": lambda: NO_GATEWAY, **options}
    server = build_server(ToolContext(place, **options))
    async with create_connected_server_and_client_session(server) as session:
        yield Asker(session)


@pytest.fixture
async def ask(folder: Path) -> AsyncIterator[Asker]:
    async with asking(folder / "ledger.db") as asker:
        yield asker
