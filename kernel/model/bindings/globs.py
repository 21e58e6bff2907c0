r"""Matches a path against the glob of a `source_path` selector, and defines its grammar (§13.8).

    glob    = segment *( "/" segment )
    segment = "**" / *item
    item    = "*" / "?" / "\" any / char
    any     = any character but "/" and U+0000
    char    = any character but "/" "*" "?" "\" "[" "]" "{" "}" and U+0000

A glob matches a whole path, case by case, code point by code point. A path is its segments between
the slashes; a leading slash is an empty first segment, in a glob as in a path.

1. `**` stands for any number of whole segments, none included: `a/**` matches `a` and `a/b/c`.
2. `*` stands for any number of characters of one segment, none included.
3. `?` stands for one character of a segment.
4. `\` takes the character behind it as it is.
5. Brackets and braces mean something in other globs and nothing here, so they are refused unless
   they are escaped. So is `**` as a part of a segment.

Matching takes time in proportion to the path's length times the glob's: whatever a `*` or a `**`
could match is tried once, at its leftmost place, and never again (atomic groups). The leftmost
place is enough, because it leaves the most of the path for what follows.
"""

import enum
import re
from dataclasses import dataclass, field

from kernel.values.errors import KernelError

GLOB_MAX = 512
"""The characters of a glob."""

_ESCAPE = "\\"
_RESERVED = frozenset("[]{}")


class Wildcard(enum.Enum):
    """A part of a glob that stands for more than itself."""

    ONE = "?"
    RUN = "*"
    DEEP = "**"


WildSegment = tuple[str | Wildcard, ...]
"""The characters and wildcards of a segment that has a wildcard."""

Segment = str | WildSegment | Wildcard
"""A literal segment, one with wildcards, or `Wildcard.DEEP`."""


class GlobInvalid(KernelError):
    """A glob breaks the grammar."""

    code = "binding_glob_invalid"


@dataclass(frozen=True, slots=True)
class Glob:
    """A glob that was read."""

    text: str
    segments: tuple[Segment, ...]
    _pattern: re.Pattern[str] | None = field(default=None, init=False, repr=False, compare=False)

    def matches(self, path: str) -> bool:
        """Tell whether the whole path matches."""
        pattern = self._pattern
        if pattern is None:
            pattern = re.compile(_regex(self.segments))
            object.__setattr__(self, "_pattern", pattern)
        return pattern.fullmatch(f"{path}/") is not None


def parse_glob(text: str) -> Glob:
    """Return the glob that a text spells.

    Raises:
        GlobInvalid: naming the segment and what is wrong with it.
    """
    if len(text) > GLOB_MAX:
        raise GlobInvalid(f"a glob has at most {GLOB_MAX} characters")
    segments: list[Segment] = []
    for number, spelled in enumerate(text.split("/"), 1):
        segment = _segment(spelled, number)
        if segment is Wildcard.DEEP and segments[-1:] == [Wildcard.DEEP]:
            continue  # any number of segments twice is any number of segments
        segments.append(segment)
    return Glob(text, tuple(segments))


def _segment(spelled: str, number: int) -> Segment:
    if spelled == Wildcard.DEEP.value:
        return Wildcard.DEEP
    items: list[str | Wildcard] = []
    characters = iter(spelled)
    for character in characters:
        if character == _ESCAPE:
            escaped = next(characters, None)
            if escaped is None:
                raise GlobInvalid(f"segment {number} ends in an escape of nothing")
            items.append(escaped)
        elif character in _RESERVED:
            raise GlobInvalid(f"segment {number}: {character} has to be escaped")
        elif character == Wildcard.RUN.value and items[-1:] == [Wildcard.RUN]:
            raise GlobInvalid(f"segment {number}: ** stands for whole segments alone")
        elif character in "*?":
            items.append(Wildcard(character))
        else:
            items.append(character)
    if "\x00" in items:
        raise GlobInvalid(f"segment {number} holds the character U+0000")
    literal = [item for item in items if isinstance(item, str)]
    return "".join(literal) if len(literal) == len(items) else tuple(items)


def _regex(segments: tuple[Segment, ...]) -> str:
    """Return the expression that a path matches once a slash ends each of its segments."""
    parts, block = list[str](), list[str]()
    deep = False
    for segment in segments:
        if segment is Wildcard.DEEP:
            parts.append(_block(block, deep=deep))
            block, deep = [], True
        else:
            block.append(_segment_regex(segment))
    if deep and not block:
        return "".join(parts) + r"(?:[^/]*+/)*+"
    # The last segments are as many as the path ends with, so a leftmost place is not enough.
    return "".join(parts) + (r"(?:[^/]*+/)*?" if deep else "") + "".join(block)


def _block(block: list[str], *, deep: bool) -> str:
    """Return the expression of the segments between two `**`, or before the first."""
    joined = "".join(block)
    return rf"(?>(?:[^/]*+/)*?{joined})" if deep and block else joined


def _segment_regex(segment: Segment) -> str:
    if isinstance(segment, str):
        return re.escape(segment) + "/"
    chunks = [""]
    for item in segment if isinstance(segment, tuple) else ():
        if item is Wildcard.RUN:
            chunks.append("")
        else:
            chunks[-1] += "[^/]" if isinstance(item, Wildcard) else re.escape(item)
    first, *later = chunks
    if not later:
        return first + "/"
    *middle, last = later
    runs = "".join(rf"(?>[^/]*?{chunk})" for chunk in middle if chunk)
    return rf"{first}{runs}(?>[^/]*{last}/)"
