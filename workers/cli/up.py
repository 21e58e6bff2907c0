"""Runs `rotulus up`: the process tree, left running."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import anyio
import click

from workers.cli.common import app_option, read_settings, run
from workers.cli.places import rotulus_command, with_places
from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient
from workers.environment.ledger_access import printable_place
from workers.environment.output import announce, say
from workers.process_tree.supervisor import AlikeDeaths
from workers.process_tree.tree import Tree, running_tree

LOOK_EVERY_S: Final = 5.0

worker_count = click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes."
)


@click.command()
@worker_count
@app_option
def up(workers: int, app: str | None) -> None:
    """Run Redis, a gateway and workers in one process tree until Ctrl-C."""

    async def stay() -> None:
        settings = read_settings(app=app)
        async with running_tree(settings, workers=workers, died_alike=say_death) as tree:
            say_where(tree)
            await say_troubles(tree)

    run(stay)


def say_where(tree: Tree) -> None:
    """Say where a tree can be looked at, and how it is stopped."""
    announce(
        "",
        f"  dashboard      {tree.gateway_url}/",
        f"  metrics        {tree.gateway_url}/metrics",
        *(f"                 {url}" for url in tree.worker_metrics_urls),
        f"  ledger         {printable_place(tree.ledger_place)}",
        "  stop           Ctrl-C",
        "",
    )


def say_death(deaths: AlikeDeaths) -> None:
    """Say that a restart does not help a process, and where to look for what it had in hand."""
    listed = rotulus_command("queues", "set-aside")
    last_line = f": {deaths.last_line}" if deaths.last_line else ""
    say(
        f"  DIES ALIKE     {deaths.name} died {deaths.times} times, {deaths.reason}{last_line}",
        f"                 what it takes is set aside after three ends: {listed}",
    )


async def say_troubles(tree: Tree) -> None:
    """Say what is missing and what was set aside, what is there and comes, until the tree ends."""
    reported: set[tuple[str, str]] = set()
    missing: dict[str, str] = {}
    async with GatewayClient(tree.gateway_url) as client:
        while True:
            # The gateway may be away, and so may the terminal: the tree goes on without being seen.
            with suppress(GatewayError, OSError):
                problems = dict((await client.readiness()).get("problems", {}))
                for name, problem in problems.items() - missing.items():
                    say(with_places(f"  NOT READY      {name}: {problem}"))
                missing = problems
                for line, place in set_aside_lines(await client.get("/v1/shards/set-aside")):
                    if place not in reported:
                        say(line)
                    reported.add(place)
            await anyio.sleep(LOOK_EVERY_S)


def set_aside_lines(answer: dict[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield what to say of each request that can be put back, and its shard and offset."""
    places = {(str(entry["shard"]), entry["offset"]) for entry in answer["set_aside"]}
    for finding in answer["findings"]:
        place = (finding["shard"], finding["offset"])
        if place in places:
            session = finding.get("session_id", "a session without a name")
            command = rotulus_command("queues", "put-back", operands=[place[0], place[1]])
            yield f"  SET ASIDE      a request to {session}: {command}", place
