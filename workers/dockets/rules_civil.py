"""Lists the postures of civil actions, and what a docket entry excludes among them.

An adversary proceeding in a bankruptcy court is a civil action and shares its universe. With
several defendants, `awaiting_service` means that none has been served or has appeared, and
`awaiting_answer` that none has answered.
"""

from workers.dockets.rule import MINUTES, Rule, all_but, opens_with, says

PHASES = (
    "awaiting_service",
    "awaiting_answer",
    "motion_to_dismiss_pending",
    "discovery",
    "summary_judgment_pending",
    "awaiting_trial",
)
POSTURES = (
    *PHASES,
    "ended_by_dismissal",
    "ended_by_settlement",
    "ended_by_judgment",
    "ended_by_transfer_or_remand",
    "on_appeal",
)
_CIVIL = ("district", "bankruptcy-adversary")
_JUDGMENT = opens_with(
    r"(?:final |amended |default |clerk'?s |consent |order of )*judgment\b"
    r"(?! (?:returned|on (?:garnishment|revocation)))"
)
_NO_FINAL_JUDGMENT = (
    r"partial|in part\b|motion for|request|application|proposed|usca|court of appeals"
    r"|default judgment (?:as to|against)|satisfaction|costs"
)


RULES = (
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
        "defendant_appeared",
        _CIVIL,
        opens_with(
            r"notice of (?:attorney )?appearance by [^(]{0,80}? on behalf of (?:all )?defendants?\b"
            r"|(?:notice of motion and )?motion to dismiss\b[^.]{0,80} "
            r"filed by (?:the )?defendants?\b"
            r"|(?:memorandum of law|declaration of [^,]{0,40}) in support of (?:the )?"
            r"defendants?\b[^.]{0,60} motion to dismiss"
        ),
        says(r"service of process|insufficien|special(?:ly)? appear|third[ -]party"),
        ("awaiting_service",),
        "A defendant has come before the court.",
    ),
    Rule(
        "parties_conferred",
        _CIVIL,
        opens_with(
            r"joint report rule 26\(f\)|joint rule 26\(f\) report"
            r"|minutes: scheduling conference held|civil case management plan and scheduling order"
        ),
        says(r"not held|proposed|(?:no|not) appear"),
        ("awaiting_service",),
        "The parties have planned the case together, so a defendant takes part in it.",
    ),
    Rule(
        "answer_filed",
        _CIVIL,
        opens_with(
            r"(?:\w[\w&]*['\u2019]s? )?(?:(?:first|second|joint|amended) )*answer to "
            r"(?!counter|cross|third)(?:[^\s.]+ ){0,6}?complaint"
            r"|(?:(?:first|second|third) )?amended answer\b(?! to (?:counter|cross|third))"
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
        opens_with(
            MINUTES + r"(?:jury|bench) trial (?:as to [^.]{0,60} )?(?:held|begun|began)"
            r"|transcript regarding hearing held [\d/]+ re: trial\b|brief post-trial\b"
            r"|order denying [^.]{0,30}post-trial motions"
        ),
        says(r"not held|vacated|reset|continued to"),
        tuple(phase for phase in PHASES if phase != "awaiting_trial"),
        "The trial has begun.",
    ),
    Rule(
        "verdict_returned",
        _CIVIL,
        opens_with(r"jury verdict"),
        says(r"proposed|motion|mistrial"),
        (*PHASES, "ended_by_transfer_or_remand"),
        "A jury has returned its verdict.",
    ),
    Rule(
        "judgment_entered",
        _CIVIL,
        _JUDGMENT,
        says(_NO_FINAL_JUDGMENT),
        (*PHASES, "ended_by_settlement", "ended_by_transfer_or_remand"),
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
        says(r"denying|show cause|vacat|in part\b|as to (?:defendant|third)|appeal|settle"),
        all_but(POSTURES, "ended_by_dismissal", "ended_by_settlement", "on_appeal"),
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
        says(r"as to (?:defendant|third)|proposed|in part\b|not used"),
        all_but(POSTURES, "ended_by_settlement"),
        "The court ordered the dismissal of the whole action that the parties had agreed.",
    ),
    Rule(
        "closed_as_settled",
        _CIVIL,
        opens_with(
            r"order to close case[^.]{0,60}\. reason: settled"
            r"|order (?:of )?dismiss(?:ing|al)[^.]{0,60}\bsettle(?:d|ment)"
        ),
        says(r"denying|vacat|in part\b"),
        all_but(POSTURES, "ended_by_settlement"),
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
        all_but(POSTURES, "ended_by_transfer_or_remand"),
        "The court sent the action to another court.",
    ),
    Rule(
        "action_closed",
        _CIVIL,
        opens_with(
            r"adversary case [^.]{0,30}\bclosed|order closing case|order to close case"
            r"|civil case terminated"
            r"|report on the determination of an action regarding a copyright\. \(closing\)"
        ),
        says(r"administrativ|statistical|stay|reopen"),
        PHASES,
        "The action is closed, so none of its phases is to come.",
    ),
    Rule(
        "appeal_decided",
        (*_CIVIL, "district-criminal"),
        opens_with(
            r"(?:true copy of )?mandate(?:/judgment)? (?:of|from) |usca (?:judgment|mandate) issued"
        ),
        says(r"interlocutory|recall|revers|vacat|remand"),
        ("on_appeal",),
        "The court of appeals issued its mandate, so the appeal is over.",
    ),
)
