"""Defines a rule, and the two ways of writing the pattern of one.

In a pattern a blank stands for any run of white space (courts use line breaks and no-break
spaces). All patterns ignore case and bound their gaps, so that no text makes them slow.
"""

import re
from dataclasses import dataclass

from workers.dockets.span import TextSpan

MINUTES = r"(?:minute entry for [^.:]{0,120}[.:]\s*)?"
"""How a courtroom clerk may open the minutes of a hearing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the text of an entry is read, in some kinds of court."""

    name: str
    court_kinds: tuple[str, ...]
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None
    """Where this is found anywhere in the description, the reading is silent."""

    def words(self, text: str) -> TextSpan | None:
        """Return the words of a description that it reads, None where it is silent."""
        match = self.pattern.search(text)
        if match is None or (self.unless is not None and self.unless.search(text)):
            return None
        start, end = match.span("act")
        return TextSpan(start, end - start)


@dataclass(frozen=True, slots=True)
class Rule(Reading):
    """A reading of an entry's text that makes some postures impossible."""

    strikes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Elimination:
    """The postures that one rule strikes because of one entry, and the words that justify it."""

    rule: str
    strikes: tuple[str, ...]
    span: TextSpan
    reason: str


def all_but(postures: tuple[str, ...], *kept: str) -> tuple[str, ...]:
    """Return the postures but for those that are kept."""
    return tuple(posture for posture in postures if posture not in kept)


def opens_with(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for how an entry opens; the words it matched are the group `act`.

    What a clerk docketed stands first, and what it refers to stands later, so a pattern that must
    open the entry does not take a reference ("BNC Certificate of Mailing - Order Dismissing
    Case") for the act itself.
    """
    return re.compile(rf"^\W*(?P<act>{_blanks(pattern)})", re.IGNORECASE)


def says(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that may be found anywhere in an entry, but not within a word.

    "Account" does not say `count`, nor "dismissing" `missing`. A word that the pattern begins may
    go on (`vacat` is found in "vacated"); where it must not, the pattern says so.
    """
    return re.compile(rf"(?:(?<!\w)|(?!\w))(?:{_blanks(pattern)})", re.IGNORECASE)


def _blanks(pattern: str) -> str:
    return pattern.replace(" ", r"(?>\s+)")
