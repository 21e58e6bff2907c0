"""Lists the entries that undo what earlier entries struck, by kind of court.

A court reinstates, reopens, vacates, recalls; an appeal is remanded; a paper is withdrawn; a case
is converted back; an entry is struck or corrected. Such an entry names, by its row here, the rules
whose strikes it undoes, or the entries, by their numbers. It strikes nothing itself for what may
happen again.

As with rules, the words that open an entry decide, and a motion, a hearing or a proposed order
undoes nothing. A row undoes rather too much than too little: a posture that comes back wrongly is
struck again by the next entry, one that stays away wrongly never is.

Decisions workers/0400 and workers/0401 say why.
"""

from dataclasses import dataclass

from workers.dockets.rule import Reading, opens_with, says

_BANKRUPTCY = ("bankruptcy",)
_CIVIL = ("district", "bankruptcy-adversary")
_CRIMINAL = ("district-criminal",)
_APPEAL = ("appellate", "acms")
_GENERIC = ("generic",)
EVERY_COURT = (*_BANKRUPTCY, *_CIVIL, *_CRIMINAL, *_APPEAL, *_GENERIC)

_ORDER = (
    r"(?:\(e\)|\d{1,3} pgs?\W{1,3})?"
    r"(?:(?:agreed|amended|corrected|endorsed|stipulated|consent|final|text|minute|joint|oral|clerk"
    r"|ex parte|opinion|decision|memorandum|notice|filed|published|so|and)\W{1,3}+){0,5}+order\b"
    r"(?:\W{0,3}(?:filed|entered)\b\W{1,3}|(?: of the court)?(?: dated [\d/]{6,10})? )"
)
_GRANTING = (
    r"(?:(?:granting|allowing|approving)[^.;:]{0,80}?\bmotions?(?: \S{1,20}){0,2}? (?:to|for) )?"
)
_UNDOING = (
    r"(?:to )?(?:vacat(?:e|ing|ed)|set(?:ting)? aside|rescind(?:ing)?|revok(?:e|ing)"
    r"|withdraw(?:ing)?|reconsider(?:ing|ation of)?|(?:granting )?relief from"
    r"|alter(?:ing)? or amend(?:ing)?)"
)
_OF_THE_ORDER = (
    r"(?: (?:the|its|this|that|prior|previous|court'?s|order|orders|entry|decree|of|on|for|and"
    r"|granting|default|final|clerk'?s|consent|debtor'?s?|joint)\b){0,6}+ "
)
_REINSTATING = r"(?:to )?reinstat(?:e|ing|ement of)"
_THE_CASE = (
    r"(?: (?:the|this|debtor'?s?|closed|bankruptcy|chapter|\d{1,2}|civil)\b){0,4}+"
    r" (?:case|action|adversary)\b"
)
_NOT_DONE = r"denying|denied|proposed|show cause|if |unless "


@dataclass(frozen=True, slots=True)
class Reversal(Reading):
    """A reading of an entry's text by which what others struck holds no more."""

    undoes: tuple[str, ...]
    """The rules whose strikes it undoes; none where it undoes the entries that it names."""
    reason: str


def _order(what: str) -> str:
    return _ORDER + _GRANTING + what


def _undoing(target: str) -> str:
    return _order(_UNDOING + _OF_THE_ORDER + target)


_CLOSINGS = ("case_closed", "closed_with_discharge", "closed_after_dismissal")
_REPORTS = ("no_distribution_reported", "final_account_filed", "unclaimed_funds_deposited")
_CIVIL_DISMISSALS = ("dismissed_by_order", "dismissed_by_stipulation", "closed_as_settled")
_CIVIL_JUDGMENTS = ("judgment_entered", "judgment_not_of_dismissal")
_CIVIL_ENDINGS = (*_CIVIL_DISMISSALS, *_CIVIL_JUDGMENTS, "action_closed")
_SENTENCES = ("sentencing_held", "sentence_entered")
_GUILT = ("guilty_plea_accepted", "found_guilty", "sentencing_prepared")
_DECISIONS = (
    "decision_entered",
    "judgment_affirmed",
    "judgment_reversed",
    "petition_denied",
    "denied_and_dismissed_in_part",
    "appeal_dismissed",
    "mandate_issued",
)

