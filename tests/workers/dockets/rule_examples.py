"""For each rule, texts that it reads and texts that it must leave alone; all are invented."""

EXAMPLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "schedules_filed": (
        (
            "Summary of Schedules Filed by Widgets, Inc.",
            "Chapter 7 Voluntary Petition. All Schedules and Statements filed. (xx)",
            "Schedules/Statements filed: Sch A, Sch B, Sum of Schs.",
            "Schedule A Filed by Debtor Widgets, Inc.",
            "Amended Schedule(s) : F. Fee Amount $ 26.",
            "Amendment to Schedules (D,E,F/26.00 Fee) F filed by A. B.",
            "Chapter 13 Statement of Current Monthly and Disposable Income, Schedule A, Schedule B",
        ),
        (
            "Schedules/Statements due by 1/30/2018.",
            "Motion to Extend Time to File Schedules and Statements",
            "Notice of Deficiency: Schedules A-J missing",
            "Amended Schedules - Creditor Matrix",
            "Statement of Current Monthly Income, Schedule A due 1/2/2019",
            "Schedules and Statements (except for those listed below)",
        ),
    ),
    "schedules_filed_with_petition": (
        (
            (
                "Chapter 7 Voluntary Petition, Schedules and Statements (except for those listed "
                "below). Electronic Filing Declaration due 02/20/2019, filed by A. B."
            ),
        ),
        (
            (
                "Chapter 11 Voluntary Petition, Schedules and Statements (except for those listed "
                "below). Schedules A-H due 11/30/2019."
            ),
            "Chapter 7 Voluntary Petition. Fee Amount $299.",
        ),
    ),
    "meeting_of_creditors_held": (
        (
            "Meeting of Creditors Held and Concluded Filed by U.S. Trustee",
            "341 Meeting Concluded - Assets (A. B.)",
            "Minutes of 341 Meeting Held and Concluded 8/13/19",
        ),
        (
            "Meeting of Creditors to be held on 3/2/2019 at 03:30 PM",
            "Minute Sheet 341 Meeting Held and Continued to Open Date",
            "Meeting of Creditors Held. Debtor did not appear.",
            "BNC Certificate of Mailing - Meeting of Creditors Held",
        ),
    ),
    "no_distribution_reported": (
        ("Chapter 7 Trustee's Report of No Distribution: I, A. B., report",),
        (
            "Notice of Filing Report of No Distribution",
            "Trustee's Report of No Distribution, withdrawn",
        ),
    ),
    "final_account_filed": (
        ("Final Account and Application to Close Case and Discharge Trustee",),
        ("Notice of Final Account and Hearing", "Objection to Final Report and Account"),
    ),
    "plan_confirmed": (
        (
            "Order Confirming Chapter 13 Plan. (xx)",
            "Order Dated 2/12/19 Confirming 23 Amended Plan.",
            "Order Confirming Debtor's Second Amended Joint Plan of Reorganization",
        ),
        (
            "Order Denying Confirmation of Chapter 13 Plan",
            "Order Granting Motion for Entry of Order Confirming that No Stay is in Effect",
            "Proposed Findings of Fact and Order Confirming the Plan",
            "Notice of Confirmation Hearing on Plan",
        ),
    ),
    "converted_to_chapter_7": (
        (
            "Order granting motion to convert case from chapter 13 to 7",
            "ORDER Converting Case to Chapter 7",
        ),
        (
            "Motion to convert case from chapter 13 to 7",
            "Order denying motion to convert case from chapter 13 to 7",
            "Order re: Motion To Convert to Chapter 11",
        ),
    ),
    "discharge_granted": (
        (
            "Chapter 7 Discharge. (Admin.)",
            "DISCHARGE OF DEBTOR(S): Both Debtors (BNC)",
            "Order Discharging Debtor (xx)",
        ),
        (
            "BNC Certificate of Mailing - Order of Discharge",
            "Request for Discharge Order for Both Debtors",
            "Order discharging chapter 13 panel trustee",
            "Order Vacating Discharge Order of 11/25/19 for Debtor.",
        ),
    ),
    "discharge_denied": (
        ("ORDER Denying Discharge - Default Judgment Entered",),
        ("Motion for Order Denying Discharge", "Complaint objecting to discharge"),
    ),
    "case_dismissed": (
        (
            "ORDER Dismissing Case Both Debtors signed on 9/8/2019",
            "ORDER and notice of dismissal for failure to file schedules - Debtor Dismissed.",
        ),
        (
            "Order to Show Cause Why Case Should Not Be Dismissed",
            "Order Dismissing as Moot Motion to Reject Contract",
            "ENTERED IN ERROR ORDER Dismissing Case .",
            "Notice of Lodging Proposed Order Dismissing Case",
            "Motion to Dismiss Case",
        ),
    ),
    "case_transferred": (
        ("Order Transferring Case to the Northern District of Texas",),
        ("Order Transferring Judge .", "Motion to Transfer Case to another district"),
    ),
    "case_closed": (
        ("Bankruptcy Case Closed. (xx)", "Final Decree (xx)", "ORDER CLOSING CASE [XX]"),
        ("Deadline Set for Closing Review", "Motion for Final Decree", "Adversary Case 9-1 Closed"),
    ),
    "closed_with_discharge": (
        ("Bankruptcy Case Closed - DISCHARGE (xx)",),
        ("Bankruptcy Case Closed and Trustee Discharged .", "Case Closed without discharge"),
    ),
    "closed_after_dismissal": (
        ("The case having been dismissed; IT IS ORDERED that the case is closed",),
        ("If the case having been dismissed is reopened, a fee is due",),
    ),
    "defendant_served": (
        (
            "SUMMONS Returned Executed by WIDGETS, INC. served on 3/13/2019",
            "Summons Service Executed on Widgets, Inc. 1/15/2019",
            "Affidavit of Service of Summons and Complaint on Defendant Widgets",
        ),
        (
            "Summons Issued on Widgets, Inc. Answer Due 2/18/2019",
            "Summons Returned Unexecuted as to Widgets, Inc.",
            "Proof of Service: Subpoena executed on A. B.",
        ),
    ),
    "answer_filed": (
        ("ANSWER to 1 Complaint by Widgets, Inc.", "Yahoo's ANSWER to Complaint with Jury Demand"),
        (
            "MOTION for Extension of Time to File Answer to Complaint",
            "Answer to Counterclaim filed by Widgets, Inc.",
            "Stipulation extending time to answer the Complaint",
        ),
    ),
    "summary_judgment_ruled": (
        (
            "ORDER denying 40 Motion for Summary Judgment; granting 41 Motion",
            "ORDER & REASONS granting 19 Motion for Summary Judgment",
        ),
        (
            "MOTION for Summary Judgment by Widgets, Inc.",
            "ORDER setting hearing on Motion for Summary Judgment",
            "Order granting extension of time to oppose Motion for Summary Judgment",
        ),
    ),
    "trial_held": (
        ("Minute Entry for proceedings held before Judge A: Jury Trial held on 5/1/2019",),
        ("ORDER: Jury trial set for 5/1/2019", "Jury Trial reset, not held"),
    ),
    "verdict_returned": (
        ("JURY VERDICT in favor of plaintiff",),
        ("Proposed jury verdict form by Widgets, Inc.", "Jury Verdict: mistrial declared"),
    ),
    "judgment_entered": (
        (
            "JUDGMENT - Ordered that the claims are DISMISSED with prejudice.",
            "Order of Judgment . Signed on 2/2/2019",
        ),
        (
            "Motion for Entry of Default Judgment",
            "Notice of Entry of Judgment",
            "Judgment on Garnishment signed on 1/7/2019",
            "Partial JUDGMENT in favor of Widgets, Inc.",
        ),
    ),
    "judgment_not_of_dismissal": (
        ("FINAL JUDGMENT in favor of plaintiff for $10.",),
        ("JUDGMENT - Ordered that the claims are DISMISSED with prejudice.",),
    ),
    "dismissed_by_order": (
        ("ORDER DISMISSING CASE without prejudice. Signed by Judge A. B.",),
        (
            "MOTION to Dismiss Case by Widgets, Inc.",
            "ORDER denying motion to dismiss",
            "ORDER dismissing case as to Defendant Widgets, Inc.",
            "ORDER OF DISMISSAL of action: parties have reached a settlement",
        ),
    ),
    "dismissed_by_stipulation": (
        ("STIPULATION AND ORDER for voluntary dismissal of the entire action",),
        (
            "STIPULATION AND ORDER that this action is dismissed as to defendant Widgets",
            "PLACED IN FILE - NOT USED re stipulation and proposed order for dismissal of action",
            "Stipulation of dismissal filed by Widgets, Inc.",
        ),
    ),
    "closed_as_settled": (
        ("Order to Close Case (Case Number: 9:06-ap-1). Reason: settled.",),
        ("ORDER Settlement Conference set for 5/4/2019", "Notice of Settlement"),
    ),
    "transferred_or_remanded": (
        (
            "ORDER OF TRANSFER. Signed by Judge A. B.",
            "Interdistrict transfer to Northern District of Texas",
            "ORDER granting 3 Motion to Remand",
        ),
        (
            "MOTION to Transfer Case to Northern District of Texas",
            "ORDER OF TRANSFER from Judicial Panel on Multi District Litigation",
            "ORDER denying 3 Motion to Remand",
            "CONDITIONAL TRANSFER ORDER FILED TODAY",
        ),
    ),
    "action_closed": (
        ("Adversary Case 1:09-ap-500 Closed .", "Civil Case Terminated."),
        ("ORDER administratively closing case", "ORDER closing case pending stay"),
    ),
    "appeal_decided": (
        ("MANDATE of USCA (Certified Copy) as to 56 Notice of Appeal",),
        (
            "MANDATE of USCA as to 56 Notice of Interlocutory Appeal",
            "NOTICE OF APPEAL by Widgets, Inc.",
        ),
    ),
    "charge_filed": (
        ("INDICTMENT as to A. B. (1) count(s) 1.", "SEALED INDICTMENT as to Sld Dft (1) count 1"),
        ("WAIVER OF INDICTMENT by A. B.", "MOTION to Dismiss Indictment as to A. B."),
    ),
    "first_appearance_held": (
        (
            (
                "Minute Entry for proceedings held before Magistrate Judge C D: Initial Appearance "
                "as to A. B. held on 1/13/2019"
            ),
            "Arraignment as to A. B. (1) held",
        ),
        (
            "NOTICE OF HEARING: Arraignment set for 1/11/19",
            (
                "Minute Entry for proceedings held before Judge C: Arraignment of Material Witness "
                "held"
            ),
            "Arraignment as to C. D. (2) held",
        ),
    ),
    "guilty_plea_accepted": (
        ("ORDER ACCEPTING GUILTY PLEA as to A. B.",),
        (
            "PLEA AGREEMENT as to A. B.",
            "FINDINGS AND RECOMMENDATION of the Magistrate Judge upon a Plea of Guilty",
            "ORDER ACCEPTING GUILTY PLEA as to C. D. (2)",
        ),
    ),
    "found_guilty": (
        ("JURY VERDICT as to A. B. (1) Guilty on Count 1",),
        ("JURY VERDICT as to A. B. (1) Not Guilty on Count 1",),
    ),
    "sentencing_held": (
        (
            (
                "Minute Entry for proceedings held before Judge C: Sentencing held on 4/15/19 for "
                "A. B. (1)"
            ),
        ),
        (
            "SENTENCING MEMORANDUM by A. B.",
            "NOTICE OF SETTING. Sentence set for 4/8/2019",
            "Minute Entry for proceedings held before Judge C: Sentencing held for C. D. (2)",
        ),
    ),
    "sentence_entered": (
        (
            "JUDGMENT as to A. B. (1), Count(s) 1, Custody for 36 months",
            "JUDGMENT as to A. B. (1), Count(s) 1, Dismissed; Count(s) 2, time served",
        ),
        (
            "Judgment Returned Executed as to A. B.",
            "JUDGMENT as to A. B. (1), Count(s) 1, Dismissed on motion.",
            "JUDGMENT on Revocation Proceedings as to A. B.",
        ),
    ),
    "prosecution_dismissed": (
        ("ORDER dismissing indictment as to A. B. (1)",),
        ("MOTION to Dismiss Indictment", "ORDER dismissing indictment as to C. D. (2)"),
    ),
    "acquitted": (
        ("JUDGMENT OF ACQUITTAL as to A. B. (1)",),
        ("MOTION for Judgment of Acquittal by A. B.",),
    ),
    "prosecution_transferred": (
        ("Rule 20 Documents sent to the Northern District of Texas as to A. B.",),
        ("Probation Jurisdiction Transferred to Central District of California",),
    ),
    "appeal_taken": (
        ("NOTICE OF CRIMINAL APPEAL, on behalf of Appellant A. B., OPENED.",),
        ("PETITION FOR REVIEW filed by Petitioner A. B.", "NOTICE of appearance on appeal"),
    ),
    "review_petitioned": (
        ("PETITION FOR REVIEW OF AGENCY ORDER, on behalf of Widgets, Inc., OPENED.",),
        ("CIVIL CASE docketed. Notice of appeal filed", "PETITION FOR REVIEW, SERVED."),
    ),
    "record_filed": (
        ("CERTIFIED ADMINISTRATIVE RECORD filed.",),
        ("BRIEFING NOTICE. Certified Administrative Record due 2/9/2019",),
    ),
    "opening_brief_filed": (
        (
            "APPELLANT'S BRIEF filed by Appellant A. B.",
            "ORDER FILED. Opening Brief submitted at DE 13 by Petitioner A B is filed.",
        ),
        (
            "OPENING BRIEF submitted for filing by Petitioner A. B.",
            "BRIEF tendered by Appellant A. B.",
            "MOTION to extend time to file brief",
        ),
    ),
    "answering_brief_filed": (
        ("APPELLEES' BRIEF filed by Appellees",),
        ("ANSWERING BRIEF submitted for filing by Respondent", "AMICUS BRIEF filed by C. D."),
    ),
    "case_submitted": (
        ("CASE submitted. Panel: A. B., Appellate Judge", "SUBMITTED ON THE BRIEFS to A. B."),
        ("MOTION to submit case on briefs", "ORAL ARGUMENT SCHEDULED for 9:00 a.m."),
    ),
    "decision_entered": (
        ("JUDGMENT entered by A. B., Appellate Judge.", "MEMORANDUM DISPOSITION (A. B.)"),
        ("DISTRICT COURT JUDGMENT, dated 09/19/2019, RECEIVED.", "Opinion distributed"),
    ),
    "judgment_affirmed": (
        ("JUDGMENT entered by A. B., Appellate Judge. Affirmed.",),
        ("JUDGMENT entered by A. B. Affirmed in part.", "MOTION for summary affirmance"),
    ),
    "judgment_reversed": (
        ("OPINION filed by A. B. REVERSED.",),
        ("OPINION filed by A. B. Reversed in part.", "BRIEF: the judgment should be reversed"),
    ),
    "petition_denied": (
        ("MEMORANDUM DISPOSITION (A. B.) DENIED.",),
        ("ORDER FILED. Petition for rehearing denied.", "MEMORANDUM DISPOSITION. DENIED in part."),
    ),
    "denied_and_dismissed_in_part": (
        ("MEMORANDUM DISPOSITION (A. B.) DISMISSED in part and DENIED in part.",),
        ("MEMORANDUM DISPOSITION (A. B.) GRANTED in part and DENIED in part.",),
    ),
    "appeal_dismissed": (
        ("Order filed for PUBLICATION. The appeal is dismissed as moot.",),
        ("MOTION to dismiss", "ORDER entered: if no fee is paid the appeal is dismissed"),
    ),
    "appeal_transferred": (
        ("ORDER entered: the appeal is transferred to the Federal Circuit.",),
        ("MOTION to transfer the appeal",),
    ),
    "mandate_issued": (
        ("MANDATE issued. [19-1]", "MANDATE ISSUED to Bankruptcy Court"),
        (
            "Filed clerk order: The mandate issued on 06/19/2019 is recalled",
            "MOTION to issue the mandate",
        ),
    ),
    "generic_case_dismissed": (
        ("ORDER dismissing case.",),
        ("Motion to dismiss case", "ORDER denying dismissal"),
    ),
    "generic_case_closed": (
        ("Case closed.",),
        ("ORDER administratively closing the case", "Notice: case closed in error"),
    ),
    "voluntary_petition_filed": (
        (
            "Chapter 7 Voluntary Petition. Fee Amount $299. Filed by A. B.",
            "Voluntary Petition (Chapter 11). Order for Relief Entered.",
            "Amended Chapter 13 Voluntary Petition",
            "Order for Relief under Chapter 7",
        ),
        (
            "Involuntary Petition against Widgets, Inc.",
            "Receipt of Voluntary Petition (Chapter 11)(19-10001) Filing Fee.",
            "Order For Relief From the Automatic Stay",
            "Motion for an Order for Relief",
        ),
    ),
    "meeting_of_creditors_called": (
        (
            "Meeting of Creditors with 341(a) meeting to be held on 3/2/2019",
            "Chapter 7 Indiv/Joint--Notice of Meeting of Creditors.",
            "Notice of Chapter 7 Bankruptcy Case, Meeting of Creditors, & Deadlines",
            "Notice of Commencement of Case, Section 341 Meeting of Creditors, and Fixing",
        ),
        (
            "BNC Certificate of Mailing - Meeting of Creditors",
            "Motion to Continue Meeting of Creditors",
        ),
    ),
    "operating_report_filed": (
        (
            "Debtor-In-Possession Monthly Operating Report for the Period of 04/01/2019",
            "Amended Operating Report for November 2019",
        ),
        ("Motion to Compel Monthly Operating Reports", "Deficiency Memo re Operating Report"),
    ),
    "committee_appointed": (
        (
            "Notice of Appointment of Creditors' Committee Filed by United States Trustee.",
            "Appointment of Official Committee of Unsecured Creditors",
        ),
        ("Motion for Appointment of Creditors' Committee", "Objection of Creditors' Committee"),
    ),
    "chapter_13_plan_filed": (
        ("Chapter 13 Plan Filed by Debtor", "First Amended Chapter 13 Plan"),
        ("Objection to Chapter 13 Plan", "Chapter 11 Plan of Reorganization"),
    ),
    "filing_requirements_met": (
        (
            (
                "Order Determining Debtor's Compliance with Filing Requirements of 11 U.S.C. "
                "Section 521(a)(1)"
            ),
            (
                "The Debtor(s) is/are certified as having complied with all filing requirements "
                "of 11 U.S.C. sec. 521(a)(1)"
            ),
        ),
        (
            "Order: Possible Future Dismissal of Case. 11 U.S.C. Section 521(i)",
            "Motion to Determine Compliance with Filing Requirements of Section 521(a)(1)",
        ),
    ),
    "unclaimed_funds_deposited": (
        (
            "Trustee's Report of Unclaimed Funds, or Payments of Less than 5 dollars.",
            "Order Granting Motion To Pay Unclaimed Funds re POC#1",
            "Notice of Deposit of Unclaimed Dividends in the Amount of $4",
        ),
        (
            "Motion to Pay Unclaimed Dividends, regarding POC #1",
            "ORDER denying request for release of unclaimed funds",
            "Receipt of Unclaimed Funds - $4 by X.",
        ),
    ),
    "defendant_appeared": (
        (
            "NOTICE of Appearance by A. B. on behalf of All Defendants",
            "MOTION to Dismiss for lack of personal jurisdiction filed by defendant Widgets",
            "Memorandum of Law in Support of Defendant Widgets' Motion to Dismiss the Complaint",
        ),
        (
            "NOTICE of Appearance by A. B. on behalf of All Plaintiffs",
            "Motion to Dismiss Adversary Proceeding filed by Plaintiff",
            "MOTION to Dismiss for insufficient service of process filed by defendant Widgets",
        ),
    ),
    "parties_conferred": (
        (
            "JOINT REPORT Rule 26(f) Discovery Plan filed; estimated length of trial 5 days.",
            "MINUTES: Scheduling Conference held before Judge A. B.",
            "CIVIL CASE MANAGEMENT PLAN AND SCHEDULING ORDER",
        ),
        (
            "ORDER SETTING SCHEDULING CONFERENCE",
            "MINUTES: Scheduling Conference held. Defendant did not appear.",
        ),
    ),
    "plea_hearing_held": (
        (
            "Plea and Rule 11 hearing as to A B held Judge: C.",
            (
                "Minute Entry for proceedings held before Judge C: Change of Plea Hearing as to "
                "A B held on 6/8/2019."
            ),
        ),
        (
            "NOTICE OF HEARING: Change of Plea Hearing set for 6/8/2019",
            "Plea and Rule 11 hearing as to A B (2) held",
        ),
    ),
    "sentencing_prepared": (
        (
            "PRE-SENTENCE REPORT as to A. B. Report prepared by: C.",
            "ORDER ON SENTENCING SCHEDULE as to defendant A. B.",
            "SCHEDULING ORDER as to A B Sentencing set for 6/6/2019",
        ),
        (
            "PRE-SENTENCE REPORT as to C. D. (2).",
            "SCHEDULING ORDER as to A B Jury Trial and Sentencing set for 6/6/2019",
            "SENTENCING MEMORANDUM by USA as to A. B.",
        ),
    ),
    "permission_petitioned": (
        ("MISCELLANEOUS CASE DOCKETED. Petition for permission to appeal pursuant to 23(f)",),
        ("Petition for permission to appeal GRANTED.",),
    ),
    "interim_compensation_sought": (
        (
            "Interim Application for Compensation for A. B., Debtor's Attorney, Fee: $13.",
            "First Interim Fee Application for Allowance of Compensation by A & B, LLP",
        ),
        (
            "Objection to Monthly Fee Statement of A & B",
            "Order Granting Interim Application for Compensation",
        ),
    ),
    "exclusivity_extended": (
        ("Order Granting Motion to Extend Exclusivity Period for Filing a Chapter 11 Plan",),
        (
            "Motion to Extend Exclusivity Period for Filing a Chapter 11 Plan",
            "Order Denying Motion to Extend Exclusivity Period",
        ),
    ),
}
