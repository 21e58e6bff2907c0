"""Makes commands of questions: arguments and options of the fields, the answer printed or as JSON.

With `--json` a command prints what HTTP answers. A page is filled up from those that follow: at a
terminal an empty page says nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click
import orjson
from pydantic import ValidationError

from kernel.values.host import parse_time_us
from workers.cli.common import (
    as_json,
    gateway_url,
    print_document,
    print_table,
    read_settings,
)
from workers.cli.gateway_call import ask_gateway
from workers.cli.reading import read_view
from workers.environment.system_host import system_host
from workers.questions.question import Question

Ask = Callable[[Question], Any]
Print = Callable[[Any], None]
Cell = str | Callable[[Any], object]
Columns = Mapping[str, Cell]
"""The head of each column, and the field of a row that it shows, or what returns the cell."""


_UNITS_S = {"m": 60, "h": 3600, "d": 86_400}
_HELP_OF_TIME = "Like 24h, 7d or 2026-01-31T12:00:00Z."


class Moment(click.ParamType[str]):
    """A time with its offset, or how long ago it was."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time in ISO 8601."""
        ago = re.fullmatch(r"(\d{1,5})([mhd])", value)
        if ago is None:
            try:
                parse_time_us(value)
            except ValueError:
                message = f"{value} is neither like 90m, 24h, 7d nor like 2026-02-09T10:00:00Z"
                self.fail(message, param, ctx)
            return value
        at_us = system_host().now_us() - int(ago[1]) * _UNITS_S[ago[2]] * 1_000_000
        return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat()


@contextmanager
def of_record() -> Iterator[Ask]:
    """Answer questions from one snapshot of the record that the settings name."""
    with read_view() as view:
        now_us = system_host().now_us()
        yield lambda question: plain(question.answer_at(view, now_us))


@contextmanager
def of_gateway() -> Iterator[Ask]:
    """Have questions answered by the running gateway."""
    url = gateway_url(read_settings())

    def ask(question: Question) -> Any:
        path, query = question.address()
        return ask_gateway(url, path, **query)

    yield ask


def plain(answer: Any) -> Any:
    """Return an answer as JSON has it."""
    return orjson.loads(orjson.dumps(answer))


def question_command(
    question: type[Question],
    name: str,
    printed: Print,
    asking: Callable[[], Any] = of_record,
    is_problem: Callable[[Any], bool] = lambda _: False,
) -> click.Command:
    """Return the command that asks a question; it ends with 1 where the answer is a problem."""

    @as_json
    def answer(*, as_json: bool, **stated: Any) -> None:
        with asking() as ask:
            document = _fill_pages(ask, question_of(question, stated))
        if as_json:
            print_document(document, as_json=True)
        else:
            printed(document)
        if is_problem(document):
            raise click.exceptions.Exit(1)

    command = click.command(name, help=question.description())(answer)
    command.params[:0] = parameters_of(question)
    return command


def question_of(question: type[Question], stated: Mapping[str, Any]) -> Question:
    """Return the question that the options state.

    Raises:
        click.UsageError: a field does not take what it is given.
    """
    fields = {name: value for name, value in stated.items() if value is not None}
    try:
        return question.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        raise click.UsageError(f"{field}: {message}") from None


def parameters_of(question: type[Question]) -> list[click.Parameter]:
    """Return the arguments and options of a question's fields, those of its page last."""
    schema = question.model_json_schema()
    properties = schema["properties"]
    named = {*question.fields_in_paths(), *schema.get("required", ())}
    paging = ("after", "limit")
    names = [name for name in properties if name not in paging]
    arguments = [name for name in names if name in named]
    options = [name for name in (*names, *paging) if name in properties and name not in named]
    return [
        *(_argument(question, name, properties[name]) for name in arguments),
        *(_option(question, name, properties[name]) for name in options),
    ]


def _argument(question: type[Question], name: str, schema: Mapping[str, Any]) -> click.Argument:
    is_required = question.model_fields[name].is_required()
    return click.Argument([name], type=_type_of(schema), required=is_required)


def _option(question: type[Question], name: str, schema: Mapping[str, Any]) -> click.Option:
    default = question.model_fields[name].default
    if name == "limit" and question.rows_read is not None:
        default = question.rows_read
    described = schema.get("description", "")
    kind = _type_of(schema)
    if isinstance(kind, Moment):
        described = f"{described} {_HELP_OF_TIME}"
    if kind is click.BOOL:
        return click.Option([_flag(name)], is_flag=True, default=default, help=described)
    shown = default not in (None, "", 0)
    return click.Option(
        [_flag(name)], type=kind, default=default, show_default=shown, help=described
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _type_of(schema: Mapping[str, Any]) -> click.ParamType[Any]:
    [stated] = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    if "enum" in stated:
        return click.Choice(stated["enum"])
    if stated.get("format") == "date-time":
        return Moment()
    if stated["type"] == "integer":
        return click.IntRange(stated.get("minimum"), stated.get("maximum"))
    return click.BOOL if stated["type"] == "boolean" else click.STRING


def _fill_pages(ask: Ask, question: Any) -> Any:
    document = ask(question)
    while question.rows and document.get("next_after") is not None:
        left = question.limit - len(document[question.rows])
        if left <= 0:
            break
        document = question.join_pages(
            document, ask(question.following(document["next_after"], left))
        )
    return document


def as_document(document: Any) -> None:
    """Print a document's members for a person."""
    print_document(document, as_json=False)


def as_json_document(document: Any) -> None:
    """Print a document that has no better form than JSON."""
    print_document(document, as_json=True)


def as_rows(rows: str, columns: Columns, last: Print = lambda _: None) -> Print:
    """Return what prints the rows of a page in columns, and behind them what else there is."""

    def print_rows(document: Any) -> None:
        table = [[_cell(row, cell) for cell in columns.values()] for row in document[rows]]
        print_table([*columns], table, document.get("next_after"))
        last(document)

    return print_rows


def _cell(row: Mapping[str, Any], cell: Cell) -> object:
    value = cell(row) if callable(cell) else row[cell]
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    return "-" if value in (None, "") else value
