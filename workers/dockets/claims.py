"""Derives what an entry claims, how much the claim matters, and who may read the entry.

The kind of a document is told from how its entry opens. Authority says whose word the entry is,
not whether it is right:

* 0.95 the court ordered, judged or mandated;
* 0.6  a party or a trustee filed it and vouches for it;
* 0.4  the clerk or a mailing service noted that something happened.
"""

import re
from dataclasses import dataclass

from workers.dockets.rule import opens_with, says
from workers.dockets.span import TextSpan

CLAIM_CHARS_MAX = 280
SENTENCE_CHARS_MIN = 24

AUTHORITY_COURT = 0.95
AUTHORITY_PARTY = 0.6
AUTHORITY_CLERK = 0.4


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of document with what its entries are worth."""

    name: str
    pattern: re.Pattern[str]
    essentiality: str
    authority: float


# The first kind whose pattern opens the entry decides, so the narrower kinds stand first.
DOCUMENT_KINDS: tuple[DocumentKind, ...] = (
    DocumentKind(
        "proposed order",
        opens_with(
            r"(?:notice of lodg\w+|received unsigned|unsigned|(?:\w+ )?proposed) |placed in file"
        ),
        "tangential",
        AUTHORITY_PARTY,
    ),
    DocumentKind(
        "notice by mail",
        opens_with(r"bnc |receipt |certificate of (?:mailing|notice)|court certificate"),
        "tangential",
        AUTHORITY_CLERK,
    ),
    DocumentKind(
        "order",
        opens_with(
            r"(?:\(e\))?(?:(?:agreed|amended|corrected|endorsed|final|interim|consent|letter|text|oral"
            r"|minute|scheduling|docket|memorandum|decision|opinion|stipulation|stipulated|transfer"
            r"|pretrial|standing|initial|adr|decorum|hearing|sealed|supplemental|ex parte|joint"
            r"|chapter 11 operating|second|third|fourth|fifth|notice and|filed|clerk|so|and)"
            r"\W+)*order(?:ed)?\b"
        ),
        "core",
        AUTHORITY_COURT,
    ),
    DocumentKind(
        "judgment, opinion or mandate",
        opens_with(
            r"(?:(?:default|final|amended|consent|usca|district court|memorandum|filed"
            r"|findings of fact) )*"
            r"(?:judgment|opinion|memorandum (?:disposition|decision|opinion)|mandate|verdict"
            r"|jury verdict|final decree|discharge of debtor|chapter \d+ discharge"
            r"|agency decision)\b"
        ),
        "core",
        AUTHORITY_COURT,
    ),
    DocumentKind(
        "charge",
        opens_with(r"(?:sealed |superseding )*(?:indictment|information)\b"),
        "supporting",
        AUTHORITY_PARTY,
    ),
    DocumentKind(
        "request or pleading",
        opens_with(
            r"(?:(?:notice of|first|second|third|amended|joint|unopposed|emergency|ex parte"
            r"|voluntary|involuntary|prisoner civil rights|chapter \d+|debtor'?s?|trustee'?s?"
            r"|plaintiff'?s?|defendant'?s?|consent|opening|answering|reply"
            r"|appellants?'?s?|appellees?'?s?|amicus|limited|monthly|objection|response"
            r"|adversary case \S+|sealed|letter|third-party) )*"
            r"(?:motion|application|petition|complaint|answer|brief|objection|response|reply"
            r"|opposition|memorandum|counterclaim|notice of (?:interlocutory |criminal )?appeal)\b"
        ),
        "supporting",
        AUTHORITY_PARTY,
    ),
    DocumentKind(
        "paper of a party",
        opens_with(
            r"(?:amended |joint |supplemental )*(?:schedule|statement|declaration|affidavit"
            r"|certificate of (?:service|credit|no objection)|stipulation|exhibit|proof|report"
            r"|request|monthly operating|chapter \d+ (?:plan|statement)|disclosure|transcript"
            r"|appendix|summary of|plan\b|notice of appearance|appearance|letter)"
        ),
        "tangential",
        AUTHORITY_PARTY,
    ),
)
ANY_OTHER = DocumentKind("clerical note", opens_with(r""), "tangential", AUTHORITY_CLERK)

# The document is sealed when its own entry says so, in front or in brackets. A motion or an order
# about sealing, a list of sealed exhibits elsewhere and a seal that was lifted are not.
_SEALED = says(
    r"^\W*(?:e-gov )?sealed\b(?!-)"
    r"|^\W*(?:this )?document (?:was |is )?filed under seal"
    r"|\((?:under seal|filed under seal|sealed(?: - \w+)?)\)"
    r"|\bentry and pdf document are sealed\b"
    r"|^[^:]{0,120}: sealed minute entry\b"
)
_UNSEALED = says(r"unseal(?:ed|ing)\b")

# A full stop ends a sentence unless it follows one of the short forms that courts use.
_SENTENCE_END = re.compile(
    r"(?<!\b[A-Za-z])(?<!\b(?:No|vs|Mr|Ms|Dr|Jr|Sr|Co|Re|Ch))(?<!\b(?:Inc|Mrs|Hon|Doc|Nos|Ltd|"
    r"Esq|Adv|Fed|App|Civ))(?<!\b(?:Corp|Bank|Dept|Proc))[.!?](?=\s|$)"
)


@dataclass(frozen=True, slots=True)
class EntryClaim:
    """What an entry says first, word for word, and what that is worth."""

    text: str
    span: TextSpan
    """Where the text stands in the description."""
    document_kind: str
    essentiality: str
    """`core`, `supporting` or `tangential`."""
    authority: float
    """From 0 to 1: whose word it is."""


def claim_of(description: str) -> EntryClaim:
    """Return the claim of an entry: its first sentence, or as much of it as 280 characters hold.

    A sentence of a word or two takes the next one with it. The text is a
    verbatim stretch of `description`, which must not be blank.
    """
    kind = document_kind(description)
    span = _first_sentence(description)
    return EntryClaim(span.of(description), span, kind.name, kind.essentiality, kind.authority)


def document_kind(description: str) -> DocumentKind:
    """Return the first kind of document that the description opens with."""
    return next((kind for kind in DOCUMENT_KINDS if kind.pattern.search(description)), ANY_OTHER)


def visibility_class(description: str) -> str:
    """Return `sealed` when the entry says that its document is under seal, else `public_open`."""
    sealed = _SEALED.search(description) and not _UNSEALED.search(description)
    return "sealed" if sealed else "public_open"


def _first_sentence(description: str) -> TextSpan:
    start = len(description) - len(description.lstrip())
    limit = min(len(description.rstrip()), start + CLAIM_CHARS_MAX)
    for stop in _SENTENCE_END.finditer(description, start, limit):
        length = stop.end() - start
        # "ORDER FILED." alone says nothing, unless only the clerk's brackets follow.
        if length >= SENTENCE_CHARS_MIN or description[stop.end() :].lstrip()[:1] in {"(", "["}:
            return TextSpan(start, length)
    end = limit
    if limit < len(description.rstrip()) and not description[limit].isspace():
        # Rather between two words than within one, when that costs no more than half.
        blank = max(description.rfind(" ", start, limit), description.rfind("\n", start, limit))
        end = blank if blank > start + CLAIM_CHARS_MAX // 2 else limit
    return TextSpan(start, len(description[start:end].rstrip()))
