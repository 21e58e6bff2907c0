"""Reads an entry field by field, each value with the stretch of the text that says it.

Eight fields are read: `party`, `judge`, `document_number` (every document that is named),
`relates_to` (those to which the entry itself relates), `motion`, `deadline`, `disposition` (only
of what a court entered) and `amount`. Rules are tables; a rule begins at a word that clerks use
and looks a bounded stretch ahead, so the cost is that of the text's length.

Nothing is concluded from one field about another: who filed a paper and which motion it answers
are read apart, and what the text does not say is listed as missing.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import date

from kernel.model.extraction_result import (
    ExtractedValue,
    ExtractionCompleteness,
    ExtractionResult,
    FailedField,
    FailureReason,
)
from workers.dockets.dispositions import DISPOSITION
from workers.dockets.filing_forms import FilingForm, filing_form
from workers.dockets.motion_types import (
    MOTION_WORD,
    OTHER_MOTION,
    TITLE_CHARS_MAX,
    type_of_title,
)
from workers.dockets.references import Reference, references

EXTRACTOR = "docket_entry_rules@1"
VALUES_OF_A_FIELD_MAX = 48
NAME_CHARS_MAX = 160
NAMES_CHARS_MAX = 640
"""How far a list of names goes on."""

COURTS_ROLES = frozenset({"disposing"})
"""Filing roles of which the court's own words are read as a disposition."""

FIELDS = (
    "party",
    "judge",
    "document_number",
    "relates_to",
    "motion",
    "deadline",
    "disposition",
    "amount",
)

# Words that stand before a party's name, and what the party then is to the entry.
PARTY_CUES: tuple[tuple[str, str], ...] = (
    ("represented", r"(?i:\bon\s{1,2}behalf\s{1,2}of:?\s{1,2})"),
    ("filer", r"(?i:\b(?:filed|fled|submitted|tendered)\s{1,2}(?:by|for):?\s{1,2})"),
    ("subject", r"(?i:\bas\s{1,2}to\s{1,2}(?:defendants?(?:\(s\))?\s{1,2})?)(?=[A-Z(])"),
    ("filer", r"(?i:(?<!signed\s)(?<!ordered\s)(?<!approved\s)(?<!successor\s)\bby\s{1,2}(?:and\s{1,2}between\s{1,2}|and\s{1,2}among\s{1,2})?)(?=[A-Z])"),
    ("adverse", r"(?i:\bagainst\s{1,2})(?=[A-Z])"),
    ("represented", r"(?i:\bfor\s{1,2}(?=(?:appell|petition|respond|plaintiff|defendant|debtor|creditor)\w{0,6}\s{1,2}))(?=\w{1,12}\s{1,2}[A-Z])"),
)  # fmt: skip

PARTY_ROLES: tuple[str, ...] = (
    "joint debtor", "debtor in possession", "debtors", "debtor", "creditors", "creditor",
    "chapter 7 trustee", "chapter 13 trustee", "u.s. trustee", "us trustee", "trustee",
    "plaintiffs", "plaintiff", "defendants", "defendant", "appellants", "appellant", "appellees",
    "appellee", "petitioners", "petitioner", "respondents", "respondent", "interested party",
    "attorney", "movant", "claimant", "assignee", "other professional", "interim trustee",
    "intervenor-defendant", "financial advisor", "accountant", "amicus", "pro hac vice",
)  # fmt: skip

NOT_PARTIES = (
    r"(?:judge|magistrate|(?-i:the\s)|the\s{1,2}(?:court|clerk|honorable)|this\s|clerk|bnc|order|court\b|email|mail|ecf|check|\d|publication"
    r"|chapter|hearing|motion|real\s|property|him|her\b|their|his\b|trustee\b\W|rule\b|epiq\b|usca"
    r"|senior\s|deputy|u\.?s\.?\s?mail|debtor\W{0,3}s\b|all\b|any\b|filing|count|service|notice"
    r"|fed\b|local\b|stipulation|separate|objection|merger|mail|and\b|\w{1,20}\s{1,2}judge|claims?\b|schedules?\b|summary\b)"
)
"""What stands where a party's name would, and is none."""

_DATE = (
    r"(?:(?P<m>\d{1,2})[/-](?P<d>\d{1,2})[/-](?P<y>\d{4}|\d{2})(?!\d)"
    r"|(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?\s{1,2}(?P<day>\d{1,2})"
    r"(?:st|nd|rd|th)?,?\s{1,2}(?P<year>\d{4}))"
)
_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s{1,2})?"

