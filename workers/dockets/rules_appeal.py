"""Lists the postures of an appeal or a petition for review, and what a docket entry excludes.

A brief that is tendered or submitted for filing is not yet filed; it counts when the court files
it. A disposition in part excludes no ending.
"""

from workers.dockets.rule import Rule, opens_with, says

PHASES = (
    "awaiting_record",
    "awaiting_opening_brief",
    "awaiting_answering_brief",
    "awaiting_argument",
    "submitted",
)
ENDINGS = (
    "ended_by_affirmance",
    "ended_by_reversal_or_remand",
    "ended_by_dismissal",
    "ended_by_denial_of_petition",
    "ended_by_transfer",
)
POSTURES = (*PHASES, "awaiting_mandate", *ENDINGS)
_KINDS = ("appellate", "acms")
_DECISION = (
    r"(?:per curiam |published |unpublished |amended )*(?:judgment (?:entered|filed)"
    r"|memorandum disposition|(?:filed )?opinion (?:filed|issued)|filed (?:opinion|memorandum)"
    r"|order filed for publication)\b"
)
_IN_PART = r"in part\b"


def _endings_but(*excepted: str) -> tuple[str, ...]:
    return tuple(ending for ending in ENDINGS if ending not in excepted)


RULES = (
    Rule(
        "appeal_taken",
        _KINDS,
        opens_with(
            r"notice of (?:criminal |civil )?appeal\b[^\[]{0,160}, (?:opened|docketed)\b"
            r"|(?:civil|criminal) case docketed\. notice (?:of appeal|filed by appellant)"
        ),
        says(r"cross-?appeal|petition for"),
        ("ended_by_denial_of_petition",),
        "The case is an appeal from a judgment and not a petition.",
    ),
    Rule(
        "review_petitioned",
        _KINDS,
        opens_with(
            r"petition for review\b[^\[]{0,160}, (?:opened|docketed)\b|petition for review filed"
        ),
        says(r"motion|rehearing"),
        ("ended_by_affirmance",),
        "The case is a petition for review, which is granted, denied or dismissed.",
    ),
    Rule(
        "permission_petitioned",
        _KINDS,
        opens_with(r"miscellaneous case docketed\. petition for permission to appeal"),
        says(r"granted"),
        ("ended_by_affirmance",),
        "The case is a petition for permission to appeal; the appeal is a case of its own.",
    ),
    Rule(
        "record_filed",
        _KINDS,
        opens_with(r"(?:certified administrative record|record on appeal)[^.,]{0,20}? filed"),
        says(r"motion|supplemental|partial"),
        ("awaiting_record",),
        "The record is on file.",
    ),
    Rule(
        "opening_brief_filed",
        _KINDS,
        opens_with(
            r"(?:appellants?['\u2019]?s?|petitioners?['\u2019]?s?|opening) (?:opening )?brief filed"
            r"|order filed\.? opening brief submitted [^.]{0,120} is filed"
        ),
        says(r"submitted for filing|tendered|deficient|motion to"),
        ("awaiting_record", "awaiting_opening_brief"),
        "The opening brief is on file, which presupposes the record.",
    ),
    Rule(
        "answering_brief_filed",
        _KINDS,
        opens_with(
            r"reply brief filed"
            r"|(?:appellees?['\u2019]?s?|respondents?['\u2019]?s?|answering) (?:answering )?brief "
            r"filed|order filed\.? answering brief submitted [^.]{0,120} is filed"
        ),
        says(r"submitted for filing|tendered|deficient|motion to"),
        ("awaiting_record", "awaiting_opening_brief", "awaiting_answering_brief"),
        "The answering brief, or the reply to it, is on file, which presupposes the opening brief.",
    ),
    Rule(
        "case_submitted",
        _KINDS,
        opens_with(
            r"(?:case|cause) (?:argued and )?submitted\b|argued and submitted"
            r"|submitted on the briefs|oral argument held"
        ),
        says(r"vacat|motion|withdrawn from submission|argument held in abeyance"),
        tuple(phase for phase in PHASES if phase != "submitted"),
        "The case stands submitted to the panel.",
    ),
    Rule(
        "decision_entered",
        _KINDS,
        opens_with(_DECISION),
        says(r"opinion filed by the district|motion for"),
        PHASES,
        "The court has decided the appeal.",
    ),
    Rule(
        "judgment_affirmed",
        _KINDS,
        opens_with(_DECISION + r"[^:]{0,300}?\baffirmed\b"),
        says(rf"{_IN_PART}|revers|vacat|remand"),
        (*PHASES, *_endings_but("ended_by_affirmance")),
        "The court affirmed.",
    ),
    Rule(
        "judgment_reversed",
        _KINDS,
        opens_with(_DECISION + r"[^:]{0,300}?\b(?:reversed|vacated and remanded)\b"),
        says(rf"{_IN_PART}|affirmed|dismissed"),
        (*PHASES, *_endings_but("ended_by_reversal_or_remand")),
        "The court reversed or sent the case back.",
    ),
    Rule(
        "petition_denied",
        _KINDS,
        opens_with(_DECISION + r"[^:]{0,300}?\bdenied\b"),
        says(rf"{_IN_PART}|motion|rehearing|granted|remand"),
        (*PHASES, *_endings_but("ended_by_denial_of_petition")),
        "The court denied the petition.",
    ),
    Rule(
        "denied_and_dismissed_in_part",
        _KINDS,
        opens_with(
            _DECISION + r"[^:]{0,300}?"
            r"\b(?:dismissed in part and denied in part|denied in part and dismissed in part)"
        ),
        says(r"grant|remand|vacat|revers"),
        ("ended_by_affirmance", "ended_by_reversal_or_remand", "ended_by_transfer"),
        "The court dismissed one part of the petition, denied the other, and granted none.",
    ),
    Rule(
        "appeal_dismissed",
        _KINDS,
        opens_with(
            r"(?:filed )?(?:clerk |corrected )?(?:order|judgment|memorandum disposition)\b"
            r"[^:]{0,400}?\b(?:appeal|petition|case)(?: for review)? is (?:hereby )?dismissed\b"
        ),
        says(rf"{_IN_PART}|denying|if |unless|district court order"),
        (
            *PHASES,
            "ended_by_affirmance",
            "ended_by_denial_of_petition",
            "ended_by_transfer",
        ),
        "The court dismissed the appeal.",
    ),
    Rule(
        "appeal_transferred",
        _KINDS,
        opens_with(r"order[^.]{0,60}(?:appeal|petition|case) is transferred to\b"),
        says(r"denied|motion to transfer"),
        (*PHASES, *_endings_but("ended_by_transfer")),
        "The court sent the appeal to another court.",
    ),
    Rule(
        "mandate_issued",
        _KINDS,
        opens_with(r"mandate issued\b"),
        says(r"recall|stay"),
        (*PHASES, "awaiting_mandate"),
        "The mandate has issued, so the court has nothing left to do in the appeal.",
    ),
)
