"""Finds the numbers by which an entry names other documents of its docket.

A number counts where a word of the court's stands before it ("Related Doc # 30", "granting 12
Motion", "re: 31"). Numbers of attachments, exhibits, chapters, claims and cases do not. The words
behind a number, up to the next one, describe the document; a number that stands within the brackets
of another's description is that document's reference and not the entry's own.

Every repetition is bounded and every search begins at a word of the court's, so that the cost is
that of the text's length.
"""

import re
from dataclasses import dataclass

from workers.dockets.motion_types import MOTION_WORD, TITLE_CHARS_MAX, type_of_title

REFERENCES_MAX = 64
GROUP_CHARS_MAX = 4_000
NUMBER_DIGITS_MAX = 11
_BEFORE_CHARS = 80

_DOCUMENT_WORDS = (
    r"(?:adversary|affidavit|affirmation|agreed|amend|answer|appeal|appearance|application|assume"
    r"|bill|bnc|brief|certificat|ch\b|chapter|complaint|corrected|counterclaim|cross|debtor|declaration"
    r"|defendant|deficiency|disclosure|discharge|document|emergency|ex ?parte|exhibit|expedited|fifth"
    r"|final|first|fourth|generic|hearing|indictment|information|interim|involuntary|joinder|joint"
    r"|judgment|letter|limited|list|meeting|memo|minute|modified|monthly|motion|notice|objection"
    r"|omnibus|opinion|opposition|oral|order|petition|plaintiff|plan|plea|post|proof|proposed|reaff"
    r"|receipt|redact|relief|reply|report|request|response|schedule|scheduling|seal|second|set"
    r"|statement|status|stipulat|substitut|summar|summons|supplement|support|text|third|transcript"
    r"|transfer|trustee|unopposed|usca|verif|voluntary|withdraw|abstract|administrative|agency)"
)
_NUMBER = rf"#?\s{{0,2}}(\d{{1,{NUMBER_DIGITS_MAX}}})(?![\d\-/:.]\d|\d|[%°]|(?:st|nd|rd|th)\b)"

# What stands before a number, and whether the entry relates to the document so named.
CUES: tuple[tuple[str, str, bool], ...] = (
    (
        "related document",
        (
            r"\brelate[ds]?\s{1,3}(?:to\s{1,3})?(?:motions?|documents?|docs?|dockets?|document)\.?"
            r"(?:\(s\)|s\(s\)|\(\w\))?(?:\s{1,2}(?:no|nos|number)s?)?\.?:?\s{0,3}"
        ),
        True,
    ),
    ("re", r"\b(?:in\s)?re(?:garding)?:?\.?\s{0,2}(?:related\s{1,3}document\(s\)\s{0,3})?", True),
    (
        "ruling",
        (
            r"\b(?:grant|den[yi]|allow|approv|overrul|sustain|strik|terminat|resolv|adopt|tak|withdraw"
            r"|vacat|dismiss|moot|find|continu|reset|reject|continuing|extend|modif|accept)\w{0,6}"
            r"(?:\s{1,2}(?:in|part|and|denying|granting|as|moot|without|with|prejudice|under|advisement"
            r"|the|defendants?'?|plaintiffs?'?)){0,7}\s{1,2}"
        ),
        True,
    ),
    (
        "preposition",
        (
            r"\b(?:to|as\sto|on|of|by|for|regarding|support|opposition|and|response\sto|docket|from)"
            r"\s{1,2}\(?"
        ),
        True,
    ),
    (
        "document number",
        (
            r"\b(?:docs?|documents?|dkts?|dckt|docket|d\.?e|ecf|pldg|pleading|docket\s{1,2}entry|filing"
            r"|entry|item)\.?\s{0,2}(?:no|nos|num|number|entry)?s?\.?:?\s{0,2}"
        ),
        True,
    ),
    ("bracket", r"\b(?:motion|application|petition|brief|request)\b[^\[\].;]{0,60}\[", True),
    (
        "title",
        r"\b(?:motion|complaint|application|indictment|stipulation|findings|report)\b[^.;()\[\]\d:]{0,80}?[,\s]\s?",
        True,
    ),
    ("sentence", r"[.:;]\s{1,2}", True),
)

