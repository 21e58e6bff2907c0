"""The command `rotulus` in the test's process."""

import json
from collections.abc import Iterator
from typing import Any

import click
from click.testing import CliRunner, Result

from workers.cli.main import main


def rotulus(*arguments: str, stdin: str | None = None, **environment: str | None) -> Result:
    """Run the command; what escapes it as an exception is a defect, whatever the test expects."""
    result = CliRunner().invoke(main, arguments, input=stdin, env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def printed(*arguments: str, code: int = 0, stdin: str | None = None) -> Any:
    result = rotulus(*arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def commands(name: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the command of this name and all that lie under it, with the words that call them."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    yield from _below((name,), command)


def _below(
    path: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _below((*path, name), below)
