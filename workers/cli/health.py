"""Runs `rotulus health`: whether a gateway or the worker of this machine answers."""

import click

from workers.cli.common import command_error, gateway_url, read_settings, run
from workers.client.typed.gateway import GatewayClient
from workers.environment.output import echo
from workers.environment.settings import Settings, variable_of


@click.command()
@click.option("--ready", is_flag=True, help="Ask whether the gateway can serve, not only lives.")
@click.option("--worker", is_flag=True, help="Ask the worker of this machine, at its metrics.")
def health(*, ready: bool, worker: bool) -> None:
    """Say whether a gateway answers; ends with 1 where it does not within two seconds.

    It is for whoever starts containers: `rotulus status` says what needs somebody.
    """
    if ready and worker:
        raise click.UsageError("--ready is of a gateway: a worker that answers is ready")
    settings = read_settings()
    url, path = _worker_place(settings) if worker else _gateway_place(settings, ready=ready)

    async def answers() -> bool:
        async with GatewayClient(url) as client:
            return await client.answers(path)

    if not run(answers):
        code = "worker_unreachable" if worker else "gateway_unreachable"
        raise command_error(code, f"{url}{path} does not answer with success")
    echo(f"{url}{path} answers")


def _gateway_place(settings: Settings, *, ready: bool) -> tuple[str, str]:
    return gateway_url(settings).rstrip("/"), "/readyz" if ready else "/healthz"


def _worker_place(settings: Settings) -> tuple[str, str]:
    port = settings.worker_metrics_port
    if not port:
        raise click.UsageError(f"--worker needs the port of {variable_of('worker_metrics_port')}")
    scheme = "http" if settings.tls_cert_file is None else "https"
    return f"{scheme}://127.0.0.1:{port}", "/metrics"