_BARE_CUES = frozenset({"related document", "document number"})
"""Cues after which a number needs no description to be one of a document."""

_CUE = re.compile(
    "|".join(
        rf"(?P<{name.replace(' ', '_')}>{pattern})(?=#?\s{{0,2}}\d)" for name, pattern, _ in CUES
    ),
    re.IGNORECASE,
)
_RELATES = {name.replace(" ", "_"): relates for name, _, relates in CUES}
_BARE = frozenset(name.replace(" ", "_") for name in _BARE_CUES)
_AT_NUMBER = re.compile(_NUMBER)
_NEXT_BARE = re.compile(
    rf"(?:\s{{0,2}}[,;&]\s{{0,2}}(?:and\s{{1,2}})?|\s{{1,2}}and\s{{1,2}}){_NUMBER}"
)
_NEXT_DESCRIBED = re.compile(
    rf"(?:[,;]\s{{0,2}}(?:and\s{{1,2}})?|\)\s{{0,2}},?\s{{0,2}}){_NUMBER}(?=\s{{1,2}}{_DOCUMENT_WORDS})",
    re.IGNORECASE,
)
_DESCRIBED = re.compile(rf"\s{{1,2}}\(?\[?{_DOCUMENT_WORDS}", re.IGNORECASE)
_ENDED_OR_LIST = re.compile(r"\s{0,2}(?:[),;\].&]|and\b|$)")
_TITLED = re.compile(r"\s{1,2}(?:\.|(?:filed|by|as\s{1,2}to|is|are)\b)", re.IGNORECASE)
_MOTION_NEXT = re.compile(r"\s{1,2}(?:\w{1,20}\s{1,2}){0,2}(?:motion|application)\b", re.IGNORECASE)
_BEHIND = {"title": _TITLED, "sentence": _MOTION_NEXT}
"""Cues after which a number is one of a document only where this follows it."""