# Words that stand before a date by which something is to be done.
DEADLINE_CUES: tuple[tuple[str, str], ...] = (
    ("due", r"\bdue(?:\s{1,2}(?:by|on|date|before|no\s{1,2}later\s{1,2}than))?(?:\s{1,2}is)?:?\s{0,3}"),
    ("deadline", r"\bdeadlines?\b(?:\s{1,2}(?:is|are|set|for|of|due|by|extended|to|on|date)){0,4}:?\s{0,3}"),
    ("objection date", r"\bobjection\s{1,2}date\s{1,2}is\s{1,2}"),
    ("last day", r"\blast\s{1,2}day\s{1,2}(?:to|for)\s[^.;]{0,80}?(?:is|:|by|on|set\s{1,2}for)?\s{1,2}"),
    ("no later than", r"\b(?:no|not)\s{1,2}later\s{1,2}than\s{1,2}(?:[^.;,]{0,24}?\son\s{1,2})?"),
    ("on or before", r"\bon\s{1,2}or\s{1,2}before\s{1,2}"),
    ("extended", r"\bextended\s{1,2}(?:through|to|until|up)(?:\s{1,2}(?:and|including|through|to)){0,3}\s{1,2}"),
    ("until", r"\b(?:ha(?:s|ve)|shall\s{1,2}have|time|extension)\s{1,2}(?:up\s{1,2})?(?:to|until)(?:\s{1,2}and\s{1,2}including)?\s{1,2}"),
    ("by", r"\b(?:file|filed|respond|submit|serve|served|pay|report|statement|brief|answer|appear)\w{0,4}\s[^.;]{0,60}?\bby\s{1,2}"),
)  # fmt: skip

AMOUNT_RULES: tuple[tuple[str, str], ...] = (
    ("dollars", r"\$\s{0,3}(?P<number>\d{1,3}(?:,\d{3}){1,4}(?!\d)|\d{1,12}(?![\d,]\d))(?P<cents>\.\d{2}(?!\d))?"),
    ("fee", r"\bfee\s{1,2}(?:amount|paid):?\s{1,2}(?P<number2>\d{1,7})(?P<cents2>\.\d{2}(?!\d))"),
    ("fee in brackets", r"\(\s{0,3}(?P<number3>\d{1,7})(?P<cents3>\.\d{2})(?:\s{1,2}fee)?\)"),
)  # fmt: skip

_JUDGE_TITLE = (
    r"(?:(?:chief|senior|magistrate|bankruptcy|district|circuit|appellate|visiting)\s{1,2}){0,3}"
)
_NAME_TOKEN = r"(?:[A-Z]\.|(?:Mc|Mac|O')?[A-Z][\w'\u2019-]{1,24}|Jr\.|Sr\.|I{2,3}\b)"  # noqa: S105 - a name's
JUDGE_CUES: tuple[str, ...] = (
    rf"(?i:\b{_JUDGE_TITLE}judges?:?\s{{1,2}}(?:is\s{{1,2}}|hon(?:orable|\.)?\s{{1,2}})?)",
    r"(?i:\b(?:the\s{1,2})?hon(?:orable\s{1,2}|\.\s{0,2}))",
    r"(?i:/s/\s{0,2})(?=[A-Z])",
)
_JUDGE = re.compile(
    rf"(?:{'|'.join(JUDGE_CUES)})(?P<name>{_NAME_TOKEN}(?:,?\s{{1,2}}{_NAME_TOKEN}){{0,4}})"
)
NOT_JUDGES = frozenset(
    {
        "added", "and", "appeal", "approved", "assigned", "at", "attorney", "bankruptcy", "by", "case",
        "chambers", "clerk", "copies", "copy", "court", "courtesy", "courtroom", "decision", "deputy",
        "district", "entry", "excludable", "filed", "granting", "group", "hearing", "in", "is", "magistrate",
        "motion", "notice", "objection", "of", "on", "or", "order", "panel", "presiding", "re",
        "related", "reporter", "service", "signature", "signed", "states", "tape", "telephone", "the",
        "time", "to", "trustee", "united", "us", "will",
    }
)  # fmt: skip
"""Words behind a judge's title with which no name goes on."""

