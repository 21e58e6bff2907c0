"""Reads `deploy/promises.md`: what the documents promise of bounds and times, and what proves it.

A promise is some words of a document with a figure in them. They are looked up as they stand, so
whoever changes the figure changes the table, and the table names the constant and the test.
"""

import importlib
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from workers.environment.settings import settings_table

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "deploy" / "promises.md"
WRITTEN_BY_A_PROGRAM = {"kernel/algebra/REFERENCE.md", "workers/api/REFERENCE.md"}
"""Tables of the code itself, compared with it by tests of their own."""

_FIRST = "one two three four five six seven eight nine ten eleven twelve"
_WORDS = {word: number for number, word in enumerate(_FIRST.split(" "), start=1)}
_WORDS |= {"sixteen": 16, "twenty": 20, "thirty": 30}
_SECONDS = {"ms": 0.001, "s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_SECONDS |= {"day": 86_400, "week": 7 * 86_400}
_SIZES = {"byte": 1, "character": 1, "kB": 1000, "MB": 10**6, "KiB": 1 << 10, "MiB": 1 << 20}
_UNITS = _SECONDS | _SIZES | {"year": 365.25 * 86_400}
"""Seconds or bytes of each; years are whole days (`quantities`)."""

_SUFFIXES = {
    "_MS": 0.001,
    "_US": 1e-6,
    "_MINUTES": 60,
    "_HOURS": 3600,
    "_DAYS": 86_400,
    "_MIB": 1 << 20,
}
"""What a constant counts, by the end of its name; a name without one counts seconds or pieces."""

_COUNT = rf"(?:\d+\^\d+|\d[\d,.]*\d|\d|{'|'.join(sorted(_WORDS, key=len, reverse=True))})"
_NUMBER = rf"(?:{_COUNT}|an?)"
_UNIT = rf"(?:{'|'.join(sorted(_UNITS, key=len, reverse=True))})s?"
_COUNTED = (
    "items|messages|entries|rows|requests|units|jobs|queues|schedules|calls|times|connections|"
    "slots|notes|lines|streams|elements|provenances|nodes|tokens|operations|envelopes|cause ids|"
    "in one|of one|of a"
)
QUANTITY = re.compile(rf"(?<![\w.,:/#-])({_NUMBER})(?:[ -]({_UNIT}))?(?![\w^])")
FIGURE = re.compile(
    rf"(?<![\w.,:/#-])(?:{_NUMBER}[ -]{_UNIT}(?![\w/-])|\d[\d,]* (?:{_COUNTED})\b"
    rf"|(?:at most|at least|more than|up to|within|beyond) (?:{_COUNT}\b|`)"
    rf"|{_COUNT} (?:at most|at once|at the same time)\b)",
    re.IGNORECASE,
)
"""What looks like a bound or a time: a number with a unit, "at most N", "N at once"."""


class Promise(BaseModel):
    """A row of the table."""

    model_config = ConfigDict(frozen=True)

    words: str
    """As they stand in the document."""

    document: str
    constants: str
    """Constants (`module:NAME`) and settings, of which sums and products are a figure; or none."""

    test: str


def documents() -> list[str]:
    """Return the paths of the documents that are held to the table."""
    paths = [ROOT / "README.md", *(ROOT / "deploy").glob("*.md")]
    for folder in ("kernel", "actors", "queues", "workers"):
        paths += (ROOT / folder).rglob("README.md")
    paths.append(ROOT / "kernel" / "glossary.md")
    paths = [path for path in paths if path != TABLE and path.parent.name != "decisions"]
    names = {path.relative_to(ROOT).as_posix() for path in paths}
    return sorted(names - WRITTEN_BY_A_PROGRAM)


def promises() -> list[Promise]:
    """Return the rows of the table of promises, in their order."""
    fields = list(Promise.model_fields)
    rows = _rows("Promises")
    return [Promise.model_validate(dict(zip(fields, row, strict=True))) for row in rows]


def settings() -> dict[str, tuple[str, str]]:
    """Return the rows of the table of settings: default and test by name."""
    return {name: (default, test) for name, default, test in _rows("Settings")}


def figures_that_promise_nothing() -> list[tuple[str, str]]:
    """Return words with a figure that promise nothing, each with its document."""
    return [(words, document) for words, document in _rows("Figures that promise nothing")]


def _rows(heading: str) -> list[list[str]]:
    part = TABLE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    assert lines, f"no table under {heading}"
    return [[cell.strip().strip("`") for cell in line[1:-1].split(" | ")] for line in lines[2:]]


@cache
def text_of(document: str) -> str:
    """Return a document."""
    return (ROOT / document).read_text()


def uncovered(document: str, covering: list[str]) -> Iterator[str]:
    """Yield each figure of a document, with what stands around it, that none of the words hold."""
    text = text_of(document)
    spans = [
        (match.start(), match.end())
        for words in covering
        for match in re.finditer(re.escape(words), text)
    ]
    for figure in FIGURE.finditer(text):
        if not any(start <= figure.start() and figure.end() <= end for start, end in spans):
            yield text[max(0, figure.start() - 60) : figure.end() + 60].replace("\n", " ")


def quantities(words: str) -> set[float]:
    """Return the figures of some words: seconds, bytes or pieces."""
    figures = set()
    for number, unit in QUANTITY.findall(words):
        factor = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"), 1)
        quantity = round(_count(number.lower()) * factor, 6)
        if unit.startswith("year"):
            quantity = math.ceil(quantity / 86_400) * 86_400
        figures.add(quantity)
    return figures


def _count(number: str) -> float:
    if number in ("a", "an"):
        return 1.0
    if number in _WORDS:
        return float(_WORDS[number])
    base, _, power = number.replace(",", "").partition("^")
    return float(base) ** int(power or 1)


def value_of(expression: str) -> float:
    """Return what constants come to: a sum of products, in seconds, bytes or pieces."""
    terms = [
        math.prod(_constant(name.strip(" `")) for name in term.split(" * "))
        for term in expression.split(" + ")
    ]
    return round(sum(terms), 6)


def _constant(name: str) -> float:
    if name.startswith("ROTULUS_"):
        value: Any = {row[0]: row[1] for row in settings_table()}[name]
    else:
        module, _, path = name.partition(":")
        value = importlib.import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    name = name.removesuffix("_MAX")
    factor = next((factor for end, factor in _SUFFIXES.items() if name.endswith(end)), 1)
    return float(value) * factor
