"""The writer of all commands: what it shows, what it quotes, and the only one that prints."""

import ast
import io
import json
import shlex
import sys
import unicodedata
from pathlib import Path

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.environment.log_setup import configure_logging, get_logger
from workers.environment.output import (
    OutputFailed,
    announce,
    command_line,
    echo,
    echo_json,
    escape_json,
    forward,
    printable_line,
    printable_text,
    say,
    write_json_bytes,
)

ROOT = Path(__file__).parents[3]
HOSTILE = "a\x1b]0;title\x07\x1b[2J\u202etxt\u2066\x9b31m\x7f\u2028\nforged: yes\r\u200bz"
PRINTERS = {
    "workers/cli/log_lines.py": "names its stream, and writes by the writer",
    "workers/cli/top.py": "names its stream, and draws on a terminal",
    "workers/environment/output.py": "the writer",
    "workers/environment/log_setup.py": "the handler of log lines, which are shown before",
    "workers/environment/terminal_progress.py": "names its stream, and writes by the writer",
    "workers/environment/system_host.py": "flushes alone",
    "kernel/proof/proof_file.py": "a program by itself, that imports nothing of ours",
}

pytestmark = pytest.mark.spec("§10.3")


def is_hidden(each: str) -> bool:
    """Tell it by the Unicode standard: controls, formats, surrogates, and other ends of lines."""
    return unicodedata.category(each) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def hidden_in(text: str) -> set[str]:
    return {each for each in text if each not in "\n\t" and is_hidden(each)}


@given(st.text())
@example(HOSTILE)
@example("\ud800 \U000e0041 é 漢 🙂")
def test_nothing_that_is_not_seen_is_left_in_a_line_and_nothing_else_is_changed(text):
    line = printable_line(text)
    assert "\n" not in line
    assert not hidden_in(line)
    if not any(is_hidden(each) for each in text):
        assert line == text
    assert len(line) >= len(text), "what is escaped is shown, and not left out"


@given(st.text())
def test_a_text_of_several_lines_keeps_its_lines(text):
    assert printable_text(text).count("\n") == text.count("\n")
    assert not hidden_in(printable_text(text))


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["utf-8", "latin-1"]))
@example(HOSTILE, "utf-8")
@example("é 漢 🙂 \U000e0041", "ascii")
def test_json_is_the_same_json_when_it_is_shown(text, encoding):
    for content in (json.dumps([text], ensure_ascii=False), json.dumps({text: 1}, indent=1)):
        written = escape_json(content, encoding)
        assert json.loads(written) == json.loads(content)
        assert not hidden_in(written)
        written.encode(encoding)


@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1))
@example(["rotulus", '/a folder/it\'s "x"', "$(rm -rf /)", "`x`", "-", "é;&|<>*?~#!"])
def test_a_command_is_read_by_a_shell_as_it_is_meant(words):
    assert shlex.split(command_line(*words)) == words


@given(st.text(st.characters(exclude_characters="\0")))
@example("-odd")
def test_an_operand_that_begins_with_a_hyphen_is_taken_for_no_option(operand):
    words = shlex.split(command_line("rotulus", "x", operands=[operand], options=["--to", "y"]))
    seen = click.Command("x", params=[click.Argument(["it"]), click.Option(["--to"])])
    parsed = seen.make_context("x", words[2:]).params
    assert parsed == {"it": operand, "to": "y"}


def test_every_way_to_print_shows_what_strangers_wrote(capsys):
    echo(HOSTILE, HOSTILE)
    say(HOSTILE)
    announce(HOSTILE)
    forward(HOSTILE.encode() + b"\xff\n")
    echo_json({HOSTILE: [HOSTILE]})
    said = capsys.readouterr()
    for written in (said.out, said.err):
        assert not hidden_in(written)
        assert r"\x1b]0;title\x07" in written
    assert said.out.count("\nforged") == 0
    assert r"\u001b]0;title\u0007" in said.out


def test_lines_of_the_log_show_what_strangers_wrote():
    for form in ("json", "console"):
        stream = io.StringIO()
        configure_logging("info", form, stream)
        error = ValueError(HOSTILE)
        get_logger("test").error("failed", about=HOSTILE, exc_info=error)
        configure_logging()
        assert "title" in stream.getvalue()
        assert not hidden_in(stream.getvalue())


class Pipe(io.TextIOWrapper):
    """A standard output that goes to a file, or says that it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_with_hashes_keep_their_bytes_in_a_file_and_are_shown_to_a_person(
    is_terminal, monkeypatch
):
    content = json.dumps({"title": HOSTILE}, ensure_ascii=False).encode() + b"\n"
    out = Pipe(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stdout", out)
    write_json_bytes(content)
    out.flush()
    written = out.buffer.getvalue()  # type: ignore[attr-defined]
    assert json.loads(written) == json.loads(content)
    assert (written == content) == (not is_terminal)
    assert bool(hidden_in(written.decode())) == (not is_terminal)


class Full(io.StringIO):
    """A stream that takes nothing."""

    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def test_only_standard_output_is_missed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", Full())
    say("nobody")
    monkeypatch.undo()
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(OutputFailed, match="No space left on device"):
        echo("nobody")
    announce("nobody")
    assert "output_unusable: standard output: No space left on device" in capsys.readouterr().err


def printing(path: Path) -> list[str]:
    """Return where a file prints, or takes a standard stream, by itself."""
    places = []
    for node in ast.walk(ast.parse(path.read_text())):
        name = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id if node.func.id == "print" else ""
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
        if name == "print" or name in {
            *(f"sys.{stream}" for stream in ("stdout", "stderr", "__stdout__", "__stderr__")),
            *(f"click.{verb}" for verb in ("echo", "secho", "echo_via_pager", "progressbar")),
            *(f"traceback.print_{what}" for what in ("exc", "exception", "stack")),
        }:
            places.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    return places


def test_nothing_prints_but_the_writer():
    words = ("print", "sys.std", "sys.__", "click.")
    files = [
        path
        for room in ("kernel", "actors", "queues", "workers")
        for path in (ROOT / room).rglob("*.py")
    ]
    files = [path for path in files if any(word in path.read_text() for word in words)]
    prints = {str(path.relative_to(ROOT)): printing(path) for path in files}
    assert [prints[name] for name in sorted(prints) if name not in PRINTERS and prints[name]] == []
    assert all(prints[name] for name in PRINTERS), "an exception that nothing needs any more"
