"""`rotulus demo`: the main job."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from workers.cli.common import as_json, data_dir, print_document, read_settings, run
from workers.cli.up import say_death, say_troubles, say_where, worker_count
from workers.demo.run import DemoReport, run_demo
from workers.dockets.sample import sample_path
from workers.environment.settings import Settings
from workers.process_tree.tree import running_tree

_PAIR_WORDS = {
    "fired": "fired",
    "matched_no_fire": "matched and did not fire",
    "no_match": "did not match",
    "deferred": "deferred",
}
"""How the report calls the states of pairs of bindings and artifacts (§13.2)."""


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("--exit", "exits", is_flag=True, help="End when the record is verified.")
@as_json
@data_dir
@worker_count
def demo(
    file: str | None, data_dir: Path | None, workers: int, *, exits: bool, as_json: bool
) -> None:
    """Start everything, ingest dockets, verify the record, and stay up until Ctrl-C.

    FILE holds one docket a line (JSON Lines); without it a bundled sample of real dockets is
    taken. It may be run again at any time: what is on the record is recognised.
    """
    settings = read_settings(data_dir)
    failed = run(partial(_demo, settings, file, workers, exits=exits, as_json=as_json))
    sys.exit(1 if failed else 0)


async def _demo(
    settings: Settings, file: str | None, workers: int, *, exits: bool, as_json: bool
) -> bool:
    failed = True
    async with running_tree(settings, workers=workers, died_alike=say_death) as tree:
        click.echo(f"Rotulus is up: {tree.gateway_url}", err=True)
        with _lines(file) as lines:
            report = await run_demo(tree, lines)
        failed = bool(report.failures)
        _print_report(report, as_json=as_json)
        if not exits:
            say_where(tree)
            await say_troubles(tree)
    return failed


@contextmanager
def _lines(file: str | None) -> Iterator[IO[bytes]]:
    with sample_path().open("rb") if file is None else Path(file).open("rb") as lines:
        yield lines


def _print_report(report: DemoReport, *, as_json: bool) -> None:
    document = report.document()
    if as_json:
        print_document(document, as_json=True)
        return
    ingest, record = document["ingest"], document["record"]
    verdict = "verifies" if record["verifies"] else "DOES NOT VERIFY"
    click.echo(
        f"\n  dockets        {ingest['dockets']} with {ingest['entries']} entries"
        f"\n  operations     {ingest['operations_accepted']} recorded now, "
        f"{ingest['operations_already_on_record']} were on the record"
        f"\n  eliminations   {ingest['hypotheses_eliminated']} hypotheses struck now, "
        f"{record['belief_events']} audit entries in {record['belief_sessions']} sessions"
        f"\n  authorities    {record['authorities_equal']} equal a computation from scratch"
        f"\n  requests       {report.requests['recorded']} recorded, each with one outcome"
        f"\n  record         {record['rows']} rows and {record['receipts']} receipts: {verdict}"
        f"\n  head           {record['head_hash']}"
    )
    _print_work(document["work"])
    for case in document["cases"]:
        _print_case(case)
    for code, count in ingest["input_problems"].items():
        click.echo(f"  bad input      {count} x {code}")
    for failure in report.failures:
        click.echo(f"  FAILED         {failure}")


def _print_work(work: dict[str, Any]) -> None:
    for queue, counts in work["queues"].items():
        click.echo(f"  queue          {queue}: {counts['done']} done, {counts['open']} open")
    for binding_id, counts in work["bindings"].items():
        said = (f"{counts.get(state, 0)} {words}" for state, words in _PAIR_WORDS.items())
        click.echo(f"  binding        {binding_id}: {', '.join(said)}")
    for kind, counts in work["evidence"].items():
        click.echo(f"  {kind:14} {_counted(counts)}")
    extractions = work["extractions"]
    click.echo(f"  extractions    {_counted(extractions['runs'])}; {extractions['claims']} claims")


def _print_case(case: dict[str, Any]) -> None:
    others = case["n_survivors"] - len(case["survivors"])
    postures = ", ".join(case["survivors"]) + (f" and {others} others" if others > 0 else "")
    click.echo(f"  case           {case['case_name']}: {postures or 'no posture is left'}")
    why = case["why"]
    if why is not None:
        quoted = f' ("{why["words"]}")' if "words" in why else ""
        click.echo(f"                 because {why['rule']}: {why['reason']}{quoted}")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"
