"""Lists the postures of a bankruptcy case, and what a docket entry excludes among them.

Each `awaiting_*` posture is left for good once the thing has happened. A corporate case under
chapter 11 and a chapter 7 case of a person share the universe: postures that never apply to a
case stay until its ending strikes them.
"""

from workers.dockets import rules_petition
from workers.dockets.rule import Rule, opens_with, says
from workers.dockets.rules_petition import KIND as _KIND
from workers.dockets.rules_petition import ORDER_FOR_RELIEF, SCHEDULES

PHASES = (
    ORDER_FOR_RELIEF,
    SCHEDULES,
    "awaiting_meeting_of_creditors",
    "awaiting_plan_confirmation",
    "awaiting_discharge",
)
POSTURES = (
    *PHASES,
    "awaiting_closing",
    "ended_by_discharge",
    "ended_by_dismissal",
    "ended_by_transfer",
    "closed_without_discharge",
)
_BEFORE_CONFIRMATION = PHASES[: PHASES.index("awaiting_discharge")]
_ALL_BUT_DISCHARGE = ("ended_by_dismissal", "ended_by_transfer", "closed_without_discharge")

RULES = (
    *rules_petition.RULES,
    Rule(
        "meeting_of_creditors_held",
        _KIND,
        opens_with(
            r"(?:the united states trustee states that the )?"
            r"(?:minutes of |minute sheet |trustee'?s (?:report|memorandum) (?:of|from) )?"
            r"(?:first |initial )?(?:section )?(?:341(?:\(a\))? )?meeting(?: of creditors)?"
            r"(?: chapter \d+)? (?:was )?\(?(?:held|concluded)"
        ),
        says(
            r"held (?:and )?(?:continued|adjourned|open|disposition pending|and disposition)"
            r"|continued to|adjourned to|not appear"
        ),
        (ORDER_FOR_RELIEF, "awaiting_meeting_of_creditors"),
        "The meeting of creditors was held and was not adjourned.",
    ),
    Rule(
        "no_distribution_reported",
        _KIND,
        opens_with(
            r"(?:chapter 7 )?trustee'?s report of no (?:distribution|assets?)"
            r"|first meeting held and concluded[^:]{0,60}report of no distribution"
            r"|(?:\d+ pgs?\W+)?order approving chapter 7 no asset trustee report"
        ),
        says(r"withdraw|amended|vacat"),
        _BEFORE_CONFIRMATION,
        "The trustee reports an estate fully administered without assets, so that schedules, "
        "meeting and plan lie behind.",
    ),
    Rule(
        "final_account_filed",
        _KIND,
        opens_with(
            r"(?:amended )?(?:chapter 7 )?(?:trustee'?s )?final account(?:,| of estate,| and) "
            r"(?:certification|application)"
            r"|(?:the united states trustee has reviewed the |notice of )?(?:chapter (?:7|13) )?"
            r"trustee'?s? (?:chapter (?:7|13) )?final report\b"
            r"|(?:\d+ pgs?\W+)?order approving chapter 13 trustee report and discharging trustee"
            r"|final report and account filed by trustee|distribution report filed by trustee"
        ),
        says(r"withdraw|objection to|vacat|converted|dismissed"),
        _BEFORE_CONFIRMATION,
        "The trustee renders a final account of an administration that is complete.",
    ),
    Rule(
        "unclaimed_funds_deposited",
        _KIND,
        opens_with(
            r"(?:trustee'?s )?(?:notice|report) of (?:the )?(?:deposit of )?"
            r"unclaimed (?:funds|dividends?)\b"
            r"|order (?:granting (?:motion|application) to (?:pay|remit)"
            r"|to pay|approving application to remit) unclaimed (?:funds|dividends?)\b"
        ),
        says(r"denying|convert"),
        _BEFORE_CONFIRMATION,
        "What creditors did not claim is what a distribution left over.",
    ),
    Rule(
        "plan_confirmed",
        _KIND,
        opens_with(
            r"(?:agreed |amended |endorsed )*order[^.]{0,40}?\bconfirming "
            r"(?:\S+ ){0,5}?plan\b"
            r"|minutes? of confirmation hearing held, outcome: plan confirmed"
            r"|notice of (?:\(a\) )?occurrence of (?:the )?effective date"
            r"|post[ -]confirmation notice of distribution"
        ),
        says(r"denying|vacating|stay is|motion for|procedures"),
        _BEFORE_CONFIRMATION,
        "The court confirmed a plan, which it does only after schedules and meeting.",
    ),
    Rule(
        "converted_to_chapter_7",
        _KIND,
        opens_with(
            r"order[^.]{0,40}(?:converting|to convert) (?:the )?case[^.]{0,40}?to (?:chapter )?7\b"
            r"|case converted[^.]{0,30}? to (?:a )?chapter 7\b"
            r"|(?:initial )?(?:notice of )?(?:voluntary )?conversion (?:by debtor )?"
            r"(?:from chapter 1[123] )?to chapter 7\b"
        ),
        says(r"denying|vacat|set aside"),
        (ORDER_FOR_RELIEF, "awaiting_plan_confirmation"),
        "Under chapter 7 there is no plan to confirm.",
    ),
    Rule(
        "discharge_granted",
        _KIND,
        opens_with(
            r"(?:chapter \d+ )?discharge of (?:the )?(?:joint )?debtor"
            r"|chapter \d+ discharge\s*[.,]|order of discharge\b"
            r"|order (?:granting discharge|discharging (?:the )?(?:joint )?debtor)"
        ),
        says(r"vacat|denying|revok|objecti(?:on|ng) to discharge"),
        (*PHASES, *_ALL_BUT_DISCHARGE),
        "The court granted the debtor a discharge.",
    ),
    Rule(
        "discharge_denied",
        _KIND,
        opens_with(r"order (?:denying|revoking) (?:the )?(?:debtor'?s? )?discharge"),
        says(r"vacat|motion|request"),
        ("awaiting_discharge", "ended_by_discharge"),
        "The court denied or revoked the discharge.",
    ),
    Rule(
        "case_dismissed",
        _KIND,
        opens_with(
            r"(?:final )?order (?:and notice )?(?:of )?dismiss(?:ing|al)(?: of)? (?:the )?"
            r"(?:joint )?(?:case|debtor|chapter \d+|bankruptcy|arising from|for failure|dated)"
        ),
        says(r"as moot|show cause|possible|vacating|dismiss\w{1,20} (?:of )?(?:adversary|appeal)"),
        tuple(p for p in POSTURES if p != "ended_by_dismissal"),
        "The court dismissed the case.",
    ),
    Rule(
        "case_transferred",
        _KIND,
        opens_with(
            r"order[^.]{0,40}transferring (?:the |this )?(?:bankruptcy )?case[^.]{0,30} to "
            r"[^.]{0,40}district|case transferred (?:out )?to [^.]{0,40}district"
        ),
        says(r"denying|to (?:judge|magistrate)|reassign|adversary|motion to"),
        tuple(p for p in POSTURES if p != "ended_by_transfer"),
        "The court sent the case to another district.",
    ),
    Rule(
        "case_closed",
        _KIND,
        opens_with(
            r"(?:bankruptcy )?case closed\b|order closing case|(?:order [^.]{0,30})?final decree"
            r"|order discharging debtor and final decree|closed\. it appearing"
            r"|the estate having been fully administered|the case having been dismissed"
        ),
        says(r"motion|application|hearing|objection"),
        (*PHASES, "awaiting_closing"),
        "The case is closed, so nothing in it is awaited any more.",
    ),
    Rule(
        "closed_with_discharge",
        _KIND,
        opens_with(r"(?:bankruptcy )?case closed\W+discharge\b|order closing case discharged"),
        says(r"without|vacat|waive"),
        _ALL_BUT_DISCHARGE,
        "The closing itself names the discharge as the ground.",
    ),
    Rule(
        "closed_after_dismissal",
        _KIND,
        opens_with(
            r"the case having been dismissed|trustee final account and report in a dismissed case"
            r"|(?:trustee chapter 13 )?final report(?: of trustee)?[^.]{0,40} - (?:case )?dismissed"
        ),
        says(r"vacat|converted"),
        tuple(p for p in POSTURES if p != "ended_by_dismissal"),
        "The closing itself names the dismissal as the ground.",
    ),
)
