"""Lists how clerks open the entries of each form of filing.

`filing_unit_kind` says what a paper is, `filing_role` what it does in the practice about a motion,
and the two do not depend on each other: a declaration may support a motion or oppose one. The
first form whose pattern opens the entry decides, so the narrower forms stand first.

Each pattern is tried at the beginning of the text alone, and its repetitions give nothing back, so
that a text costs what its opening costs.
"""

import re
from dataclasses import dataclass

# Words before the name of a paper that do not change what it is.
_BEFORE = (
    r"(?:(?:(?:\w{1,20} )?(?:entered|docketed|filed) in error|unsealed|sealed document|e-gov|sealed"
    r"|\(e\)|notice and|notice of|amended|corrected?|corrective|supplemental|emergency|expedited"
    r"|urgent|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d{1,3}(?:st|nd|rd"
    r"|th)|final|interim|joint|unopposed|consent|agreed|renewed|limited|omnibus|ex ?parte|verified"
    r"|provisional|conditional|partial|combined|revised|modified|debtors?'?s?|trustee'?s?"
    r"|plaintiffs?'?s?|defendants?'?s?|creditors?'?s?|appellants?'?s?|appellees?'?s?|movant'?s?"
    r"|petitioner'?s?|respondent'?s?|us trustee'?s?|u\.?s\.? trustee'?s?|united states trustee'?s?"
    r"|chapter \d{1,2}|pro se|opening|answering|letter|oral|streamlined|time sensitive|restricted"
    r"|assented to|exparte/consent|cross|monthly|quarterly|stipulated|official|committee'?s?)"
    r"[\W_]{1,8})"
)
_COURT_BEFORE = (
    r"(?:(?:agreed|amended|corrected|endorsed|final|interim|consent|letter|text|oral|minute|docket"
    r"|memorandum(?: of)?|decision|opinion|stipulation|stipulated|transfer|pretrial|sealed|findings"
    r"(?: of fact)?|supplemental|ex ?parte|joint|first|second|third|fourth|fifth|sixth|seventh"
    r"|eighth|ninth|tenth|notice and|filed|clerk|so|and|usca|proposed findings|conditional|modified"
    r"|stay|bridge|omnibus|\d{1,3}(?:st|nd|rd|th)|administrative|electronic|\(e\)|unsealed"
    r"|chapter \d{1,2}|court|application|provisional|final ?decree|conclusions of law)[\W_]{1,8})"
)


@dataclass(frozen=True, slots=True)
class FilingForm:
    """A form of entry: how it opens, what the paper is, and what it does."""

    name: str
    pattern: re.Pattern[str]
    filing_unit_kind: str
    filing_role: str
    expected_fields: tuple[str, ...] = ()
    """What an entry of this form says; where it does not, its extraction is incomplete."""


def _opening(pattern: str, before: str = "") -> re.Pattern[str]:
    """Compile what opens an entry: white space and marks, words without a say, then `pattern`."""
    prefix = rf"{before}{{0,8}}+" if before else ""
    spaced = f"{prefix}(?:{pattern})".replace(" ", r"\s{1,8}")
    return re.compile(rf"[\W_]{{0,40}}+{spaced}", re.IGNORECASE)


def _paper(pattern: str) -> re.Pattern[str]:
    return _opening(pattern, _BEFORE)


def _of_court(pattern: str) -> re.Pattern[str]:
    return _opening(pattern, _COURT_BEFORE)


def _form(
    name: str,
    pattern: re.Pattern[str],
    kind: str,
    role: str,
    *expected: str,
) -> FilingForm:
    return FilingForm(name, pattern, kind, role, expected)


_SUPPORT = r"[^.(;]{0,80}?\bin (?:further )?support\b"
_OPPOSE = r"[^.(;]{0,60}?\bin (?:partial |limited |response and )?opposition\b"

