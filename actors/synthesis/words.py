"""The words and sentences of a text, as the model without a network cuts them.

Each pattern reads a character once, and returns to the interpreter after each word, sentence or
stretch of what is neither, so other threads go on in between.
"""

import re

_STRETCH = re.compile(r"([^.!?\n]++)[.!?]*+")
_WORD = re.compile(r"\W{0,4096}+(\w*+)")


def sentences(text: str) -> list[str]:
    """Return every stretch between full stops and ends of lines that is not blank, in order."""
    return [match[0].strip() for match in _STRETCH.finditer(text) if not match[1].isspace()]


def words(text: str) -> list[str]:
    """Return every run of letters, digits and underscores, in order."""
    return [word for match in _WORD.finditer(text) if (word := match[1])]
