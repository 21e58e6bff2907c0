"""Fixes a page to a row of the log: its links lead to the same row, and nothing of it acts."""

import re
from html import escape
from typing import Final

_FORM: Final = re.compile(r"<form\b")
_LINK: Final = re.compile(r'href="(\.[^"?#]*)(\?[^"#]*)?(#[^"]*)?"')
_FIXED: Final = re.compile("[?;]at=[0-9]")
_FILES: Final = ("/static/", "/docs", "/openapi.json")


def fixed_at(html: str, sequence: int) -> str:
    """Return a page without its forms, every link of which leads to the same row.

    Our templates escape what they show, so no text of a record can look like either.
    """

    def keep(link: re.Match[str]) -> str:
        path, query, fragment = link[1], link[2] or "", link[3] or ""
        if any(name in path for name in _FILES) or _FIXED.search(query):
            return link[0]
        return f'href="{path}{query}{escape("&") if query else "?"}at={sequence}{fragment}"'

    return _LINK.sub(keep, _without_forms(html))


def _without_forms(html: str) -> str:
    first, *others = _FORM.split(html)
    return first + "".join(rest.partition("</form>")[2] for rest in others)
