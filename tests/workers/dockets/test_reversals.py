"""Reversals of dockets: the rows read real wording, and no docket is left with nothing."""

from importlib.resources import files

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.dockets import reversal_examples, rule_examples
from tests.workers.dockets.dockets_for_tests import entry_saying, raw_docket, raw_entry, read_one
from workers.dockets.course import CONTRADICTED, DocketCourse, Undoing, reversals
from workers.dockets.plan import PlannedSuccession, Strike, plan_docket
from workers.dockets.postures import RULES, UNIVERSES, eliminations, posture_kind, universe
from workers.dockets.reader import Docket, read_dockets
from workers.dockets.report import report_on
from workers.dockets.reversals import EVERY_COURT, REVERSALS, falls_with

EXAMPLES = reversal_examples.EXAMPLES
BY_NAME = {row.name: row for row in REVERSALS}
RULES_BY_NAME = {rule.name: rule for rule in RULES}

PETITION = "Chapter 7 Voluntary Petition. Fee Amount $299."
DISMISSED = "ORDER Dismissing Case Debtor."
REINSTATED = "Order Reinstating Case"
CLOSED = "Bankruptcy Case Closed"


def rows_that_read(text: str, kind: str) -> set[str]:
    return {row.name for row, _ in reversals(entry_saying(text), kind)}


def course_of(*texts, kind="bankruptcy", **fields):
    """The course of a docket, and the names of what was undone in it."""
    raw = [
        raw_entry(text, document_number=number, **fields) for number, text in enumerate(texts, 1)
    ]
    course, undone = DocketCourse(kind), []
    for entry in read_one(raw_docket(raw)).entries:
        undone += [act.name for act in course.take(entry) if isinstance(act, Undoing)]
    return course, undone


# --- the table ------------------------------------------------------------------------------------


def test_every_row_has_a_name_of_its_own_and_examples():
    assert set(EXAMPLES) == set(BY_NAME)
    assert len(BY_NAME) == len(REVERSALS)
    assert not set(BY_NAME) & set(RULES_BY_NAME)
    assert all(reads and leaves for reads, leaves in EXAMPLES.values())
    assert set(EVERY_COURT) == set(UNIVERSES)


@pytest.mark.parametrize("row", REVERSALS, ids=lambda row: row.name)
def test_a_row_undoes_rules_of_its_courts(row):
    assert row.reason.endswith(".")
    for rule in row.undoes:
        assert set(RULES_BY_NAME[rule].court_kinds) & set(row.court_kinds), rule
    assert len(set(row.undoes)) == len(row.undoes)


@pytest.mark.parametrize("kind", UNIVERSES)
def test_every_ending_of_every_court_can_be_undone(kind):
    """What strikes the phases of a case says that it has ended; each such rule has a row."""
    phases = {name for name in universe(kind) if not name.startswith(("ended_", "closed_"))}
    for rule in RULES:
        if kind in rule.court_kinds and len(phases - set(rule.strikes)) <= 1:
            rows = [row for row in REVERSALS if kind in row.court_kinds and rule.name in row.undoes]
            assert rows, rule.name


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_row_reads_its_texts_in_each_of_its_courts_and_in_no_other(name):
    for text in EXAMPLES[name][0]:
        for kind in UNIVERSES:
            assert (name in rows_that_read(text, kind)) == (kind in BY_NAME[name].court_kinds), text


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_row_leaves_the_texts_alone_that_only_look_alike(name):
    for kind in BY_NAME[name].court_kinds:
        for text in EXAMPLES[name][1]:
            assert name not in rows_that_read(text, kind), text


FRAMES = (
    "Motion for entry of: {}",
    "Notice of Hearing on {}",
    "BNC Certificate of Mailing - {}",
    "Notice of Lodging Proposed Order: {}",
)


@pytest.mark.parametrize("frame", [*FRAMES, "ENTERED IN ERROR {}", "{} PLEASE DISREGARD."])
def test_a_text_that_merely_mentions_an_act_undoes_nothing(frame):
    for name in sorted(set(EXAMPLES) - {"entry_struck"}):
        for kind in BY_NAME[name].court_kinds:
            for text in EXAMPLES[name][0]:
                assert rows_that_read(frame.format(text), kind) <= {"entry_struck"}, text


# --- words within words ---------------------------------------------------------------------------

WITHIN = " (Border Promotions of Orange County, impartial; Plaintiff accounts in particular)"


