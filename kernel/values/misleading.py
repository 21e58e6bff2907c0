"""Names the characters that make a text read as what it is not, and shows a text without them.

Control characters, turns of direction, ends of lines that only some programs know, and signs that
have no width; no joiners of scripts and emoji. Scripts of pages have the same characters
(`workers/dashboard/static/verification.js`, `workers/publication/exhibit/exhibit.mjs`).
"""

import re
from typing import Final

_RANGES: Final = (
    *("\x00-\x08", "\x0b-\x1f", "\x7f-\x9f"),
    *("\u061c", "\u200e\u200f", "\u202a-\u202e", "\u2066-\u2069"),
    *("\u2028\u2029", "\u180e", "\u200b", "\u2060-\u2064", "\ufeff", "\ud800-\udfff"),
)
MISLEADING: Final = re.compile(f"[{''.join(_RANGES)}]")
"""One character that misleads; a tab and the end of a line are none."""

LAST_CONTROL: Final = "\x9f"
REPLACEMENT: Final = "\ufffd"


def visible(text: str) -> str:
    """Return a text, as long as it was, with a replacement for each character that misleads."""
    return text if text.isascii() and text.isprintable() else MISLEADING.sub(REPLACEMENT, text)
