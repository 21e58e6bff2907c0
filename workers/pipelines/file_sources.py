"""Reads files as sources: rows of JSON lines or of comma-separated values, plain or in gzip.

A run that goes on reads the file from its begin and passes over what is on record. Standard input
(`-`) is read once, so a run that was killed cannot go on with it unless it is given again.
"""

import csv
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from kernel.values.json_lines import json_lines, plain_file, raise_refused

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a line of JSON; as much as a row may have."""

STANDARD_INPUT: Final = "-"


class SourceFileError(Exception):
    """A file is no table: a row has more cells than the header has names, or names repeat."""


class JsonLinesSource:
    """A file with a JSON value on each line, which is a row."""

    version = "1"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    @property
    def config(self) -> Mapping[str, Any]:
        """What a run records of it."""
        return {"path": str(self._path)}

    def __call__(self) -> Iterator[Any]:
        """Yield the value of each line; an empty line is none.

        Raises:
            LineRefused: a line is no JSON, or the file is none of lines.
            OSError: it cannot be read.
        """
        with _open_binary(self._path) as file:
            lines = json_lines(file, LINE_BYTES_MAX, are_objects=False)
            yield from (line.value for line in raise_refused(lines))


class CsvSource:
    """A file of comma-separated values; a row has texts by the names in the header.

    A cell that a row lacks at its end is an empty text. The source's `schema` gives types.
    """

    version = "1"

    def __init__(self, path: str | os.PathLike[str], *, delimiter: str = ",") -> None:
        self._path = path
        self._delimiter = delimiter

    @property
    def config(self) -> Mapping[str, Any]:
        """What a run records of it."""
        return {"path": str(self._path), "delimiter": self._delimiter}

    def __call__(self) -> Iterator[dict[str, str]]:
        """Yield each row below the header.

        Raises:
            SourceFileError: it is no table.
            LineRefused: it is no text, or its gzip is damaged.
            UnicodeDecodeError: it is not UTF-8.
            OSError: it cannot be read.
        """
        with _open_binary(self._path) as file:
            text = io.TextIOWrapper(plain_file(file), encoding="utf-8", newline="")
            reader = csv.reader(text, delimiter=self._delimiter, strict=True)
            try:
                yield from self._rows(reader)
            except csv.Error as error:
                raise self._error(reader.line_num, str(error)) from None

    def _rows(self, reader: Any) -> Iterator[dict[str, str]]:
        header: list[str] = next(reader, [])
        twice = {name for name in header if header.count(name) > 1}
        if twice:
            raise self._error(1, f"the header names {min(twice)!r} twice")
        for cells in reader:
            if len(cells) > len(header):
                problem = f"{len(cells)} cells under {len(header)} names"
                raise self._error(reader.line_num, problem)
            if cells:
                yield dict(zip(header, cells + [""] * (len(header) - len(cells)), strict=True))

    def _error(self, line: int, problem: str) -> SourceFileError:
        return SourceFileError(f"{self._path}, line {line}: {problem}")


@contextmanager
def _open_binary(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    if str(path) == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with Path(path).open("rb") as file:
        yield file
