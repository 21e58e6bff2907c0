"""Runs `rotulus status`: on one screen whether everything runs, and what needs somebody."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from workers.cli.common import (
    as_json,
    gateway_url,
    print_document,
    print_table,
    read_settings,
    run,
)
from workers.cli.places import with_places
from workers.client.typed.gateway import GatewayClient
from workers.client.typed.gateway_state import read_state
from workers.environment.archive_files import NAME_ARCHIVE, NO_ARCHIVE
from workers.environment.output import echo
from workers.views.attention_items import AttentionItem
from workers.views.attention_rules import line_of

COUNTS: Final = ("open", "ready", "held", "delayed", "suspended", "in_flight")
"""The first is the sum of the others, but for items whose requests have just been closed."""

ASK_S_MAX: Final = 15.0
"""For each thing that is asked of the gateway."""


@click.command()
@as_json
def status(*, as_json: bool) -> None:
    """Show health, queues, workers and what needs attention; ends with 1 where something does."""
    url = gateway_url(read_settings())
    state = run(lambda: gateway_state(url))
    if as_json:
        print_document(state, as_json=True)
    else:
        for line in _about(url, state):
            echo(line)
        echo()
        _print_queues(state["queues"])
        echo()
        print_attention(state["attention"])
    if state["attention"]:
        raise SystemExit(1)


def print_attention(items: Sequence[AttentionItem]) -> None:
    """Print the list of what needs somebody as lines, the command of each to be copied."""
    for item in items:
        echo(with_places(f"! {item.severity:8}  {line_of(item)}"))
    if not items:
        echo("Nothing needs attention.")


async def gateway_state(url: str) -> dict[str, Any]:
    """Return what a gateway says of itself and of what needs somebody; a part may be an error.

    Raises:
        GatewayError: it does not answer.
    """
    async with GatewayClient(url, give_up_after_s=0, call_s_max=ASK_S_MAX) as client:
        return await read_state(client)


def _about(url: str, state: Mapping[str, Any]) -> Iterator[str]:
    readiness, tree = state["readiness"], state["tree"]
    shards = readiness.get("shards", {})
    owned = f", owns {shards['owned']} of {shards['of']} shards" if shards else ""
    yield f"gateway    {url} is {readiness.get('status', 'unknown')}{owned}"
    if "root_hash" in tree:
        behind = "".join(_behind(state["checkpoint"]))
        yield f"record     {tree['tree_size']} rows, root {tree['root_hash']}{behind}"
    if checkpoint := state["checkpoint"].get("checkpoint"):
        yield f"published  {checkpoint['tree_size']} rows, {checkpoint['message']}"
    yield from _archive(state["archive"])
    yield from _workers(state["queues"])


_WAITING = {
    "receipts_not_under_the_tree": "receipts behind them",
    "run_groups_not_under_the_tree": "groups of records of runs",
}


def _behind(checkpoint: Mapping[str, Any]) -> Iterator[str]:
    for name, what in _WAITING.items():
        if waiting := checkpoint.get(name):
            yield f", {waiting} {what} not yet under the root"


def _archive(archive: Mapping[str, Any]) -> Iterator[str]:
    if "error" in archive:
        return
    days = archive["retention_days"]
    if not archive["is_configured"]:
        yield f"archive    {NO_ARCHIVE}; {NAME_ARCHIVE}"
    elif days is None:
        yield "archive    takes nothing by itself (ROTULUS_KERNEL_RETENTION_DAYS is 0)"
    else:
        yield f"archive    takes rows of the log after {days} days"


def _workers(queues: Mapping[str, Any]) -> Iterator[str]:
    fleet, late = queues.get("fleet", []), queues.get("late_workers", [])
    if not fleet:
        yield "workers    none"
    for worker in fleet:
        seen = datetime.fromtimestamp(worker["seen_at_ms"] / 1000, UTC)
        yield (
            f"worker     {worker['worker_id']}: {worker['completed']} done,"
            f" {worker['failed']} failed, {worker['in_flight']} in flight,"
            f" {'late, ' if worker['worker_id'] in late else ''}seen at {seen:%H:%M:%S} UTC"
        )


def _print_queues(state: Mapping[str, Any]) -> None:
    rows = [
        (
            name,
            *(queue["backlog"][count] for count in COUNTS),
            queue["dead"],
            f"{max(queue['oldest_eligible_age_ms'].values()) / 1000:.1f} s",
        )
        for name, queue in state.get("queues", {}).items()
    ]
    counts = (count.replace("_", " ") for count in COUNTS)
    names = ("queue", *counts, "dead", "oldest ready")
    print_table(names, rows)
