"""Runs `rotulus worker`: one worker."""

from functools import partial

import click

from workers.cli.common import app_option, read_settings, redis_url, run
from workers.environment.child_environment import wait_to_begin
from workers.environment.listening import take_listening
from workers.worker.process import serve_worker


@click.command()
@click.option("--queues", help="Queues to drain, separated by commas; all of them by default.")
@click.option("--concurrency", type=click.IntRange(1, 64), help="Batches to drain at once.")
@app_option
def worker(queues: str | None, concurrency: int | None, app: str | None) -> None:
    """Run one worker: slots that drain the work queues.

    Needs ROTULUS_REDIS_URL, ROTULUS_GATEWAY_URL and ROTULUS_WORKER_TOKEN, and reads the ledger in
    the data folder.
    """
    settings = read_settings(child=True, worker_queues=queues, worker_slots=concurrency, app=app)
    measured = take_listening()
    wait_to_begin()
    serve = partial(serve_worker, settings, redis_url(settings), measured=measured)
    run(serve, blocked_s_max=settings.loop_blocked_s_max)
