"""Reads settings from a folder in which each file is named as the variable whose value it holds.

Docker and Kubernetes mount secrets so, and systemd its credentials. A line's end at the end of a
file is no part of the value, and an empty file counts as unset, as an empty variable does. Files of
other names are somebody else's.
"""

from collections.abc import Container
from pathlib import Path
from typing import ClassVar, Final

VALUE_BYTES_MAX: Final = 64 << 10


class SecretUnreadable(Exception):
    """Says that a folder or a file in it cannot be read, and never what is in it."""

    code: ClassVar[str] = "secret_unreadable"


def names_in(folder: Path, begin: str) -> list[str]:
    """Return the names in a folder that begin so, in order.

    Raises:
        SecretUnreadable: it is no folder, or not ours to read.
    """
    try:
        return sorted(path.name for path in folder.iterdir() if path.name.startswith(begin))
    except OSError as error:
        raise SecretUnreadable(f"{folder}: {error.strerror}") from error


def values_in(folder: Path, variables: Container[str], begin: str) -> dict[str, str]:
    """Return the values of those variables that have a file in the folder with a value.

    Raises:
        SecretUnreadable: the folder or a file cannot be read, is too long, or is no text.
    """
    names = [name for name in names_in(folder, begin) if name in variables]
    values = {name: _value_at(folder / name) for name in names}
    return {name: value for name, value in values.items() if value}


def _value_at(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(VALUE_BYTES_MAX + 1)
    except OSError as error:
        raise SecretUnreadable(f"{path}: {error.strerror}") from error
    if len(content) > VALUE_BYTES_MAX:
        raise SecretUnreadable(f"{path} is longer than {VALUE_BYTES_MAX} bytes")
    try:
        return content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise SecretUnreadable(f"{path} is no text in UTF-8") from None