def test_an_exception_is_not_found_within_another_word():
    """Account is no count, promotion no motion, dismissing nothing that is missing."""
    for name in rule_examples.EXAMPLES:
        for kind in RULES_BY_NAME[name].court_kinds:
            for text in rule_examples.EXAMPLES[name][0]:
                read = {
                    elimination.rule
                    for elimination in eliminations(entry_saying(text + WITHIN), kind)
                }
                assert name in read, text


def test_a_voluntary_petition_is_one_whatever_stands_before_its_name():
    text = (
        "Chapter 7 Voluntary Petition. Order Meeting of Creditors due. Debtor appears in Voluntary"
    )
    assert [elimination.rule for elimination in eliminations(entry_saying(text), "bankruptcy")] == [
        "voluntary_petition_filed"
    ]
    assert not eliminations(entry_saying("Chapter 7 Involuntary Petition."), "bankruptcy")


# --- the course of a docket -----------------------------------------------------------------------


def test_a_case_that_is_dismissed_reinstated_and_dismissed_again_ends_by_dismissal():
    course, undone = course_of(PETITION, DISMISSED, REINSTATED, DISMISSED, CLOSED)
    assert undone == ["case_reinstated"]
    assert course.left == {"ended_by_dismissal"}


def test_a_case_that_is_brought_back_may_end_in_every_way_again():
    course, _ = course_of(PETITION, DISMISSED, CLOSED, REINSTATED)
    assert course.left == set(universe("bankruptcy")) - {"awaiting_order_for_relief"}
    assert [held.elimination.rule for held in course.holding] == ["voluntary_petition_filed"]
    course, undone = course_of(PETITION, DISMISSED, REINSTATED, "Discharge of Debtor", CLOSED)
    assert course.left == {"ended_by_discharge"}
    assert undone == ["case_reinstated"]


def test_what_undoes_nothing_that_holds_closes_nothing():
    course, undone = course_of(PETITION, REINSTATED, REINSTATED)
    assert undone == []
    assert len(course.holding) == 1


def test_the_same_case_may_be_undone_again_and_again():
    course, undone = course_of(PETITION, *(DISMISSED, REINSTATED) * 4, DISMISSED)
    assert undone == ["case_reinstated"] * 4
    assert course.left == {"ended_by_dismissal"}


def test_a_discharge_that_is_revoked_leaves_the_endings_without_one():
    course, undone = course_of(PETITION, "Discharge of Debtor", "Order revoking discharge")
    assert undone == ["discharge_vacated"]
    assert "ended_by_discharge" not in course.left
    assert "closed_without_discharge" in course.left


STRUCK = {
    "Order Striking 2 Order Dismissing Case": {"ended_by_discharge", "awaiting_closing"},
    "CORRECTIVE ENTRY Incorrect Event Entered (RE: 2 Order Dismissing Case).": {"awaiting_closing"},
    "Order Vacating Hearing (RE: 2 Order Dismissing Case)": set(),
    "Order Striking 1 Voluntary Petition": set(),
}


@pytest.mark.parametrize("text", STRUCK)
def test_an_entry_that_strikes_another_by_its_number_undoes_that_and_what_rests_on_it(text):
    course, _ = course_of(PETITION, DISMISSED, CLOSED, text)
    assert course.left >= STRUCK[text]
    if not STRUCK[text]:
        assert course.left == {"ended_by_dismissal"}


def test_what_closed_a_case_falls_with_its_dismissal():
    assert {"case_dismissed", "case_closed"} <= falls_with("bankruptcy", "case_dismissed")
    assert falls_with("district", "case_dismissed") == {"case_dismissed"}


def test_a_later_act_stands_where_what_undid_the_earlier_was_not_read():
    course, undone = course_of(PETITION, DISMISSED, "Notice to all", "Discharge of Debtor", CLOSED)
    assert undone == [CONTRADICTED]
    assert course.left == {"ended_by_discharge"}
    assert [held.elimination.rule for held in course.holding] == [
        "voluntary_petition_filed",
        "discharge_granted",
        "case_closed",
    ]


TEXTS = [
    text
    for examples in (EXAMPLES, reversal_examples.EXAMPLES, rule_examples.EXAMPLES)
    for reads, leaves in examples.values()
    for text in reads + leaves
]


@given(st.lists(st.sampled_from(TEXTS), max_size=30), st.sampled_from(sorted(UNIVERSES)))
def test_no_docket_whatever_is_left_with_nothing(texts, kind):
    course, _ = course_of(*texts, kind=kind)
    assert course.left
    assert course.left == set(universe(kind)).difference(
        *(held.elimination.strikes for held in course.holding)
    )


