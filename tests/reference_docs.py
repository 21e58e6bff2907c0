"""`make reference`: the commands, the HTTP interface and the client as pages, from the code alone.

What it writes lies in `deploy/guides/`; a test fails when a page there says anything else.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

import workers.client as client_package
from tests import openapi_doc
from workers.cli.main import SECTIONS, main

FOLDER: Final = Path(__file__).parents[1] / "deploy" / "guides"

_WRITTEN: Final = "`make reference` writes this page from the code.\n"
_OF_ALL: Final = frozenset({"--help", "--data-dir", "--gateway"})
_WRAPPED: Final = re.compile(r"(?<=\S)\n(?=\S)")


def commands_text() -> str:
    """Return the page of the commands, made from what each says of itself."""
    root = click.Context(main, info_name="rotulus")
    lines = ["# Commands\n", _WRITTEN]
    lines.append(
        "Each takes `--help`, and where it means something `--data-dir` and `--gateway`;"
        " settings are [environment variables](../settings.md).\n"
    )
    for title, commands in SECTIONS.items():
        lines.append(f"## {title}\n")
        for name in commands:
            command = main.get_command(root, name)
            assert command is not None
            lines += _command(command, root, name)
    return "\n".join(lines)


def _command(command: click.Command, above: click.Context, name: str) -> Iterator[str]:
    context = click.Context(command, above, name, show_default=above.show_default)
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    yield f"### {context.command_path}\n"
    yield f"`{usage}`\n"
    yield _paragraphs(command.help or "")
    own = [each for each in command.get_params(context) if _OF_ALL.isdisjoint(each.opts)]
    records = (parameter.get_help_record(context) for parameter in own)
    options = [record for record in records if record and record[1]]
    for names, text in options:
        yield f"- `{names}`: {' '.join(text.split())}"
    yield from [""] if options else []
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            named = command.get_command(context, below)
            if named is not None and not named.hidden:
                yield from _command(named, context, below)


def http_text() -> str:
    """Return the page of the HTTP interface, made from its OpenAPI document."""
    paths: Mapping[str, Mapping[str, Any]] = openapi_doc.document()["paths"]
    lines = ["# HTTP\n", _WRITTEN]
    lines.append(
        "[openapi.json](../../workers/api/openapi.json) has the bodies and answers; a gateway"
        " serves it at `/openapi.json`. An action is what a key has to allow"
        " ([access.md](../access.md)); errors have one form, and"
        " [each code](../../workers/api/REFERENCE.md) says whether to ask again.\n"
    )
    by_tag: dict[str, list[str]] = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            cells = (method.upper(), f"`{path}`", operation["summary"], operation["x-action"])
            by_tag.setdefault(operation["tags"][0], []).append(f"| {' | '.join(cells)} |")
    for tag in sorted(by_tag):
        lines += [f"## {tag}\n", "| Method | Path | What it does | Action |", "|---|---|---|---|"]
        lines += [*by_tag[tag], ""]
    return "\n".join(lines)


def client_text() -> str:
    """Return the page of the client, made from its public classes."""
    lines = ["# The Python client\n", _WRITTEN]
    lines += ["[Its tour](../../workers/client/README.md) has examples of all.\n"]
    for name in client_package.__all__:
        lines += _class(getattr(client_package, name))
    return "\n".join(lines)


def _class(shown: type[Any]) -> Iterator[str]:
    yield f"## {shown.__name__}\n"
    yield _paragraphs(inspect.getdoc(shown) or "")
    names, rows = set[str](), list[str]()
    for each in shown.__mro__:
        if not each.__module__.startswith(client_package.__name__):
            continue
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(tree, ast.ClassDef)
        for node in tree.body:
            if signature := _signature(node, shown.__name__):
                name, text = signature
                rows += [] if name in names else [text]
                names.add(name)
    yield from rows
    yield from [""] if rows else []


def _signature(node: ast.stmt, shown: str) -> tuple[str, str] | None:
    """Return the name and the row of what a class offers; None of anything else."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        name, text = (
            node.target.id,
            f"- `{ast.unparse(node.target)}: {ast.unparse(node.annotation)}`",
        )
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        decorators = {ast.unparse(each) for each in node.decorator_list}
        returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
        called = shown if node.name == "__init__" else node.name
        form = called if "property" in decorators else f"{called}({arguments})"
        awaited = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
        returned = "" if node.name == "__init__" else returned
        doc = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
        name, text = node.name, f"- `{awaited}{form}{returned}`" + (f": {doc}" if doc else "")
        if "overload" in decorators:
            return None
    else:
        return None
    return None if name.startswith("_") and name != "__init__" else (name, text)


def _paragraphs(text: str) -> str:
    """Return a text of several paragraphs, each in a line."""
    return _WRAPPED.sub(" ", inspect.cleandoc(text).replace("\b\n", "")) + "\n"


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "commands.md": commands_text,
    "http.md": http_text,
    "client.md": client_text,
}

if __name__ == "__main__":
    for page, text in PAGES.items():
        (FOLDER / page).write_text(text(), "utf-8")
        sys.stdout.write(f"{FOLDER / page}\n")
