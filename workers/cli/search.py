"""Runs `rotulus search`: what a text names on the record, and where it occurs."""

from collections.abc import Iterator
from typing import Any, Final

from workers.cli.common import print_table
from workers.cli.question_commands import question_command
from workers.environment.output import echo
from workers.questions.search import Search

_LISTS: Final = (
    ("begins so", "item", "item_keys", ""),
    ("begins so", "tag", "tags", ""),
    ("id or title", "session", "sessions", "session_id"),
    ("wrote it", "operation", "operations", "operation_id"),
    ("part of the name", "run", "runs", ""),
    ("part of the name", "queue", "queues", ""),
)
"""How a text is met, in what, in which list of the results, and the field of its name there."""


def _rows(document: Any) -> Iterator[tuple[str, str, str]]:
    """Yield how the text is met, in what kind of thing, and the name of that."""
    named, results = document["named"], document["results"]
    subjects = [("its name", named)] if named else []
    subjects += [("id begins so", each) for each in results["beginning"]]
    yield from ((how, subject["kind"], subject["name"]) for how, subject in subjects)
    for matches in results["requests"]:
        how = matches["criterion"].replace("_", " ")
        yield from ((how, "request", each["request_id"]) for each in matches["requests"])
    for how, what, members, field in _LISTS:
        yield from ((how, what, each[field] if field else each) for each in results[members])


def _print_places(document: Any) -> None:
    rows = [*_rows(document)]
    if rows:
        print_table(["how", "what", "name"], rows, None)
    else:
        echo("nothing on the record has this as its id, key or tag, or has these words")


search = question_command(Search, "search", _print_places)
