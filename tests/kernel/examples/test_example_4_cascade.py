"""Worked example 4 (§21.4): a claim is contradicted, and what rests on it follows.

Two things differ from the specification's telling. It recomputes C-1 before C-0 and then C-1 again;
by ruling K12 every understanding is recomputed once, after what it rests on, and C-0 is as urgent
as C-1 that waits for it. The formula of §9.1B is not given there; by ruling K13 an authority is
(1 + sum of weight * authority) / (2 + sum of weights), with weights core 4, supporting 2,
tangential 1.
"""

import pytest

from kernel.audit.lineage import authority_grounds, causal_ancestors
from kernel.authority.requests import AUTHORITY_QUEUE, PRIORITIES, ready_items, stale_since
from kernel.authority.strategy import BetaPosteriorMean
from kernel.authority.value import authority_of
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.verify import verify
from tests.kernel.build import (
    adapt,
    code_of,
    create,
    drain,
    ledger_on,
    link,
    op_id,
    recompute,
    submit,
    work,
)

pytestmark = pytest.mark.spec("§21.4", "INV-A-AUTHORITY-EAGER-1", "K12", "K13", "V4-AT-37")

UPDATE = op_id("OP-V1-UPDATE")
CLAIMS = {"V-1": 0.85, "V-2": 0.55, "V-3": 0.40, "V-4": 0.60}
UNDERSTANDINGS = {
    "C-0": "high_access_frequency",
    "C-1": "user_active_session",
    "C-2": "background_normal",
    "C-3": "background_normal",
}
EDGES = [
    ("V-1", "C-0", "core"),
    ("V-2", "C-0", "supporting"),
    ("V-1", "C-1", "core"),
    ("C-0", "C-1", "core"),
    ("V-3", "C-1", "tangential"),
    ("C-1", "C-2", "core"),
    ("V-4", "C-2", "core"),
    ("C-1", "C-3", "core"),
]


def by_hand(claims):
    """The four authorities, as §9.1B would have them under ruling K13."""
    zero = (1 + 4 * claims["V-1"] + 2 * claims["V-2"]) / (2 + 6)
    expected = (1 + 4 * claims["V-1"] + 4 * zero + 1 * claims["V-3"]) / (2 + 9)
    two = (1 + 4 * expected + 4 * claims["V-4"]) / (2 + 8)
    three = (1 + 4 * expected) / (2 + 4)
    return {"C-0": zero, "C-1": expected, "C-2": two, "C-3": three}


BEFORE = by_hand(CLAIMS)
AFTER = by_hand(CLAIMS | {"V-1": 0.70})


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    """The graph before the update, everything computed."""
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "l.db")
    ledger, _ = ledger_on(store)
    made = [create(name, "VersionedClaim", authority=value) for name, value in CLAIMS.items()]
    made += [
        create(name, "ConsolidatedUnderstanding", recompute_priority=priority)
        for name, priority in UNDERSTANDINGS.items()
    ]
    made += [link(f"{source}>{target}", source, target, kind) for source, target, kind in EDGES]
    for document in made:
        assert code_of(submit(ledger, document)) is None
    drain(ledger)
    yield ledger
    ledger.close()


def update(ledger):
    """New evidence contradicts V-1."""
    changes = {"operation_id": UPDATE}
    result = submit(ledger, adapt("V-1", authority=0.70, envelope_changes=changes))
    assert code_of(result) is None


def stored(view, name):
    """What a dashboard reads: one field of one record."""
    return view.node(name)["payload"]["cu_authority"]


def recompute_next(ledger):
    """Record the recompute of whatever is most urgent and ready, as a worker does."""
    with ledger.view() as view:
        ready = ready_items(view, view.open_requests(queue=AUTHORITY_QUEUE))
        first = min(
            ready,
            key=lambda request: (PRIORITIES.index(request.priority), request.request_sequence),
        )
        root = first.document["trigger_source_id"]
        document = recompute(view, first.item_key, causal_parent_operation_ids=[root])
    assert code_of(work(ledger, document)) is None
    return first.item_key, document["operation_id"]


def test_the_graph_before_the_update_is_computed(ledger):
    with ledger.view() as view:
        assert {name: stored(view, name) for name in UNDERSTANDINGS} == pytest.approx(BEFORE)
        assert [stale_since(view, name) for name in UNDERSTANDINGS] == [None] * 4


