"""`rotulus explain`: what an id of a run names, and by which way its row went (seed 003)."""

import click

from workers.cli.common import print_document
from workers.cli.reading import read_record
from workers.views.landscape import explain_mermaid, explain_text, explain_token


@click.command()
@click.argument("record_id")
@click.option("--run", "run_id", help="Of this run; else of the newest that has the id.")
@click.option("--sink", help="Only the ways that ended in this sink.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json", "mermaid"]),
    default="text",
    show_default=True,
    help="How it is shown.",
)
def explain(record_id: str, run_id: str | None, sink: str | None, shape: str) -> None:
    """Explain RECORD_ID: a run, row, token, state, call, batch, artifact, error, node or edge."""
    options = {"run_id": run_id, "sink": sink}
    if shape == "json":
        document = read_record(lambda view: explain_token(view, record_id, **options))
        print_document(document, as_json=True)
        return
    shown = explain_mermaid if shape == "mermaid" else explain_text
    text = read_record(lambda view: shown(view, record_id, **options))
    click.echo(text, nl=False)
