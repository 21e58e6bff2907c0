"""An operator's pauses: on the record with who and why, a row for each that stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.values.priorities import PRIORITIES_OF
from kernel.work.errors import WorkRefused
from kernel.work.pauses import PauseDecision, pause, pauses_of, resume
from tests.kernel.build import findings, memory_ledger, receipts_of_kind
from tests.kernel.deciding import deciding

BINDINGS, AUTHORITIES = "binding-evaluation", "authority-recompute"

PLACES = [
    (queue, priority) for queue, names in PRIORITIES_OF.items() for priority in (None, *names)
]


def decide(ledger: Ledger, verb, *decisions: PauseDecision) -> list[bool]:
    with ledger.transaction() as transaction:
        return [verb(transaction, decision, deciding(transaction)) for decision in decisions]


def test_a_pause_says_who_decided_it_and_why_and_stands_until_it_is_resumed():
    ledger = memory_ledger()
    decision = PauseDecision(BINDINGS, "background", "ada", "the model is being exchanged")
    assert decide(ledger, pause, decision, PauseDecision(AUTHORITIES)) == [True, True]
    standing = {(queue.queue, queue.priority): queue for queue in ledger.read(pauses_of)}
    assert standing.keys() == {(BINDINGS, "background"), (AUTHORITIES, None)}
    stated = standing[BINDINGS, "background"]
    assert (stated.decided_by, stated.reason) == ("ada", "the model is being exchanged")

    assert decide(ledger, resume, PauseDecision(BINDINGS, "background", "bob")) == [True]
    assert [queue.queue for queue in ledger.read(pauses_of)] == [AUTHORITIES]
    [receipt] = receipts_of_kind(ledger, "work_queue_resumed")
    assert (receipt["queue"], receipt["priority"]) == (BINDINGS, "background")
    assert receipt["decided_by"] == "bob"
    assert findings(ledger) == ()


def test_what_is_so_already_leaves_no_receipt():
    ledger = memory_ledger()
    decision = PauseDecision(BINDINGS)
    assert decide(ledger, resume, decision) == [False]
    assert decide(ledger, pause, decision, decision) == [True, False]
    assert len(receipts_of_kind(ledger, "work_queue_paused")) == 1


@pytest.mark.parametrize(
    ("decision", "code"),
    [
        (PauseDecision("nowhere"), "work_queue_unknown"),
        (PauseDecision(BINDINGS, "background_normal"), "queue_unknown_priority"),
    ],
)
@pytest.mark.parametrize("verb", [pause, resume])
def test_what_is_no_queue_or_no_priority_of_it_is_refused(decision, code, verb):
    ledger = memory_ledger()
    with pytest.raises(WorkRefused) as refused:
        decide(ledger, verb, decision)
    assert refused.value.code == code


def test_texts_that_no_store_holds_are_recorded_without_what_cannot_be_held():
    ledger = memory_ledger()
    decide(ledger, pause, PauseDecision(BINDINGS, None, "a\x00b\ud800", "x" * 1000))
    [stated] = ledger.read(pauses_of)
    assert (stated.decided_by, len(stated.reason)) == ("a\ufffdb?", 200)
    assert findings(ledger) == ()


@given(st.lists(st.tuples(st.sampled_from([pause, resume]), st.sampled_from(PLACES)), max_size=20))
def test_the_pauses_that_stand_are_those_whose_last_decision_was_a_pause(decisions):
    ledger = memory_ledger()
    expected: set[tuple[str, str | None]] = set()
    for verb, place in decisions:
        changed = (place in expected) == (verb is resume)
        assert decide(ledger, verb, PauseDecision(*place)) == [changed]
        (expected.add if verb is pause else expected.discard)(place)
    assert {(queue.queue, queue.priority) for queue in ledger.read(pauses_of)} == expected
    assert findings(ledger) == ()


DAMAGE = {
    "added": lambda tables, row: tables.insert(
        schema.queue_pauses, row | {"pause_key": f"{AUTHORITIES}|", "queue": AUTHORITIES}
    ),
    "changed": lambda tables, row: tables.update(
        schema.queue_pauses, (row["pause_key"],), {"reason": "none"}
    ),
    "taken away": lambda tables, row: tables.delete(schema.queue_pauses, row["pause_key"]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_verification_names_a_pause_that_no_decision_gives(damage):
    ledger = memory_ledger()
    decide(ledger, pause, PauseDecision(BINDINGS, None, "ada"))
    with ledger.transaction() as transaction:
        [row] = transaction.tables.scan(TableQuery(schema.queue_pauses))
        damage(transaction.tables, row)
    assert {finding.table for finding in findings(ledger)} == {"queue_pauses"}
