"""`rotulus show`: look at the record; reads the ledger by itself, so nothing else needs to run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from kernel.audit.log import log_document
from kernel.belief.events import BeliefEvent
from kernel.ledger.ledger import LedgerView
from kernel.records.extraction import STATES
from kernel.work.extractions.reading import describe_run, describe_source, runs_in_state
from workers.cli.common import as_json, coded, limit, print_document, print_table, say_quarantined
from workers.cli.reading import read_record
from workers.environment.output import echo
from workers.views.records import count_requests, describe_operation
from workers.views.session_lists import newest_sessions, session_state

HASH_CHARS = 12


@click.group()
def show() -> None:
    """Look at what was decided: sessions, operations, nodes, extractions, requests, the log."""


@show.command()
@limit
@as_json
def log(limit: int, *, as_json: bool) -> None:
    """The newest rows of the log, newest first."""
    documents = read_record(lambda view: [log_document(view, row) for row in view.log_tail(limit)])
    _table(
        documents,
        as_json,
        ("sequence", "committed", "intent", "operation", "row hash"),
        lambda row: (
            int(row["ec_sequence_number"]),
            row["committed_at"],
            row["semantic_intent"],
            row["operation_id"],
            row["row_hash"][:HASH_CHARS],
        ),
    )
    if not as_json:
        say_quarantined(row["ec_sequence_number"] for row in documents if "quarantined" in row)


@show.command()
@click.argument("session_id", required=False)
@limit
@as_json
def session(session_id: str | None, limit: int, *, as_json: bool) -> None:
    """The newest sessions, or one session's audit trail."""
    if session_id is None:
        summaries = read_record(lambda view: newest_sessions(view, limit))
        _table(
            summaries,
            as_json,
            ("session", "survivors", "state", "title"),
            lambda row: (
                row["session_id"],
                f"{row['n_survivors']}/{row['n_universe']}",
                session_state(row),
                row["title"],
            ),
        )
        return
    events = read_record(lambda view: view.belief_events(session_id))
    if not events:
        raise coded("SESSION_NOT_FOUND", f"no session {session_id}")
    documents = [BeliefEvent.from_bytes(event).to_dict() for event in events]
    _table(
        documents,
        as_json,
        ("at", "verb", "observation", "struck"),
        lambda row: (
            row["ts"],
            row["verb"],
            row["payload"].get("observation_id", ""),
            "-" + " -".join(row["delta"]["eliminated"]) if row["delta"]["eliminated"] else "",
        ),
    )


@show.command()
@click.argument("operation_id")
def operation(operation_id: str) -> None:
    """An operation: its row, envelope, effects and receipts, as JSON."""
    _print(
        lambda view: describe_operation(view, operation_id),
        "operation_not_found",
        f"no operation {operation_id} is on the record",
    )


@show.command()
@click.argument("node_id")
def node(node_id: str) -> None:
    """A node of the graph, as JSON."""
    _print(lambda view: view.node(node_id), "not_found", f"no node {node_id}")


@show.command()
@click.argument("run_id")
def extraction(run_id: str) -> None:
    """A run of an extraction: its steps, what it read, and what failed, as JSON."""
    _print(lambda view: describe_run(view, run_id), "extraction_run_not_known", f"no run {run_id}")


@show.command()
@click.option(
    "--state",
    type=click.Choice(STATES),
    default="blocked",
    show_default=True,
    help="Show runs that are in this state now.",
)
@click.option("--source", "source_ref", help="Show the fields of this source instead, as JSON.")
@limit
@as_json
def extractions(state: str, source_ref: str | None, limit: int, *, as_json: bool) -> None:
    """Runs of extractions that are in a state, and why; or the fields of one source."""
    if source_ref is not None:
        document = read_record(lambda view: describe_source(view, source_ref))
        print_document(document, as_json=True)
        return
    page = read_record(lambda view: runs_in_state(view, state, after="", limit=limit))
    _table(
        page.runs,
        as_json,
        ("run", "state", "block reason", "reason", "source"),
        lambda row: (
            row["extraction_run_id"],
            row["state"],
            row["block_reason"] or "-",
            row["state_change_reason"],
            row["source_ref"] or "-",
        ),
    )


@show.command()
@as_json
def requests(*, as_json: bool) -> None:
    """Show the requests for work on the record, and how they ended."""
    counts = read_record(count_requests)
    if as_json:
        print_document(counts, as_json=True)
        return
    echo(f"recorded     {counts['recorded']}", f"open         {counts['open']}")
    for name, count in counts["open_by_queue"].items():
        echo(f"  {name:<24} {count}")
    for name, count in counts["outcomes"].items():
        echo(f"{name:<12} {count}")


def _table(
    documents: Sequence[Mapping[str, Any]],
    as_json: bool,  # noqa: FBT001 - the option, passed on
    names: tuple[str, ...],
    columns: Callable[[Mapping[str, Any]], tuple[object, ...]],
) -> None:
    if as_json:
        print_document(documents, as_json=True)
        return
    print_table(names, [columns(document) for document in documents])


def _print(
    read: Callable[[LedgerView], Mapping[str, Any] | None],
    missing: str,
    name: str,
) -> None:
    """Print what a name stands for; fail with a code where it stands for nothing."""
    document = read_record(read)
    if document is None:
        raise coded(missing, name)
    print_document(document, as_json=True)
