"""Finds the filing that an opposition, a response, a reply or an order is about.

`RelationshipIndex` is told the entries of one docket in their order; each is resolved against
those before it. A candidate says which filing is meant, in which relation, and with which
identity confidence. Evidence is of two kinds, and they are put together by a table:

* numbers: the entry names a document of the docket by its number;
* words: what the entry says that the motion asks for, and what the motion itself says.

A reply that names the opposition which it answers is followed to the motion that the opposition
is about. An entry costs what it names and at most `OPEN_MAX` open motions, however long the docket
is: everything is found by number or by type. A candidate is evidence and decides nothing
(INV-K-OUTCOME-1).
"""

import re
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from workers.dockets.dispositions import CLOSING_CONFIDENCE, is_interim, rules_in_minutes
from workers.dockets.filing_forms import FilingForm, filing_form
from workers.dockets.motion_types import MOTION_WORD, TITLE_CHARS_MAX, type_of_title
from workers.dockets.references import Reference, references

_LISTING_CUES = frozenset({"re", "related_document"})
"""Cues after which clerks also list what only has to do with the motion."""

_RULED_BEFORE = re.compile(
    r"(?:grant|den[yi]|approv)\w{0,4}\s(?:(?!motion|application)[^#]){0,40}"
    r"(?:motion|application)(?:(?!motion|application)[^#]){0,120}\Z",
    re.IGNORECASE,
)
"""A ruling on a single motion, to the end of which a number is put."""

OPEN_MAX = 8
"""How many of the newest motions of a type are compared by their words."""
CANDIDATES_MAX = 16
REMEMBERED_MAX = 20_000
"""How many filings of a docket are kept; the oldest are forgotten first."""

RelationshipType = Literal["opposes", "responds_to", "replies_to", "rules_on"]

# What a filing that plays a role does to the filing that it is about.
RELATIONSHIPS: dict[str, RelationshipType] = {
    "opposing": "opposes",
    "responding": "responds_to",
    "replying": "replies_to",
    "disposing": "rules_on",
}

# The filing roles that a relation may be about; those of the first tuple rather than the second.
TARGET_ROLES: dict[RelationshipType, tuple[frozenset[str], frozenset[str]]] = {
    "opposes": (
        frozenset({"moving"}),
        frozenset(
            {"proposing", "stipulating", "informing", "opposing", "responding", "supporting"}
        ),
    ),
    "responds_to": (
        frozenset({"moving"}),
        frozenset({"initiating", "proposing", "directing", "disposing", "scheduling", "informing"}),
    ),
    "replies_to": (frozenset({"moving"}), frozenset({"proposing", "initiating"})),
    "rules_on": (
        frozenset({"moving"}),
        frozenset({"stipulating", "proposing", "initiating", "opposing"}),
    ),
}

OPENING_ROLES = frozenset({"moving", "proposing", "initiating"})
"""Roles of filings that words alone may be about."""

ANSWERING_ROLES = frozenset({"opposing", "responding", "replying", "supporting"})
"""Roles of papers through which a reply is followed to the motion that they are about."""

# What a filing asks for that is no motion, or answers, where its words name no motion.
FORM_TYPES: dict[str, str] = {
    "plan": "confirm_plan",
    "disclosure_statement": "disclosure_statement",
    "complaint": "complaint",
    "answer": "complaint",
}

# How the evidence stands -> identity confidence. A motion that is named by its number and by its
# words is beyond doubt; a number alone is nearly so, since clerks type it; words alone can be meant
# for another motion of the same kind.
CONFIDENCE: dict[str, float] = {
    "number and words": 0.99,
    "number": 0.96,
    "number, words unknown": 0.95,
    "number, reached through the paper that it names": 0.9,
    "number of another kind of paper": 0.8,
    "words, the only open one": 0.75,
    "words, the newest of several": 0.5,
    "number, words of another motion": 0.4,
    "words, an older one": 0.25,
}


