"""Runs `rotulus authority`: recomputes, the nightly tick, filling in what is missing (§8).

If a gateway runs on the data folder it is asked, because it is the one that writes. Otherwise the
tick and the backfill write the ledger here, under the folder's lock; workers compute later.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import anyio.to_thread
import click

from actors.commit.units import Unit, commit_alone
from actors.orchestrator.orchestrator import Orchestrator
from kernel.authority.requests import PRIORITIES
from kernel.authority.sweeps import DEFAULT_DECAY_THRESHOLD_HOURS
from kernel.ledger.ledger import Ledger
from kernel.transaction.kernel import Kernel
from workers.cli.common import (
    as_json,
    gateway_url,
    pass_settings,
    print_document,
    run,
    running_gateway,
)
from workers.cli.gateway_call import ask_gateway
from workers.cli.reading import lock_ledger
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.use_cases.authority_sweeps import (
    Sweep,
    SweepDocument,
    backfill,
    backfill_progress,
    decay_tick,
    run_sweep,
)


@click.group()
def authority() -> None:
    """Ask for recomputes of authorities, one by one or in bulk."""


@authority.command()
@click.argument("node_id")
@click.option("--source", required=True, help="Why: the same source asks for the same node once.")
@click.option(
    "--priority",
    type=click.Choice(PRIORITIES),
    default=PRIORITIES[0],
    show_default=True,
    help="How urgent it is.",
)
@as_json
@pass_settings
def recompute(
    settings: Settings, node_id: str, source: str, priority: str, *, as_json: bool
) -> None:
    """Ask a running gateway for an understanding's recompute and for all below it."""
    body = {"trigger_source_id": source, "priority": priority}
    answer = ask_gateway(
        gateway_url(settings), f"/v1/authority/{quote(node_id, safe='')}/recompute", body
    )
    print_document(answer, as_json=as_json)


@authority.command()
@click.option(
    "--threshold-hours",
    type=click.IntRange(0, 1_000_000),
    default=DEFAULT_DECAY_THRESHOLD_HOURS,
    show_default=True,
    help="How old a decay event has to be.",
)
@as_json
@pass_settings
def tick(settings: Settings, threshold_hours: int, *, as_json: bool) -> None:
    """Ask for what is due tonight: decayed inputs, and understandings that wait for the tick."""
    document = _ask_gateway_if_running(settings, "tick", {"threshold_hours": threshold_hours})
    if document is None:
        document = _here(
            settings, decay_tick(system_host().now_us(), threshold_hours), lambda _: {}
        )
    print_document(document, as_json=as_json)


@authority.command(name="backfill")
@as_json
@pass_settings
def fill(settings: Settings, *, as_json: bool) -> None:
    """Ask for every authority that is missing, parents first, and say how far it is."""
    document = _ask_gateway_if_running(settings, "backfill", {})
    if document is None:

        def progress(ledger: Ledger) -> dict[str, Any]:
            return {"progress": backfill_progress(ledger).document()}

        document = _here(settings, backfill(), progress)
    print_document(document, as_json=as_json)


def _ask_gateway_if_running(settings: Settings, path: str, body: dict[str, Any]) -> Any:
    """Ask the gateway that is named or runs on the data folder; None where there is none."""
    url = running_gateway(settings)
    return None if url is None else ask_gateway(url, f"/v1/authority/{path}", body)


def _here(
    settings: Settings, sweep: Sweep, tell: Callable[[Ledger], dict[str, Any]]
) -> dict[str, Any]:
    kernel = Kernel(idempotency_window_hours=settings.kernel_idempotency_window_hours)
    with lock_ledger(settings) as ledger:
        orchestrator = Orchestrator(ledger.host, settings.kernel_causal_window_minutes)

        async def write(unit: Unit) -> Any:
            return await anyio.to_thread.run_sync(commit_alone, unit, ledger, kernel, orchestrator)

        async def sweep_all() -> SweepDocument:
            return (await run_sweep(sweep, ledger, write)).document()

        return {**run(sweep_all), **tell(ledger)}