# --- the plan -------------------------------------------------------------------------------------


def walked(plan):
    """The survivors of each session of a plan, and the observations that it was told."""
    sessions, known = [set(plan.declare.hypotheses)], {}
    ids = [plan.session_id]
    for step in plan.steps():
        if isinstance(step, Strike):
            known[step.observation_id] = step
            sessions[-1] -= set(step.eliminated)
        elif isinstance(step, PlannedSuccession):
            assert {name for _, name in step.carried} | set(step.undone) == set(known)
            known = {name: known[name] for _, name in step.carried}
            gone = (set(strike.eliminated) for strike in known.values())
            sessions.append(set(plan.declare.hypotheses).difference(*gone))
            ids.append(step.successor_id)
    assert len(set(ids)) == len(ids)
    return sessions


def test_a_plan_closes_the_session_on_the_words_that_undid_it():
    texts = [PETITION, DISMISSED, REINSTATED, DISMISSED]
    docket = read_one(raw_docket([raw_entry(text) for text in texts]))
    plan = plan_docket(docket)
    [step] = [step for step in plan.steps() if isinstance(step, PlannedSuccession)]
    assert step.body() == {
        "successor_id": str(step.successor_id),
        "reason": "The court took its dismissal back.",
        "carried": [
            {"source_id": "test/one", "observation_id": "test/one#0:voluntary_petition_filed"}
        ],
        "cause": {
            "rule": "case_reinstated",
            "reason": "The court took its dismissal back.",
            "source_node_id": "docket-entry:test/one#2",
            "offset": 0,
            "length": len(REINSTATED),
            "words": REINSTATED,
            "undone": ["test/one#1:case_dismissed"],
        },
    }
    assert [len(left) for left in walked(plan)] == [1, 1]


def test_real_dockets_that_were_undone_come_to_what_their_courts_said():
    path = files("tests.workers.dockets") / "undone_sample.jsonl"
    ended = {}
    for docket in read_dockets(path.read_bytes().splitlines()):
        assert isinstance(docket, Docket)
        plan = plan_docket(docket)
        reasons = [step.cause.rule for step in plan.steps() if isinstance(step, PlannedSuccession)]
        ended[docket.source_id] = (posture_kind(docket), reasons, walked(plan)[-1])
    assert ended == {
        "undone/reinstated-and-converted": (
            "bankruptcy",
            ["case_reinstated"],
            {
                "awaiting_meeting_of_creditors",
                "awaiting_discharge",
                "awaiting_closing",
                "ended_by_discharge",
                "ended_by_dismissal",
                "ended_by_transfer",
                "closed_without_discharge",
            },
        ),
        "undone/discharge-vacated": (
            "bankruptcy",
            ["discharge_vacated"],
            set(universe("bankruptcy")) - {"awaiting_order_for_relief", "awaiting_schedules"},
        ),
        "undone/reversed-on-appeal": (
            "district",
            ["remanded_after_appeal"],
            {"ended_by_dismissal", "ended_by_settlement", "on_appeal"},
        ),
        "undone/mandate-recalled": (
            "appellate",
            ["mandate_recalled"],
            {"awaiting_mandate", "ended_by_dismissal", "ended_by_reversal_or_remand"},
        ),
    }


# --- the report -----------------------------------------------------------------------------------


def test_the_report_counts_what_was_undone_and_names_what_it_cannot_read():
    unread = "Order Vacating 2 and All That Follows From It"
    lines = [
        orjson.dumps(raw_docket([raw_entry(text) for text in texts], source_id=f"test/{number}"))
        for number, texts in enumerate(
            (
                [PETITION, DISMISSED, REINSTATED],
                [PETITION, DISMISSED, unread, "Discharge of Debtor"],
            )
        )
    ]
    document = report_on(lines).document()
    assert (document["none"], document["emptied"]) == (0, [])
    assert document["reversals"] == {
        "case_reinstated": {"entries": 1, "dockets": 1, "undone": 1},
        CONTRADICTED: {"entries": 1, "dockets": 1, "undone": 1},
    }
    assert document["unread_entries"] == 2
    assert [(entry["source_id"], entry["position"]) for entry in document["unread"]] == [
        ("test/1", 2),
        ("test/1", 3),
    ]
    assert document["unread"][0]["words"] == unread
