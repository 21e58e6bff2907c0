"""Runs `rotulus completion`: a shell completes the commands, their options and their values."""

import click
from click.shell_completion import get_completion_class

from workers.environment.output import echo

_VARIABLE = "_ROTULUS_COMPLETE"
"""The variable in which the shell's script says that it asks; click derives it from the name."""


@click.command()
@click.argument("shell", type=click.Choice(("bash", "fish", "zsh")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes commands.

    In ~/.bashrc: eval "$(rotulus completion bash)". In ~/.zshrc: eval "$(rotulus completion zsh)".
    For fish: rotulus completion fish > ~/.config/fish/completions/rotulus.fish
    """
    completes = get_completion_class(shell)
    assert completes is not None  # noqa: S101 - for the types
    echo(*completes(context.find_root().command, {}, "rotulus", _VARIABLE).source().splitlines())