FORMS: tuple[FilingForm, ...] = (
    # What only tells that something was sent, lodged or paid.
    _form(
        "proposed order",
        _opening(
            r"(?:ex ?parte )?(?:received )?unsigned"
            r"|(?:notice of )?(?:lodg\w{1,6}|submi\w{1,8})(?: of)?(?: \w{1,20}){0,3} (?:order|judg)"
            r"|(?:\w{1,20} )?proposed (?:form of )?(?:\w{1,20} )?(?:order|judgment)"
            r"|order (?:lodged|submitted|upload)|placed in file|ex ?parte received"
        ),
        "proposed_order",
        "proposing",
    ),
    _form(
        "certificate of mailing",
        _opening(
            r"bnc |court'?s? certificate of|certificate of (?:mailing|notice)\b|court'?s? notice of "
            r"\d+|mail returned"
        ),
        "certificate_of_mailing",
        "serving",
    ),
    _form(
        "proof of service",
        _paper(
            r"(?:certificate|affidavit|proof|declaration|acknowledg\w{1,8}|certification)"
            r"(?:/(?:certificate|declaration|proof|affidavit))?(?: and \w{1,20})? (?:of|re) "
            r"(?:service|mailing|publication)"
            r"|(?:certificate|affidavit|declaration) of posting|(?:usms )?return of service"
            r"|(?:summons|waiver|complaint|process)[^.;(]{0,40}?\b(?:executed|unexecuted|returned)\b"
            r"|service (?:executed|by)"
        ),
        "proof_of_service",
        "serving",
    ),
    _form(
        "receipt",
        _opening(r"receipt (?:of|number|for|no)|(?:filing )?fee (?:paid|received)|payment of"),
        "receipt",
        "informing",
        "amount",
    ),
    _form(
        "certificate of no objection",
        _paper(
            r"(?:certificate|certification|declaration|affidavit|affirmation|statement)"
            r"(?: \w{1,20}){0,2} (?:of|re:?|regarding) (?:no[- ]|non-?)"
            r"(?:objection|response|opposition)"
        ),
        "certificate_of_no_objection",
        "supporting",
        "relates_to",
    ),
    _form(
        "withdrawal",
        _paper(r"withdrawal (?:of|re)\b(?! as)|(?:notice )?withdrawing\b"),
        "withdrawal",
        "withdrawing",
    ),
    _form(
        "transcript", _paper(r"transcript\b|audio file|tape duplic\w+"), "transcript", "informing"
    ),
    _form(
        "appearance",
        _paper(
            r"(?:attorney )?(?:acknowledgment (?:and )?)?appearance|(?:creditor )?request for"
            r" (?:special |courtesy )?(?:notices?|service)|request (?:by|to be)|pro hac vice counsel"
            r"|attorney appearance|substitution of (?:attorney|counsel)|added (?:counsel|\w+ \w+ for)"
        ),
        "appearance",
        "appearing",
    ),
    # What the court or its clerk puts on the calendar.
    _form(
        "meeting of creditors",
        _opening(
            r"(?:amended |trustee |request for |chapter \d{1,2} (?:indiv/joint--)?)?"
            r"(?:notice of |first |rescheduled |continued |examination of debtor and )*"
            r"(?:(?:341|creditors)(?:\(a\))? meeting|meeting of creditors|chapter \d{1,2} 341)"
        ),
        "hearing_notice",
        "scheduling",
    ),
    _form(
        "setting",
        _opening(
            r"(?:amended |court'?s? |clerk'?s? |re-?)*+notice of (?:\w{1,20} ){0,3}?"
            r"(?:hearing(?! and (?:\w{1,20} )?(?:motion|objection|application))|adjournment"
            r"|conference|setting|continuance|trial|agenda)"
            r"|notice (?:and|of) (?:opportunity|deadline)|notice of (?:objection )?deadline"
            r"|(?:confirmation |status |evidentiary |amended |final |preliminary |motion )*+hearing"
            r"(?: \(\w{1,20} \w{1,20}\))? ?(?:set\b|scheduled|continued|re-?scheduled|re-?set"
            r"|adjourned|cancel\w{1,4}|stricken|vacated|withdrawn|on\b|re-?notice|to be held)"
            r"|(?:\*{0,2}|\W{0,4})(?:re-?)?set(?:/reset)?(?: deficient filing)? (?:deadlines?|hearing)"
            r"|(?:set|reset|terminate|update|deadline)[^.;(]{0,30}?(?:deadlines?|hearings?|updated)\b"
            r"|any objection by|schedule notice|briefing (?:schedule|letter)|notification"
        ),
        "hearing_notice",
        "scheduling",
    ),
    _form(
        "scheduling order",
        _of_court(
            r"(?:pretrial |initial )?scheduling order|order (?:\(\w{1,10}\) )?(?:(?:signed|dated)(?: on)? [\d/]{6,10},? )?(?:and notice )?(?:of |re |"
            r"regarding )?(?:scheduling|(?:re)?setting (?!condition|aside)|adjourning"
            r"|rescheduling|to continue|continuing (?:hearing|trial|conf|motion)"
            r"|and notice of hearing|for (?:\w{1,20} )?hearing|fixing|establishing|on scheduling"
            r"|that the hearing)|order (?:and )?notice of"
        ),
        "order",
        "scheduling",
    ),
    # What the court decides or directs.
    _form(
        "order to show cause",
        _of_court(r"order (?:to (?:\w{1,20} )?(?:appear and )?show cause|of (?:usca|reference))"),
        "order",
        "directing",
    ),
    _form(
        "standing order",
        _of_court(
            r"(?:standing|initial|case management|decorum|operating|adr|pretrial|protective"
            r"|initial standing)[^.;(]{0,40}?order\b|case management order"
            r"|order (?:to (?:file|update|debtor|pay (?:trustee|filing))|directing|requiring|upon conv"
            r"|assign|reassign|appoint|of recusal|for relief (?:ordered|entered|in an? inv))"
            r"|assignment of|notice of (?:case )?reassignment|notice (?:and )?to (?:pay|file)"
        ),
        "order",
        "directing",
    ),
    _form(
        "minute entry",
        _opening(
            r"(?:virtual |text |electronic |clerk'?s? |civil |criminal |courtroom )*+minutes?\b"
            r"|hearing (?:\([^)]{1,40}\) )?(?:held|concluded)|(?:trial|matter|conference) held"
            r"|proceeding memo|disposition without hearing|in[- ]court hearing"
        ),
        "minute_entry",
        "disposing",
    ),
    _form(
        "stipulation ordered",
        _opening(r"so ordered stipulation|stipulation(?: and| &)(?: \w{1,20})? order"),
        "order",
        "disposing",
    ),
    _form(
        "order",
        _opening(
            rf"{_COURT_BEFORE}{{0,8}}+(?:order(?:s|ed)?\b(?! (?:of|for) the honorable))"
            r"|memo-?endorse\w*|ruling letter|\w{1,20} order (?:granting|denying|approving)"
            r"|(?:abstract of )?order"
        ),
        "order",
        "disposing",
        "disposition",
    ),
    _form(
        "judgment",
        _of_court(
            r"(?:(?:default|summary|consent|final|amended|district court) )*+judgment"
            r"(?! returned)|verdict|jury verdict"
        ),
        "judgment",
        "disposing",
        "disposition",
    ),
    _form(
        "opinion",
        _of_court(r"opinion\b|disposition \(|decision\b|agency decision"),
        "opinion",
        "disposing",
    ),
    _form("mandate", _of_court(r"(?:formal )?mandate\b"), "mandate", "disposing"),
    _form(
        "discharge",
        _of_court(
            r"discharge (?:of debtor|granted)|discharge\b|(?:bankruptcy )?case (?:closed|dis)"
        ),
        "order",
        "disposing",
        "disposition",
    ),
    _form(
        "disposition of a case",
        _opening(r"disposition of (?:adversary|case)|adversary (?:case [\w:-]{1,20} )?terminated"),
        "case_disposition",
        "disposing",
        "disposition",
    ),
    _form("final decree", _of_court(r"decree"), "order", "disposing"),
    # The practice about a motion.
    _form(
        "supporting reply",
        _paper(r"(?:memorandum|brief|declaration|affidavit)[^.(;]{0,40}? in reply"),
        "reply",
        "replying",
        "relates_to",
        "party",
    ),
    _form(
        "reply",
        _paper(r"(?:sur-?)?repl(?:y|ies)\b(?! (?:brief )?due)|response reply\b|reply brief"),
        "reply",
        "replying",
        "relates_to",
        "party",
    ),
    _form(
        "objection to a claim",
        _paper(
            r"objection to (?:\w{1,20} ){0,3}?(?:proofs? of claim|claims?|exempt\w{0,6}"
            r"|homestead\w{0,4}|debtor'?s? (?:claim of )?(?:exempt|homestead)\w{0,6})\b"
        ),
        "objection",
        "moving",
        "party",
    ),
    _form(
        "opposition",
        _paper(
            rf"(?:opp?osition|objections?)\b(?! (?:deadline|date))|response(?:/\w{{1,20}})?{_OPPOSE}"
            rf"|(?:memorandum|brief|certification|certificate|affidavit|affirmation|declaration"
            rf"|statement|letter)(?:/\w{{1,20}})?{_OPPOSE}"
        ),
        "opposition",
        "opposing",
        "relates_to",
        "party",
    ),
    _form(
        "supporting response",
        _paper(rf"(?:response|joinder){_SUPPORT}"),
        "response",
        "supporting",
        "relates_to",
        "party",
    ),
    _form(
        "response",
        _paper(r"responses?\b(?! due)|letter response|consent to\b|statement of non-?opp"),
        "response",
        "responding",
        "relates_to",
        "party",
    ),
    _form("joinder", _paper(r"joinder\b"), "joinder", "supporting", "relates_to", "party"),
    _form(
        "support",
        _paper(
            r"(?:memorandum|brief|declaration|affidavit|affirmation|certification|exhibits?(?:\(s\))?"
            rf"|statement|appendix|document|supplement)(?:\(s\))?{_SUPPORT}"
        ),
        "supporting_paper",
        "supporting",
        "party",
    ),
    _form(
        "amendment",
        _paper(r"(?:amendment|supplement|addendum|errata)\b"),
        "amendment",
        "amending",
    ),
    _form(
        "plan",
        _paper(
            r"(?:small business |post[- ]confirmation |pre-?confirmation |modification (?:to|of) )*+"
            r"(?:plan\b(?! supp)|liquidating plan|plan of)"
        ),
        "plan",
        "proposing",
        "party",
    ),
    _form(
        "disclosure statement",
        _paper(r"disclosure statement"),
        "disclosure_statement",
        "proposing",
        "party",
    ),
    _form(
        "motion",
        _paper(
            r"(?:[\w'&.,/-]{1,30} ){0,3}?(?:motions?|applications?|mot\.)\b(?! (?:hearing|held|set"
            r"|granted|denied|schedul))|relief from stay|presentment\b|petition (?:to|for (?:amend"
            r"|writ|relief|rehear|perm))|request (?:for (?:entry|an? order|hear|status|refund|issu"
            r"|extension|judicial|default)|to)|(?:fee (?:statement|application))|fee application"
            r"|intent to (?:sell|abandon)|proposed (?:abandonment|sale)|information for"
            r"|(?:[\w'&.-]{1,30} ){0,2}certification of default"
        ),
        "motion",
        "moving",
        "motion",
        "party",
    ),
    _form(
        "memorandum",
        _paper(r"(?:\w{1,20} )?(?:memorandum|memorandum of law|brief|trial brief)\b"),
        "memorandum",
        "supporting",
        "party",
    ),
    _form("stipulation", _paper(r"(?:\w{1,20} )?stipulation\b"), "stipulation", "stipulating"),
    # What begins a case, and what answers it.
    _form(
        "petition",
        _paper(
            r"(?:\w{1,20} )?(?:voluntary|involuntary) petition|petition for (?:review|recog)"
            r"|petition\b|(?:civil |criminal |miscellaneous )case (?:docketed|opened)"
        ),
        "petition",
        "initiating",
    ),
    _form(
        "complaint",
        _paper(
            r"(?:adversary (?:case|proceeding) [\w:-]{1,20}\W{0,3})?(?:third-party |adversary )?"
            r"(?:complaint|counterclaim|crossclaim)\b|removal\b|adversary case"
        ),
        "complaint",
        "initiating",
    ),
    _form(
        "charge",
        _paper(r"(?:superseding )?(?:indictment|information)\b"),
        "charge",
        "initiating",
    ),
    _form(
        "appeal", _paper(r"(?:criminal |civil |interlocutory )?appeal\b"), "appeal", "initiating"
    ),
    _form("answer", _paper(r"answer\b(?! due)"), "answer", "responding", "party"),
    # What informs.
    _form("summons", _paper(r"(?:\w{1,20} )?(?:\d{1,2}[- ]day )?summons"), "summons", "serving"),
    _form(
        "agreement",
        _paper(r"reaffirmation agreement|(?:plea |settlement )?agreement\b"),
        "agreement",
        "stipulating",
    ),
    _form(
        "transfer of claim",
        _paper(r"(?:assignment ?/ ?)?transfer (?:of claim|agreement)|transfer/assignment of claim"),
        "claim_transfer",
        "informing",
    ),
    _form(
        "schedules",
        _paper(
            r"(?:summary of )?(?:schedules?|statements?)\b|list of|\d{2} largest|master "
            r"(?:address|mailing)|mailing matrix|(?:creditor )?matrix|declaration re\b"
            r"|disclosure of comp|(?:certificate of )?(?:credit counsel|debtor educ)|exhibit d\b"
            r"|(?:corporate )?(?:ownership|disclosure) statement|financial management"
            r"|declaration (?:of evidence|under penalty)|social security|certification of inter"
        ),
        "statement",
        "informing",
    ),
    _form(
        "report",
        _paper(r"(?:[\w'/-]{1,20} ){0,3}?report\b|no presumption|summary of cash|status report"),
        "report",
        "informing",
    ),
    _form(
        "declaration",
        _paper(r"(?:declaration|affidavit|affirmation|certification)\b"),
        "declaration",
        "supporting",
        "party",
    ),
    _form("exhibits", _paper(r"exhibits?(?:\(s\))?\b|appendix\b|witness"), "exhibit", "supporting"),
    _form("letter", _opening(r"(?:\w{1,20} )?letter\b|correspondence"), "letter", "informing"),
    _form(
        "notice",
        _opening(r"(?:[\w'/-]{1,20} ){0,3}?notice\b|deficien|change of address|missing documents"),
        "notice",
        "informing",
    ),
)

OTHER_FORM = FilingForm("docket note", re.compile(""), "docket_note", "informing")

_REMARK = re.compile(
    r"\W{0,4}(?:[(\[*](?:unsealed|nonconforming|incorrect|docketed in|this document|pdf file|entered"
    r"|restricted|\d{1,3}\s{1,4}pg)[^)\]*]{0,200}[)\]*]|incorrect event entered,? filer notified"
    r"(?: to refile)?|(?:filed|docketed) in (?:error|incorrect case)|docket error|corrective entry"
    r"|(?:please )?disregard(?: entry)?)\W{0,4}",
    re.IGNORECASE,
)
"""What a clerk put before an entry about the entry itself."""

OPENING_CHARS_MAX = 512
"""How much of an entry is looked at for how it opens."""


def filing_form(description: str) -> FilingForm:
    """Return the first form that the description opens as."""
    opening = description[:OPENING_CHARS_MAX]
    remark = _REMARK.match(opening)
    start = remark.end() if remark else 0
    return next((form for form in FORMS if form.pattern.match(opening, start)), OTHER_FORM)