REVERSALS: tuple[Reversal, ...] = (
    Reversal(
        "case_reinstated",
        _BANKRUPTCY,
        opens_with(
            rf"{_order(_REINSTATING + _THE_CASE)}|{_undoing('dismiss')}"
            r"|(?:notice of )?(?:case reinstated\b|reinstatement of (?:the )?case\b)"
            r"|endorsed order dated [^.]{0,60}motion to reinstate case\.[^:]{0,60}motion allowed"
        ),
        says(rf"{_NOT_DONE}|adversary|reinstating stay|of appeal"),
        ("case_dismissed", *_CLOSINGS, *_REPORTS),
        "The court took its dismissal back.",
    ),
    Reversal(
        "case_reopened",
        _BANKRUPTCY,
        opens_with(
            rf"{_order(r'(?:to )?re-?open(?:ing)?' + _THE_CASE)}|(?:bankruptcy )?case re-?opened\b"
            rf"|{_undoing(r'(?:closing|closed|close)' + _THE_CASE)}"
        ),
        says(rf"{_NOT_DONE}|adversary"),
        _CLOSINGS,
        "The court opened the case again.",
    ),
    Reversal(
        "discharge_vacated",
        _BANKRUPTCY,
        opens_with(_undoing(r"discharg")),
        says(rf"{_NOT_DONE}|discharging trustee"),
        ("discharge_granted", "closed_with_discharge"),
        "The court took the discharge back.",
    ),
    Reversal(
        "discharge_allowed_again",
        _BANKRUPTCY,
        opens_with(
            _order(_UNDOING + _OF_THE_ORDER + r"(?:denying|revoking)(?: \S{1,20}){0,2}? discharge")
        ),
        says(r"proposed|show cause"),
        ("discharge_denied",),
        "The court took its refusal of the discharge back.",
    ),
    Reversal(
        "confirmation_vacated",
        _BANKRUPTCY,
        opens_with(_undoing(r"confirm")),
        says(_NOT_DONE),
        ("plan_confirmed", "unclaimed_funds_deposited"),
        "The court took the confirmation of the plan back.",
    ),
    Reversal(
        "converted_back",
        _BANKRUPTCY,
        opens_with(
            rf"{_order(r'(?:to )?(?:re-?)?convert(?:ing)?' + _THE_CASE)}[^.]{{0,60}}? to (?:a )?"
            r"(?:chapter )?1[123]\b"
            r"|(?:notice of )?(?:case converted|conversion)[^.]{0,40}? to (?:a )?chapter 1[123]\b"
            rf"|{_undoing(r'conver(?:sion|ting)')}"
        ),
        says(_NOT_DONE),
        ("converted_to_chapter_7", *_REPORTS),
        "The case is one of reorganisation again.",
    ),
    Reversal(
        "report_withdrawn",
        _BANKRUPTCY,
        opens_with(
            r"(?:notice of )?(?:trustee'?s )?withdrawal of (?:the )?(?:chapter \d{1,2} )?"
            r"(?:trustee'?s )?(?:final |no[- ]asset )?(?:report|account)"
            r"|(?:trustee'?s )?notice of assets\b"
        ),
        None,
        _REPORTS,
        "The trustee took the report of a finished administration back.",
    ),
    Reversal(
        "transfer_vacated",
        (*_BANKRUPTCY, *_CRIMINAL, *_APPEAL),
        opens_with(_undoing(r"transfer")),
        says(rf"{_NOT_DONE}|of claim"),
        ("case_transferred", "prosecution_transferred", "appeal_transferred"),
        "The court took the transfer back.",
    ),
    Reversal(
        "action_reinstated",
        _CIVIL,
        opens_with(
            rf"{_order(_REINSTATING + _THE_CASE)}|{_undoing('dismiss')}"
            r"|(?:notice of )?(?:case|action) reinstated\b"
        ),
        says(rf"{_NOT_DONE}|as to (?:defendant|third)|counterclaim|of appeal"),
        (*_CIVIL_ENDINGS,),
        "The court took its dismissal back.",
    ),
    Reversal(
        "action_reopened",
        _CIVIL,
        opens_with(
            rf"{_order(r'(?:to )?re-?open(?:ing)?' + _THE_CASE)}"
            r"|(?:civil )?(?:adversary )?case re-?opened\b"
            rf"|{_undoing(r'(?:closing|closed|close)' + _THE_CASE)}"
        ),
        says(_NOT_DONE),
        (*_CIVIL_DISMISSALS, "action_closed"),
        "The court opened the action again.",
    ),
    Reversal(
        "judgment_vacated",
        _CIVIL,
        opens_with(_undoing(r"(?:summary )?(?:judgment|verdict)\b")),
        says(rf"{_NOT_DONE}|in part\b|lien"),
        (*_CIVIL_ENDINGS, "summary_judgment_ruled", "verdict_returned"),
        "The court took its judgment back.",
    ),
    Reversal(
        "new_trial_granted",
        _CIVIL,
        opens_with(rf"{_order(r'(?:granting )?(?:a )?new trial')}|mistrial\b"),
        says(_NOT_DONE),
        (*_CIVIL_JUDGMENTS, "verdict_returned", "trial_held", "action_closed"),
        "The action is tried again.",
    ),
    Reversal(
        "remanded_after_appeal",
        (*_CIVIL, *_CRIMINAL),
        opens_with(
            r"(?:true copy of )?"
            r"(?:usca|court of appeals|appeals?|bap|mandate|opinion|order|judgment)\b"
            r"(?=[^;]{0,200}\b(?:usca|court of appeals|bap|circuit|mandate)\b)"
            r"[^;]{0,500}?\b(?:revers(?:ed|ing)|vacat(?:ed|ing))\b[^;]{0,120}?\bremand"
        ),
        says(r"in part\b|interlocutory|district court (?:denies|grants)|motion (?:to|for)"),
        (
            *_CIVIL_ENDINGS,
            "summary_judgment_ruled",
            "verdict_returned",
            "trial_held",
            "transferred_or_remanded",
            *_SENTENCES,
            *_GUILT,
            "acquitted",
            "prosecution_dismissed",
        ),
        "The court of appeals sent the case back.",
    ),
    Reversal(
        "appealed_again",
        (*_CIVIL, *_CRIMINAL),
        opens_with(r"(?:amended )?notice of (?:criminal |civil )?appeal\b"),
        says(r"interlocutory|magistrate|withdraw"),
        ("appeal_decided",),
        "A further appeal was taken after the mandate.",
    ),
    Reversal(
        "case_sent_back",
        _CIVIL,
        opens_with(
            rf"{_undoing(r'(?:transfer|remand)')}"
            r"|(?:conditional )?(?:mdl |jpml )?remand order\b[^.]{0,80}judicial panel"
        ),
        says(_NOT_DONE),
        ("transferred_or_remanded",),
        "The action is before this court again.",
    ),
    Reversal(
        "service_quashed",
        _CIVIL,
        opens_with(rf"{_order(r'(?:to )?quash(?:ing)?(?: the)? (?:service|summons)')}"),
        says(rf"{_NOT_DONE}|subpoena"),
        ("defendant_served",),
        "The court found the service to be none.",
    ),
    Reversal(
        "plea_withdrawn",
        _CRIMINAL,
        opens_with(
            rf"{_order(r'(?:to )?(?:withdraw(?:ing)?|reject(?:ing)?|vacat(?:e|ing))')}"
            r"(?: (?:the|his|her|guilty|of)){0,3} plea\b"
        ),
        says(_NOT_DONE),
        (*_GUILT, *_SENTENCES),
        "The plea of guilty was taken back.",
    ),
    Reversal(
        "conviction_vacated",
        _CRIMINAL,
        opens_with(
            rf"{_undoing(r'(?:judgment|sentence|conviction|verdict|acquittal)')}"
            rf"|{_order(r'(?:granting )?(?:a )?new trial')}|mistrial\b"
        ),
        says(rf"{_NOT_DONE}|hearing"),
        (*_SENTENCES, *_GUILT, "acquitted"),
        "The court took the conviction or the sentence back.",
    ),
    Reversal(
        "prosecution_reinstated",
        _CRIMINAL,
        opens_with(
            rf"{_undoing('dismiss')}"
            rf"|{_order(_REINSTATING)}(?: the)? (?:indictment|information|case|charges?)\b"
        ),
        says(_NOT_DONE),
        ("prosecution_dismissed",),
        "The court took the dismissal of the prosecution back.",
    ),
    Reversal(
        "mandate_recalled",
        _APPEAL,
        opens_with(
            _ORDER + r"[^.;]{0,120}?\bmandate\b[^.;:]{0,60}? (?:is|be) (?:hereby )?recalled"
            rf"|{_order(r'(?:to )?recall(?:ing)?(?: the)? mandate')}|mandate recalled\b"
        ),
        says(_NOT_DONE),
        ("mandate_issued",),
        "The court called its mandate back.",
    ),
    Reversal(
        "decision_vacated",
        _APPEAL,
        opens_with(
            _ORDER
            + r"[^;]{0,300}?\b(?:opinion|judgment|memorandum disposition|decision)\b[^.;:]{0,80}? "
            r"(?:is|are) (?:hereby )?(?:vacated|withdrawn)"
            r"|"
            + _ORDER
            + r"[^;]{0,200}?\bpetition for (?:panel )?rehearing(?: en banc)? is (?:hereby )?"
            r"granted"
            r"|received [^.;]{0,60}\bsupreme court\b[^;]{0,300}?\b(?:vacated|reversed)\b"
            r"[^;]{0,120}?\bremand"
        ),
        says(
            r"district court'?s? (?:judgment|order|decision|opinion)"
            r"|(?:judgment|order|decision) of the district court"
        ),
        (*_DECISIONS, "case_submitted"),
        "The decision of the appeal was taken back.",
    ),
    Reversal(
        "appeal_reinstated",
        _APPEAL,
        opens_with(
            rf"{_order(_REINSTATING)}(?: the| this)? (?:appeal|petition|case)\b"
            rf"|{_undoing('dismiss')}"
            r"|" + _ORDER + r"[^;]{0,200}?\b(?:appeal|petition|case) is (?:hereby )?reinstated"
        ),
        says(_NOT_DONE),
        (*_DECISIONS,),
        "The court took the dismissal of the appeal back.",
    ),
    Reversal(
        "submission_vacated",
        _APPEAL,
        opens_with(
            r"(?:" + _ORDER + r"[^;]{0,200}?)?\bsubmission (?:of this (?:case|appeal) )?(?:is )?"
            r"(?:hereby )?(?:vacated|withdrawn|deferred)|case withdrawn from submission"
        ),
        None,
        ("case_submitted",),
        "The court took the case off its submission.",
    ),
    Reversal(
        "generic_case_reopened",
        _GENERIC,
        opens_with(
            rf"{_order(r'(?:to )?(?:reinstat|re-?open)(?:e|ing)?' + _THE_CASE)}"
            rf"|{_undoing('dismiss')}|case (?:reinstated|re-?opened)\b"
        ),
        says(_NOT_DONE),
        ("generic_case_dismissed", "generic_case_closed"),
        "The court opened the case again.",
    ),
    Reversal(
        "entry_struck",
        EVERY_COURT,
        opens_with(
            _order(
                r"(?:to )?(?:vacat(?:e|ing)|set(?:ting)? aside|rescind(?:ing)?|withdraw(?:ing)?"
                r"|strik(?:e|ing))"
                r"(?: (?:the|its|this|court'?s|prior|previous)){0,3}"
                r" (?:#?\d|orders?\b|judgment|opinion|docket|doc|dkt|document|entr|minute|report"
                r"|notice|summary)"
            )
            + r"|(?:notice of )?correct(?:ive|ion)(?: of)?(?: docket)? entry\b[^(]{0,160}?"
            r"\b(?:error|incorrect|wrong|duplicate|refile|stricken|disregard)"
            r"|(?:notice of )?withdrawal (?:of|re)\b"
            r"|docket entr(?:y|ies) (?:no\.? )?[^.]{0,40}?"
            r"\b(?:stricken|(?:entered|filed|docketed) in error|vacated|withdrawn)"
        ),
        says(r"denying|denied|proposed|vacating order (?:vacat|strik)"),
        (),
        "The entry that it names is struck, withdrawn or corrected.",
    ),
)

_BY_RULE: dict[tuple[str, str], tuple[str, ...]] = {
    (kind, rule): row.undoes
    for row in reversed(REVERSALS)
    for kind in row.court_kinds
    for rule in row.undoes
}

UNREAD = opens_with(
    rf"{_ORDER}[^.;:]{{0,80}}?"
    r"\b(?:reinstat|re-?open|vacat|set(?:ting)? aside|rescind|recall|re-?conver)\w*"
)
"""How a court's entry opens that may undo something, read or not; the report names the unread."""

_UNDOES_NO_POSTURE = says(
    r"denying|denied|hearings?\b|stays?\b|deadline|conference|trial (?:date|setting)|lien|schedul"
    r"|strik|waiver|recalling warrant|trustee'?s motion"
)


def may_undo(text: str) -> bool:
    """Tell whether the words that open an entry speak of undoing what was decided."""
    return UNREAD.search(text) is not None and _UNDOES_NO_POSTURE.search(text) is None


def falls_with(kind: str, rule: str) -> frozenset[str]:
    """Return the rules whose strikes fall where the entry is struck that one rule read.

    What closed a case after a dismissal does not outlive the dismissal.
    """
    return frozenset(_BY_RULE.get((kind, rule), ())) | {rule}
