"""The postures of civil actions and of criminal prosecutions, and what an entry excludes.

An adversary proceeding in a bankruptcy court is a civil action and shares its universe. With
several defendants, `awaiting_service` means that none has been served and `awaiting_answer` that
none has answered. A criminal docket is followed for its first defendant: an entry that names
only a later one, "(2)" or higher, strikes nothing.
"""

from workers.dockets.rule import Rule, opens_with, says

CIVIL_PHASES = (
    "awaiting_service",
    "awaiting_answer",
    "discovery",
    "dispositive_motions",
    "awaiting_trial",
)
CIVIL_POSTURES = (
    *CIVIL_PHASES,
    "ended_by_dismissal",
    "ended_by_settlement",
    "ended_by_judgment",
    "ended_by_transfer_or_remand",
    "on_appeal",
)
CRIMINAL_PHASES = (
    "awaiting_first_appearance",
    "awaiting_charge",
    "awaiting_plea_or_trial",
    "awaiting_sentence",
)
CRIMINAL_POSTURES = (
    *CRIMINAL_PHASES,
    "ended_by_sentence",
    "ended_by_dismissal",
    "ended_by_acquittal",
    "ended_by_transfer",
    "on_appeal",
)
_CIVIL = ("district", "bankruptcy-adversary")
_CRIMINAL = ("district-criminal",)
_LATER_DEFENDANT = r"^(?![\s\S]*\(1\))[\s\S]*?\((?:[2-9]|[1-9]\d)\)"
_MINUTES = r"(?:minute entry for [^.:]{0,120}[.:]\s*)?"
_JUDGMENT = opens_with(
    r"(?:final |amended |default |clerk'?s |consent |order of )*judgment\b"
    r"(?! (?:returned|on (?:garnishment|revocation)))"
)
_NO_FINAL_JUDGMENT = (
    r"partial|in part|motion for|request|application|proposed|usca|court of appeals"
    r"|default judgment (?:as to|against)|satisfaction|costs"
)


def _civil_but(*kept: str) -> tuple[str, ...]:
    return tuple(posture for posture in CIVIL_POSTURES if posture not in kept)


def _criminal_but(*kept: str) -> tuple[str, ...]:
    return tuple(posture for posture in CRIMINAL_POSTURES if posture not in kept)


