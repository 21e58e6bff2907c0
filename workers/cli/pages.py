"""Reads the pages of this release, and makes HTML of them.

A page is a Markdown file, named by its path in the repository. An installation has the same paths
below its package, so that links lead to the same places. Records of decisions and of rulings are
for who changes Rotulus and are no pages.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from html import escape
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Final
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[2]
FRONT: Final = "deploy/guides/README.md"
FOLDERS: Final = ("deploy", "kernel", "queues", "actors", "workers")
PICTURES: Final = {".png": "image/png", ".svg": "image/svg+xml"}

_DECISIONS: Final = frozenset({"decisions", "rulings.md"})
_NOT_OF_SLUG: Final = re.compile(r"[^\w\- ]")
_STYLE: Final = (
    "body{max-width:52rem;margin:auto;padding:1rem;font:1rem/1.5 system-ui,sans-serif}"
    "pre{overflow-x:auto;padding:.6rem;background:#8882}table{border-collapse:collapse}"
    "td,th{border:1px solid #8886;padding:.2rem .5rem;text-align:left;vertical-align:top}"
    "img{max-width:100%}nav{margin-bottom:1rem}:root{color-scheme:light dark}"
)
_PARSER: Final = MarkdownIt("commonmark", {"html": False}).enable("table")


class PageUnknown(Exception):
    """Says that there is no such page, and which ones may have been meant."""

    code = "page_unknown"

    def __init__(self, name: str) -> None:
        near = get_close_matches(name, map(name_of, paths()), n=3, cutoff=0.5)
        meant = f"; {' or '.join(near)} may be meant" if near else ""
        super().__init__(f"{name} is no page, or several{meant}; `rotulus docs --list` lists them")


@cache
def paths() -> tuple[str, ...]:
    """Return the path of every page, in their order."""
    files = [ROOT / FRONT, *sorted(ROOT.glob("*.md"))]
    files += [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.md"))]
    names = (path.relative_to(ROOT) for path in files)
    return tuple(dict.fromkeys(n.as_posix() for n in names if _DECISIONS.isdisjoint(n.parts)))


def name_of(path: str) -> str:
    """Return what a page is called in a terminal: its path without what all of them have."""
    return path.removesuffix(".md").removesuffix("/README")


def path_of(name: str) -> str:
    """Return the path of the page that a name means: its path, or the end of one alone.

    Raises:
        PageUnknown: none, or several.
    """
    wanted = name_of(name.strip("/"))
    by_name = {name_of(path): path for path in paths()}
    ends = [path for known, path in by_name.items() if f"/{known}".endswith(f"/{wanted}")]
    if wanted not in by_name and len(ends) != 1:
        raise PageUnknown(name)
    return by_name.get(wanted) or ends[0]


def text_of(path: str) -> str:
    """Return a page as it is written."""
    return (ROOT / path).read_text("utf-8")


def title_of(path: str) -> str:
    """Return the title of a page."""
    first = text_of(path).partition("\n")[0]
    return first.removeprefix("# ")


def picture_of(path: str) -> tuple[str, bytes] | None:
    """Return the type and the bytes of a picture of the pages; None where there is no such."""
    place, kind = ROOT / path, PICTURES.get(PurePosixPath(path).suffix)
    is_ours = path.startswith("deploy/pictures/") and normpath(path) == path
    return (kind, place.read_bytes()) if kind and is_ours and place.is_file() else None


def html_of(path: str) -> str:
    """Return a page as HTML; what leads to no page is a text without a link."""
    tokens = _PARSER.parse(text_of(path))
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "heading_open":
            before.attrSet("id", slug_of(token.content))
        _close_dead_links(token.children or (), path)
    return _document(title_of(path), _PARSER.renderer.render(tokens, _PARSER.options, {}))


def contents_html() -> str:
    """Return the list of all pages as HTML."""
    rows = (
        f'<li><a href="/{escape(path)}">{escape(name_of(path))}</a>: {escape(title_of(path))}</li>'
        for path in paths()
    )
    return _document("Pages", f"<h1>Pages</h1><ul>{''.join(rows)}</ul>")


def slug_of(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return _NOT_OF_SLUG.sub("", heading.lower()).replace(" ", "-")


def _close_dead_links(tokens: Sequence[Token], path: str) -> None:
    for token in tokens:
        if token.type != "link_open":
            continue
        target = urlsplit(str(token.attrGet("href")))
        beside = PurePosixPath(path).parent / unquote(target.path)
        place = normpath(beside if target.path else path)
        if target.scheme:
            token.attrSet("rel", "noreferrer")
        elif place in paths():
            fragment = f"#{target.fragment}" if target.fragment else ""
            token.attrSet("href", f"/{place}{fragment}")
        else:
            token.attrs.pop("href")


def _document(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f'<nav><a href="/">Guides</a> · <a href="/contents">All pages</a></nav>{body}</html>'
    )
