"""Runs the process of the MCP server: over stdio until the other end closes, or over HTTP."""

import socket
from collections.abc import Callable

import anyio
import uvicorn
from mcp.server.stdio import stdio_server

from workers.environment.listening import BACKLOG, port_of
from workers.environment.output import OutputFailed
from workers.mcp.http_app import PATH, http_app
from workers.mcp.server import build_server
from workers.mcp.tool import ToolContext

HOST = "127.0.0.1"
PORT = 8450
SHUTDOWN_S = 1


async def serve_stdio(context: ToolContext) -> None:
    """Serve one client over standard input and output; returns when it closes its end.

    Nothing else may write to standard output meanwhile.
    """
    server = build_server(context)
    failed: BaseException | None = None
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    except* (anyio.ClosedResourceError, BrokenPipeError):
        # Nobody is left to be answered, and a client that goes is no failure.
        pass
    except* OSError as group:
        failed = group.exceptions[0]
    if isinstance(failed, OSError):
        raise OutputFailed(failed)


async def serve_http(
    context: ToolContext, listening: socket.socket, announce: Callable[[str], None]
) -> None:
    """Serve streamable HTTP at a socket of the loopback, until SIGTERM or Ctrl-C."""
    async with http_app(build_server(context)) as app:
        config = uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        announce(f"http://{HOST}:{port_of(listening)}{PATH}")
        await uvicorn.Server(config).serve(sockets=[listening])