_PARTY = re.compile("|".join(f"(?P<c{index}>{cue})" for index, (_, cue) in enumerate(PARTY_CUES)))
_NOT_PARTY = re.compile(NOT_PARTIES, re.IGNORECASE)
_ROLE = re.compile(
    rf"(?:(?P<role>{'|'.join(map(re.escape, PARTY_ROLES))})(?:\(s\)|'s|s')?(?=[\s,:]),?:?\s{{1,2}})+?",
    re.IGNORECASE,
)
_NAME_END = re.compile(
    r"\s{1,2}(?:on\s{1,2}behalf|of\s(?=(?-i:[A-Z]{3}|[Ll]aw)|[^()\n;:]{1,80}\son\s{1,2}behalf\s)|re:?\s|re:|regarding|as\s{1,2}to|with\s|to\s|dated|filed|for\s"
    r"|in\s{1,2}(?:support|opposition|response)|pursuant|served|against|and\s{1,2}served|represented"
    r"|objections?\s|hearing|signed|fee\s|schedul|responses?\s|appearing|from\s|that\s|who\s|\d{1,2}/"
    r"|addressed|proof\s|receipt|waiver|summons|inclu|seeking|attached|was\s|is\s|has\s|upon\s|due\s)"
    r"|[()\[;:\n\"]|\.(?=\s{1,3}[A-Z(\[]|\s{0,2}$|[.,(\[])|\s/|$|\s\*|\.\.",
    re.IGNORECASE,
)
_ABBREVIATED = re.compile(
    r"\b(?:[A-Z]|(?i:Inc|Corp|Ltd|Co|Jr|Sr|Dr|Mr|Mrs|Ms|St|No|Esq|Bros|Assoc|Assn|Dept|Ft|Mfg|Intl"
    r"|L\.L\.C|N\.A|P\.A|P\.C|L\.P|U\.S))\Z"
)
_GOES_ON = re.compile(r"\b(?:[A-Z]|(?i:St|Dr|Mr|Mrs|Ms|Ft|No|U\.S))\Z")
"""Short forms behind whose full stop the name goes on."""

