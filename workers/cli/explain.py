"""Runs `rotulus explain`: what an id names, and where it comes from (seed 003)."""

import click

from workers.cli.common import print_document
from workers.cli.question_commands import question_of
from workers.cli.reading import read_record
from workers.environment.output import echo_text
from workers.questions.explanations import ExplainToken
from workers.questions.question import Text


@click.command()
@click.argument("record_id")
@click.argument("hypothesis", required=False)
@click.option("--run-id", help="Of this run; else of the newest that has the id.")
@click.option("--sink", help="Of an id of a run: only the ways that ended in this sink.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json", "mermaid"]),
    default="text",
    show_default=True,
    help="How it is shown.",
)
def explain(
    record_id: str,
    hypothesis: str | None,
    run_id: str | None,
    sink: str | None,
    shape: str,
) -> None:
    """Explain RECORD_ID: where it comes from, back to the words of its sources.

    Of the ledger: an understanding's authority, a source, an observation or another record, an
    operation, a request, a belief session, and with HYPOTHESIS why that one stands or was struck.
    Of a run: a run, row, token, state, call, batch, artifact, error, node or edge.
    """
    stated = {"hypothesis": hypothesis, "run_id": run_id, "sink": sink, "format": shape}
    answer = read_record(question_of(ExplainToken, {"record_id": record_id, **stated}).answer)
    if isinstance(answer, Text):
        echo_text(answer)
    else:
        print_document(answer, as_json=True)
