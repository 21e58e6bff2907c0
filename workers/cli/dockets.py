"""Runs `rotulus dockets`: court dockets, looked at without a gateway."""

from typing import BinaryIO

import click

from workers.cli.common import as_json, print_document
from workers.cli.docket_fields import docket_fields
from workers.cli.input_file import InputFile, place_in
from workers.dockets.field_map import FieldMap
from workers.dockets.reader import Problem
from workers.dockets.report import OUTCOMES, DocketReport, report_on
from workers.environment.output import echo, say


@click.group()
def dockets() -> None:
    """Say what the rules find in the dockets of a file."""


@dockets.command()
@click.argument("file", type=InputFile())
@docket_fields
@as_json
def report(file: BinaryIO, fields: FieldMap, *, as_json: bool) -> None:
    """Count the postures that are left of each docket of FILE (JSON Lines, - for standard input).

    Nothing is posted anywhere. A docket narrows to one posture, to several, or not at all; the
    rules are counted with the entries and dockets that they read and what they struck, and what was
    undone with what fell. Entries that may undo something and cannot be read are named.
    Ends with 1 where no line of FILE holds a docket, or FILE cannot be read to its end.
    """
    docket_report = report_on(file, fields)
    for line, problem in docket_report.problem_lines:
        _say(file, line, problem)
    if as_json:
        print_document(docket_report.document(), as_json=True)
    else:
        _print(docket_report)
    if docket_report.is_cut_off or not docket_report.outcomes.total():
        raise click.exceptions.Exit(1)


def _say(file: BinaryIO, line: int, problem: Problem) -> None:
    entry = "" if problem.position is None else f"entry {problem.position}"
    place = ", ".join(filter(None, (place_in(file, line or None), entry, problem.field)))
    say(f"{problem.code}: {place}: {problem.problem}; allowed: {problem.allowed}")


def _print(docket_report: DocketReport) -> None:
    document = docket_report.document()
    echo(f"{'':24}" + "".join(f"{name:>12}" for name in OUTCOMES))
    for kind, counts in (*document["by_kind"].items(), ("all", document)):
        echo(f"{kind:24}" + "".join(f"{counts[name]:>12}" for name in OUTCOMES))
    echo(
        "",
        f"{document['several_by_order_for_relief_alone']} of the several lost nothing but "
        "awaiting_order_for_relief.",
    )
    for name in ("emptied", "rules_that_read_nothing"):
        echo(f"{name}: {', '.join(document[name]) or 'none'}")
    for code, count in document["input_problems"].items():
        echo(f"problem {code}: {count}")
    for entry in document["unread"]:
        echo(f"not read: {entry['source_id']}#{entry['position']} {entry['why']}:")
        echo(f"    {entry['words']}")
    left_out = document["unread_entries"] - len(document["unread"])
    if left_out:
        echo(f"not read: {left_out} more entries")
    echo("", f"{'undone by':32}{'entries':>10}{'dockets':>10}{'undone':>10}")
    for name, counts in document["reversals"].items():
        echo(f"{name:32}{counts['entries']:>10}{counts['dockets']:>10}{counts['undone']:>10}")
    echo("", f"{'rule':32}{'entries':>10}{'dockets':>10}{'struck':>10}")
    ranked = sorted(document["rules"].items(), key=lambda rule: -rule[1]["struck"])
    for rule, counts in ranked:
        echo(f"{rule:32}{counts['entries']:>10}{counts['dockets']:>10}{counts['struck']:>10}")
