"""Runs `rotulus gateway`: one gateway."""

from functools import partial

import click

from workers.cli.common import read_settings, redis_url, run
from workers.environment.event_loop import serving_loop
from workers.environment.listening import take_listening
from workers.gateway.process import serve_gateway


@click.command()
def gateway() -> None:
    """Run one gateway: sessions, kernel, ledger, HTTP, dashboard.

    Needs ROTULUS_REDIS_URL; with ROTULUS_WORKER_TOKEN set, workers that know it may hand in.
    """
    settings = read_settings(child=True)
    serve = partial(serve_gateway, settings, redis_url(settings), take_listening())
    run(serve, serving_loop(), blocked_s_max=settings.loop_blocked_s_max)
