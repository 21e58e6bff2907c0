"""Runs `rotulus show`: look at the record in the ledger itself; nothing else needs to run."""

from typing import Any

import click

from workers.cli.common import say_quarantined
from workers.cli.question_commands import Columns, as_json_document, as_rows, question_command
from workers.cli.session_options import SESSIONS
from workers.environment.output import echo
from workers.questions.charts import GetCharts
from workers.questions.extractions import GetExtraction, GetSourceFields, ListExtractions
from workers.questions.nodes import GetNode
from workers.questions.operations import GetOperation, ListLog
from workers.questions.request_status import CountRequests
from workers.questions.sessions import ListSessionEvents, ListSessions

HASH_CHARS = 12


@click.group()
def show() -> None:
    """Look at what was decided: sessions, operations, nodes, requests, charts, the log."""


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


def _points_of(series: Any) -> list[int]:
    return [point for point in series["points"] if point is not None]


_CHARTS: Columns = {
    "measure": "measure",
    "queue": lambda series: series["queue"] or "",
    "unit": "unit",
    "each point": "comes_to",
    "newest": lambda series: next(reversed(_points_of(series)), None),
    "lowest": lambda series: min(_points_of(series), default=None),
    "highest": lambda series: max(_points_of(series), default=None),
    "points": lambda series: len(_points_of(series)),
    "gaps": lambda series: series["points"].count(None),
}


def _say_span(document: Any) -> None:
    echo(f"{document['since']} to {document['until']}, a point for each {document['step_s']} s")
    for mark in document["marks"]:
        echo(f"{mark['at']}  {mark['what']}")


def _print_counts(counts: Any) -> None:
    echo(f"recorded     {counts['recorded']}", f"open         {counts['open']}")
    for name, count in counts["open_by_queue"].items():
        echo(f"  {name:<24} {count}")
    for name, count in counts["outcomes"].items():
        echo(f"{name:<12} {count}")


for _command in (
    question_command(ListLog, "log", as_rows("rows", _LOG, _say_quarantined)),
    question_command(GetOperation, "operation", as_json_document),
    question_command(GetNode, "node", as_json_document),
    question_command(ListSessions, "sessions", as_rows("sessions", SESSIONS)),
    question_command(ListSessionEvents, "session", as_rows("events", _TRAIL)),
    question_command(GetExtraction, "extraction", as_json_document),
    question_command(ListExtractions, "extractions", as_rows("runs", _EXTRACTIONS)),
    question_command(GetSourceFields, "source", as_json_document),
    question_command(CountRequests, "requests", _print_counts),
    question_command(GetCharts, "charts", as_rows("series", _CHARTS, _say_span)),
):
    show.add_command(_command)
