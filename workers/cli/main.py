"""Runs the command `rotulus`: a table of subcommands, each imported when it is called.

Importing everything costs more than a second, which neither `--help` nor a worker should pay.
"""

import gc
import io
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import click

from workers.cli.places import add_places, reading_answers
from workers.environment.output import (
    OutputFailed,
    drop_output,
    prepare_streams,
    say,
    say_text,
)

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "new": "Write a project with a job, a test and what they need.",
        "dev": "Serve a file of jobs, anew whenever it is changed.",
        "demo": "Start everything, ingest dockets, verify the record, stay up.",
        "up": "Run Redis, a gateway and workers in one process tree.",
        "gateway": "Run one gateway: sessions, kernel, ledger, HTTP, dashboard.",
        "worker": "Run one worker: drain slots that compute authorities.",
        "tee": "Serve a causal graph and its incidents over gRPC.",
        "witness": "Cosign checkpoints of logs, where they only grow.",
        "settings": "List the settings, their defaults and what they mean.",
    },
    "Work": {
        "ingest": "Post the dockets of a file to a running gateway.",
        "enqueue": "Ask a queue for the work in a file of JSON lines.",
        "submit": "Put an envelope through the kernel, with a proof.",
        "simulate": "Ask a running gateway what an operation would come to.",
        "session": "Declare, eliminate, look at and replay a belief session.",
        "binding": "Create, change, disable, enable and look at source bindings.",
        "review": "Review batches of memberships, and what waits for a person.",
        "pipeline": "Run a pipeline of your own; resume one, show its graph.",
        "authority": "Ask for recomputes; run the nightly tick or the backfill.",
    },
    "Look": {
        "status": "Show health, queues, workers and what needs attention.",
        "top": "Watch what needs attention, queues and workers, live.",
        "queues": "Show the queues; pause, resume, requeue, dismiss, cancel.",
        "show": "Look at what was decided: log, sessions, operations, nodes.",
        "search": "Find what a text names, or where it occurs.",
        "audit": "Ask what was done, why, and what undoing it would take.",
        "explain": "Explain an id: where it comes from, back to the words.",
        "landscape": "List runs and report on them; seal one, purge payloads.",
        "verify": "Recompute the record and name the first bad row.",
        "tree": "Prove that a row is in the log, and that the log only grew.",
        "checkpoint": "Sign the head of the log, publish it, verify one.",
        "prove": "Write a file that proves something on the record.",
        "exhibit": "Write a page about a decision that verifies itself offline.",
        "thought": "Record thoughts, close them into a root, prove one.",
        "mcp": "Serve the record to a model, over stdio or HTTP.",
        "round": "Open and seal rounds of sessions of thoughts.",
    },
    "Repair": {
        "doctor": "Say what is wrong here, and what to do about it.",
        "health": "Say whether a gateway or a worker answers.",
        "access": "Show who may do what, now or then; give roles and end them.",
        "keys": "Make keys by which principals prove who they are; revoke them.",
        "rollback": "Undo an operation or an epoch, or build the state again.",
        "implications": "Show the detectors of implications; resume what is halted.",
        "erase": "Erase a thought's content or a model's answer, on the record.",
        "hold": "Set, lift and list legal holds, against which nothing is erased.",
        "ledger": "Say what a ledger that went back has lost; go on from it.",
        "quarantine": "List and lift quarantines of rows that were found damaged.",
        "backup": "Back up the ledger and what belongs to it, while it is in use.",
        "restore": "Restore a backup, verify it, and say what it lacks.",
        "archive": "Move old rows of the log out of the database; verify them.",
        "migrate": "Bring the ledger's tables to the version of this program.",
        "migrate-log": "Take a log of version 1.5 onto the ledger, and migrate it.",
    },
    "More": {
        "dockets": "Say what the rules find in the dockets of a file.",
        "play": "Play a kit of hypotheses through a belief session.",
        "export": "Write the log as JSON lines that verify by themselves.",
        "docs": "Open the pages: tutorials, runbook, reference; offline.",
        "completion": "Print the script by which a shell completes commands.",
        "man": "Print the manual page, made from the commands.",
    },
}
"""Each subcommand is the attribute of its name in the module of its name, `_` standing for `-`."""

COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}


class LazyCommands(click.Group):
    """A group that knows its commands' names and first lines, and imports the one that is meant."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - as the library has it
        **extra: Any,
    ) -> Any:
        """Run a command on standard streams that are there, and say by `output` how it failed."""
        prepare_streams()
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        try:
            sys.exit(run())
        except click.UsageError as error:
            written = io.StringIO()
            error.show(written)
            say_text(written.getvalue())
            sys.exit(error.exit_code)
        except click.ClickException as error:
            say(f"Error: {error.format_message()}")
            sys.exit(error.exit_code)
        except click.Abort:
            say("Aborted!")
        except OutputFailed as error:
            _say_failed(error)
        except OSError as error:
            # The library prints help texts itself.
            if not _is_of_library(error):
                raise
            drop_output()
            _say_failed(OutputFailed(error))
        sys.exit(1)

    def invoke(self, ctx: click.Context) -> None:
        """Run the command that is meant; what it returns is no exit code."""
        with reading_answers(ctx):
            super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the tables."""
        del ctx
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant, or say which ones may have been."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        # What is imported stays to the end. To look through it for garbage, meanwhile and once
        # more at the exit, would take as long again.
        gc.disable()
        try:
            module = import_module(f"{__package__}.{name}")
        finally:
            gc.freeze()
            gc.enable()
        command: click.Command = getattr(module, name)
        add_places(command, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the tables, their second columns in line, without importing anything."""
        del ctx
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


def _is_of_library(error: OSError) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals["__name__"] == click.utils.__name__


def _say_failed(error: OutputFailed) -> None:
    if not error.is_reader_gone:
        say(f"Error: {error.code}: {error}")


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="rotulus", prog_name="rotulus")
def main() -> None:
    """Rotulus: every decision through one kernel onto one tamper-evident record.

    `rotulus demo` shows the whole of it on real court dockets. Settings are environment variables:
    see `rotulus settings`. The two options below may stand behind any command as well.
    """


add_places(main, "")
