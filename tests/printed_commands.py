"""Collects the commands that the product prints for a person to run, from its sources.

A command stands in backquotes, begins with `rotulus`, and is complete: what its reader puts in is
a word in capitals, and what the program puts in is `{}` here, or `...` where it puts in options of
which there may be none. Texts under `help` and `description`
and the help of commands name commands and are no remedies; they are collected apart.
"""

import ast
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import unescape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("kernel", "queues", "actors", "workers")
PAGES: Final = ("deploy/runbook.md", "deploy/prometheus-alerts.yml")
WRITERS: Final = frozenset({"command_line", "rotulus_command", "_command"})
"""The functions that write a command of the words that they are given."""

COMMAND: Final = re.compile(r"[`]rotulus ((?:[^`'\"]|'[^']*'|\"[^\"]*\")+)`")
FILLED: Final = re.compile(r"(?<![\w-])[A-Z][A-Z_:]*(?![\w-])")
"""What a reader puts in."""

_CODE: Final = re.compile("</?code>")
_HELP: Final = frozenset({"help", "description"})
_IN_TEMPLATE: Final = re.compile(r"\{\{ (command_line\(.*?\))[| ]")


def printed_commands() -> dict[str, list[str]]:
    """Return the commands that are printed, and where each of them is written."""
    return _collected()[0]


def named_commands() -> dict[str, list[str]]:
    """Return the commands that help and descriptions name."""
    return _collected()[1]


@cache
def _collected() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    printed, named = dict[str, list[str]](), dict[str, list[str]]()
    for path in _files(".py"):
        for command, is_help in _of_module(path.read_text()):
            places = named if is_help else printed
            places.setdefault(command, []).append(_name(path))
    for path in [*_files(".html"), *(ROOT / page for page in PAGES)]:
        for command in _of_text(path.read_text()):
            printed.setdefault(command, []).append(_name(path))
    return printed, named


def carried_out(text: str, command: str, filled: Mapping[str, object]) -> list[str]:
    """Return the words of a collected command as a text has it, filled in as its reader does."""
    blanks = set(FILLED.findall(command))
    assert blanks == filled.keys(), f"`rotulus {command}` leaves {blanks} to its reader"
    for printed in _printed_in(unescape(_CODE.sub("`", text))):
        if _is_of(printed, command):
            return [str(filled.get(word, word)) for word in printed]
    raise AssertionError(f"`rotulus {command}` is not printed: {text}")


def _printed_in(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in a text: in backquotes, or up to the end of a line."""
    for match in COMMAND.finditer(text):
        yield ["rotulus", *shlex.split(match[1])]
    for match in re.finditer(r"(?:^|\s)(rotulus [^`\n]+)$", text, re.MULTILINE):
        yield shlex.split(match[1])


def _is_of(printed: Sequence[str], command: str) -> bool:
    """Tell whether a command as it is printed is a collected one, wherever its options stand."""
    words = [*printed[1:]]
    for option in ("--data-dir", "--gateway"):
        if option in words[:3] and option not in command:
            del words[(at := words.index(option)) : at + 2]
    words = [word for word in words if word != "--"]
    wanted = [word for word in command.split() if word != "--"]
    literals = Counter(word for word in wanted if word not in {"{}", "..."})
    if wanted[-1] == "...":
        return len(words) >= len(wanted) - 1 and literals <= Counter(words)
    return len(words) == len(wanted) and literals <= Counter(words)


def _files(suffix: str) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob(f"*{suffix}"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _of_text(text: str) -> Iterator[str]:
    for match in COMMAND.finditer(text):
        yield match[1]
    for expression in _IN_TEMPLATE.findall(text):
        call = ast.parse(expression, mode="eval").body
        assert isinstance(call, ast.Call)
        yield from _of_call(call)


def _of_module(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each command of a module, and whether it stands in a help or a description."""
    if not any(word in text for word in ("rotulus", *WRITERS)):
        return
    module = ast.parse(text)
    helps, quiet = set[ast.AST](), set[ast.AST]()
    nodes = list(ast.walk(module))
    for node in nodes:
        if _is_help(node):
            helps.update(ast.walk(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            quiet.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            quiet.update(node.values)
    for node in nodes:
        if node in quiet:
            continue
        if isinstance(node, ast.Call):
            commands: Iterable[str] = _of_call(node)
        else:
            commands = (match[1] for match in COMMAND.finditer(_text(node)))
        for command in commands:
            yield command, node in helps


def _is_help(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        return isinstance(target, ast.Name) and target.id == "_HELP"
    return isinstance(node, ast.keyword) and node.arg in _HELP


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _text(part) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    return ""


def _of_call(call: ast.Call) -> Iterator[str]:
    """Yield the command of a call that writes one, unless it passes on what it was given."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in WRITERS or not call.args:
        return
    if name == "command_line" and not _is_text(call.args[0], "rotulus"):
        return
    words = [*call.args[1 if name == "command_line" else 0 :]]
    for keyword in ("operands", "options"):
        for named in call.keywords:
            if named.arg == keyword:
                words += named.value.elts if isinstance(named.value, ast.List) else [named.value]
    if not isinstance(words[0], ast.Starred):
        yield " ".join(map(_word, words))


def _word(node: ast.AST) -> str:
    is_options = isinstance(node, ast.Name) and node.id in {"of_priority", "options"}
    return "..." if is_options else _text(node) or "{}"


def _is_text(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text
