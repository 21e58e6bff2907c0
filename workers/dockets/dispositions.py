"""Lists the words by which a court says what it did with what was asked."""

import re

DISPOSITIONS: tuple[tuple[str, str], ...] = (
    ("granted_in_part", r"(?:grant\w{0,4}|allow\w{0,3}|approv\w{0,3})\s{1,2}in\s{1,2}part|(?:partially|in\s{1,2}part)\s{1,2}grant\w{0,4}"),
    ("denied_as_moot", r"den(?:y|ied|ying|ies)\s{1,2}as\s{1,2}moot|(?:found|finding|is|are|deemed|rendered|as)\s{1,2}moot|moot\b"),
    ("granted", r"grant(?:ed|ing|s)\b|allow(?:ed|ing|s)\b|\bso\s{1,2}ordered\b(?=\W{0,3}stip)"),
    ("denied", r"den(?:y|ied|ying|ies)\b|disallow(?:ed|ing|s)\b"),
    ("sustained", r"sustain(?:ed|ing|s)\b"),
    ("overruled", r"overrul(?:ed|ing|es)\b"),
    ("approved", r"approv(?:ed|ing|es)\b|authoriz(?:ed|ing|es)\b"),
    ("confirmed", r"confirm(?:ed|ing|s)\b"),
    ("dismissed", r"dismiss(?:ed|ing|es)\b|dismissal\b"),
    ("withdrawn", r"(?:is|are|deemed|was|were|motion|-)\s{1,2}withdrawn|withdrawn\b"),
    ("stricken", r"stri(?:cken|king)\b"),
    ("vacated", r"vacat(?:ed|ing|es)\b|set(?:ting)?\s{1,2}aside"),
    ("converted", r"convert(?:ed|ing|s)\b"),
    ("discharged", r"discharg(?:ed|ing|es|e)\b"),
    ("affirmed", r"affirm(?:ed|ing|s)\b"),
    ("reversed", r"revers(?:ed|ing|es)\b"),
    ("remanded", r"remand(?:ed|ing|s)\b"),
    ("transferred", r"transferr(?:ed|ing)\b"),
    ("settled", r"settled\b"),
    ("continued", r"continu(?:ed|ing)\b|adjourned\b|reschedul(?:ed|ing)\b"),
    ("extended", r"extend(?:ed|ing|s)\b"),
    ("resolved", r"resolv(?:ed|ing|es)\b"),
    ("closed", r"clos(?:ed|ing)\b"),
    ("reopened", r"re-?open(?:ed|ing)\b"),
    ("reinstated", r"reinstat(?:ed|ing)\b"),
    ("shortened", r"shorten(?:ed|ing)\b"),
    ("appointed", r"appoint(?:ed|ing)\b"),
    ("admitted", r"admitt(?:ed|ing)\b"),
    ("waived", r"waiv(?:ed|ing)\b"),
    ("modified", r"modif(?:ied|ying)\b(?!\s{1,2}(?:on|text)\b)"),
    ("directed", r"(?:direct|requir)(?:ed|ing)\b"),
)  # fmt: skip

NOT_RULINGS = frozenset({"continued", "extended", "closed", "directed", "admitted", "appointed"})
"""Dispositions that leave a motion as it stands, where only the minutes of a hearing say them."""

ENDS_A_MOTION = frozenset(
    {
        *("granted", "granted_in_part", "denied", "denied_as_moot", "sustained", "overruled"),
        *("approved", "confirmed", "dismissed", "withdrawn", "stricken", "resolved", "settled"),
    }
)
"""Dispositions after which a motion no longer waits to be decided."""

DISPOSITION = re.compile(
    "|".join(rf"(?P<{name}>\b(?:{pattern}))" for name, pattern in DISPOSITIONS), re.IGNORECASE
)

_INTERIM = re.compile(
    r"[^.;]{0,60}\b(?:interim|emergency|consensual|provisional|temporary|partial)\b", re.IGNORECASE
)
"""How an order opens that leaves the motion open on which it is made."""

CLOSING_CONFIDENCE = 0.9
"""From here on a ruling closes the motion for what words alone are taken to mean."""


def rules_in_minutes(text: str) -> bool:
    """Tell whether the minutes of a hearing say that something was decided."""
    return any(match.lastgroup not in NOT_RULINGS for match in DISPOSITION.finditer(text))


def is_interim(description: str) -> bool:
    """Tell whether an order leaves the motion open on which it is made."""
    return _INTERIM.match(description) is not None
