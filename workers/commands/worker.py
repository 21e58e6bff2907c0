"""`rotulus worker`: one worker."""

from functools import partial
from pathlib import Path

import click

from workers.commands.common import data_dir, read_settings, redis_url, run
from workers.worker import serve_worker


@click.command()
@data_dir
def worker(data_dir: Path | None) -> None:
    """Run one worker: drain slots that compute authorities.

    Needs ROTULUS_REDIS_URL, ROTULUS_GATEWAY_URL and ROTULUS_WORKER_TOKEN, and reads the ledger in
    the data folder.
    """
    settings = read_settings(data_dir, child=True)
    run(partial(serve_worker, settings, redis_url(settings)))
