"""PT-1 and PT-4: what is reversible goes back to the byte, the rest is made up for or named."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.algebra.effects import COMPENSATING, EFFECT_KINDS, IRREVERSIBLE, RECEIPT, REVERSIBLE
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction
from kernel.ledger.store.tables import TableQuery
from kernel.rollback.confirmation import Confirmable, Confirmations
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_epoch, rollback_operation
from kernel.rollback.plan import plan_epoch
from kernel.rollback.rebuild import prepare_rebuild, rebuild, state_digest
from kernel.verify import verify
from tests.kernel.every import states
from tests.properties.course import COURSE, KERNEL, accept, renamed, standing_at, state_of
from tests.properties.family import BESIDE, FAMILY

KEYS = Confirmations({"user": b"u" * 32, "architect": b"a" * 32})

RUNTIMES_OWN = {"rollback", "epoch_rollback", "rebuild", "epoch_open", "epoch_close"}
PLACES = [
    place
    for place, document in enumerate(COURSE)
    if document["semantic_intent"] not in RUNTIMES_OWN and "epoch_id" not in document
]
NAMING_ITS_FIELDS = {
    *("collapse", "retract", "soft_delete", "restore"),
    *("field_lock", "profile_assign", "source_binding_disable"),
}
"""Verbs that write the fields of their meaning and no other (§3.6)."""

NOISE = st.dictionaries(
    st.sampled_from(["comment", "remark", "é"]),
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    max_size=2,
)


def test_every_kind_is_undone_somewhere_on_the_course():
    named = {
        effect["effect_kind"] for place in PLACES for effect in COURSE[place]["primitive_effects"]
    }
    assert named == set(EFFECT_KINDS)


def undo_epoch(transaction: LedgerTransaction, epoch_id: str):
    plan = plan_epoch(transaction, epoch_id)
    token = KEYS.issue(
        "user",
        Confirmable(2, epoch_id, plan.digest),
        confirmation_id="c",
        now_us=transaction.host.now_us(),
    )
    return rollback_epoch(
        KERNEL, transaction, epoch_id, confirmations=KEYS, user_confirmation_token=token
    )


def with_noise(document, noise):
    """Fields that nobody knows, in the payloads that keep them."""
    if document["semantic_intent"] in NAMING_ITS_FIELDS:
        return renamed(document)
    effects = [
        effect | {"payload": noise | effect["payload"]}
        if effect["effect_kind"] == "node_write"
        else effect
        for effect in document["primitive_effects"]
    ]
    return renamed(document, primitive_effects=effects)


@pytest.mark.spec("PT-1", "§3.2", "K2")
@FAMILY
@given(st.sampled_from(PLACES), NOISE)
def test_an_effect_goes_back_the_way_that_its_reversibility_says(place, noise):
    document = with_noise(COURSE[place], noise)
    kinds = {effect["reversibility"] for effect in document["primitive_effects"]}
    with standing_at(place) as transaction:
        before = state_of(transaction)
        operation_id = accept(transaction, document).operation_id
        after = state_of(transaction)
        if kinds == {RECEIPT} and "extraction" not in document["semantic_intent"]:
            assert after == before
        if kinds <= {RECEIPT, REVERSIBLE} and REVERSIBLE in kinds:
            rollback_operation(KERNEL, transaction, operation_id)
            assert state_of(transaction) == before
            return
        with pytest.raises(RollbackRefused):
            rollback_operation(KERNEL, transaction, operation_id)
        if kinds == {RECEIPT}:
            return
        done = undo_epoch(transaction, operation_id)
        compensated = [
            effect["compensating_operation_kind"]
            for effect in reversed(document["primitive_effects"])
            if effect["reversibility"] == COMPENSATING
        ]
        applied = [
            compensation["compensating_operation_kind"]
            for compensation in done.compensations_applied
        ]
        assert applied == compensated
        persists = [
            effect["external_effect_descriptor"]
            for effect in reversed(document["primitive_effects"])
            if effect["reversibility"] == IRREVERSIBLE
        ]
        named = [
            effect["external_effect_descriptor"] for effect in done.persistent_external_effects
        ]
        assert named == persists
        for place_of, row in before.items():
            if not compensated and not persists:
                assert state_of(transaction)[place_of] == row


@pytest.mark.spec("PT-1", "K2")
@BESIDE
@given(st.sampled_from(PLACES), st.integers(1, 4))
def test_undoing_and_bringing_back_in_turn_goes_between_the_same_two_states(place, turns):
    document = renamed(COURSE[place])
    kinds = {effect["reversibility"] for effect in document["primitive_effects"]}
    if not kinds <= {RECEIPT, REVERSIBLE} or REVERSIBLE not in kinds:
        return
    with standing_at(place) as transaction:
        before = state_of(transaction)
        last = accept(transaction, document).operation_id
        between = [state_of(transaction), before]
        for turn in range(1, turns + 1):
            last = rollback_operation(KERNEL, transaction, last).submission.operation_id
            assert state_of(transaction) == between[turn % 2]


@pytest.mark.spec("PT-4", "INV-A-ROLLBACK-1", "K22")
@FAMILY
@given(st.sampled_from(PLACES), st.integers(1, 6))
def test_an_epoch_goes_back_whole_and_names_what_does_not(place, length):
    documents = list(
        itertools.takewhile(
            lambda document: document["semantic_intent"] not in RUNTIMES_OWN,
            COURSE[place : place + length],
        )
    )
    epoch = {"epoch_id": "the epoch"}
    with standing_at(place) as transaction:
        before = state_of(transaction)
        in_force = {"policy_generation_id": transaction.policy_generation_id()}
        accept(transaction, renamed(states("epoch_open", "epoch_opened"), **epoch, **in_force))
        for document in documents:
            accept(transaction, renamed(document, **epoch))
        in_force = {"policy_generation_id": transaction.policy_generation_id()}
        accept(transaction, renamed(states("epoch_close", "epoch_closed"), **epoch, **in_force))
        effects = [effect for document in documents for effect in document["primitive_effects"]]
        kinds = {effect["reversibility"] for effect in effects}
        if kinds == {RECEIPT}:
            return
        done = undo_epoch(transaction, "the epoch")
        outside = [effect for effect in effects if effect["reversibility"] == IRREVERSIBLE]
        assert sorted(
            effect["external_effect_descriptor"] for effect in done.persistent_external_effects
        ) == sorted(effect["external_effect_descriptor"] for effect in outside)
        made_up_for = [effect for effect in effects if effect["reversibility"] == COMPENSATING]
        assert len(done.compensations_applied) == len(made_up_for)
        receipts = {
            receipt["receipt_kind"]: receipt
            for receipt in transaction.receipts_of(done.submission.operation_id)
        }
        assert ("rollback_partial_external_effect_persists" in receipts) == bool(outside)
        assert "tier_2_rollback" in receipts
        written = {EFFECT_KINDS[effect["effect_kind"]].store for effect in (*outside, *made_up_for)}
        left = {*written, "membership_state_transitions", "extraction_attempts"}
        after = state_of(transaction)
        assert {store for store in after if after[store] != before[store]} <= left


@pytest.mark.spec("PT-4", "§5.4")
@BESIDE
@given(st.integers(1, 9), st.integers(0, 9), st.sampled_from(["nodes", "edges", None]))
def test_a_rebuild_gives_the_state_that_the_log_gives_and_performs_nothing(
    place, checkpoint, damaged
):
    with standing_at(place) as transaction:
        before = state_of(transaction)
        digest = state_digest(transaction.tables)
        requests = transaction.open_requests()
        _damage(transaction, damaged)
        checkpoint = min(checkpoint, place)
        prepared = prepare_rebuild(KERNEL, transaction, checkpoint)
        plan = prepared.plan
        token = KEYS.issue(
            "architect",
            Confirmable(3, plan.scope, plan.digest),
            confirmation_id="c",
            now_us=transaction.host.now_us(),
        )
        done = rebuild(
            KERNEL,
            transaction,
            prepared,
            confirmations=KEYS,
            architect_confirmation_token=token,
            archive=[].append,
        )
        assert plan.state_digest == digest
        assert state_of(transaction) == before
        assert transaction.open_requests() == requests
        skipped = [
            skipped_effect["external_effect_descriptor"]
            for skipped_effect in done.plan.irreversible_skipped
        ]
        assert skipped == [
            effect["external_effect_descriptor"]
            for document in COURSE[checkpoint:place]
            for effect in document["primitive_effects"]
            if effect["reversibility"] == IRREVERSIBLE
        ]
        transaction.write_head()
        assert verify(transaction).findings == ()


def _damage(transaction: LedgerTransaction, store: str | None) -> None:
    for table in schema.STATE_TABLES:
        if table.name == store:
            for row in transaction.tables.scan(TableQuery(table))[:2]:
                transaction.tables.put(table, row | {"record": b"{}"})
