r"""Runs `rotulus man`: every command and option as one manual page, made from the commands.

The page is in roff's `man` macros. Each text is escaped, so that no line of it begins a request and
no backslash an escape.
"""

import re
from collections.abc import Iterator
from datetime import date
from importlib.metadata import version

import click

from workers.environment.output import echo
from workers.environment.settings import settings_table

_DISTRIBUTION = "rotulus"

_SECTIONS_BEHIND = (
    ("EXIT STATUS", "0 where a command did what it was asked, 1 where it failed, 2 for usage."),
    ("SEE ALSO", "rotulus COMMAND --help says the same of one command."),
)


@click.command()
@click.option("--day", type=click.DateTime(("%Y-%m-%d",)), help="The day that the page states.")
@click.pass_context
def man(context: click.Context, day: date | None) -> None:
    """Print the manual page: `rotulus man | man -l -`."""
    # However this process was started, the page names the program as it is installed.
    root = click.Context(context.find_root().command, info_name="rotulus")
    echo(*_page(root, "" if day is None else day.strftime("%Y-%m-%d")))


def _page(root: click.Context, day: str) -> Iterator[str]:
    yield f'.TH ROTULUS 1 "{day}" "rotulus {version(_DISTRIBUTION)}" "User Commands"'
    first, _, rest = (root.command.help or "").partition("\n\n")
    yield from (".SH NAME", f"rotulus \\- {_inline(first.removeprefix('Rotulus: '))}")
    yield from (
        ".SH SYNOPSIS",
        f"rotulus {_inline(' '.join(root.command.collect_usage_pieces(root)))}",
    )
    yield from (".SH DESCRIPTION", _inline(rest), *_options(root), ".SH COMMANDS")
    yield from _commands(root)
    yield ".SH ENVIRONMENT"
    for name, default, text in settings_table():
        yield from (".TP", f"\\fB{_inline(name)}\\fR [{_inline(default)}]", _inline(text))
    for title, text in _SECTIONS_BEHIND:
        yield from (f".SH {title}", _inline(text))


def _commands(above: click.Context) -> Iterator[str]:
    """Yield each command below another one, and all that is below it."""
    group = above.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, above, name, show_default=above.show_default)
        usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
        yield f".SS {_inline(usage)}"
        paragraphs = re.split(r"\n\s*\n", (command.help or "").replace("\b\n", ""))
        for number, paragraph in enumerate(paragraphs):
            yield from ((".PP",) if number else ())
            yield _inline(paragraph)
        yield from _options(context)
        yield from _commands(context)


def _options(context: click.Context) -> Iterator[str]:
    """Yield the options of a command without those that the root has for all."""
    root = context.find_root()
    known = set() if context is root else {each.name for each in root.command.get_params(root)}
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1] and parameter.name not in known:
            yield from (".TP", f"\\fB{_inline(record[0])}\\fR", _inline(record[1]))


def _inline(text: str) -> str:
    """Return a text as one line of roff, in ASCII."""
    line = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    line = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in line)
    return f"\\&{line}" if line.startswith((".", "'")) else line
