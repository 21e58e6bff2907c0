"""Excludes what the beginning of a bankruptcy case rules out.

A voluntary petition is itself the order for relief (11 U.S.C. 301(b)); after an involuntary one the
case waits for the court's. What the code lets happen only afterwards shows that it was made. This
is the one phase that an ordinary case leaves on its first day, so the report counts apart what it
alone narrowed.
"""

from workers.dockets.rule import Rule, opens_with, says

KIND = ("bankruptcy",)
ORDER_FOR_RELIEF = "awaiting_order_for_relief"
SCHEDULES = "awaiting_schedules"
_BEFORE_NOTICE = (
    r"(?:(?:amended|first|second|initial|corrected|notice of|notice|chapter \d+|indiv/joint"
    r"|commencement of(?: bankruptcy)? case|bankruptcy case|section 341|341(?:\(a\))?|asset"
    r"|no asset|continued|rescheduled|and)\W+){0,8}"
)

RULES = (
    Rule(
        "voluntary_petition_filed",
        KIND,
        opens_with(
            r"(?:(?:amended|chapter \d+) )*voluntary petition\b|order for relief\b(?! from)"
        ),
        says(r"automatic stay"),
        (ORDER_FOR_RELIEF,),
        "A voluntary petition is the order for relief.",
    ),
    Rule(
        "meeting_of_creditors_called",
        KIND,
        opens_with(_BEFORE_NOTICE + r"meeting of creditors\b"),
        None,
        (ORDER_FOR_RELIEF,),
        "The meeting of creditors is called after the order for relief.",
    ),
    Rule(
        "operating_report_filed",
        KIND,
        opens_with(
            r"(?:(?:debtor[ -]in[ -]possession|amended|chapter 11|corrected|initial|small business)"
            r"\W+)*(?:monthly )?operating report\b"
        ),
        says(r"motion"),
        (ORDER_FOR_RELIEF,),
        "A debtor in possession reports to the court once there is an order for relief.",
    ),
    Rule(
        "committee_appointed",
        KIND,
        opens_with(
            r"(?:notice of )?(?:amended )?appointment of (?:the )?(?:official )?"
            r"(?:unsecured )?(?:creditors'? committee|committee of (?:unsecured )?creditors)"
        ),
        says(r"motion|request"),
        (ORDER_FOR_RELIEF,),
        "The committee of creditors is appointed after the order for relief.",
    ),
    Rule(
        "interim_compensation_sought",
        KIND,
        opens_with(
            r"(?:\w+ ){0,3}(?:interim|monthly) (?:fee )?application (?:for|of)\b[^.]{0,60}?"
            r"(?:compensation|fees)"
        ),
        says(r"motion|order|objection|response|hearing|no objection|notice of"),
        (ORDER_FOR_RELIEF,),
        "Compensation in the interim is for professionals whom the estate employs after the order.",
    ),
    Rule(
        "exclusivity_extended",
        KIND,
        opens_with(r"order granting [^.]{0,60}\bexclusiv(?:ity|e) period"),
        says(r"denying"),
        (ORDER_FOR_RELIEF,),
        "The debtor's exclusive period for a plan runs from the order for relief.",
    ),
    Rule(
        "chapter_13_plan_filed",
        KIND,
        opens_with(r"(?:(?:first|second|third|amended|modified) )*chapter 13 plan\b"),
        None,
        (ORDER_FOR_RELIEF,),
        "A case under chapter 13 begins with the debtor's own petition.",
    ),
    Rule(
        "schedules_filed",
        KIND,
        opens_with(
            r"summary of schedules|schedules and statements|schedules? [a-j]\b"
            r"|schedule\[s\] [a-j]\b|schedules filed: \[schedules"
            r"|schedules\s*/\s*statements? filed:[^.]{0,40}\bsch [a-j]\b"
            r"|(?:chapter \d+ )?voluntary petition\W{1,3}all schedules (?:and|&) statements"
            r"|amended schedule(?:s|\(s\))?(?= )(?! [/-])"
            r"|amended schedules/statements filed: sch [a-j]\b"
            r"|amendment to schedule(?:s|\(s\))"
            r"|cover sheet for amendments to schedules and or statements filed re: schedule"
            r"|schedule\(s\) [a-j]\b"
            r"|(?:chapter \d+ |individual debtor )?(?:statement of current monthly"
            r"|declaration re: electronic filing)[^.]{0,250}?, schedule [a-j]\b"
        ),
        says(
            r"except for|extend|missing|deficien|incomplete|statements\W{0,2} due"
            r"|schedules? [a-j] due|creditor matrix"
        ),
        (ORDER_FOR_RELIEF, SCHEDULES),
        "The debtor's schedules, or some of them, are on file.",
    ),
    Rule(
        "schedules_filed_with_petition",
        KIND,
        opens_with(
            r"(?:chapter \d+ )?voluntary petition"
            r"(?:\s*, (?:certificate of (?:credit )?counseling, )?"
            r"schedules (?:and statements|a-j)\b"
            r"| complete schedules\b| \(individual\) with [^:;]{0,60}?, schedule\(s\) a\b"
            r"| under chapter \d+\.[^:;]{0,60}? schedules a-[hj] and summary of schedules)"
        ),
        says(r"schedules?\b[^.]{0,80} due\b|due \S+ schedule|missing|incomplete"),
        (ORDER_FOR_RELIEF, SCHEDULES),
        "The schedules came with the petition, and none is noted as due.",
    ),
    Rule(
        "filing_requirements_met",
        KIND,
        opens_with(
            r"order determining debtor'?s? compliance with filing requirements of [^,;]{0,20}"
            r"section 521\(a\)\(1\)"
            r"|the debtor\(s\) is/are certified as having complied with all filing requirements"
        ),
        says(r"not complied|noncompliance|vacat"),
        (ORDER_FOR_RELIEF, SCHEDULES),
        "What the debtor must file, the schedules among it, was found to be on file.",
    ),
)
