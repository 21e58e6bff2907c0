"""A pair of binding and artifact as a row (§13.2): a store takes the steps of the table alone."""

from itertools import product

import pytest

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.bindings.lifecycle import STATES, STEPS, PairTransitionDisallowed
from kernel.records.binding_pairs import (
    begin_pair,
    end_pair,
    hand_over,
    make_ready,
    pair_of_request,
    pairs_awaiting,
    pairs_of_event,
)
from tests.kernel.bindings.routed import created, disabled, selector
from tests.kernel.build import create, ledger_on, submit

pytestmark = pytest.mark.spec("004 §13.2")

OWN_STEPS = {("", "pending_intake")} | {
    (state, following) for state, all_following in STEPS.items() for following in all_following
}


@pytest.fixture
def ledger(store):
    ledger, _ = ledger_on(store)
    assert submit(ledger, create("corpus", "Corpus")).operation_id
    assert submit(ledger, created("b1", selector("source_id", "s1"))).operation_id
    return ledger


def begin(ledger, number=1, phase="post_doc25_conversion"):
    with ledger.transaction() as transaction:
        return begin_pair(
            transaction, ("b1", "1"), "a1", "e1", evaluation_number=number, awaited_phase=phase
        )


def pair_of(ledger):
    with ledger.view() as view:
        [pair] = pairs_of_event(view, "e1")
    return pair


def ready(ledger, request_id="r1"):
    begin(ledger)
    with ledger.transaction() as transaction:
        make_ready(transaction, pair_of(ledger), request_id, "inputs")


@pytest.mark.parametrize("end", STEPS["evaluated"])
def test_a_pair_goes_from_its_event_to_its_end(ledger, end):
    ready(ledger)
    with ledger.transaction() as transaction:
        assert end_pair(transaction, "r1", end)
    pair = pair_of(ledger)
    assert (pair.prior_state, pair.state, pair.awaited_phase) == ("evaluated", end, None)
    with pytest.raises(PairTransitionDisallowed), ledger.transaction() as transaction:
        end_pair(transaction, "r1", "no_match")
    with ledger.transaction() as transaction:
        ended = pair_of_request(transaction, "r1")
        with pytest.raises(PairTransitionDisallowed):
            make_ready(transaction, ended, "r2", "inputs")
    assert pair_of(ledger) == pair


def test_a_pair_waits_under_its_phase_until_it_is_ready(ledger):
    begin(ledger)
    with ledger.view() as view:
        [waiting] = pairs_awaiting(view, "a1", "post_doc25_conversion", limit=9)
        assert not pairs_awaiting(view, "a1", "post_group_o_normalization", limit=9)
    with ledger.transaction() as transaction:
        make_ready(transaction, waiting, "r1", "inputs")
    with ledger.view() as view:
        assert not pairs_awaiting(view, "a1", "post_doc25_conversion", limit=9)


def test_what_no_pair_asked_for_moves_none(ledger):
    ready(ledger)
    with ledger.transaction() as transaction:
        assert not end_pair(transaction, "another", "fired")
    assert pair_of(ledger).state == "ready_to_evaluate"


def test_a_request_that_asks_anew_is_its_pairs(ledger):
    ready(ledger)
    with ledger.transaction() as transaction:
        hand_over(transaction, "r1", "r2")
    with ledger.transaction() as transaction:
        assert not end_pair(transaction, "r1", "fired")
        assert end_pair(transaction, "r2", "fired")


@pytest.mark.parametrize("change", ["disable", "revert"])
def test_what_was_disabled_or_superseded_meanwhile_does_not_fire(ledger, change):
    ready(ledger)
    if change == "disable":
        submit(ledger, disabled("b1"))
    else:
        with ledger.transaction() as transaction:
            row = transaction.tables.get(schema.binding_generation_snapshots, "b1|1")
            transaction.tables.put(schema.binding_generation_snapshots, {**row, "in_force": 0})
    with pytest.raises(PairTransitionDisallowed), ledger.transaction() as transaction:
        end_pair(transaction, "r1", "fired")
    assert pair_of(ledger).state == "ready_to_evaluate"


def test_no_store_takes_a_step_that_the_table_has_not(store):
    row = {
        **dict.fromkeys(["binding_id", "binding_generation_id", "artifact_ref"], "x"),
        **dict.fromkeys(["awaited_phase", "inputs_digest", "request_id"]),
        "source_event_id": "e",
        "evaluation_number": 1,
    }
    taken, refused = set(), []
    for number, (prior, state) in enumerate(product(["", *STATES], STATES)):
        stated = row | {"pair_id": str(number), "prior_state": prior, "state": state}
        try:
            with store.transaction() as tables:
                tables.put(schema.binding_pairs, stated)
        except Exception as error:  # noqa: BLE001 - each store has its own
            refused.append(str(error))
        else:
            taken.add((prior, state))
    assert all("prior_state" in text or "binding_pairs" in text for text in refused)
    with store.view() as tables:
        kept = {
            (row["prior_state"], row["state"])
            for row in tables.scan(TableQuery(schema.binding_pairs))
        }
    assert taken == kept == OWN_STEPS