_SUFFIX = re.compile(
    r"(?:,\s{1,2})(?=(?:inc|l\.?l\.?c|l\.?l\.?p|ltd|l\.?p\.?\b|n\.?a\b|p\.?[ac]\b|p\.?l\.?l|corp|jr|sr"
    r"|esq|et\s{1,2}al|as\s|a\s|an\s|its|successor|s\.?a\b|co\b|ii|iii|the\s|n\.a|trustee\b|fsb|plc"
    r"|not\s|solely|f/?k|d/?b|us\b|u\.s|m\.?d|phd|chapter|by\s|p\.s|s\.s|individually|through))",
    re.IGNORECASE,
)
_ON_BEHALF = re.compile(r"\s{0,2}(?:of\s[^()\n;]{1,80}?)?\s{0,2}on\s{1,2}behalf\s", re.IGNORECASE)
_COMMA = re.compile(r",\s{1,2}|\s{1,2}and\s{1,2}(?=[A-Z][\w.]{1,24}\s[A-Z][\w.]{1,24})")
_DEADLINE = re.compile(
    rf"(?:{'|'.join(f'(?:{cue})' for _, cue in DEADLINE_CUES)}){_WEEKDAY}{_DATE}", re.IGNORECASE
)
_AMOUNT = re.compile("|".join(pattern for _, pattern in AMOUNT_RULES), re.IGNORECASE)
_TITLE_END = re.compile(
    r"\s{1,2}(?:filed|fee\s{1,2}amount|objections?\s{1,2}due|hearing\s{1,2}(?:set|sched|to|date)|signed|by\s|re:"
    r"|as\s{1,2}to\s|\d{1,4}\s(?:filed|by|as)|with\s{1,2}(?:cert|proof|hearing|affid)|receipt)"
    r"|,{1,2}\s{1,2}\d{1,4}\s|[.;\[\]\n]|\((?!s\))|\s/|\)|$",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DUE_STOP = re.compile(r"[.;:,()\[\]\n]")


def extract_fields(text: str) -> ExtractionResult:
    """Return what an entry's text says, and what an entry of its form should say and does not."""
    form = filing_form(text)
    named = references(text)
    rules = {
        "party": _parties(text, named),
        "judge": _judges(text),
        "document_number": _numbers("document_number", text, named),
        "relates_to": _numbers("relates_to", text, [item for item in named if item.relates]),
        "motion": _motions(text),
        "deadline": _deadlines(text),
        "disposition": _dispositions(text, form, named),
        "amount": _amounts(text),
    }
    values: list[ExtractedValue] = []
    failed: list[FailedField] = []
    succeeded: list[str] = []
    for name, read in rules.items():
        kept, problem = _values_within_bounds(read)
        values += kept
        if problem is None and not kept and name in form.expected_fields:
            problem = "not_stated"
        if problem is not None:
            failed.append(FailedField(field=name, reason=problem))
        elif kept:
            succeeded.append(name)
    completeness = ExtractionCompleteness(
        succeeded_fields=tuple(succeeded), failed_fields=tuple(failed)
    )
    return ExtractionResult(
        extractor=EXTRACTOR, values=tuple(values), extraction_completeness=completeness
    )


def _values_within_bounds(
    read: Iterable[ExtractedValue | None],
) -> tuple[list[ExtractedValue], FailureReason | None]:
    """Return the values that are kept, and why the field is not whole; None is what gave no value."""
    kept: list[ExtractedValue] = []
    problem: FailureReason | None = None
    for value in read:
        if value is None:
            problem = problem or "not_readable"
        elif len(kept) == VALUES_OF_A_FIELD_MAX:
            return kept, "limit_reached"
        else:
            kept.append(value)
    return kept, problem


def _value(
    field: str, text: str, start: int, end: int, value: str, role: str | None = None
) -> ExtractedValue:
    return ExtractedValue(
        field=field, value=value, role=role, start=start, end=end, words=text[start:end]
    )


def _numbers(field: str, text: str, named: Iterable[Reference]) -> Iterator[ExtractedValue]:
    for item in named:
        yield _value(field, text, item.start, item.end, item.number, item.cue.replace("_", " "))


def _parties(text: str, named: Iterable[Reference]) -> Iterator[ExtractedValue]:
    """Yield who files, who is filed for and whom it is about; not who filed what is referred to."""
    described = [(item.end, item.described_until) for item in named]
    until = 0
    signed = text.find("(Entered:")
    for cue in _PARTY.finditer(text, 0, signed if signed >= 0 else len(text)):
        start = cue.end()
        if cue.start() < until:
            continue
        if any(begin <= cue.start() < end for begin, end in described) or _NOT_PARTY.match(
            text, start
        ):
            continue
        role = PARTY_CUES[int((cue.lastgroup or "c0")[1:])][0]
        until = _name_end(text, start)
        if role == "filer" and _ON_BEHALF.match(text, until):
            role = "attorney"
        for begin, end, own_role in _names(text, start, until):
            name = " ".join(text[begin:end].split())
            yield _value("party", text, begin, end, name, own_role or role)


def _name_end(text: str, start: int) -> int:
    """Return where a name ends that begins at `start`: before words that no name has."""
    limit = min(len(text), start + NAMES_CHARS_MAX)
    for stop in _NAME_END.finditer(text, start, limit):
        if stop.start() == limit < len(text):
            break
        if not text.startswith(".", stop.start()):
            return stop.start()
        before = max(start, stop.start() - 8)
        if _ABBREVIATED.search(text, before, stop.start()) is None:
            return stop.start()
        if text[stop.end() : stop.end() + 1] == "," or (
            _GOES_ON.search(text, before, stop.start())
            and text[stop.end() : stop.end() + 1].isspace()
        ):
            continue
        return stop.start() + 1
    # The last name may go on.
    return max(start, text.rfind(",", start, limit))


def _names(text: str, start: int, end: int) -> Iterator[tuple[int, int, str | None]]:
    """Yield the names of a list, each without the word for what the party is in the case."""
    begin = start
    role: str | None = None
    stops = [
        match
        for match in _COMMA.finditer(text, start, end)
        if not _SUFFIX.match(text, match.start())
    ]
    for stop_start, stop_end in [*(match.span() for match in stops), (end, end)]:
        match = _ROLE.match(text, begin, stop_start)
        if match is not None:
            role = match["role"].lower().removesuffix("s")
            begin = match.end()
        name_end = stop_start
        while name_end > begin and text[name_end - 1] in " \t\r\n,":
            name_end -= 1
        if begin > start and text[begin : begin + 1].islower():
            return
        is_name = 1 < name_end - begin <= NAME_CHARS_MAX and text[begin].isalnum()
        if is_name and _NOT_PARTY.match(text, begin, name_end) is None:
            yield begin, name_end, role
        begin = stop_end


def _judges(text: str) -> Iterator[ExtractedValue]:
    seen: set[str] = set()
    for match in _JUDGE.finditer(text):
        start, end = match.span("name")
        end = start + _judge_name_chars(text[start:end])
        name = " ".join(text[start:end].split())
        if len(name) > 1 and name.casefold() not in seen:
            seen.add(name.casefold())
            yield _value("judge", text, start, end, name)


def _judge_name_chars(words: str) -> int:
    """Return how much of the words is a name: what stands before a word that no name has."""
    end = 0
    for token in re.compile(r"\S{1,40}").finditer(words):
        if token[0].strip(".,").casefold() in NOT_JUDGES:
            break
        end = token.end()
        if token[0].endswith(","):
            end -= 1
    return end


def _motions(text: str) -> Iterator[ExtractedValue]:
    """Yield the title of the first motion that the text names."""
    word = MOTION_WORD.search(text)
    if word is None:
        return
    stop = _TITLE_END.search(text, word.end(), min(len(text), word.end() + TITLE_CHARS_MAX))
    end = stop.start() if stop else min(len(text), word.end() + TITLE_CHARS_MAX)
    while end > word.end() and text[end - 1] in " ,-\t":
        end -= 1
    kind = type_of_title(text, word.start(), end) or OTHER_MOTION
    yield _value("motion", text, word.start(), end, kind)


def _deadlines(text: str) -> Iterator[ExtractedValue | None]:
    for match in _DEADLINE.finditer(text):
        if "restricted" in text[max(0, match.start() - 16) : match.start()].lower():
            continue
        day = _day(match)
        if day is None:
            yield None
            continue
        start = _due_start(text, match.start())
        what = " ".join(text[start : match.start()].split()).lower()
        yield _value("deadline", text, start, match.end(), day.isoformat(), what[:128] or None)


def _due_start(text: str, start: int) -> int:
    """Return where the words begin that say what is due: at most 100 characters before."""
    begin = max(0, start - 100)
    for stop in _DUE_STOP.finditer(text, begin, start):
        begin = stop.end()
    while begin < start and not text[begin].isalnum():
        begin += 1
    if begin == max(0, start - 100) > 0:
        blank = text.find(" ", begin, start)
        begin = blank + 1 if blank >= 0 else start
    return begin


def _day(match: re.Match[str]) -> date | None:
    try:
        if match["month"]:
            month = _MONTHS.index(match["month"][:3].lower()) + 1
            return date(int(match["year"]), month, int(match["day"]))
        year = int(match["y"])
        return date(
            year + (2000 if year < 70 else 1900) * (year < 100), int(match["m"]), int(match["d"])
        )
    except ValueError:
        return None


def _dispositions(
    text: str, form: FilingForm, named: Iterable[Reference]
) -> Iterator[ExtractedValue]:
    """Yield each ruling that stands before a number, else the first ruling of the text."""
    if form.filing_role not in COURTS_ROLES:
        return
    numbers = {item.start: item.number for item in named}
    first: re.Match[str] | None = None
    has_numbered = False
    for match in DISPOSITION.finditer(text):
        first = first or match
        after = re.compile(r"\s{1,2}(?:defendant\w{0,3}'?s?\s|plaintiff\w{0,3}'?s?\s)?#?").match(
            text, match.end()
        )
        number = numbers.get(after.end()) if after else None
        if number is not None:
            has_numbered = True
            yield _value(
                "disposition", text, *match.span(), match.lastgroup or "", f"document {number}"
            )
    if first is not None and not has_numbered:
        yield _value("disposition", text, *first.span(), first.lastgroup or "")


def _amounts(text: str) -> Iterator[ExtractedValue]:
    seen: set[tuple[int, str]] = set()
    for match in _AMOUNT.finditer(text):
        whole = match["number"] or match["number2"] or match["number3"]
        cents = match["cents"] or match["cents2"] or match["cents3"] or ".00"
        value = whole.replace(",", "") + cents
        if (match.start(), value) not in seen:
            seen.add((match.start(), value))
            yield _value("amount", text, *match.span(), value)
