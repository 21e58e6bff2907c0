"""`rotulus status`: on one screen whether everything runs, and what needs somebody."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from queues.client.errors import GatewayError
from queues.priorities import priorities_of
from workers.cli.common import (
    as_json,
    data_dir,
    gateway_url,
    print_document,
    print_table,
    read_settings,
    run,
)
from workers.clients.gateway import GatewayClient

PARTS: Final = {
    "queues": "/v1/queues",
    "set_aside": "/v1/shards/set-aside",
    "implications": "/v1/implications",
    "tree": "/v1/tree",
    "checkpoint": "/v1/checkpoint",
}
"""What is asked besides readiness, by its name in the JSON."""

COUNTS: Final = ("open", "ready", "held", "delayed", "suspended", "in_flight")
"""The first is the sum of the others, but for items whose requests have just been closed."""


@click.command()
@as_json
@data_dir
def status(data_dir: Path | None, *, as_json: bool) -> None:
    """Show health, queues, workers and what needs attention; ends with 1 where something does."""
    url = gateway_url(read_settings(data_dir))
    state = run(lambda: gateway_state(url))
    state["attention"] = list(attention(state))
    if as_json:
        print_document(state, as_json=True)
    else:
        for line in _about(url, state):
            click.echo(line)
        click.echo()
        _print_queues(state["queues"])
        click.echo()
        for sentence in state["attention"]:
            click.echo(f"! {sentence}")
        if not state["attention"]:
            click.echo("Nothing needs attention.")
    if state["attention"]:
        raise SystemExit(1)


async def gateway_state(url: str) -> dict[str, Any]:
    """Return what a gateway says of itself and of what needs somebody; a part may be an error.

    Raises:
        GatewayError: it does not answer.
    """
    async with GatewayClient(url, give_up_after_s=0) as client:
        try:
            state: dict[str, Any] = {"readiness": await client.readiness()}
        except GatewayError as error:
            hint = f"{error.message} at {url}; `rotulus up` starts a gateway"
            raise GatewayError(error.code, hint) from error
        for name, path in PARTS.items():
            try:
                state[name] = await client.get(path)
            except GatewayError as error:
                state[name] = {"error": str(error)}
    return state


def attention(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each thing that somebody should look at, with the command for it."""
    for name, problem in state["readiness"].get("problems", {}).items():
        yield f"the gateway is not ready: {name}: {problem}"
    for name in PARTS:
        if "error" in state[name]:
            yield f"the gateway does not answer {PARTS[name]}: {state[name]['error']}"
    yield from _queue_attention(state["queues"])
    if set_aside := state["set_aside"].get("set_aside"):
        yield f"{len(set_aside)} requests are set aside, because they ended their takers"
    yield from _checkpoint_attention(state["checkpoint"])
    for halt in state["implications"].get("halts", []):
        what = halt["operation_kind"] or f"detector {halt['detector']}"
        yield f"{what} is halted: rotulus implications resume {halt['halt_id']}"


def _checkpoint_attention(state: Mapping[str, Any]) -> Iterator[str]:
    problem, checkpoint = state.get("problem"), state.get("checkpoint") or {}
    if problem is not None:
        yield f"the log is not published: {problem['code']}: {problem['message']}"
    elif checkpoint.get("verdict") in ("invalid", "diverged"):
        yield f"the published checkpoint is {checkpoint['message']}"
    elif checkpoint and not checkpoint["quorum_met"]:
        yield f"the published checkpoint is {checkpoint['message']}: its witnesses do not answer"


def _queue_attention(state: Mapping[str, Any]) -> Iterator[str]:
    queues = state.get("queues", {})
    for pause in state.get("pauses", []):
        place = " ".join(filter(None, (pause["queue"], pause["priority"])))
        by = f" by {pause['decided_by']}" if pause["decided_by"] else ""
        yield f"{place} is paused{by}: rotulus queues resume {pause['queue']}"
    served = {queue for worker in state.get("fleet", []) for queue in worker["queues"]}
    for name, queue in queues.items():
        if name not in served:
            yield f"no worker serves {name}: rotulus worker --queues {name}"
        if queue["dead"]:
            yield f"{queue['dead']} of {name} were given up: rotulus queues dead {name}"
        for priority in priorities_of(name):
            age_ms = queue["oldest_eligible_age_ms"].get(priority.name, 0)
            if age_ms > priority.service_target_ms:
                target_s = priority.service_target_ms / 1000
                waited = f"{age_ms / 1000:.0f} s, its target is {target_s:.0f} s"
                yield f"{name} {priority.name} is late: the oldest has waited {waited}"


def _about(url: str, state: Mapping[str, Any]) -> Iterator[str]:
    readiness, tree = state["readiness"], state["tree"]
    shards = readiness.get("shards", {})
    owned = f", owns {shards['owned']} of {shards['of']} shards" if shards else ""
    yield f"gateway    {url} is {readiness.get('status', 'unknown')}{owned}"
    if "root_hash" in tree:
        yield f"record     {tree['tree_size']} rows, root {tree['root_hash']}"
    if checkpoint := state["checkpoint"].get("checkpoint"):
        yield f"published  {checkpoint['tree_size']} rows, {checkpoint['message']}"
    yield from _workers(state["queues"].get("fleet", []))


def _workers(fleet: list[Mapping[str, Any]]) -> Iterator[str]:
    if not fleet:
        yield "workers    none"
    for worker in fleet:
        seen = datetime.fromtimestamp(worker["seen_at_ms"] / 1000, UTC)
        yield (
            f"worker     {worker['worker_id']}: {worker['completed']} done,"
            f" {worker['failed']} failed, {worker['in_flight']} in flight,"
            f" seen at {seen:%H:%M:%S} UTC"
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
