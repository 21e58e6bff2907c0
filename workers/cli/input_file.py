"""What a command reads from a file or standard input, and how it says what is wrong there."""

import os
import stat
from typing import IO, Any, Final

import click
import orjson

from kernel.json_text import RepeatedKey, check_unique_keys
from workers.cli.common import coded, say_what_is_read

STDIN_NAMES: Final = frozenset({"<stdin>", "-"})
INVALID: Final = "INVALID_REQUEST"


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


def read_object(file: IO[bytes]) -> dict[str, Any]:
    """Return the JSON object that a file holds."""
    content = file.read()
    try:
        document = parse_json(content)
    except orjson.JSONDecodeError as error:
        raise input_invalid(file, f"not JSON: {error}") from None
    except RepeatedKey as error:
        raise input_invalid(file, str(error), code=error.code) from None
    if not isinstance(document, dict):
        raise input_invalid(file, "not a JSON object")
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


def input_invalid(
    file: IO[bytes], problem: str, line: int | None = None, code: str = INVALID
) -> click.ClickException:
    """Return the error of a file, which names it and the line."""
    name = getattr(file, "name", "-")
    places = ["" if name in STDIN_NAMES else str(name), "" if line is None else f"line {line}"]
    place = ", ".join(filter(None, places))
    return coded(code, f"{place}: {problem}" if place else problem)
