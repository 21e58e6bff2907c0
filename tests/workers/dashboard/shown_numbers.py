"""Keeps which numbers the pages show, each by its template and its expression there.

Cells that are filled anew while the overview is looked at have one template for many: they go by
their own names, those of a list of counts with the list's.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

from jinja2 import Environment
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

from workers.dashboard.pages.page import templates

NUMBER = re.compile(r"\d{1,3}(?:\u202f\d{3})+|\d{1,9}")
"""More digits in a row are those of a hash that happens to have no letter."""


COUNTED = re.compile(rf"({NUMBER.pattern})( of ({NUMBER.pattern}))?( items| slots)?")
"""What a cell says that has a count, or a count and that of which it is a part."""

HOW = re.compile(r"(\|(shown|exactly|string|breakable|bounded|copyable|number)(\(\d+\))?)+$")
"""Filters that change how a value is written, and not which it is."""

OF_SUMS = re.compile(r"^\((.*)\)\|number$")
"""A sum that is written as a number."""

OF_CELLS = ("rows: ", "overview: page")
"""Beginnings of the expressions that write cells."""


class Shown(defaultdict[str, list[int]]):
    """The numbers of each place, in the order in which they were written."""

    def __init__(self) -> None:
        super().__init__(list)
        self.plain = set[str]()
        """The places of numbers whose thousands nobody sets apart."""


class _Cells(HTMLParser):
    """Reads the numbers of the cells of an overview that have one, and of those like `3 of 4`."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = Shown()
        self._list = self._cell = ""
        self._is_template = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self._is_template = self._is_template or tag == "template"
        self._list = named.get("data-list") or self._list
        self._cell = named.get("data-f") or ""

    def handle_endtag(self, _: str) -> None:
        self._cell = ""

    def handle_data(self, data: str) -> None:
        if self._cell and not self._is_template and COUNTED.fullmatch(data.strip()):
            name = f"{self._list}.count" if self._cell == "count" else self._cell
            numbers = (int(each.replace("\u202f", "")) for each in NUMBER.findall(data))
            self.shown[f"cell: {name}"] += numbers


def numbers_of_cells(html: str) -> Shown:
    """Return the numbers of the cells of an overview."""
    cells = _Cells()
    cells.feed(html)
    cells.close()
    return cells.shown


class _Numbers(Extension):
    """Sends what each `{{ … }}` writes through a filter that is told where it stands."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        name = (stream.name or "").removeprefix("pages/").removesuffix(".html")
        expression: list[str] | None = None
        for token in stream:
            if token.type == "variable_begin":
                expression = []
                yield token
                yield Token(token.lineno, "lparen", "(")
            elif token.type == "variable_end" and expression is not None:
                yield Token(token.lineno, "rparen", ")")
                yield Token(token.lineno, "pipe", "|")
                yield Token(token.lineno, "name", "number_shown")
                yield Token(token.lineno, "lparen", "(")
                counted = OF_SUMS.sub(r"\1", "".join(expression))
                yield Token(token.lineno, "string", f"{name}: {HOW.sub('', counted)}")
                yield Token(token.lineno, "rparen", ")")
                yield token
                expression = None
            else:
                if expression is not None:
                    spaced = token.type == "name" and expression and expression[-1][-1:].isalnum()
                    is_word = token.value in ("if", "else", "and", "or", "in", "not", "is")
                    value = repr(token.value) if token.type == "string" else str(token.value)
                    expression.append(f" {value}" if spaced or is_word else value)
                yield token


@contextmanager
def shown_numbers() -> Iterator[Shown]:
    """Collect the numbers of every page that is made in a block."""
    environment: Environment = templates()
    shown = Shown()

    def number_shown(value: Any, place: str) -> Any:
        text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
        if NUMBER.fullmatch(text) and not place.startswith(OF_CELLS):
            shown[place].append(int(text.replace("\u202f", "")))
            if isinstance(value, int):
                shown.plain.add(place)
        return value

    environment.filters["number_shown"] = number_shown
    environment.add_extension(_Numbers)
    loaded, environment.cache = environment.cache, {}
    try:
        yield shown
    finally:
        environment.extensions.pop(_Numbers.identifier)
        environment.cache = loaded
        del environment.filters["number_shown"]
