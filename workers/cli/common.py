"""Helps all commands: options, settings, clean errors, printing."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from math import inf, isnan
from typing import IO, Any, Concatenate, Final, ParamSpec, TypeVar

import anyio
import click
import orjson

from kernel.model.numbers import SEQUENCE_MAX
from workers.cli.places import named_folder, named_gateway, with_places
from workers.environment.child_environment import take_parent_pid
from workers.environment.data_folder import DataFolder
from workers.environment.event_loop import LoopFactory
from workers.environment.log_setup import configure_logging
from workers.environment.loop_watch import watch_loop
from workers.environment.memory import settle_memory
from workers.environment.output import OutputFailed, echo, echo_json, printable_line, say
from workers.environment.settings import Settings, load_settings, unknown_variables
from workers.environment.system_host import share_interpreter
from workers.process_tree.child_process import die_with_parent

TO_DO: Final = {
    "elimination_not_found": "`rotulus session audit SESSION` lists those of a session",
    "gateway_unreachable": "`rotulus up` starts a gateway, --gateway names another",
    "SESSION_NOT_FOUND": "`rotulus show sessions` lists those of this record",
    "audit_session_unknown": "`rotulus thought start SESSION_ID TASK_ID` begins one",
    "landscape_unknown": "`rotulus landscape runs` lists the newest",
    "ledger_unavailable": "`rotulus up` makes one in its folder; --data-dir names another folder,"
    " ROTULUS_DATABASE_URL a database",
    "operation_not_found": "`rotulus audit operations --order newest` lists the newest",
    "witnesses_not_in_time": "the operation is on the record; submitted again, it is waited for",
    "witnesses_not_set": "the operation is on the record; ROTULUS_CHECKPOINT_KEY and"
    " ROTULUS_WITNESS_POLICY of a gateway name its key and its witnesses",
    "work_request_unknown": "`rotulus queues list QUEUE` lists those of a queue",
}
"""What to do about an error that does not say so itself, by its code."""

SEQUENCE: Final = click.IntRange(0, SEQUENCE_MAX)
"""A place in the log, 0 for in front of it, or a number of rows."""

ROW: Final = click.IntRange(1, SEQUENCE_MAX)
"""A row of the log, by its sequence."""

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for a program to read.")


app_option = click.option(
    "--app", metavar="MODULE:NAME", help="Serve the jobs of an App of your own, as ROTULUS_APP."
)


class Seconds(click.FloatRange):
    """A number of seconds; the library's range lets pass what is no number."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        seconds: float = super().convert(value, param, ctx)
        if isnan(seconds):
            self.fail(f"{value} is no number", param, ctx)
        return seconds


def limit_option(most: int) -> Callable[[F], F]:
    """Return the option that says how many are listed, of so many at most."""
    return click.option(
        "--limit",
        type=click.IntRange(1, most),
        default=20,
        show_default=True,
        help="At most so many.",
    )


limit = limit_option(10_000)


def read_settings(*, child: bool = False, **options: object) -> Settings:
    """Read the settings and set logging up; a child process first ties itself to its parent.

    What a command's options give wins over the environment; None gives nothing.
    """
    parent = take_parent_pid() if child else None
    if parent is not None:
        die_with_parent(parent)
    else:
        _name_unknown_variables()
    options |= {"data_dir": named_folder(), "gateway_url": named_gateway()}
    with clean_errors():
        known = load_settings(
            **{name: value for name, value in options.items() if value is not None}
        )
    configure_logging(known.log_level, known.log_format)
    return known


def pass_settings(command: Callable[Concatenate[Settings, P], T]) -> Callable[P, T]:
    """Give a command the settings, read when it is called: its own options count too."""

    @wraps(command)
    def with_settings(*arguments: P.args, **options: P.kwargs) -> T:
        return command(read_settings(), *arguments, **options)

    return with_settings


def _name_unknown_variables() -> None:
    for name, nearest in unknown_variables():
        hint = f" (did you mean {nearest}?)" if nearest else ""
        say(f"Warning: setting_unknown: {name} is no setting{hint}")


