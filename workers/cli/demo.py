"""Runs `rotulus demo`: the main job."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import anyio.to_thread
import click

from workers.cli.common import as_json, print_document, read_settings, run
from workers.cli.input_file import size_of
from workers.cli.up import say_death, say_troubles, say_where, worker_count
from workers.demo.run import DemoReport, run_demo
from workers.demo.shown_proof import ShownProof, make_key, show_proof
from workers.dockets.reader import sample_path
from workers.environment.data_folder import DataFolder
from workers.environment.output import OutputFailed, command_line, echo, say
from workers.environment.settings import DEMO_KEY, Settings
from workers.environment.terminal_progress import Progress
from workers.process_tree.tree import Tree, running_tree

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
@worker_count
def demo(file: str | None, workers: int, *, exits: bool, as_json: bool) -> None:
    """Start everything, ingest dockets, verify the record, and stay up until Ctrl-C.

    FILE holds one docket a line (JSON Lines, if need be in gzip); without it a bundled sample of
    real dockets is taken. It may be run again at any time: what is on the record is recognised.
    """
    settings = read_settings()
    failed = run(partial(_demo, settings, file, workers, exits=exits, as_json=as_json))
    sys.exit(1 if failed else 0)


async def _demo(
    settings: Settings, file: str | None, workers: int, *, exits: bool, as_json: bool
) -> bool:
    failed = True
    settings = await anyio.to_thread.run_sync(_with_key, _for_demo(settings))
    async with running_tree(settings, workers=workers, died_alike=say_death) as tree:
        say(f"Rotulus is up: {tree.gateway_url}")
        with _lines(file) as lines:
            report = await run_demo(tree, lines, size_of(lines))
        report.proof = await _proof(settings, tree, report)
        failed = bool(report.failures) or report.summary.is_failed
        try:
            _print_report(report, as_json=as_json)
        except OutputFailed as error:
            failed = True
            say(f"{error.code}: {error}")
        if not exits:
            say_where(tree)
            await say_troubles(tree)
    return failed


def _for_demo(settings: Settings) -> Settings:
    """Return settings under which it runs beside other trees, and no work waits.

    All of the work is the demo's, most of it background.
    """
    defaults = {"port": 0, "kernel_emergency_throttle_ops_per_sec": 0}
    return settings.with_changes(
        **{name: value for name, value in defaults.items() if name not in settings.model_fields_set}
    )


def _with_key(settings: Settings) -> Settings:
    """Return settings under which the log is signed, by a key in the data folder if need be."""
    if settings.checkpoint_key is not None:
        return settings
    folder = DataFolder(settings.data_dir)
    folder.make()
    key_file = folder.path / DEMO_KEY
    make_key(key_file)
    return settings.with_changes(checkpoint_key=key_file)


async def _proof(settings: Settings, tree: Tree, report: DemoReport) -> ShownProof | None:
    if settings.checkpoint_key is None or not report.verification.ok:
        return None
    session_ids = [case.session_id for case in report.summary.cases]
    folder, path = settings.published_folder, tree.folder.path / "example.proof.json"
    with Progress("proof") as progress:
        progress.show("of one elimination")
        return await show_proof(
            tree.ledger_place, settings.checkpoint_key, folder, path, session_ids
        )


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
    echo(
        "",
        f"  dockets        {ingest['dockets']} with {ingest['entries']} entries",
        f"  operations     {ingest['operations_accepted']} recorded now, "
        f"{ingest['operations_already_on_record']} were on the record",
        f"  eliminations   {ingest['hypotheses_eliminated']} hypotheses struck now, "
        f"{record['belief_events']} audit entries in {record['belief_sessions']} sessions",
        f"  authorities    {record['authorities_equal']} equal a computation from scratch",
        f"  requests       {report.requests['recorded']} recorded, each with one outcome",
        f"  record         {record['rows']} rows and {record['receipts']} receipts: {verdict}",
        f"  head           {record['head_hash']}",
    )
    _print_work(document["work"])
    for case in document["cases"]:
        _print_case(case)
    if report.proof is not None:
        print_proof(report.proof)
    for code, count in ingest["input_problems"].items():
        echo(f"  bad input      {count} x {code}")
    for failure in report.failures:
        echo(f"  FAILED         {failure}")
    if report.summary.is_failed and not report.summary.failed_dockets:
        echo("  FAILED         the file could not be read to its end, or holds no docket")


def _print_work(work: dict[str, Any]) -> None:
    for queue, counts in work["queues"].items():
        echo(f"  queue          {queue}: {counts['done']} done, {counts['open']} open")
    for binding_id, counts in work["bindings"].items():
        said = (f"{counts.get(state, 0)} {words}" for state, words in _PAIR_WORDS.items())
        echo(f"  binding        {binding_id}: {', '.join(said)}")
    for kind, counts in work["evidence"].items():
        echo(f"  {kind:14} {_counts_text(counts)}")
    extractions = work["extractions"]
    echo(f"  extractions    {_counts_text(extractions['runs'])}; {extractions['claims']} claims")


def _print_case(case: dict[str, Any]) -> None:
    others = case["n_survivors"] - len(case["survivors"])
    beyond = f" and {others} other{'s' if others > 1 else ''}" if others > 0 else ""
    postures = ", ".join(case["survivors"]) + beyond
    echo(f"  case           {case['case_name']}: {postures or 'no posture is left'}")
    why = case["why"]
    if why is not None:
        quoted = f' ("{why["words"]}")' if "words" in why else ""
        echo(f"                 because {why['rule']}: {why['reason']}{quoted}")


def print_proof(proof: ShownProof) -> None:
    """Print what a proof comes to, and the commands by which anybody verifies it again."""
    verdict = "verified" if proof.verifies else "REFUSED"
    checkpoint, path = proof.checkpoint_path, proof.proof_path
    kept, tiles = "/elsewhere/checkpoint", checkpoint.parent
    options = ["--vkey", proof.vkey, "--kept", kept, "--tiles", tiles]
    hold = command_line("rotulus", "checkpoint", "verify", operands=[checkpoint], options=options)
    echo(
        f"  checkpoint     {proof.tree_head}",
        "                 keep it where this machine cannot change it, and its key beside it:",
        f"                   {command_line('cp', checkpoint, kept)}",
        f"                   {proof.vkey}",
        "                 and hold a later one against it:",
        f"                   {hold}",
        f"  proof          {path}: of one {proof.kind}, {verdict} by proof_file.py alone",
    )


def _counts_text(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"