def test_the_update_asks_for_everything_that_rests_on_it_in_its_own_transaction(ledger):
    update(ledger)
    with ledger.view() as view:
        requests = view.open_requests(queue=AUTHORITY_QUEUE)
        assert [request.item_key for request in requests] == ["C-0", "C-1", "C-2", "C-3"]
        assert {request.document["trigger_source_id"] for request in requests} == {UPDATE}
        assert {request.item_key: request.document["trigger_kind"] for request in requests} == {
            "C-0": "versioned_claim_update",
            "C-1": "versioned_claim_update",
            "C-2": "input_cu_update",
            "C-3": "input_cu_update",
        }


def test_what_an_urgent_one_waits_for_is_as_urgent(ledger):
    update(ledger)
    with ledger.view() as view:
        priorities = {
            request.item_key: request.priority
            for request in view.open_requests(queue=AUTHORITY_QUEUE)
        }
    assert priorities == UNDERSTANDINGS | {"C-0": "user_active_session"}


def test_each_is_recomputed_once_after_what_it_rests_on(ledger):
    update(ledger)
    order = [recompute_next(ledger)[0] for _ in range(4)]
    assert order == ["C-0", "C-1", "C-2", "C-3"]
    with ledger.view() as view:
        assert view.open_requests(queue=AUTHORITY_QUEUE) == []


def test_c_1_is_not_recomputed_from_the_c_0_of_before(ledger):
    update(ledger)
    with ledger.view() as view:
        early = recompute(view, "C-1")
    assert code_of(work(ledger, early)) == "recompute_input_pending"
    with ledger.view() as view:
        assert stored(view, "C-1") == pytest.approx(BEFORE["C-1"])


def test_an_authority_reads_as_it_was_and_says_that_it_is_stale_until_its_turn(ledger):
    update(ledger)
    with ledger.view() as view:
        [row] = [operation for operation in view.log_tail(1) if operation["operation_id"] == UPDATE]
    for turn in range(5):
        done = list(UNDERSTANDINGS)[:turn]
        with ledger.view() as view:
            for name in UNDERSTANDINGS:
                expected = AFTER if name in done else BEFORE
                assert stored(view, name) == pytest.approx(expected[name])
                since = None if name in done else row["committed_at"]
                assert stale_since(view, name) == since
                assert authority_grounds(view, name).stale_since == since
        if turn < 4:
            recompute_next(ledger)


def test_every_recompute_leaves_its_completion_on_a_durable_receipt(ledger):
    update(ledger)
    for _ in range(4):
        name, operation_id = recompute_next(ledger)
        with ledger.view() as view:
            [receipt] = view.receipts_of(operation_id)
            assert receipt["receipt_kind"] == "authority_recompute_completed"
            assert receipt["target_cu_id"] == name
            assert receipt["new_authority_value"] == stored(view, name)
            effects = [
                effect["effect_kind"] for effect in view.envelope(operation_id)["primitive_effects"]
            ]
            assert effects == ["node_write", "index_update"]


def test_afterwards_every_authority_is_what_its_inputs_give_from_scratch(ledger):
    update(ledger)
    for _ in range(4):
        recompute_next(ledger)
    with ledger.view() as view:
        for name in UNDERSTANDINGS:
            value, inputs = authority_of(view, BetaPosteriorMean(), view.node(name))
            assert stored(view, name) == value == pytest.approx(AFTER[name])
            assert AFTER[name] < BEFORE[name]
            shown = authority_grounds(view, name).inputs
            assert sorted(grounds["parent_node_id"] for grounds in shown) == sorted(
                excerpt_input.parent_node_id for excerpt_input in inputs.excerpt
            )
        assert verify(view).findings == ()


def test_the_whole_cascade_leads_back_to_the_update(ledger):
    update(ledger)
    recomputes = dict(recompute_next(ledger) for _ in range(4))
    with ledger.view() as view:
        for name, operation_id in recomputes.items():
            assert authority_grounds(view, name).operation.operation_id == operation_id
            ancestry = causal_ancestors(view, operation_id)
            assert ancestry.complete
            assert UPDATE in [entry.operation_id for entry in ancestry.page.entries]
            assert ancestry.page.entries[-1].operation_id == operation_id
            parents = view.envelope(operation_id)["causal_parent_operation_ids"]
            assert parents == [UPDATE]
