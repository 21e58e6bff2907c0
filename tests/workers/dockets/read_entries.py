"""Entries of real dockets, reduced to the clerk's phrases, and what a reader found in each.

They come from forty dockets drawn at random, whose eliminations were read one by one; names,
numbers and whatever else says who it was are left out or replaced by letters.
"""

READ: tuple[tuple[str, str, frozenset[str]], ...] = (
    (
        "bankruptcy",
        (
            "Chapter 13 Voluntary Petition. Receipt Number o, Fee Amount $274 Filed by A "
            "Schedule A due 12/23/2009. Schedule B due 12/23/2009."
        ),
        frozenset({"voluntary_petition_filed"}),
    ),
    (
        "bankruptcy",
        (
            "ORDER and notice of dismissal for failure to file schedules, statements, and/or "
            "plan - Debtor Dismissed. All pending motions and adversary proceedings are moot "
            "and dismissed."
        ),
        frozenset({"case_dismissed"}),
    ),
    (
        "bankruptcy",
        (
            "Voluntary Petition under Chapter 11. (Fee Paid) Schedules A-H and Summary of "
            "Schedules, Statement of Financial Affairs Disclosure of Compensation, Filed by A"
            " on behalf of B LLC. Chapter 11 Plan due by 06/14/2010 Disclosure Statement due "
            "by 06/14/2010"
        ),
        frozenset({"schedules_filed_with_petition", "voluntary_petition_filed"}),
    ),
    (
        "bankruptcy",
        "Voluntary Petition all schedules and statements. (a)",
        frozenset({"schedules_filed", "voluntary_petition_filed"}),
    ),
    ("bankruptcy", "Trustee's Report of No Assets. (a)", frozenset({"no_distribution_reported"})),
    (
        "bankruptcy",
        "First Meeting Held 3/19/01 all parties present. (a)",
        frozenset({"meeting_of_creditors_held"}),
    ),
    ("bankruptcy", "Final Decree (a)", frozenset({"case_closed"})),
    (
        "bankruptcy",
        (
            "Minute of Confirmation Hearing Held, OUTCOME: Plan confirmed at $130 x 36 "
            "months; Sale of real property by 1/31/2007"
        ),
        frozenset({"plan_confirmed"}),
    ),
    (
        "bankruptcy",
        (
            "Confirmation Hearing Rescheduled (related document: 12 Confirmation Hearing "
            "Scheduled) Confirmation hearing to be held on 12/7/2005"
        ),
        frozenset(),
    ),
    (
        "bankruptcy",
        (
            "Chapter 11 Voluntary Petition, Schedules and Statements. Fee Amount $1039 Filed "
            "by A Summary of schedules due 2/16/2010. Schedule A due 2/16/2010."
        ),
        frozenset({"voluntary_petition_filed"}),
    ),
    (
        "bankruptcy",
        (
            "Chapter 13 Voluntary Petition (Individual) with Statement of Financial Affairs, "
            "Schedule(s) A/B, C, D, E/F, G, H, I and J"
        ),
        frozenset({"schedules_filed_with_petition", "voluntary_petition_filed"}),
    ),
    (
        "bankruptcy",
        (
            "Order Determining Debtor's Compliance with Filing Requirements of 11 U.S.C. "
            "Section 521(a)(1) (a)"
        ),
        frozenset({"filing_requirements_met"}),
    ),
    (
        "bankruptcy",
        (
            "Meeting of Creditors scheduled on 341(a) meeting to be held on 3/4/2010 at 01:45"
            " PM at A."
        ),
        frozenset({"meeting_of_creditors_called"}),
    ),
    (
        "bankruptcy",
        ("Monthly Operating Report. Operating Report Number: 11. For the Month Ending January 31"),
        frozenset({"operating_report_filed"}),
    ),
    (
        "bankruptcy",
        "Schedule B AMENDED, Schedule D AMENDED, Statement of Financial Affairs AMENDED",
        frozenset({"schedules_filed"}),
    ),
    (
        "bankruptcy",
        (
            "First meeting held and concluded on 8/5/2008 and trustee's report of no "
            "distribution: Trustee of this estate reports"
        ),
        frozenset({"meeting_of_creditors_held", "no_distribution_reported"}),
    ),
    (
        "bankruptcy",
        "(1 pg) Order approving chapter 7 no asset trustee report and discharging trustee.",
        frozenset({"no_distribution_reported"}),
    ),
    (
        "bankruptcy",
        "ORDER Granting Motion to Reinstate Case Both Debtors (Related Doc # 42 ) signed",
        frozenset(),
    ),
    (
        "bankruptcy",
        (
            "Notice of Intent to File Trustees Final Report and Account - Chapter 13 "
            "Dismissed/Converted ."
        ),
        frozenset(),
    ),
    (
        "bankruptcy",
        "Disposition of Adversary 2:09-ap-6512 : Dismissed by Stipulation.",
        frozenset(),
    ),
    (
        "bankruptcy",
        "Motion to Convert Case From Chapter 7 to 11. Fee Amount $755 Filed by Debtor",
        frozenset(),
    ),
    (
        "bankruptcy-adversary",
        "Affidavit of Service for Summons Service Executed on A Ltd. (related document(s)2, 1)",
        frozenset({"defendant_served"}),
    ),
    (
        "bankruptcy-adversary",
        "Answer to Complaint 10/20/09 Filed by A.",
        frozenset({"answer_filed"}),
    ),
    (
        "bankruptcy-adversary",
        "Transcript regarding Hearing Held 08/29/2011 RE: trial, a.m. session.",
        frozenset({"trial_held"}),
    ),
    (
        "bankruptcy-adversary",
        (
            "Transcript regarding Hearing Held on 12/9/09 RE: Hearing in Pre-Trial "
            "Conference, et al."
        ),
        frozenset(),
    ),
    (
        "district",
        "WAIVER OF SERVICE RETURNED EXECUTED. A, LLC waiver sent on 1/15/2021, answer due",
        frozenset({"defendant_served"}),
    ),
    (
        "district",
        "ANSWER to 1 Complaint with JURY DEMAND. Document filed by A, LLC.",
        frozenset({"answer_filed"}),
    ),
    (
        "district",
        (
            "ORDER of USCA as to 42 Notice of Appeal - the appeal is dismissed as of "
            "11/16/2010 for want of prosecution"
        ),
        frozenset(),
    ),
    ("district-criminal", "INDICTMENT as to A (1) count(s) 1. (a)", frozenset({"charge_filed"})),
    (
        "district-criminal",
        "PRE-SENTENCE REPORT as to A. Report prepared by: B.",
        frozenset({"sentencing_prepared"}),
    ),
    (
        "district-criminal",
        "Probation Jurisdiction Transferred to Central District of California as to A (1).",
        frozenset(),
    ),
    (
        "district-criminal",
        (
            "ORDER ACCEPTING GUILTY PLEA as to A, adopting Findings and Recommendation of the"
            " Magistrate Judge."
        ),
        frozenset({"guilty_plea_accepted"}),
    ),
    (
        "bankruptcy",
        (
            "Declaration Re: Electronic Filing, Summary of Schedules, Schedule A, Schedule B, "
            "Schedule D"
        ),
        frozenset({"schedules_filed"}),
    ),
    (
        "bankruptcy",
        "Order Granting 502 Second Motion to Extend Debtors' Exclusivity Period to 6/30/10",
        frozenset({"exclusivity_extended"}),
    ),
)