CIVIL_RULES = (
    Rule(
        "defendant_served",
        _CIVIL,
        opens_with(
            r"(?:third-party )?(?:summons|waiver of (?:the )?service|proof of service"
            r"|return of service|notice and acknowledge?ment of service)\b[^.]{0,70}?\bexecuted"
            r"|(?:amended )?(?:affidavit|certificate) of service (?:of|for) "
            r"(?:service of )?(?:the )?(?:amended )?summons"
        ),
        says(r"unexecuted|subpoena|not served"),
        ("awaiting_service",),
        "Proof is on file that a defendant was served or waived service.",
    ),
    Rule(
        "answer_filed",
        _CIVIL,
        opens_with(
            r"(?:\w[\w&]*['\u2019]s? )?(?:(?:first|second|joint|amended) )*answer to "
            r"(?!counter|cross|third)(?:[^\s.]+ ){0,6}?complaint"
        ),
        says(r"^\W*answer to [^.]{0,20}counterclaim complaint|extension of time to"),
        ("awaiting_service", "awaiting_answer"),
        "A defendant has answered the complaint.",
    ),
    Rule(
        "summary_judgment_ruled",
        _CIVIL,
        opens_with(
            r"(?:memorandum )?(?:opinion |decision )?(?:and |& )?order\b(?: & reasons)?[^.]{0,30}?"
            r"(?:granting|denying) [^.]{0,40}?motion for summary judgment"
        ),
        says(r"extension|extend|leave to file|to continue"),
        ("awaiting_service", "awaiting_answer"),
        "The court has ruled on summary judgment, which follows service and answer.",
    ),
    Rule(
        "trial_held",
        _CIVIL,
        opens_with(_MINUTES + r"(?:jury|bench) trial (?:as to [^.]{0,60} )?(?:held|begun|began)"),
        says(r"not held|vacated|reset|continued to"),
        ("awaiting_service", "awaiting_answer", "discovery", "dispositive_motions"),
        "The trial has begun.",
    ),
    Rule(
        "verdict_returned",
        _CIVIL,
        opens_with(r"jury verdict"),
        says(r"proposed|motion|mistrial"),
        (*CIVIL_PHASES, "ended_by_transfer_or_remand"),
        "A jury has returned its verdict.",
    ),
    Rule(
        "judgment_entered",
        _CIVIL,
        _JUDGMENT,
        says(_NO_FINAL_JUDGMENT),
        (*CIVIL_PHASES, "ended_by_settlement", "ended_by_transfer_or_remand"),
        "The court entered judgment.",
    ),
    Rule(
        "judgment_not_of_dismissal",
        _CIVIL,
        _JUDGMENT,
        says(_NO_FINAL_JUDGMENT + r"|dismiss"),
        ("ended_by_dismissal",),
        "The judgment speaks of no dismissal.",
    ),
    Rule(
        "dismissed_by_order",
        _CIVIL,
        opens_with(
            r"(?:final |amended |endorsed )*order (?:of )?dismiss(?:ing|al)(?: of)? "
            r"(?:the |this |entire )*(?:case|action|adversary|lawsuit|civil action)"
        ),
        says(r"denying|show cause|vacat|in part|as to (?:defendant|third)|appeal|settle"),
        _civil_but("ended_by_dismissal", "ended_by_settlement", "on_appeal"),
        "The court dismissed the whole action and does not say whether the parties had settled.",
    ),
    Rule(
        "dismissed_by_stipulation",
        _CIVIL,
        opens_with(
            r"(?:so ordered )?stipulation (?:and|&) order[^.]{0,60}?"
            r"dismiss(?:ing|al)(?: of)? (?:the |this |entire )*(?:case|action|adversary)"
            r"|stipulated order of dismissal"
        ),
        says(r"as to (?:defendant|third)|proposed|in part|not used"),
        _civil_but("ended_by_settlement"),
        "The court ordered the dismissal of the whole action that the parties had agreed.",
    ),
    Rule(
        "closed_as_settled",
        _CIVIL,
        opens_with(
            r"order to close case[^.]{0,60}\. reason: settled"
            r"|order (?:of )?dismiss(?:ing|al)[^.]{0,60}\bsettle(?:d|ment)"
        ),
        says(r"denying|vacat|in part"),
        _civil_but("ended_by_settlement"),
        "The court closed the action and names a settlement as the ground.",
    ),
    Rule(
        "transferred_or_remanded",
        _CIVIL,
        opens_with(
            r"order of transfer\b|order granting [^.]{0,40}motion to (?:transfer case|remand)\b"
            r"|inter-?district transfer to|case transferred (?:out )?to|transfer of case to"
            r"|order remanding (?:the )?(?:case|action)|order of remand\b"
        ),
        says(
            r"judicial panel|multi-?district|mdl|1407|denying|conditional"
            r"|to (?:judge|magistrate)|reassign|probation"
        ),
        _civil_but("ended_by_transfer_or_remand"),
        "The court sent the action to another court.",
    ),
    Rule(
        "action_closed",
        _CIVIL,
        opens_with(
            r"adversary case [^.]{0,30}\bclosed|order closing case|order to close case"
            r"|civil case terminated"
        ),
        says(r"administrativ|statistical|stay|reopen"),
        CIVIL_PHASES,
        "The action is closed, so none of its phases is to come.",
    ),
    Rule(
        "appeal_decided",
        (*_CIVIL, *_CRIMINAL),
        opens_with(
            r"(?:true copy of )?mandate(?:/judgment)? (?:of|from) |usca (?:judgment|mandate) issued"
        ),
        says(r"interlocutory|recall"),
        ("on_appeal",),
        "The court of appeals issued its mandate, so the appeal is over.",
    ),
)

