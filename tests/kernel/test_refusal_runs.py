"""§17.6: refusals leave receipts; who has nothing but refusals to offer does not fill the record.

What is counted instead is never lost: the receipts and the counts together are all refusals.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.model.result import RejectedResult, SubmissionResult
from kernel.transaction.kernel import Kernel
from kernel.transaction.refusal_runs import (
    ALL_RECEIPTS,
    ALL_S,
    EACH_RECEIPTS,
    EACH_S,
    REASONS_MAX,
    RUNS_MAX,
    RefusalReason,
    RefusalRuns,
    record_runs,
)
from tests.kernel.build import changed, create, everything
from tests.world import World

SECOND = 1_000_000
REASON = RefusalReason("s", "V1", "envelope_schema_invalid")


def offered(runs: RefusalRuns, reason: RefusalReason, at_s: float) -> bool:
    return runs.has_receipt(reason, round(at_s * SECOND), "op", "wrong")


def test_the_first_refusals_of_a_reason_have_a_receipt_each_and_the_others_are_counted():
    runs = RefusalRuns()
    each = [offered(runs, REASON, number / 100) for number in range(EACH_RECEIPTS + 10)]
    assert each == [True] * EACH_RECEIPTS + [False] * 10
    [run] = runs.take()
    assert (run.reason, run.count) == (REASON, 10)
    assert run.first_us == round(EACH_RECEIPTS / 100 * SECOND)
    assert run.last_us == round((EACH_RECEIPTS + 9) / 100 * SECOND)
    assert runs.take() == []


def test_a_receipt_comes_back_with_time_and_no_more_than_there_were():
    runs = RefusalRuns()
    for _ in range(EACH_RECEIPTS):
        assert offered(runs, REASON, 0)
    assert not offered(runs, REASON, EACH_S - 1)
    assert offered(runs, REASON, EACH_S)
    assert not offered(runs, REASON, EACH_S)
    later_s = 1000 * EACH_RECEIPTS * EACH_S
    assert sum(offered(runs, REASON, later_s) for _ in range(100)) == EACH_RECEIPTS


def test_a_session_with_another_reason_or_another_session_is_not_to_blame():
    runs = RefusalRuns()
    while offered(runs, REASON, 0):
        pass
    assert offered(runs, RefusalReason("s", "V3", "envelope_verb_composition_invalid"), 0)
    assert offered(runs, RefusalReason("t", "V1", "envelope_schema_invalid"), 0)


def test_many_names_do_not_get_around_it():
    """Neither sessions, of which there can be many, nor what is forgotten of them."""
    runs, refused = RefusalRuns(), 10 * ALL_RECEIPTS
    receipts = sum(
        offered(runs, RefusalReason(f"s-{number % (2 * REASONS_MAX)}", "V1", "c"), 0)
        for number in range(refused)
    )
    assert receipts == ALL_RECEIPTS
    taken = runs.take()
    assert len(taken) <= RUNS_MAX + 1
    assert sum(run.count for run in taken) == refused - receipts
    assert (
        sum(
            offered(runs, RefusalReason(f"t-{number}", "V1", "c"), 100 * ALL_S)
            for number in range(500)
        )
        == 100
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 90),
            st.sampled_from("abcdef"),
            st.sampled_from(["x", "y"]),
            st.booleans(),
        ),
        max_size=300,
    )
)
def test_receipts_and_counts_together_are_all_refusals(steps):
    runs, now_s, receipts, counted = RefusalRuns(), 0, 0, 0
    for passed_s, session, code, is_taken in steps:
        now_s += passed_s
        for _ in range(7):
            receipts += offered(runs, RefusalReason(session, "V1", code), now_s)
        if is_taken:
            taken = runs.take()
            if passed_s % 2:
                runs.put_back(taken)
            else:
                counted += sum(run.count for run in taken)
                assert all(run.first_us <= run.last_us for run in taken)
    counted += sum(run.count for run in runs.take())
    assert receipts + counted == 7 * len(steps)


class RefusalWorld(World):
    def __init__(self) -> None:
        super().__init__()
        self.runs = RefusalRuns()
        self.kernel = Kernel(refusals=self.runs)

    def submit(self, document: Any, **options: Any) -> SubmissionResult | RejectedResult:
        with self.ledger.transaction() as transaction:
            return self.kernel.submit(transaction, document, "caller", **options)

    def record(self, runs: Any = None) -> None:
        with self.ledger.transaction() as transaction:
            record_runs(transaction, self.runs.take() if runs is None else runs)

    def receipts(self, kind: str = "envelope_validation_failed") -> list[Any]:
        return super().receipts(kind)


def good(name: str) -> Any:
    return changed(create(name, "SourceArtifact"), {"session_id": "s"})


def wrong(number: int) -> Any:
    return changed(
        create(f"w-{number}", "SourceArtifact"), {"session_id": "s", "semantic_intent": "nothing"}
    )


@pytest.mark.spec("§17.6", "§2.2")
def test_who_sends_nothing_but_refusals_adds_one_receipt_for_all_beyond_the_first():
    world = RefusalWorld()
    for number in range(EACH_RECEIPTS):
        result = world.submit(wrong(number))
        assert isinstance(result, RejectedResult)
        assert result.receipt_id is not None
    before = everything(world.ledger)
    for number in range(100):
        result = world.submit(wrong(1000 + number))
        assert isinstance(result, RejectedResult)
        assert result.receipt_id is None
        assert result.document()["receipt_id"] is None
        assert result.rejection.reason_code == "envelope_unknown_semantic_verb"
    without_head = {name: rows for name, rows in before.items() if name != "chain_head"}
    assert without_head.items() <= everything(world.ledger).items()
    world.record()
    receipt = world.receipts()[-1]
    assert (receipt["session_id"], receipt["check"], receipt["refusals"]) == ("s", "V3", 100)
    assert receipt["reason_code"] == "envelope_unknown_semantic_verb"
    assert receipt["first_refused_at"] < receipt["last_refused_at"] < receipt["emitted_at"]
    assert receipt["last_operation_id"] == result.operation_id
    assert len(world.receipts()) == EACH_RECEIPTS + 1
    world.check()


def test_a_run_that_comes_twice_is_on_the_record_once():
    """A commit whose answer was lost is tried again."""
    world = RefusalWorld()
    for number in range(EACH_RECEIPTS + 3):
        world.submit(wrong(number))
    runs = world.runs.take()
    world.record(runs)
    world.record(runs)
    assert len(world.receipts()) == EACH_RECEIPTS + 1


@pytest.mark.spec("§2.5")
def test_what_is_good_and_what_is_repeated_is_answered_as_ever():
    world = RefusalWorld()
    document = good("n")
    first = world.submit(document)
    for number in range(EACH_RECEIPTS + 50):
        world.submit(wrong(number))
    repeated = world.submit(document)
    assert isinstance(repeated, SubmissionResult)
    assert repeated.duplicate
    assert repeated == first
    assert isinstance(world.submit(good("m")), SubmissionResult)


def test_what_is_going_to_be_taken_back_counts_nowhere():
    world = RefusalWorld()
    for number in range(5 * EACH_RECEIPTS):
        world.submit(wrong(number), draws=False)
    assert world.runs.take() == []


def test_without_a_limit_every_refusal_has_its_receipt():
    world = RefusalWorld()
    world.kernel = Kernel()
    for number in range(2 * EACH_RECEIPTS):
        world.submit(wrong(number))
    assert len(world.receipts()) == 2 * EACH_RECEIPTS
