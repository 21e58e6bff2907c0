"""Anchors of belief sessions: each goes on where the last one of its session ended (B6)."""

import pytest

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.verify import verify
from tests.kernel.build import belief_anchor, code_of, envelope_of_anchor, memory_ledger, submit

HEADS = ["0" * 64, "aa" * 32, "bb" * 32]


def entry(session_id, first, last, **changes):
    return {
        "session_id": session_id,
        "prior_head_event_hash": HEADS[min(first, 2)],
        "first_event_index": first,
        "last_event_index": last,
        "head_event_hash": HEADS[min(last + 1, 2)],
        **changes,
    }


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    assert anchor(ledger, entry("s", 0, 0), entry("t", 0, 1)) is None
    return ledger


def anchor(ledger, *entries):
    return code_of(submit(ledger, envelope_of_anchor(list(entries)), submitter="orchestrator"))


def anchors(ledger):
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.belief_anchors))
    return {row["session_id"]: (row["n_events"], row["head_event_hash"]) for row in rows}


@pytest.mark.spec("B6")
def test_the_newest_anchor_of_each_session_is_a_fold_of_the_log(ledger):
    assert anchors(ledger) == {"s": (1, HEADS[1]), "t": (2, HEADS[2])}
    assert anchor(ledger, entry("s", 1, 1)) is None
    assert anchors(ledger) == {"s": (2, HEADS[2]), "t": (2, HEADS[2])}
    with ledger.transaction() as transaction:
        transaction.tables.update(schema.belief_anchors, ("s",), {"n_events": 1})
    with ledger.view() as view:
        [finding, *_] = verify(view).findings
    assert (finding.table, finding.key, finding.rule) == ("belief_anchors", "s", "state_differs")


@pytest.mark.spec("B6")
@pytest.mark.parametrize(
    "late",
    [
        entry("s", 0, 0),
        entry("s", 2, 2),
        entry("s", 1, 1, prior_head_event_hash="cc" * 32),
        entry("s", 1, 0),
        entry("u", 1, 1),
        entry("u", 0, 0, prior_head_event_hash="cc" * 32),
    ],
)
def test_an_anchor_that_does_not_go_on_where_the_last_one_ended_is_refused(ledger, late):
    before = anchors(ledger)
    assert anchor(ledger, entry("v", 0, 0), late) == "belief_anchor_does_not_follow"
    assert anchors(ledger) == before


@pytest.mark.parametrize(
    "stated",
    [
        [],
        [entry("s", 1, 1, more=1)],
        [entry("s", -1, 1)],
        [entry("s", 1, 1, last_event_index="1")],
        [entry("s", 1, 1, head_event_hash="AB" * 32)],
    ],
)
def test_an_anchor_of_another_form_is_refused(ledger, stated):
    assert anchor(ledger, *stated) == "receipt_body_invalid"


def test_what_an_anchor_does_not_state_once_it_does_not_state(ledger):
    document = belief_anchor("u")
    [stated] = document["primitive_effects"]
    document["primitive_effects"] = [stated, {**stated, "effect_id": "again"}]
    assert code_of(submit(ledger, document, submitter="orchestrator")) == "belief_anchor_invalid"