_MEETING = re.compile(r"\s{0,2}(?:\(a\))?\s{0,2}meeting", re.IGNORECASE)
_ATTACHMENTS = re.compile(r"\(attachments?:", re.IGNORECASE)
_ASIDE = re.compile(r"(?i)(?:\bsee|\bmain|order dated [\d/]{6,10},)\s{0,2}[a-z.]{0,12}\s{0,2}#?\Z")
_SENTENCE_OR_LINE_END = re.compile(r"\.\s|\n|$")
_BRACKET = re.compile(r"[()]")
_LIST_MARK = re.compile(r"[(),;]")
_NO_DOCUMENT = re.compile(
    r"(?i)(?:chapter|claim|rule|exhibit|count|(?<!in )part|section|suite|room|ecf|fre|amendment"
    r"|NIBS entry number:?)\s{0,2}#?\Z"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A document of the docket that an entry names by its number."""

    number: str
    start: int
    end: int
    """Where the number stands in the text, without the sign before it."""
    cue: str
    relates: bool
    """Whether the entry itself relates to the document, and not one that it describes."""
    motion_type: str | None
    """What the motion asks for that the words behind the number describe, where they do."""
    described_until: int
    """Where the words behind the number end that describe the document; `end` without any."""


def references(text: str) -> list[Reference]:
    """Return the documents that a text names, in the order of the text, `REFERENCES_MAX` at most."""
    named: list[Reference] = []
    own_until = 0
    position = 0
    attachments = _ATTACHMENTS.search(text)
    while len(named) < REFERENCES_MAX:
        cue = _CUE.search(text, position)
        if cue is None:
            break
        if attachments is not None and cue.start() > attachments.start():
            position = max(cue.start() + 1, _group_end(text, attachments.start() + 1))
            attachments = _ATTACHMENTS.search(text, position)
            continue
        number = _AT_NUMBER.match(text, cue.end())
        name = cue.lastgroup or ""
        position = max(cue.end(), cue.start() + 1)
        if number is None or not _is_document(text, name, number):
            # A cue may stand within the words of another.
            position = _after_first_word(text, cue)
            continue
        nested = cue.start() < own_until
        group_end = _group_end(text, cue.start())
        numbers = _numbers(text, number, group_end)
        for index, match in enumerate(numbers):
            next_at = numbers[index + 1].start() if index + 1 < len(numbers) else group_end
            named.append(_reference(text, match, next_at, name, nested=nested))
        if not nested and text.startswith(")", group_end):
            own_until = max(own_until, group_end)
        position = numbers[-1].end(1)
    return named[:REFERENCES_MAX]


def _after_first_word(text: str, cue: re.Match[str]) -> int:
    blank = text.find(" ", cue.start(), cue.end())
    return blank if blank > cue.start() else max(cue.end(), cue.start() + 1)


def _is_document(text: str, cue: str, number: re.Match[str]) -> bool:
    if _NO_DOCUMENT.search(text, max(0, number.start() - 24), number.start()):
        return False
    end = number.end(1)
    if number[1] == "341" and _MEETING.match(text, end):
        return False
    if cue == "bracket":
        return len(number[1]) <= 4
    if cue in _BEHIND:
        return _BEHIND[cue].match(text, end) is not None
    if cue in _BARE or _DESCRIBED.match(text, end) is not None:
        return True
    if cue == "ruling":
        return _TITLED.match(text, end) is not None
    return cue == "re" and len(number[1]) <= 5 and _ENDED_OR_LIST.match(text, end) is not None


def _group_end(text: str, start: int) -> int:
    """Return where the brackets close in which `start` stands; that of a sentence without any."""
    limit = min(len(text), start + GROUP_CHARS_MAX)
    opened = text.rfind("(", max(0, start - 24), start)
    if opened < 0 or ")" in text[opened:start]:
        stop = _SENTENCE_OR_LINE_END.search(text, start, limit)
        return stop.start() if stop else limit
    depth = 0
    for bracket in _BRACKET.finditer(text, opened, limit):
        depth += 1 if bracket[0] == "(" else -1
        if depth == 0:
            return bracket.start()
    return limit


def _numbers(text: str, first: re.Match[str], group_end: int) -> list[re.Match[str]]:
    """Return the numbers of a list: bare ones in a row, and described ones up to the group's end."""
    numbers = [first]
    while len(numbers) < REFERENCES_MAX:
        end = numbers[-1].end(1)
        following = _NEXT_BARE.match(text, end)
        if following is None or not _ends_or_is_described(text, following.end(1)):
            following = _described_after(text, end, group_end)
        if following is None:
            break
        numbers.append(following)
    return numbers


def _ends_or_is_described(text: str, end: int) -> bool:
    return bool(_ENDED_OR_LIST.match(text, end) or _DESCRIBED.match(text, end))


def _described_after(text: str, start: int, group_end: int) -> re.Match[str] | None:
    """Return the next number of a list that has a description, outside of inner brackets."""
    depth = 0
    position = start
    while position < group_end:
        mark = _LIST_MARK.search(text, position, group_end)
        if mark is None:
            return None
        if depth == 0 and mark[0] in ",;":
            number = _NEXT_DESCRIBED.match(text, mark.start(), group_end)
            if number is not None:
                return number
        depth = max(0, depth + {"(": 1, ")": -1}.get(mark[0], 0))
        position = mark.end()
    return None


def _reference(
    text: str, number: re.Match[str], next_at: int, cue: str, *, nested: bool
) -> Reference:
    start, end = number.span(1)
    described = _DESCRIBED.match(text, end) is not None
    if described:
        words = (end, min(max(end, next_at), end + TITLE_CHARS_MAX))
    elif cue in {"document_number", "bracket", "title"}:
        words = (max(0, start - _BEFORE_CHARS), start)
    else:
        words = None
    motion = MOTION_WORD.search(text, *words) if words else None
    aside = _ASIDE.search(text, max(0, start - 40), start)
    return Reference(
        number[1],
        start,
        end,
        cue,
        relates=_RELATES[cue] and not nested and aside is None,
        motion_type=type_of_title(text, motion.start(), words[1]) if motion and words else None,
        described_until=max(end, next_at) if described else end,
    )