@dataclass(frozen=True, slots=True)
class Filing:
    """What is kept of an entry for the resolution of later ones."""

    position: int
    document_number: str | None
    filing_role: str
    motion_type: str | None
    title_words: frozenset[str]
    speaks_by_words: bool
    """Whether words alone may say what it is about; not where parties stipulate."""
    about: "Filing | None" = None
    """The filing that this one is about, where it is about one."""


@dataclass(frozen=True, slots=True)
class RelationshipCandidate:
    """A filing that an entry may be about; evidence, not a relationship."""

    relationship_type: RelationshipType
    target_position: int
    target_document_number: str | None
    identity_confidence: float
    evidence: str
    """A key of `CONFIDENCE`."""


@dataclass(slots=True)
class RelationshipIndex:
    """The filings of one docket so far."""

    _by_number: OrderedDict[str, Filing] = field(default_factory=OrderedDict)
    _open: dict[str, deque[Filing]] = field(default_factory=dict)
    """The newest motions of each type that nothing was ruled on."""

    def add(
        self, position: int, document_number: str | None, description: str
    ) -> tuple[RelationshipCandidate, ...]:
        """Resolve an entry against those before it, and keep it for those that follow."""
        form = filing_form(description)
        filing = _filing(position, document_number, description, form)
        decides = form.filing_unit_kind != "minute_entry" or rules_in_minutes(description)
        candidates = self._resolve(filing, description) if decides else ()
        if candidates and candidates[0].identity_confidence >= 0.5:
            target = self._target(candidates[0])
            filing = replace(filing, about=target)
        self._keep(filing)
        if filing.speaks_by_words and not is_interim(description):
            self._close_ruled_on(candidates)
        return candidates

    def _target(self, candidate: RelationshipCandidate) -> Filing | None:
        number = candidate.target_document_number
        return self._by_number.get(number) if number is not None else None

    def _resolve(self, filing: Filing, description: str) -> tuple[RelationshipCandidate, ...]:
        relation = RELATIONSHIPS.get(filing.filing_role)
        if relation is None:
            return ()
        named = [
            (reference, self._by_number.get(reference.number))
            for reference in references(description)
            if reference.relates and reference.number != filing.document_number
        ]
        ranked = _of_motions(filing, relation, named, description)
        if not ranked:
            for _, target in named:
                if target is not None and target.filing_role in TARGET_ROLES[relation][1]:
                    _rank(ranked, relation, target, "number of another kind of paper")
        if not named and filing.speaks_by_words:
            self._by_words(ranked, filing, relation)
        best_first = sorted(
            ranked.values(), key=lambda item: (-item.identity_confidence, -item.target_position)
        )
        return tuple(best_first[:CANDIDATES_MAX])

    def _by_words(
        self,
        ranked: dict[int, RelationshipCandidate],
        filing: Filing,
        relation: RelationshipType,
    ) -> None:
        if filing.motion_type is None:
            return
        alike = sorted(
            self._open.get(filing.motion_type, ()),
            key=lambda target: (len(target.title_words & filing.title_words), target.position),
            reverse=True,
        )
        for index, target in enumerate(alike):
            if len(alike) == 1:
                evidence = "words, the only open one"
            else:
                evidence = "words, an older one" if index else "words, the newest of several"
            _rank(ranked, relation, target, evidence)

    def _keep(self, filing: Filing) -> None:
        if filing.document_number is not None:
            # A number that comes twice is corrected: the newer entry stands for it.
            self._by_number[filing.document_number] = filing
            if len(self._by_number) > REMEMBERED_MAX:
                self._by_number.popitem(last=False)
        if filing.filing_role in OPENING_ROLES and filing.motion_type is not None:
            self._open.setdefault(filing.motion_type, deque(maxlen=OPEN_MAX)).append(filing)

    def _close_ruled_on(self, candidates: tuple[RelationshipCandidate, ...]) -> None:
        ruled_on = {
            candidate.target_position
            for candidate in candidates
            if candidate.relationship_type == "rules_on"
            and candidate.identity_confidence >= CLOSING_CONFIDENCE
        }
        if not ruled_on:
            return
        for motion_type, waiting in self._open.items():
            kept = [target for target in waiting if target.position not in ruled_on]
            if len(kept) < len(waiting):
                self._open[motion_type] = deque(kept, maxlen=OPEN_MAX)


