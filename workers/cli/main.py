"""The command `rotulus`: a table of subcommands, each imported when it is called.

Importing everything costs more than a second, which neither `--help` nor a worker should pay.
"""

from importlib import import_module

import click

COMMANDS = {
    "demo": "Start everything, ingest dockets, verify the record, stay up.",
    "up": "Run Redis, a gateway and workers in one process tree.",
    "gateway": "Run one gateway: sessions, kernel, ledger, HTTP, dashboard.",
    "worker": "Run one worker: drain slots that compute authorities.",
    "tee": "Serve a causal graph and its incidents over gRPC.",
    "ingest": "Post the dockets of a file to a running gateway.",
    "dockets": "Say what the rules find in the dockets of a file.",
    "play": "Play a kit of hypotheses through a belief session.",
    "enqueue": "Ask a queue for the work in a file of JSON lines.",
    "binding": "Create, change, disable, enable and look at source bindings.",
    "queues": "Show the queues; pause, resume, requeue and cancel.",
    "session": "Declare, eliminate, look at and replay a belief session.",
    "submit": "Put an envelope through the kernel, with a proof.",
    "simulate": "Ask a running gateway what an operation would come to.",
    "migrate": "Bring the ledger's tables to the version of this program.",
    "verify": "Recompute the record and name the first bad row.",
    "tree": "Prove that a row is in the log, and that the log only grew.",
    "checkpoint": "Sign the head of the log, publish it, verify one.",
    "prove": "Write a file that proves an operation.",
    "show": "Look at what was decided: log, sessions, operations, nodes.",
    "audit": "Ask what was done, why, and what undoing it would take.",
    "authority": "Ask for recomputes; run the nightly tick or the backfill.",
    "review": "Review batches of memberships, and what waits for a person.",
    "implications": "Show the detectors of implications; resume what is halted.",
    "rollback": "Undo an operation or an epoch, or build the state again.",
    "migrate-log": "Take a log of version 1.5 onto the ledger, and migrate it.",
    "export": "Write the log as JSON lines that verify by themselves.",
    "settings": "List the settings, their defaults and what they mean.",
}
"""Each subcommand is the attribute of its name in the module of its name, `_` standing for `-`."""


class LazyCommands(click.Group):
    """A group that knows its commands' names and first lines, and imports the one that is meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"workers.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without importing anything."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="rotulus", prog_name="rotulus")
def main() -> None:
    """Rotulus: every decision through one kernel onto one tamper-evident record.

    `rotulus demo` shows the whole of it on real court dockets. Settings are environment variables:
    see `rotulus settings`.
    """