CRIMINAL_RULES = (
    Rule(
        "charge_filed",
        _CRIMINAL,
        opens_with(
            r"(?:sealed |superseding |redacted |felony )*(?:indictment|information)\b"
            r"[^.]{0,80}? as to\b"
        ),
        says(r"unsealed as to|signature page"),
        ("awaiting_charge",),
        "An indictment or an information is on file.",
    ),
    Rule(
        "first_appearance_held",
        _CRIMINAL,
        opens_with(
            _MINUTES + r"(?:re-?)?(?:initial appearance|arraignment)\b(?! of material)"
            r"[^:]{0,250}?\bheld\b"
        ),
        says(rf"not held|material witness|revocation|failed to appear|{_LATER_DEFENDANT}"),
        ("awaiting_first_appearance",),
        "The defendant has appeared before the court.",
    ),
    Rule(
        "guilty_plea_accepted",
        _CRIMINAL,
        opens_with(
            r"order accepting guilty plea|entry and acceptance of guilty plea"
            r"|plea entered by [^.]{0,60}\. court accepts plea\. guilty"
        ),
        says(rf"withdraw|reject|{_LATER_DEFENDANT}"),
        (
            "awaiting_first_appearance",
            "awaiting_charge",
            "awaiting_plea_or_trial",
            "ended_by_acquittal",
        ),
        "The court accepted a plea of guilty.",
    ),
    Rule(
        "found_guilty",
        _CRIMINAL,
        opens_with(r"jury verdict[^;]{0,80}\bguilty"),
        says(rf"not guilty|{_LATER_DEFENDANT}"),
        ("awaiting_first_appearance", "awaiting_charge", "awaiting_plea_or_trial"),
        "A jury has found the defendant guilty.",
    ),
    Rule(
        "sentencing_held",
        _CRIMINAL,
        opens_with(
            _MINUTES + r"sentenc(?:e|ing)(?: with psr)?(?: hearing)?(?: as to [^.]{0,60})? held\b"
            r"|text minute entry for sentencing proceedings held"
        ),
        says(rf"revocation|not held|supervised release violation|{_LATER_DEFENDANT}"),
        (*CRIMINAL_PHASES, "ended_by_acquittal", "ended_by_transfer"),
        "Sentence was pronounced at a hearing.",
    ),
    Rule(
        "sentence_entered",
        _CRIMINAL,
        opens_with(r"(?:amended |corrected )*judgment (?:in a criminal case )?as to"),
        says(
            r"returned|revocation|acquittal"
            r"|^[^;]{0,400}count\(s\) [\d\s,-]+dismissed[^;]{0,400}$|" + _LATER_DEFENDANT
        ),
        _criminal_but("ended_by_sentence", "on_appeal"),
        "The court entered its judgment of conviction and sentence.",
    ),
    Rule(
        "prosecution_dismissed",
        _CRIMINAL,
        opens_with(
            r"order (?:of )?dismiss(?:ing|al)(?: of)? (?:the |this )?"
            r"(?:indictment|information|complaint|case)"
        ),
        says(rf"denying|in part|superseded|original indictment|count|{_LATER_DEFENDANT}"),
        _criminal_but("ended_by_dismissal", "on_appeal"),
        "The court dismissed the prosecution.",
    ),
    Rule(
        "acquitted",
        _CRIMINAL,
        opens_with(r"judgment of acquittal\b"),
        says(rf"motion|denying|count|{_LATER_DEFENDANT}"),
        _criminal_but("ended_by_acquittal"),
        "The court entered a judgment of acquittal.",
    ),
    Rule(
        "prosecution_transferred",
        _CRIMINAL,
        opens_with(r"rule (?:20|21) (?:transfer|documents|papers) (?:out|sent|to)\b"),
        says(rf"probation|supervised|transfer in|{_LATER_DEFENDANT}"),
        _criminal_but("ended_by_transfer"),
        "The prosecution was sent to another district.",
    ),
)