def _filing(
    position: int, document_number: str | None, description: str, form: FilingForm
) -> Filing:
    title = _title(description)
    by_form = FORM_TYPES.get(form.filing_unit_kind)
    return Filing(
        position,
        document_number,
        form.filing_role,
        by_form or type_of_title(title),
        frozenset(_words(title)),
        form.name != "stipulation ordered",
    )


_WORD = re.compile(r"[a-z0-9]{3,24}")
_TITLE_STOP = re.compile(
    r"\bfiled\s|\(related|\(re:|\bobjections\sdue|\bfee\samount", re.IGNORECASE
)


def _title(description: str) -> str:
    """Return the words that say which motion is meant: from the word motion on, or the opening."""
    word = MOTION_WORD.search(description, 0, 2 * TITLE_CHARS_MAX)
    start = word.start() if word else 0
    title = description[start : start + TITLE_CHARS_MAX]
    stop = _TITLE_STOP.search(title)
    return title[: stop.start()] if stop and stop.start() > 0 else title


def _words(title: str) -> set[str]:
    return set(_WORD.findall(title.lower()))


def _of_motions(
    filing: Filing,
    relation: RelationshipType,
    named: Iterable[tuple[Reference, Filing | None]],
    description: str,
) -> dict[int, RelationshipCandidate]:
    """Return the motions that a filing names by number, or through a paper that is about one."""
    ranked: dict[int, RelationshipCandidate] = {}
    aside: list[Filing] = []
    names_own_type = False
    for reference, target in named:
        if target is None:
            continue
        if target.filing_role in TARGET_ROLES[relation][0]:
            evidence = _number_evidence(filing, target, reference.motion_type)
            _rank(ranked, relation, target, evidence)
            if filing.motion_type is not None and target.motion_type == filing.motion_type:
                names_own_type = True
            elif filing.motion_type is not None and _is_listed(reference, description):
                aside.append(target)
        elif (
            target.about is not None
            and relation in {"replies_to", "responds_to"}
            and target.filing_role in ANSWERING_ROLES
        ):
            through = "number, reached through the paper that it names"
            _rank(ranked, relation, target.about, through)
    for target in aside if names_own_type else ():
        ranked.pop(target.position, None)
        _rank(ranked, relation, target, "number, words of another motion")
    return ranked


def _is_listed(reference: Reference, description: str) -> bool:
    """Tell whether a number stands in a list of a clerk's, and not behind a ruling of its own."""
    start = max(0, reference.start - TITLE_CHARS_MAX)
    ruled = _RULED_BEFORE.search(description, start, reference.start)
    return reference.cue in _LISTING_CUES and ruled is None


def _number_evidence(filing: Filing, target: Filing, described_type: str | None) -> str:
    """Say how the words agree with a motion that is named by its number.

    What the clerk wrote behind the number is the motion's own title; only where there is nothing
    do the words of the entry itself speak.
    """
    said = described_type or filing.motion_type
    if said is None:
        return "number"
    if target.motion_type is None:
        return "number, words unknown"
    if target.motion_type in {said, filing.motion_type, described_type}:
        return "number and words"
    return "number"


def _rank(
    ranked: dict[int, RelationshipCandidate],
    relation: RelationshipType,
    target: Filing,
    evidence: str,
) -> None:
    candidate = RelationshipCandidate(
        relation,
        target.position,
        target.document_number,
        CONFIDENCE[evidence],
        evidence,
    )
    known = ranked.get(target.position)
    if known is None or known.identity_confidence < candidate.identity_confidence:
        ranked[target.position] = candidate
