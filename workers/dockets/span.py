"""Defines a stretch of a text, counted in Unicode code points as Python counts them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Where a stretch begins and how long it is, both in code points."""

    offset: int
    length: int

    def of(self, text: str) -> str:
        """Return the stretch of `text` that this span points at."""
        return text[self.offset : self.offset + self.length]
