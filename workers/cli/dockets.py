"""`rotulus dockets`: court dockets, looked at without a gateway."""

from typing import IO

import click

from workers.cli.common import as_json, print_document
from workers.cli.input_file import InputFile
from workers.dockets.report import OUTCOMES, DocketReport, report_on
from workers.environment.output import echo


@click.group()
def dockets() -> None:
    """Say what the rules find in the dockets of a file."""


@dockets.command()
@click.argument("file", type=InputFile())
@as_json
def report(file: IO[bytes], *, as_json: bool) -> None:
    """Count the postures that are left of each docket of FILE (JSON Lines, - for standard input).

    Nothing is posted anywhere. A docket narrows to one posture, to several, or not at all; the
    rules are counted with the entries and dockets that they read and what they struck, and what was
    undone with what fell. Entries that may undo something and cannot be read are named.
    """
    docket_report = report_on(file)
    if as_json:
        print_document(docket_report.document(), as_json=True)
    else:
        _print(docket_report)
    counts = docket_report.document()
    if counts["input_problems"] and not any(counts[name] for name in OUTCOMES):
        raise click.exceptions.Exit(1)


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
