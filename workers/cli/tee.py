"""Runs `rotulus tee`: a causal graph and its incidents, over gRPC."""

import click

from workers.cli.common import clean_errors, read_settings
from workers.environment.output import announce
from workers.tee.server import PORT, serve_tee


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="Port to bind; 0: any free port.",
)
def tee(port: int) -> None:
    """Serve the Tee contract from the ledger: a causal graph, and incidents over it.

    Binds ROTULUS_HOST, and says where it listens. gRPC health is served on the same port. Ends on
    SIGTERM or Ctrl-C, when the calls that run have ended. With ROTULUS_ACCESS=keys a call has to
    show that it knows ROTULUS_WORKER_TOKEN, as gateways do.
    """
    settings = read_settings(child=True)
    with clean_errors():
        serve_tee(settings, port, lambda address: announce(f"tee listens on {address}"))
