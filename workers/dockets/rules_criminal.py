"""Lists the postures of criminal prosecutions, and what a docket entry excludes among them.

A docket is followed for its first defendant: an entry that names only a later one, "(2)" or
higher, strikes nothing.
"""

from workers.dockets.rule import MINUTES, Rule, all_but, opens_with, says

PHASES = (
    "awaiting_first_appearance",
    "awaiting_charge",
    "awaiting_plea_or_trial",
    "awaiting_sentence",
)
POSTURES = (
    *PHASES,
    "ended_by_sentence",
    "ended_by_dismissal",
    "ended_by_acquittal",
    "ended_by_transfer",
    "on_appeal",
)
_KIND = ("district-criminal",)
_LATER_DEFENDANT = r"^(?![\s\S]*\(1\))[\s\S]*?\((?:[2-9]|[1-9]\d)\)"


RULES = (
    Rule(
        "charge_filed",
        _KIND,
        opens_with(
            r"(?:sealed |superseding |redacted |felony )*(?:indictment|information)\b"
            r"(?:[^.]{0,80}?| with foreperson'?s signature redacted[^:]{0,80}?) as to\b"
        ),
        says(r"unsealed as to|signature page"),
        ("awaiting_charge",),
        "An indictment or an information is on file.",
    ),
    Rule(
        "first_appearance_held",
        _KIND,
        opens_with(
            MINUTES + r"(?:re-?)?(?:initial appearance|arraignment)\b(?! of material)"
            r"[^:]{0,250}?\bheld\b"
        ),
        says(rf"not held|material witness|revocation|failed to appear|{_LATER_DEFENDANT}"),
        ("awaiting_first_appearance",),
        "The defendant has appeared before the court.",
    ),
    Rule(
        "plea_hearing_held",
        _KIND,
        opens_with(
            MINUTES + r"(?:change of plea|plea and rule 11) hearing as to [^.;]{0,60} held\b"
        ),
        says(rf"not held|not appear|revocation|{_LATER_DEFENDANT}"),
        ("awaiting_first_appearance", "awaiting_charge"),
        "The defendant appeared before the court to plead to the charge.",
    ),
    Rule(
        "guilty_plea_accepted",
        _KIND,
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
        _KIND,
        opens_with(r"jury verdict[^;]{0,80}\bguilty"),
        says(rf"not guilty|{_LATER_DEFENDANT}"),
        ("awaiting_first_appearance", "awaiting_charge", "awaiting_plea_or_trial"),
        "A jury has found the defendant guilty.",
    ),
    Rule(
        "sentencing_prepared",
        _KIND,
        opens_with(
            r"(?:final )?pre-?sentence (?:investigation )?report as to"
            r"|order on sentencing schedule as to"
            r"|scheduling order as to [^.;]{0,60}? sentencing (?:re)?set for"
        ),
        says(rf"pre-plea|draft|change of plea|trial|revocation|violation|{_LATER_DEFENDANT}"),
        ("awaiting_first_appearance", "awaiting_charge", "awaiting_plea_or_trial"),
        "The sentence is being prepared, which follows the plea or the verdict.",
    ),
    Rule(
        "sentencing_held",
        _KIND,
        opens_with(
            MINUTES + r"sentenc(?:e|ing)(?: with psr)?(?: hearing)?(?: as to [^.]{0,60})? held\b"
            r"|text minute entry for sentencing proceedings held"
        ),
        says(rf"revocation|not held|supervised release violation|{_LATER_DEFENDANT}"),
        (*PHASES, "ended_by_acquittal", "ended_by_transfer"),
        "Sentence was pronounced at a hearing.",
    ),
    Rule(
        "sentence_entered",
        _KIND,
        opens_with(r"(?:amended |corrected )*judgment (?:in a criminal case )?as to"),
        says(
            r"returned|revocation|acquittal"
            r"|^[^;]{0,400}count\(s\)\s[\d\s,-]++dismissed[^;]{0,400}$|" + _LATER_DEFENDANT
        ),
        all_but(POSTURES, "ended_by_sentence", "on_appeal"),
        "The court entered its judgment of conviction and sentence.",
    ),
    Rule(
        "prosecution_dismissed",
        _KIND,
        opens_with(
            r"order (?:of )?dismiss(?:ing|al)(?: of)? (?:the |this )?"
            r"(?:indictment|information|complaint|case)"
        ),
        says(rf"denying|in part\b|superseded|original indictment|counts?\b|{_LATER_DEFENDANT}"),
        all_but(POSTURES, "ended_by_dismissal", "on_appeal"),
        "The court dismissed the prosecution.",
    ),
    Rule(
        "acquitted",
        _KIND,
        opens_with(r"judgment of acquittal\b"),
        says(rf"motion|denying|counts?\b|{_LATER_DEFENDANT}"),
        all_but(POSTURES, "ended_by_acquittal"),
        "The court entered a judgment of acquittal.",
    ),
    Rule(
        "prosecution_transferred",
        _KIND,
        opens_with(r"rule (?:20|21) (?:transfer|documents|papers) (?:out|sent|to)\b"),
        says(rf"probation|supervised|transfer in|{_LATER_DEFENDANT}"),
        all_but(POSTURES, "ended_by_transfer"),
        "The prosecution was sent to another district.",
    ),
)
