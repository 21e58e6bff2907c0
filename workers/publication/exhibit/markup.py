"""Writes HTML exactly as browsers write a parsed document, so that a page can hash itself.

A browser that has parsed the text gives it back, byte for byte, as `outerHTML`: attributes stand in
double quotes, text is escaped where it must be and nowhere else, and no blanks stand between the
parts of the document. A page that was changed after it was written gives another text back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kernel.values.misleading import visible

VOID: Final = frozenset({"meta", "br", "input"})
"""Elements that have no end."""

_TEXT: Final = {"&": "&amp;", "\u00a0": "&nbsp;", "<": "&lt;", ">": "&gt;"}
_ATTRIBUTE: Final = _TEXT | {'"': "&quot;"}


@dataclass(frozen=True, slots=True)
class Element:
    """An element with its attributes and what is in it, text among elements."""

    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple["Element | str", ...] = ()


@dataclass(frozen=True, slots=True)
class Raw(Element):
    """A script or a style, whose text stands as it is and has no end of itself in it."""


def e(name: str, /, *children: Element | str, **attributes: str) -> Element:
    """Return an element; `data_x` is the attribute `data-x`, `class_` the attribute `class`."""
    named = ((each.rstrip("_").replace("_", "-"), value) for each, value in attributes.items())
    return Element(name, tuple(named), children)


def markup(element: Element) -> str:
    """Return an element as text."""
    return "".join(_pieces(element))


def _pieces(element: Element) -> Iterator[str]:
    yield f"<{element.name}"
    for name, value in element.attributes:
        yield f' {name}="{_escape(value, _ATTRIBUTE)}"'
    yield ">"
    if element.name in VOID:
        return
    for child in element.children:
        if isinstance(child, Element):
            yield from _pieces(child)
        else:
            yield child if isinstance(element, Raw) else _escape(child, _TEXT)
    yield f"</{element.name}>"


def _escape(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in visible(text))
