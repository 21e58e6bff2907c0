"""Reads a command's file or standard input, and says what is wrong there."""

import os
import stat
from typing import IO, Any, BinaryIO, Final

import click
import orjson

from kernel.model.envelope import MAX_ENVELOPE_BYTES
from kernel.values.json_lines import LineRefused, plain_file, printable_json
from kernel.values.json_text import RepeatedKey, check_unique_keys
from workers.cli.common import command_error, say_what_is_read

STDIN_NAMES: Final = frozenset({"<stdin>", "-"})
INVALID: Final = "INVALID_REQUEST"
OBJECT_BYTES_MAX: Final = 2 * MAX_ENVELOPE_BYTES
"""As much as a gateway takes, which bounds the canonical form of an envelope."""


class InputFile(click.File):
    """A file of bytes, or standard input for `-`; a terminal that is read is said to be."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> IO[bytes]:
        """Open the file."""
        file: IO[bytes] = super().convert(value, parameter, context)
        say_what_is_read(file)
        return file


def size_of(file: IO[bytes]) -> int | None:
    """Return how many bytes a file has; None for standard input, a pipe, and what states none."""
    if getattr(file, "name", "-") in STDIN_NAMES:
        return None
    status = os.fstat(file.fileno())
    return status.st_size or None if stat.S_ISREG(status.st_mode) else None


def read_whole(file: BinaryIO, bytes_max: int) -> bytes:
    """Return what a file holds, out of gzip and without a byte order mark."""
    try:
        content = plain_file(file).read(bytes_max + 1)
    except LineRefused as refused:
        raise line_error(file, refused) from None
    if len(content) > bytes_max:
        raise input_invalid(file, f"longer than {bytes_max} bytes")
    return content


def read_object(file: BinaryIO) -> dict[str, Any]:
    """Return the JSON object that a file holds."""
    content = read_whole(file, OBJECT_BYTES_MAX)
    try:
        document = parse_json(content)
    except orjson.JSONDecodeError as error:
        raise input_invalid(file, f"not JSON: {error}; allowed: one JSON object") from None
    except RepeatedKey as error:
        raise input_invalid(file, str(error), code=error.code) from None
    if not isinstance(document, dict):
        raise input_invalid(file, f"not a JSON object: {printable_json(document)}")
    return document


def parse_json(content: bytes) -> Any:
    """Return what JSON states, with each key once.

    Raises:
        orjson.JSONDecodeError: it is no JSON.
        RepeatedKey: an object has a key twice.
    """
    document = orjson.loads(content)
    check_unique_keys(content)
    return document


def line_error(file: IO[bytes], refused: LineRefused) -> click.ClickException:
    """Return the error of a line, or of all of a file, that is not taken."""
    code = refused.code if refused.code == RepeatedKey.code else INVALID
    return input_invalid(file, str(refused), refused.line or None, code)


def input_invalid(
    file: IO[bytes], problem: str, line: int | None = None, code: str = INVALID
) -> click.ClickException:
    """Return the error of a file, which names it and the line."""
    place = place_in(file, line)
    return command_error(code, f"{place}: {problem}" if place else problem)


def place_in(file: IO[bytes], line: int | None = None) -> str:
    """Return the name of a file, but of standard input, and a line."""
    name = getattr(file, "name", "-")
    places = ["" if name in STDIN_NAMES else str(name), "" if line is None else f"line {line}"]
    return ", ".join(filter(None, places))
