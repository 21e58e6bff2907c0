"""Lists the postures of a case, and which of them an entry makes impossible.

A belief session only strikes hypotheses; nothing brings one back. So a posture is either a phase
that a case leaves or the ending by which it leaves the court, and a rule strikes one only for an
act that the entry itself records:

* a motion, a request, a proposed order, a notice of hearing strikes nothing;
* a certificate that something was mailed or served, a receipt, a reference to an earlier document
  strikes nothing;
* an entry that calls itself an error strikes nothing (`NO_ACT`).

A rule reads how an entry opens, because there stands what the clerk docketed; what the entry refers
to stands later. It may infer that a phase is over, from the act that ends it or from a later act
that presupposes it, and that an ending is impossible, from an order that brought another. It infers
nothing from silence, from the time that has passed, or from another entry. That a defendant made a
motion shows that the defendant appeared.

A case may be undone: dismissed, brought back, then discharged. What an undone act struck never
comes back in its session, so the session is closed and another one succeeds it, with the strikes
that still hold (`reversals.py`, `course.py`). A posture "brought back" was rejected: no entry could
ever strike it, so no case would come to one survivor.

The same caution settles the endings. A case that changes its chapter goes on: conversion to
chapter 7 only ends the wait for a plan, and a petition under chapter 7 strikes nothing, because
cases are converted back. A stipulated dismissal of the whole action that the court ordered is a
settlement. `awaiting_service` ends with the first defendant who was served or appeared. A dismissed
appeal is reinstated now and then, so only its mandate ends one.
"""

import re

from workers.dockets import rules_appeal, rules_bankruptcy, rules_civil, rules_criminal
from workers.dockets.reader import Docket, DocketEntry
from workers.dockets.rule import Elimination, Rule, opens_with, says

UNIVERSE_VERSION = "2"

GENERIC_KIND = "generic"
GENERIC_POSTURES = ("open", "ended_by_decision", "ended_by_dismissal", "ended_elsewhere")
GENERIC_RULES = (
    Rule(
        "generic_case_dismissed",
        (GENERIC_KIND,),
        opens_with(r"(?:final )?order (?:of )?dismiss(?:ing|al)(?: of)? (?:the |this )?case\b"),
        says(r"denying|vacat|in part\b|show cause|motion to"),
        ("open", "ended_by_decision", "ended_elsewhere"),
        "The court dismissed the case.",
    ),
    Rule(
        "generic_case_closed",
        (GENERIC_KIND,),
        opens_with(r"case closed\b|order closing (?:the )?case\b"),
        says(r"administrativ|statistical|reopen"),
        ("open",),
        "The case is closed.",
    ),
)

UNIVERSES: dict[str, tuple[str, ...]] = {
    "bankruptcy": rules_bankruptcy.POSTURES,
    "bankruptcy-adversary": rules_civil.POSTURES,
    "district": rules_civil.POSTURES,
    "district-criminal": rules_criminal.POSTURES,
    "appellate": rules_appeal.POSTURES,
    "acms": rules_appeal.POSTURES,
    GENERIC_KIND: GENERIC_POSTURES,
}

RULES: tuple[Rule, ...] = (
    *rules_bankruptcy.RULES,
    *rules_civil.RULES,
    *rules_criminal.RULES,
    *rules_appeal.RULES,
    *GENERIC_RULES,
)

NO_ACT = says(
    r"entered in error|docketed in error|filed in (?:error|incorrect)|entry error|filing error"
    r"|please disregard|incorrect e(?:vent|ntry)|nonconforming|\*\*deficient|corrective entry"
    r"|document locked|[\[(]proposed[\])]|proposed (?:form of )?order (?:lodged|submitted)"
)

# What a docket's own numbers and caption say about it, where the court's kind alone is too coarse.
# The first line whose patterns are all found decides; a docket that fits none keeps its kind.
_FLAVOURS: tuple[tuple[str, str, str, str, str], ...] = (
    # court_kind, court_id, docket_number, case_name -> kind of postures
    ("bankruptcy", r"", r"-ap-", r"", "bankruptcy-adversary"),
    ("bankruptcy", r"", r"", r"- Adversary Proceeding$", "bankruptcy-adversary"),
    ("district", r"^[a-z]+b$", r"-ap-", r"", "bankruptcy-adversary"),
    ("district", r"^[a-z]+b$", r"^(?:\d:)?\d\d-(?:bk-)?\d{5}", r"", "bankruptcy"),
    ("district", r"", r"-(?:cr|mj)-", r"", "district-criminal"),
)


def universe(court_kind: str) -> tuple[str, ...]:
    """Return every posture of a kind of court; an unknown kind has the generic postures."""
    return UNIVERSES.get(court_kind, GENERIC_POSTURES)


def posture_kind(docket: Docket) -> str:
    """Return the kind whose universe fits the docket, told from its number, court and caption.

    A criminal prosecution in a district court and an adversary proceeding in a bankruptcy court
    have postures of their own; an unknown kind of court is generic.
    """
    for court_kind, court_id, docket_number, case_name, kind in _FLAVOURS:
        if (
            docket.court_kind == court_kind
            and re.search(court_id, docket.court_id)
            and re.search(docket_number, docket.docket_number)
            and re.search(case_name, docket.case_name)
        ):
            return kind
    return docket.court_kind if docket.court_kind in UNIVERSES else GENERIC_KIND


def eliminations(entry: DocketEntry, court_kind: str) -> list[Elimination]:
    """Return what the entry's text strikes, one elimination for each rule, in table order.

    `court_kind` is a key of `UNIVERSES` as `posture_kind` gives it; any other is generic.
    """
    kind = court_kind if court_kind in UNIVERSES else GENERIC_KIND
    text = entry.description
    if NO_ACT.search(text):
        return []
    listed = []
    for rule in RULES:
        span = rule.words(text) if kind in rule.court_kinds else None
        if span is not None:
            listed.append(Elimination(rule.name, rule.strikes, span, rule.reason))
    return listed
