"""`rotulus up`: the process tree, left running."""

from pathlib import Path

import click

from workers.cli.common import data_dir, read_settings, run
from workers.environment.ledger_access import shown_place
from workers.process_tree.tree import Tree, running_tree

worker_count = click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes."
)


@click.command()
@data_dir
@worker_count
def up(data_dir: Path | None, workers: int) -> None:
    """Run Redis, a gateway and workers in one process tree until Ctrl-C."""

    async def stay() -> None:
        async with running_tree(read_settings(data_dir), workers=workers) as tree:
            say_where(tree)
            await tree.supervisor.wait_failed()

    run(stay)


def say_where(tree: Tree) -> None:
    """Say where a tree can be looked at, and how it is stopped."""
    measured = "".join(f"\n                 {url}" for url in tree.worker_metrics_urls)
    click.echo(
        f"\n  dashboard      {tree.gateway_url}/"
        f"\n  metrics        {tree.gateway_url}/metrics{measured}"
        f"\n  ledger         {shown_place(tree.ledger_place)}"
        "\n  stop           Ctrl-C\n"
    )
