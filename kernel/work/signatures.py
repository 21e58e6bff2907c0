"""Names what attempts have in common that failed for the same reason.

A signature is the class of the error, the innermost function of the user's own code, without its
line, and the message with what differs from one time to the next masked: digits, hexadecimal
numbers, UUIDs and quoted parts.
"""

import re
from typing import Final

from kernel.work.reports import SIGNATURE_CHARS_MAX

MASKED_CHARS_MAX: Final = 512
"""Of a message, as many characters are looked at."""

_QUOTED: Final = re.compile(r"'[^'\n]*+'|\"[^\"\n]*+\"|`[^`\n]*+`")
_VARYING: Final = re.compile(
    r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
    r"|0[xX][0-9A-Fa-f]++|(?<![0-9A-Za-z])[0-9A-Fa-f]{6,}+(?![0-9A-Za-z])|[0-9]++"
)


def mask_varying(message: str) -> str:
    """Return the first line of a message, with what differs from time to time as marks."""
    line = message.strip().partition("\n")[0][:MASKED_CHARS_MAX]
    return _VARYING.sub(_mark, _QUOTED.sub("'#'", line))


def _mark(varying: re.Match[str]) -> str:
    """Return a mark, or the text itself where it is a word of the letters a to f."""
    return varying[0] if varying[0].isalpha() else "#"


def signature_of(error_class: str, frame: str, message: str) -> str:
    """Return the signature of an error that was raised in a function, with its message."""
    place = f" in {frame}" if frame else ""
    reason = mask_varying(message)
    signature = f"{error_class}{place}: {reason}" if reason else f"{error_class}{place}"
    return signature[:SIGNATURE_CHARS_MAX].replace("\x00", "\ufffd")
