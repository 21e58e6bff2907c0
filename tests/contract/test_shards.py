"""A shard changes hands on the record, and whoever had it before learns of it there."""

from dataclasses import replace

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import (
    NOBODY,
    Fence,
    GatewayKey,
    Position,
    consumed_position,
    create_ledger_id,
    create_shards,
    gateway_keys_of,
    holds,
    ledger_id_of,
    record_consumed,
    record_gateway_keys,
    release_shards,
    rows_while_held,
    shards_of,
    take_away_all,
    take_shards,
)
from kernel.ledger.store.tables import has_values
from kernel.values.errors import LedgerUnavailable
from tests.kernel.build import FakeHost


@pytest.fixture
def ledger(store):
    ledger = Ledger.create(store, FakeHost().host)
    with ledger.transaction() as transaction:
        create_shards(transaction, 3)
    return ledger


def shards(ledger):
    with ledger.view() as view:
        return shards_of(view)


def owners(ledger):
    return [shard.owner for shard in shards(ledger)]


def take(ledger, owner, *numbers, seen=None):
    with ledger.transaction() as transaction:
        rows = seen or shards_of(transaction)
        return take_shards(transaction, owner, [row for row in rows if row.shard in numbers])


def is_held(ledger, fence):
    with ledger.view() as view:
        return holds(view, fence)


def test_shards_are_founded_once_and_keep_their_number(ledger):
    with ledger.transaction() as transaction:
        create_shards(transaction, 3)
    assert [(shard.shard, shard.epoch, shard.owner) for shard in shards(ledger)] == [
        (number, 0, NOBODY) for number in range(3)
    ]
    with pytest.raises(LedgerUnavailable) as refused, ledger.transaction() as transaction:
        create_shards(transaction, 4)
    assert refused.value.code == "ledger_shards_differ"
    assert len(shards(ledger)) == 3


def test_taking_raises_the_epoch_so_that_the_owner_before_holds_nothing(ledger):
    [first] = take(ledger, "a", 1)
    assert is_held(ledger, first)
    [second] = take(ledger, "b", 1)
    assert second.epoch > first.epoch
    assert not is_held(ledger, first)
    assert is_held(ledger, second)
    assert owners(ledger) == [NOBODY, "b", NOBODY]


def test_what_has_changed_since_it_was_seen_is_not_taken(ledger):
    seen = shards(ledger)
    [mine] = take(ledger, "a", 0, seen=seen)
    assert take(ledger, "b", 0, 1, seen=seen) == {Fence(1, 1, "b")}
    assert is_held(ledger, mine)


def test_only_who_holds_a_shard_can_release_it(ledger):
    [old] = take(ledger, "a", 0)
    [new] = take(ledger, "b", 0)
    with ledger.transaction() as transaction:
        release_shards(transaction, [old])
    assert owners(ledger)[0] == "b"
    with ledger.transaction() as transaction:
        release_shards(transaction, [new])
    assert owners(ledger)[0] == NOBODY
    assert not is_held(ledger, new)


def test_everything_can_be_taken_away_at_once(ledger):
    fences = take(ledger, "a", 0, 1, 2)
    with ledger.transaction() as transaction:
        take_away_all(transaction)
    assert not any(is_held(ledger, fence) for fence in fences)
    assert owners(ledger) == [NOBODY] * 3


def take_away_all_and_fail(ledger):
    with ledger.transaction() as transaction:
        take_away_all(transaction)
        raise KeyError


def test_a_transaction_that_is_undone_changes_no_hands(ledger):
    [fence] = take(ledger, "a", 0)
    with pytest.raises(KeyError):
        take_away_all_and_fail(ledger)
    assert is_held(ledger, fence)


def test_what_was_consumed_is_recorded_by_session(ledger):
    with ledger.transaction() as transaction:
        assert consumed_position(transaction, "s") is None
        record_consumed(transaction, "s", Position("m", "0001"))
        record_consumed(transaction, "s", Position("m", "0002"))
    with ledger.view() as view:
        assert consumed_position(view, "s") == Position("m", "0002")
        assert consumed_position(view, "t") is None


def test_a_ledger_has_one_id_for_ever(ledger):
    with ledger.transaction() as transaction:
        create_ledger_id(transaction)
    known = ledger.read(ledger_id_of)
    with ledger.transaction() as transaction:
        create_ledger_id(transaction)
    assert ledger.read(ledger_id_of) == known is not None


def test_keys_of_gateways_are_recorded_replaced_and_forgotten(ledger):
    first = [GatewayKey(name, name.encode() * 32) for name in ("a", "b")]
    with ledger.transaction() as transaction:
        record_gateway_keys(transaction, first, [])
    sealed = replace(first[0], key_number=1, sealed_key=b"sealed")
    with ledger.transaction() as transaction:
        record_gateway_keys(transaction, [sealed], ["b", "nobody"])
    assert ledger.read(gateway_keys_of) == {"a": sealed}


def test_an_epoch_that_is_given_out_again_after_rows_were_lost_is_not_that_of_the_owner_before(
    ledger,
):
    before = shards(ledger)
    [lost] = take(ledger, "a", 1)
    with ledger.store.transaction() as tables:
        for shard in before:
            row = {"epoch": shard.epoch, "owner": shard.owner}
            tables.update(schema.shard_epochs, (shard.shard,), row)
    [mine] = take(ledger, "b", 1)
    assert mine.epoch == lost.epoch
    assert is_held(ledger, mine)
    assert not is_held(ledger, lost)
    with ledger.view() as view:
        row = view.tables.get(schema.shard_epochs, 1)
    assert all(has_values(row, held) for _, held in rows_while_held([mine]))
    assert not any(has_values(row, held) for _, held in rows_while_held([lost]))
