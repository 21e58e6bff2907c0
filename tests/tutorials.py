"""Types the tutorials of deploy/guides/ into a shell, command by command.

A block of `console` has commands behind `$ ` and what each prints below it; a longer command goes
on in lines behind `> `. `…` stands for what differs from run to run: within a line, or, by itself,
for any lines. Where no output is shown, none is compared. A block of another language whose first
line is a comment with a file's name is that file. Every command has to end with 0.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

GUIDES: Final = Path(__file__).parents[1] / "deploy" / "guides"
TUTORIALS: Final = ("producer", "operator", "auditor")

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED: Final = re.compile(r"# (\S+\.\w+)\n")
_ENDED: Final = re.compile(r"\n?\x1e(\d+)\n\Z")


@dataclass
class Typed:
    """A command of a tutorial, and what it shows that the command prints."""

    command: str
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NamedFile:
    """A file that the reader of a tutorial writes."""

    name: str
    text: str


def steps(tutorial: str) -> Iterator[Typed | NamedFile]:
    """Yield what a tutorial has its reader do, in order."""
    for language, text in _BLOCK.findall((GUIDES / f"{tutorial}.md").read_text("utf-8")):
        if language == "console":
            yield from _commands(text)
        elif named := _NAMED.match(text):
            yield NamedFile(named[1], text)


def _commands(text: str) -> Iterator[Typed]:
    typed = None
    for line in text.splitlines():
        if line.startswith("$ "):
            if typed is not None:
                yield typed
            typed = Typed(line[2:])
        elif line.startswith("> ") and typed is not None:
            typed.command += f"\n{line[2:]}"
        else:
            assert typed is not None, f"{line} stands behind no command"
            typed.shown.append(line)
    if typed is not None:
        yield typed


def pattern_of(shown: list[str]) -> str:
    """Return the expression that what a command prints has to match as a whole."""
    lines = (
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + "\n"
        for line in shown
    )
    return "".join(lines)


class Shell:
    """A shell in a folder, which ends with everything that it started."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Type a command; return its exit code and what it printed."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{command}\nprintf '\\n\\036%s\\n' $?\n")
        stdin.flush()
        printed = ""
        for line in stdout:
            printed += line
            if ended := _ENDED.search(printed):
                return int(ended[1]), printed[: ended.start()]
        raise AssertionError(f"the shell ended: {printed}")

    def close(self) -> None:
        """End the shell and the jobs that a tutorial which failed has left."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("kill $(jobs -p) 2>/dev/null; wait; exit\n")
        stdin.close()
        self._process.wait()
        stdout.close()


def follow(tutorial: str, folder: Path, environment: dict[str, str]) -> None:
    """Do what a tutorial says in an empty folder; fail where anything is not as it shows."""
    shell = Shell(folder, environment)
    try:
        for step in steps(tutorial):
            if isinstance(step, NamedFile):
                _, place = shell.run("pwd")
                (Path(place.strip()) / step.name).write_text(step.text, "utf-8")
                continue
            code, printed = shell.run(step.command)
            assert code == 0, f"$ {step.command}\nended with {code}:\n{printed}"
            if step.shown:
                text = printed if printed.endswith("\n") else f"{printed}\n"
                fits = re.fullmatch(pattern_of(step.shown), text)
                shown = "\n".join(step.shown)
                assert fits, f"$ {step.command}\nprinted\n{printed}\nand is said to print\n{shown}"
    finally:
        shell.close()
