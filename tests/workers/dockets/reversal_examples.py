"""For each reversal, texts that it reads and texts that it must leave alone.

The first of what is read is as a court worded it where the dockets on which the rows were measured
have such an act, without names of people; the others are invented.
"""

EXAMPLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "case_reinstated": (
        (
            "ORDER Granting Motion to Reinstate Case Both Debtors (Related Doc # 42 ) signed",
            "ORDER Reinstating Case Debtor signed on 6/9/2009 .",
            (
                "Endorsed Order Dated 9/14/2009 Re: 26 Debtor's Motion To Reinstate Case. "
                "NO OBJECTIONS. MOTION ALLOWED."
            ),
            "Order Granting Motion To Reinstate Case (Related Doc # 26 ), Granting",
            "Agreed Order Vacating Order of Dismissal",
            "Order Granting Debtor's Motion to Vacate Dismissal (Related Doc # 51)",
            "Order setting aside the order dismissing case",
        ),
        (
            "Motion to Reinstate Case",
            "ORDER REINSTATING STAY AND PROVIDING FOR MONTHLY PAYMENTS",
            "Order denying motion to reinstate case",
            "Order setting hearing on motion to reinstate case",
            "Order Vacating Stay, re: 1605 Sheridan Drive",
        ),
    ),
    "case_reopened": (
        (
            "Order Granting Motion to Reopen Chapter 7 Case (Related Doc # 32)",
            "Order Reopening Case",
            "Bankruptcy Case Reopened",
        ),
        (
            "Receipt of filing fee for Motion to Reopen Ch. 13 Case(05-31567) [motion,mreop13]",
            "The estate having been fully administered, administration of the reopened case done",
        ),
    ),
    "discharge_vacated": (
        (
            "Order Vacating Discharge Order of 11/25/09 for Debtor.",
            "ORDER Revoking Debtor's Discharge",
        ),
        ("BNC Certificate of Mailing - Order Vacating Discharge", "Motion to vacate discharge"),
    ),
    "discharge_allowed_again": (
        ("Order Vacating Order Denying Discharge",),
        ("ORDER Denying Discharge - Default Judgment Entered", "Order vacating discharge"),
    ),
    "confirmation_vacated": (
        (
            (
                "Order Granting Motion To Vacate Confirmation Order. The Trustee's Motion to "
                "Dismiss is reinstated and continued (Related Doc # 26)."
            ),
            "Order Vacating Order Confirming Chapter 13 Plan",
        ),
        ("Motion to vacate order confirming plan", "Order Confirming Chapter 13 Plan"),
    ),
    "converted_back": (
        (
            "Order Granting Motion to Convert Case to Chapter 13 (Related Doc # 18)",
            "Order Reconverting Case from Chapter 7 to Chapter 11",
            "Order Vacating Order Converting Case to Chapter 7",
        ),
        (
            "Order granting motion to convert case from chapter 13 to 7 (related document # 28)",
            "Order re: Motion To Convert to Chapter 11 (Related document(s) 18 )",
            "Order Denying Motion to Convert Case to Chapter 13",
        ),
    ),
    "report_withdrawn": (
        (
            "Trustee's Notice of Assets & Request for Notice to Creditors Filed by Trustee",
            "Withdrawal of Trustee's Report of No Distribution",
        ),
        ("Chapter 7 Trustee's Report of No Distribution", "Withdrawal of Claim"),
    ),
    "transfer_vacated": (
        ("Order Vacating Order Transferring Case to the Northern District of Ohio",),
        (
            "Order Transferring Case to the Northern District of Ohio",
            "Order vacating transfer of claim",
        ),
    ),
    "action_reinstated": (
        (
            "ORDER granting 45 Motion to Reinstate Case.",
            "ORDER vacating order of dismissal",
            "ORDER granting Plaintiff's motion to set aside dismissal",
        ),
        (
            "ORDER of USCA as to 42 Notice of Appeal - granted motion to reinstate the appeal",
            "ORDER denying 45 Motion to Reinstate Case",
        ),
    ),
    "action_reopened": (
        ("ORDER REOPENING CASE.", "Order granting motion to reopen adversary proceeding"),
        ("MOTION to Reopen Case by Widgets, Inc.", "NOTICE of Vacated Hearing(s)"),
    ),
    "judgment_vacated": (
        (
            "ORDER granting 61 Motion to Set Aside Default Judgment",
            "ORDER vacating the judgment",
            "ORDER GRANTING RELIEF FROM JUDGMENT",
        ),
        (
            "MINUTES: Accordingly, the hearing date is vacated. Order will issue.",
            "ORDER denying motion to vacate judgment",
        ),
    ),
    "new_trial_granted": (
        ("ORDER granting Plaintiff's Motion for New Trial", "ORDER granting a new trial"),
        ("ORDER denying motion for new trial", "MOTION for New Trial by Widgets, Inc."),
    ),
    "remanded_after_appeal": (
        (
            (
                "USCA JUDGMENT issued as mandate on 10/4/11 as to 42 Notice of Appeal. Ordered "
                "that the judgment of the District Court is reversed, and the cause is remanded "
                "to the District Court for further proceedings"
            ),
            "MANDATE of USCA as to 88 Notice of Appeal: the judgment is vacated and remanded",
        ),
        (
            "MANDATE of USCA as to 88 Notice of Appeal: the judgment is affirmed",
            "Final Order By The BAP Panel, at BAP. Re: Appeal; Affirmed in Part Reversed in Part.",
        ),
    ),
    "appealed_again": (
        ("Notice of Appeal to BAP Appeal #12-S003 BAP #WW-12-1023.. Fee Due $ 298",),
        ("NOTICE of Interlocutory Appeal", "MANDATE of USCA as to 88 Notice of Appeal"),
    ),
    "case_sent_back": (
        ("ORDER vacating order of transfer", "ORDER granting motion to vacate order of remand"),
        ("ORDER of transfer to the District of Utah", "ORDER denying motion to vacate transfer"),
    ),
    "service_quashed": (
        ("ORDER granting 8 Motion to Quash Service of Summons",),
        ("ORDER granting motion to quash subpoena", "MOTION to Quash Service by Widgets, Inc."),
    ),
    "plea_withdrawn": (
        ("ORDER granting 61 Motion to Withdraw Plea of Guilty as to A. B. (1)",),
        ("ORDER denying motion to withdraw guilty plea as to A. B.", "ORDER accepting guilty plea"),
    ),
    "conviction_vacated": (
        (
            "ORDER granting 90 Motion to Vacate Sentence (2255) as to A. B. (1)",
            "ORDER vacating judgment as to A. B.",
        ),
        (
            "ORDER on Joint Stipulation: The sentencing hearing currently scheduled be vacated",
            "BRIEF in support of Vacating Receipt Conviction by Attorney",
        ),
    ),
    "prosecution_reinstated": (
        ("ORDER vacating order of dismissal as to A. B.", "ORDER reinstating the indictment"),
        ("ORDER dismissing the indictment as to A. B.", "MOTION to reinstate the indictment"),
    ),
    "mandate_recalled": (
        (
            (
                "Filed clerk order (Deputy Clerk: XX): The mandate issued on 06/19/2017 is "
                "recalled purusant to the Supreme Court's order vacating and remanding the judgment"
            ),
            "ORDER recalling mandate",
        ),
        ("Motion to recall mandate filed", "MANDATE ISSUED."),
    ),
    "decision_vacated": (
        (
            (
                "Order filed for PUBLICATION In view of the Supreme Court order dated October 24, "
                "2017, the court's opinion filed June 12, 2017, is vacated and the appeal is "
                "dismissed as moot."
            ),
            "ORDER FILED. The petition for rehearing en banc is granted",
            "ORDER filed: The opinion filed 3/4/2019 is withdrawn; a superseding opinion follows",
        ),
        (
            "JUDGMENT FILED: the judgment of the district court is vacated",
            (
                "Received copy of District Court order filed on 11/02/2017. EO: In view of the "
                "order vacating its June 12, 2017 opinion, the Court hereby dismisses the challenge"
            ),
        ),
    ),
    "appeal_reinstated": (
        ("ORDER reinstating the appeal", "ORDER granting motion to reinstate appeal"),
        ("Motion to reinstate appeal filed", "ORDER denying motion to reinstate appeal"),
    ),
    "submission_vacated": (
        ("ORDER FILED. Submission of this case is vacated", "Case withdrawn from submission"),
        ("CASE SUBMITTED on the briefs", "Motion to withdraw submission filed"),
    ),
    "generic_case_reopened": (
        ("Order reinstating case", "Order reopening the case", "Case reopened"),
        ("Motion to reopen the case", "Order denying motion to reopen case"),
    ),
    "entry_struck": (
        (
            (
                "CORRECTIVE ENTRY Incorrect Event Entered, Filer Notified to Refile "
                "(RE: 10 Summary of Schedules)."
            ),
            "Order Striking 12 Summary of Schedules",
            "Order vacating document no. 35",
            "Notice of Withdrawal of Document (related document(s) 184 )",
        ),
        (
            "CORRECTIVE ENTRY to include retroactive to 9/25/2009 (RE: 15 Order on Application)",
            "Order Vacating Order Striking Motion (related document(s) 74 ).",
            "Order Vacating Automatic Stay (Related document(s) 11 )",
        ),
    ),
}
