"""`rotulus show`: look at the record; reads the ledger by itself, so nothing else needs to run."""

from typing import Any

import click

from workers.cli.common import as_json, print_document, say_quarantined
from workers.cli.question_commands import Columns, as_json_document, as_rows, question_command
from workers.cli.reading import read_record
from workers.cli.session_options import SESSIONS
from workers.environment.output import echo
from workers.questions.extractions import GetExtraction, GetSourceFields, ListExtractions
from workers.questions.nodes import GetNode
from workers.questions.operations import GetOperation, ListLog
from workers.questions.sessions import ListSessionEvents, ListSessions
from workers.views.records import count_requests

HASH_CHARS = 12


@click.group()
def show() -> None:
    """Look at what was decided: sessions, operations, nodes, extractions, requests, the log."""


def _say_quarantined(document: Any) -> None:
    rows = document["rows"]
    say_quarantined(row["ec_sequence_number"] for row in rows if "quarantined" in row)


_LOG: Columns = {
    "sequence": lambda row: int(row["ec_sequence_number"]),
    "committed": "committed_at",
    "intent": "semantic_intent",
    "operation": "operation_id",
    "row hash": lambda row: row["row_hash"][:HASH_CHARS],
}
_TRAIL: Columns = {
    "at": "ts",
    "verb": "verb",
    "observation": lambda row: row["payload"].get("observation_id", ""),
    "struck": lambda row: " ".join(f"-{name}" for name in row["delta"]["eliminated"]),
}
_EXTRACTIONS: Columns = {
    "run": "extraction_run_id",
    "state": "state",
    "block reason": "block_reason",
    "reason": "state_change_reason",
    "source": "source_ref",
}

for _command in (
    question_command(ListLog, "log", as_rows("rows", _LOG, _say_quarantined)),
    question_command(GetOperation, "operation", as_json_document),
    question_command(GetNode, "node", as_json_document),
    question_command(ListSessions, "sessions", as_rows("sessions", SESSIONS)),
    question_command(ListSessionEvents, "session", as_rows("events", _TRAIL)),
    question_command(GetExtraction, "extraction", as_json_document),
    question_command(ListExtractions, "extractions", as_rows("runs", _EXTRACTIONS)),
    question_command(GetSourceFields, "source", as_json_document),
):
    show.add_command(_command)


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
