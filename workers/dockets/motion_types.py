"""Lists the words by which a motion says what it asks for.

Of several that a title holds the one that stands first decides: "motion to shorten time on the
motion for relief from stay" asks for a shorter time.
"""

import re

TITLE_CHARS_MAX = 160

MOTION_TYPES: tuple[tuple[str, str], ...] = (
    ("relief_from_stay", r"relief from (?:the )?(?:automatic )?stay|lift(?:ing)? (?:the )?(?:automatic )?stay|relief of stay|from (?:automatic )?stay|terminat\w+ (?:the )?automatic stay|in rem relief"),
    ("continue_stay", r"(?:continu\w+|extend\w*|impos\w+) (?:of )?(?:the )?(?:automatic )?stay"),
    ("shorten_time", r"short(?:en)?\w* (?:the )?(?:time|notice)|expedite\w* hearing|short notice|order shortening"),
    ("extend_time", r"exten[ds]\w* (?:of )?(?:the )?(?:\w{1,20} ){0,2}?(?:time|deadlines?|dates?|exclusiv\w+|period|bar date)|enlarge\w* (?:of )?(?:the )?time|further time|extension of"),
    ("continue_hearing", r"(?:continu\w+|adjourn\w*|postpone\w*|reschedul\w+) (?:of )?(?:the )?(?:\w{1,20} ){0,2}?(?:hearing|trial|conference|date|sentencing|matter)|to continue\b|continuance"),
    ("pro_hac_vice", r"pro hac vice|non-?resident attorney"),
    ("dismiss", r"dismiss\w*"),
    ("convert", r"conver(?:t|sion)\w*"),
    ("summary_judgment", r"summary judgment"),
    ("default_judgment", r"default judgment|entry of default"),
    ("employ_professional", r"employ\w*|reten?tion|retain\w*|appoint\w* (?:of )?(?:counsel|attorney|special counsel|realtor|auctioneer|accountant)"),
    ("compensation", r"compensation|(?:fee|attorney'?s? fees?) (?:application|statement)|allowance of (?:fees|interim)|fees and (?:expenses|costs)|reimbursement|for fees|administrative expenses?"),
    ("cash_collateral", r"cash collateral"),
    ("financing", r"obtain\w* (?:post-?petition )?(?:credit|financing|secured)|post-?petition financing|dip (?:financing|motion)|incur\w* (?:secured )?debt|debtor[- ]in[- ]possession financing"),
    ("sell_property", r"\bs(?:ell|ale)\b|bid(?:ding)? procedures|auction"),
    ("assume_or_reject", r"(?:assum\w+|reject\w*)"),
    ("settle", r"settle\w*|compromis\w+|9019"),
    ("avoid_lien", r"avoid\w* (?:\w{1,20} ){0,3}?liens?|avoid(?:ance)?\b|strip\w* (?:off )?(?:lien|junior)|lien avoidance"),
    ("value_collateral", r"valu(?:e|ation|ing)\w* (?:of )?(?:\w{1,20} ){0,2}?(?:collateral|claim|security|property)|to value|determin\w+ (?:the )?(?:value|secured)"),
    ("objection_to_claim", r"(?:disallow\w*|objection to (?:\w{1,20} ){0,3}?(?:proofs? of )?claim|objections? to claims?|reduce\w* claim|claims? number)"),
    ("unclaimed_funds", r"unclaimed funds|unclaimed (?:dividend|money)"),
    ("filing_fee", r"filing fees?|fee (?:in )?installments?|waive\w* (?:of )?(?:the )?(?:chapter 7 )?(?:filing )?fee|in forma pauperis"),
    ("joint_administration", r"joint(?:ly)? administ\w+|substantive(?:ly)? consolidat\w+"),
    ("abandon", r"abandon\w*"),
    ("turnover", r"turn-?over"),
    ("adequate_protection", r"adequate protection"),
    ("reopen", r"re-?open\w*"),
    ("reconsider", r"reconsider\w*|alter or amend|re-?hearing|vacate\w*|set aside|relief from (?:order|judgment)|new trial"),
    ("reinstate", r"reinstat\w+"),
    ("compel", r"compel\w*"),
    ("examination", r"2004|examin\w+"),
    ("confirm_plan", r"confirm\w* (?:of )?(?:the )?(?:\w{1,20} ){0,3}?plan|confirmation"),
    ("modify_plan", r"modif\w+ (?:the )?(?:confirmed )?(?:\w{1,20} ){0,2}?plan|suspend\w* (?:plan )?payments?"),
    ("disclosure_statement", r"disclosure statement"),
    ("creditor_committee", r"(?:creditors'? )?committee"),
    ("trustee", r"appoint\w* (?:of )?(?:a )?(?:chapter 11 )?(?:trustee|examiner)"),
    ("withdraw_counsel", r"withdraw\w* (?:as )?(?:\w{1,20} ){0,3}?(?:counsel|attorney|appearance)|substitut\w+"),
    ("withdraw_document", r"withdraw\w* (?:of )?(?:the )?(?:\w{1,20} ){0,2}?(?:document|motion|objection|claim|appearance)"),
    ("withdraw_funds", r"withdraw\w* (?:\w{1,20} )?funds"),
    ("withdraw_reference", r"withdraw\w* (?:of )?(?:the )?reference"),
    ("redact", r"redact\w*"),
    ("seal", r"(?:un)?seal\w*|protective order"),
    ("strike", r"strik\w+"),
    ("limine", r"in limine|exclude\w*"),
    ("suppress", r"suppress\w*"),
    ("intervene", r"interven\w+"),
    ("consolidate", r"consolidat\w+"),
    ("transfer", r"transfer\w*|change (?:of )?venue"),
    ("remand", r"remand\w*"),
    ("quash", r"quash\w*"),
    ("sanctions", r"sanction\w*|contempt"),
    ("stay_pending", r"stay (?:removal|proceedings|pending|case|discovery|of|the)|for (?:a )?stay\b"),
    ("release", r"(?:conditions of )?release|bail|bond\b|detain|detention"),
    ("sentence", r"sentenc\w+|supervised release|probation"),
    ("forfeiture", r"forfeit\w*"),
    ("amend", r"amend\w*|correct\w*|supplemental pleading|leave to (?:\w{1,20} ){1,4}?(?:amended|supplemental)"),
    ("leave_to_file", r"leave to file"),
    ("service", r"serv(?:e|ice) by|alternative service|limit\w* (?:scope of )?notice"),
    ("wages", r"wages"),
    ("utilities", r"utilit\w+"),
    ("bank_accounts", r"bank accounts|cash management"),
    ("page_limit", r"page limits?|excess pages|exceed"),
    ("appear", r"telephonic\w*|appear by"),
    ("counsel", r"appointment of counsel|appoint counsel"),
    ("injunction", r"injuncti\w+|restraining order"),
    ("discharge", r"discharge\w*"),
    ("hearing", r"for (?:an? )?(?:\w{1,20} )?(?:hearing|conference|argument)"),
)  # fmt: skip

_ANY = re.compile(
    "|".join(
        rf"(?P<{name}>\b(?:{pattern}))".replace(" ", r"\s{1,4}").replace(r"\w+", r"\w{1,20}")
        .replace(r"\w*", r"\w{0,20}")
        for name, pattern in MOTION_TYPES
    ),
    re.IGNORECASE,
)  # fmt: skip

MOTION_WORD = re.compile(r"\b(?:motions?|applications?|mot)\b", re.IGNORECASE)
OTHER_MOTION = "other"


def type_of_title(text: str, start: int = 0, end: int | None = None) -> str | None:
    """Return what a stretch of at most `TITLE_CHARS_MAX` characters asks for, None for nothing."""
    limit = start + TITLE_CHARS_MAX if end is None else min(end, start + TITLE_CHARS_MAX)
    match = _ANY.search(text, start, limit)
    return None if match is None else match.lastgroup
