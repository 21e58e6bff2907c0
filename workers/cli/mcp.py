"""Runs `rotulus mcp`, the MCP server for models that ask what happened and why."""

import click

from workers.cli.common import clean_errors, gateway_url, read_settings, run
from workers.client.access_key import key_in
from workers.environment.ledger_access import ledger_place
from workers.environment.listening import listen
from workers.environment.output import announce
from workers.mcp.process import HOST, PORT, serve_http, serve_stdio
from workers.mcp.tool import ToolContext


@click.command()
@click.option("--http", is_flag=True, help="Serve streamable HTTP on the loopback, and not stdio.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="Port for --http; 0: any free port.",
)
@click.option("--allow-writes", is_flag=True, help="Also offer the tools that record thoughts.")
def mcp(port: int, *, http: bool, allow_writes: bool) -> None:
    """Serve what is on the record to a model, as tools of the Model Context Protocol.

    The server speaks over standard input and output until they are closed; with --http until
    Ctrl-C. The ledger is opened to read alone. Depths of queues and workers are asked of the
    gateway. With ROTULUS_ACCESS=keys a tool answers what the key allows: that of ROTULUS_KEY, with
    --http the Bearer of each request.
    """
    settings = read_settings()
    context = ToolContext(
        ledger_place(settings),
        lambda: gateway_url(settings),
        allow_writes=allow_writes,
        takes_keys=settings.takes_keys,
        key="" if http else key_in(),
    )
    if not http:
        run(lambda: serve_stdio(context))
        return
    with clean_errors():
        listening = listen(HOST, port, "--port")
    run(
        lambda: serve_http(context, listening, lambda url: announce(f"MCP server listens on {url}"))
    )
