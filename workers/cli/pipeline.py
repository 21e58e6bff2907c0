"""Runs `rotulus pipeline`: a user's own pipeline, run, resumed, shown (seed 003)."""

import re
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, replace
from typing import Any

import click

from kernel.landscape.lineage_text import graph_mermaid
from workers.cli.common import (
    as_json,
    clean_errors,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.places import rotulus_command
from workers.environment.output import echo_text, say
from workers.environment.settings import Settings
from workers.pipelines.engine.runner import RunEnd
from workers.pipelines.loading import load_pipeline
from workers.pipelines.process import PipelineOrder, resume_pipeline, run_pipeline

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

fleet = click.option(
    "--fleet", "on_fleet", is_flag=True, help="Let the workers of a running tree walk the rows."
)


@click.group()
def pipeline() -> None:
    """Run a pipeline of your own, with a record of every row."""


@pipeline.command("run")
@click.argument("place", metavar="MODULE:NAME")
@click.option("--run", "run_id", metavar="ID", help="The id of the run; a new one without it.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value of the pipeline's `config`; recorded, and the same on a resume.",
)
@fleet
@as_json
def run_command(
    place: str,
    run_id: str | None,
    settings: Sequence[str],
    *,
    on_fleet: bool,
    as_json: bool,
) -> None:
    """Run the pipeline that Python finds at MODULE:NAME, here or on a running tree's ledger.

    Ends with 1 where a row failed for which no sink is declared; with 130 where it was stopped.
    """
    config = dict(_pair(each) for each in settings)
    order = PipelineOrder(_check_run_id(run_id), place, config, on_fleet=on_fleet)
    _carry_out(run_pipeline, read_settings(), order, as_json=as_json)


@pipeline.command()
@click.argument("run_id", metavar="RUN")
@click.option("--pipeline", "place", metavar="MODULE:NAME", help="Where it is now, if elsewhere.")
@fleet
@as_json
def resume(run_id: str, place: str | None, *, on_fleet: bool, as_json: bool) -> None:
    """Go on with RUN, which was killed, interrupted or failed, where its record ends."""
    order = PipelineOrder(_check_run_id(run_id), place, on_fleet=on_fleet)
    _carry_out(resume_pipeline, read_settings(), order, as_json=as_json)


@pipeline.command()
@click.argument("place", metavar="MODULE:NAME")
def graph(place: str) -> None:
    """Check the pipeline at MODULE:NAME and print its graph as Mermaid."""
    with clean_errors():
        records = load_pipeline(place).graph.records
    echo_text(graph_mermaid(*records))


def _carry_out(
    action: Callable[[Settings, PipelineOrder], Coroutine[Any, Any, RunEnd]],
    settings: Settings,
    order: PipelineOrder,
    *,
    as_json: bool,
) -> None:
    """Run or resume; a first SIGINT or SIGTERM ends the run behind the rows in hand.

    A second one ends the process, from which the run can be resumed as well.
    """
    stops: list[int] = []

    def stop(number: int, _: object) -> None:
        stops.append(number)
        say("Stopping behind the rows in hand.")
        signal.signal(number, signal.SIG_DFL)

    order = replace(order, gateway_url=gateway_url(settings), is_stopped=lambda: bool(stops))
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        end: RunEnd = run(
            lambda: action(settings, order), blocked_s_max=settings.loop_blocked_s_max
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    print_document(asdict(end), as_json=as_json)
    if end.failed:
        look = rotulus_command("landscape", "report", operands=[end.run_id, "failure_context"])
        say(f"{end.failed} failed: {look}")
    if end.status == "interrupted":
        say(f"Go on with: {rotulus_command('pipeline', 'resume', operands=[end.run_id])}")
        raise SystemExit(130)
    if end.failed:
        raise SystemExit(1)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise click.UsageError(f"--set takes NAME=VALUE, not {text!r}")
    return name, value


def _check_run_id(run_id: str | None) -> str | None:
    if run_id is not None and not _RUN_NAME.fullmatch(run_id):
        raise click.UsageError("a run is called by letters, digits, _ and -, 64 at most")
    return run_id