def say_what_is_read(file: IO[bytes]) -> None:
    """Say on standard error that a terminal is read, where somebody might wait for an answer."""
    if file.isatty():
        say("reading standard input until Ctrl-D; name a FILE to read that")


def redis_url(settings: Settings) -> str:
    """Return the URL of the Redis that a process by itself needs."""
    if settings.redis_url is None:
        message = "set ROTULUS_REDIS_URL, or use `rotulus up`, which starts a Redis"
        raise command_error("redis_unavailable", message)
    return str(settings.redis_url)


def running_gateway(settings: Settings) -> str | None:
    """Return the gateway that the command line names, else that of the data folder's tree."""
    runtime = DataFolder(settings.data_dir).read_runtime() or {}
    return named_gateway() or runtime.get("gateway_url")


def gateway_url(settings: Settings) -> str:
    """Return the running gateway, else the configured one."""
    return running_gateway(settings) or str(settings.gateway_url)


def run(
    main_task: Callable[[], Coroutine[Any, Any, Any]],
    loop_factory: LoopFactory | None = None,
    *,
    blocked_s_max: float = inf,
) -> Any:
    """Run a command's coroutine on a loop, asyncio's own where none is named; return its result.

    Where the loop stands still for `blocked_s_max`, the process ends; see `watch_loop`.
    """

    async def run_watched() -> Any:
        with nullcontext() if blocked_s_max == inf else watch_loop(blocked_s_max):
            return await main_task()

    # Looking through what was imported once more at the exit would take half a second, which a
    # child that is asked to stop does not have.
    settle_memory()
    share_interpreter()
    with clean_errors():
        options = {"loop_factory": loop_factory}
        return anyio.run(run_watched, backend="asyncio", backend_options=options)


@contextmanager
def clean_errors() -> Iterator[None]:
    """An error with a code is the user's to read; anything else is ours and keeps its traceback."""
    try:
        yield
    except OutputFailed:
        raise
    except Exception as raised:
        error: BaseException = raised
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        code = getattr(error, "code", None)
        if not isinstance(code, str):
            raise
        text = str(error).removeprefix(f"{code}: ").removeprefix("Value error, ")
        field = str(getattr(error, "field", ""))
        is_said = field in {"", "body"} or field in text
        raise command_error(code, text if is_said else f"{field}: {text}") from None


def command_error(code: str, message: str) -> click.ClickException:
    """Return the error of a command: its code, in lower case as all are, what it is, what to do."""
    to_do = TO_DO.get(code)
    problem = f"{code.lower()}: {message}" + (f"; {to_do}" if to_do else "")
    return click.ClickException(with_places(problem))


def print_table(
    names: Sequence[str], rows: Sequence[Sequence[object]], next_after: object = None
) -> None:
    """Print rows in columns under their names, or `none`; whole numbers are set to the right.

    A cell without a value is a hyphen.

    `next_after` is where the next page begins, None after the last.
    """
    table = [
        tuple("-" if cell is None else printable_line(str(cell)) for cell in row)
        for row in (names, *rows)
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row, cells in zip((names, *rows), table, strict=True) if rows else ():
        columns = zip(row, cells, widths, strict=True)
        aligned = [
            cell.rjust(width) if isinstance(value, int) else cell.ljust(width)
            for value, cell, width in columns
        ]
        echo("  ".join(aligned).rstrip())
    if not rows and next_after is None:
        echo("none")
    if next_after is not None:
        echo(f"more: --after {next_after}")


def say_quarantined(sequences: Iterable[int | str]) -> None:
    """Say on which of the rows that were shown nobody may rely (§17.5)."""
    named = " ".join(map(str, sequences))
    if named:
        echo(with_places(f"quarantined, found damaged: {named}; see `rotulus quarantine list`"))


def print_document(document: Any, *, as_json: bool) -> None:
    """Print a document for a person, or as JSON."""
    if as_json:
        echo_json(document)
        return
    for name, value in document.items():
        if isinstance(value, list):
            echo(f"{name}: {len(value)}")
            for element in value:
                echo(f"  {element if isinstance(element, str) else orjson.dumps(element).decode()}")
        else:
            shown = value if isinstance(value, str) else orjson.dumps(value).decode()
            echo(f"{name}: {shown}")
