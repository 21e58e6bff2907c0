"""Writes everything that a command prints, and knows what stands on its standard streams.

Rules:
- Texts of strangers reach no terminal as they are: what is not printable (control characters,
  escape sequences, marks of direction, other invisible ones) is shown as an escape, in JSON as
  JSON's. A line feed inside a line is one of them, so that nobody forges a line.
- A stream that was closed at the start is opened on nothing, so that no file gets its number.
- What cannot be written on standard output ends the command with `output_unusable`. A line that
  cannot be written on standard error is dropped, for there is no other place to say it.
- A command that is printed to be copied is quoted for a shell by `command_line` alone.

Decision workers/0410 says why.
"""

import atexit
import codecs
import os
import shlex
import sys
import threading
import traceback
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final, TextIO

import orjson

_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class OutputFailed(Exception):
    """Raised when standard output does not take what a command prints."""

    code = "output_unusable"

    def __init__(self, error: OSError | ValueError) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        super().__init__(f"standard output: {reason}; what the command did stays done")
        self.is_reader_gone = isinstance(error, BrokenPipeError)
        """Whether a reader, such as `head`, wants no more."""


def printable_line(text: str) -> str:
    r"""Return one line of text in which whatever is not seen is escaped, as `\x1b` is.

    A tab stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(
        each.encode("unicode_escape").decode() if _is_hidden(each) else each for each in text
    )


def printable_text(text: str) -> str:
    """Return a text of several lines, each of them as `printable_line` returns it."""
    return "\n".join(map(printable_line, text.split("\n")))


def escape_json(text: str, encoding: str = "utf-8") -> str:
    """Return the same JSON in which whatever is not seen, or cannot be encoded, is escaped."""
    if text.isascii() and "\x7f" not in text:
        return text
    has_all = codecs.lookup(encoding).name == "utf-8"
    return "".join(
        each
        if each in "\n\r" or (not _is_hidden(each) and (has_all or each.isascii()))
        else _escape_in_json(each)
        for each in text
    )


def _is_hidden(each: str) -> bool:
    return each != "\t" and unicodedata.category(each) in _HIDDEN_CATEGORIES


def _escape_in_json(each: str) -> str:
    units = each.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def command_line(
    *words: object, operands: Sequence[object] = (), options: Sequence[object] = ()
) -> str:
    """Return a command as a shell takes it, whatever its words hold.

    Its operands stand behind its words, and `--` before them where one begins with a hyphen.
    """
    begins_with_hyphen = any(str(operand).startswith("-") for operand in operands)
    behind = (*options, "--", *operands) if begins_with_hyphen else (*operands, *options)
    return shlex.join(map(str, (*words, *behind)))


def echo(*lines: str) -> None:
    """Print lines on standard output.

    Raises:
        OutputFailed: they cannot be written.
    """
    _print("".join(f"{printable_line(line)}\n" for line in lines or ("",)))


def echo_text(text: str) -> None:
    """Print a text of several lines of ours as it is laid out; raises as `echo` does."""
    _print(printable_text(text))


def echo_json(document: Any) -> None:
    """Print a document as JSON, indented; raises as `echo` does."""
    content = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
    _print(escape_json(content, _encoding(sys.stdout)) + "\n")


def echo_json_line(document: Any) -> None:
    """Print a document as a line of JSON; raises as `echo` does."""
    _print(escape_json(orjson.dumps(document).decode(), _encoding(sys.stdout)) + "\n")


def write_json_bytes(content: bytes) -> None:
    """Write whole lines of JSON: byte for byte to a file, with JSON's escapes to a terminal.

    Raises:
        OutputFailed: they cannot be written.
    """
    if sys.stdout.isatty():
        _print(escape_json(content.decode(), _encoding(sys.stdout)))
        return
    with _failing():
        sys.stdout.buffer.write(content)


def wants_colours() -> bool:
    """Tell whether what is printed on standard output may have colours."""
    wanted = os.environ.get("FORCE_COLOR") or sys.stdout.isatty()
    return bool(wanted) and not os.environ.get("NO_COLOR")


def time_of_day() -> str:
    """Return the time as the clock on somebody's wall shows it."""
    return f"{datetime.now().astimezone():%H:%M:%S}"


def flush_output() -> None:
    """Hand on what was written; raises as `echo` does."""
    with _failing():
        sys.stdout.flush()


def announce(*lines: str) -> None:
    """Print lines on standard output for a process that goes on where nobody can read them."""
    try:
        echo(*lines)
    except OutputFailed as error:
        if not error.is_reader_gone:
            say(f"{error.code}: {error}")


def say(*lines: str, stream: TextIO | None = None) -> None:
    """Print lines on standard error, or another stream; what it does not take is dropped."""
    write_raw("".join(f"{printable_line(line)}\n" for line in lines or ("",)), stream)


def say_text(text: str) -> None:
    """Print a text of several lines of ours on standard error, as it is laid out."""
    write_raw(printable_text(text))


def forward(line: bytes) -> None:
    """Print on standard error what a child wrote."""
    write_raw(printable_text(line.decode(errors="backslashreplace")))


def write_raw(text: str, stream: TextIO | None = None) -> None:
    """Write a text of which whatever is a stranger's is shown already, and let no error pass."""
    target = sys.stderr if stream is None else stream
    # A reader that went away must not stop the work.
    with suppress(OSError, ValueError):
        target.write(text)
        target.flush()


def prepare_streams() -> None:
    """Open the standard streams that are closed, and let an uncaught error be shown as all is."""
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, which is this one, is given; it stays for children.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - for the process
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    atexit.unregister(_flush_or_drop)
    atexit.register(_flush_or_drop)
    sys.excepthook = _show_uncaught
    threading.excepthook = lambda raised: _show_uncaught(
        raised.exc_type, raised.exc_value, raised.exc_traceback
    )


def drop_output() -> None:
    """Let what else is printed, and what is in the buffer, which would fail again, go nowhere."""
    _drop(sys.stdout)


def _show_uncaught(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    if error is not None and not issubclass(kind, SystemExit):
        say_text("".join(traceback.format_exception(kind, error, trace)))


def _encoding(stream: TextIO) -> str:
    return stream.encoding or "utf-8"


def _print(text: str) -> None:
    with _failing():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def _failing() -> Iterator[None]:
    """Let an error of standard output be `OutputFailed`, after which nothing more fails."""
    try:
        yield
    except (OSError, ValueError) as error:
        drop_output()
        raise OutputFailed(error) from None


def _drop(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def _flush_or_drop() -> None:
    """Leave nothing for the interpreter to fail at, which would be another exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _drop(stream)
