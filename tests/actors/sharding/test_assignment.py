"""Which shard a session has, and what follows from a lease table."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.sharding.assignment import plan, shard_of, share_of
from kernel.ledger.shards import NOBODY, Fence, Shard

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])


@dataclass
class OwnerTable:
    gateways: frozenset[str]
    owners: dict[int, str] = field(default_factory=dict)
    settled: bool = True
    table_id: str = "t"


def rows(*owners: str) -> list[Shard]:
    return [Shard(number, 1, owner, 0) for number, owner in enumerate(owners)]


def holding(*numbers: int, epoch: int = 1) -> dict[int, Fence]:
    return {number: Fence(number, epoch, "a") for number in numbers}


def taken(todo):
    return [shard.shard for shard in todo.take]


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 4096))
def test_every_session_has_one_shard_that_exists(session_id, shards):
    assert 0 <= shard_of(session_id, shards) < shards
    assert shard_of(session_id, shards) == shard_of(session_id, shards)


def test_the_shard_of_a_session_is_the_same_in_every_release():
    """Another one would let two gateways of different releases serve one session."""
    expected = {"system": 28, "00000000-0000-4000-8000-000000000001": 16, "Ä": 61}
    assert {session_id: shard_of(session_id, 64) for session_id in expected} == expected


def test_sessions_spread_over_the_shards():
    counts = [0] * 16
    for number in range(1600):
        counts[shard_of(f"session-{number}", 16)] += 1
    assert min(counts) > 50


@given(st.sets(st.text(min_size=1), min_size=1, max_size=9), st.integers(1, 200))
def test_shares_add_up_to_all_shards_and_differ_by_one_at_most(gateways, shards):
    shares = [share_of(gateway, gateways, shards) for gateway in gateways]
    assert sum(shares) == shards
    assert max(shares) - min(shares) <= 1


def test_a_gateway_alone_takes_everything():
    assert taken(plan("a", OwnerTable(frozenset("a")), rows(*[NOBODY] * 4), {})) == [0, 1, 2, 3]


def test_one_that_joins_waits_and_the_other_gives_up_what_is_beyond_its_share():
    owners = dict.fromkeys(range(4), "a")
    table = OwnerTable(frozenset("ab"), owners)
    assert plan("b", table, rows(*"aaaa"), {}).take == ()
    assert plan("a", table, rows(*"aaaa"), holding(*range(4))).hand_over == (2, 3)


def test_what_a_dead_gateway_leaves_is_shared_out():
    table = OwnerTable(frozenset("bc"), dict.fromkeys(range(4), "a"))
    assert taken(plan("b", table, rows(*"aaaa"), {})) == [0, 1]
    assert taken(plan("c", table, rows(*"aaaa"), {})) == [0, 1]  # the lease decides who has them


def test_what_a_living_gateway_leases_is_lost_and_not_tried_again():
    todo = plan("a", OwnerTable(frozenset("ab"), {0: "b", 1: "a"}), rows("a", "a"), holding(0, 1))
    assert (todo.lost, todo.take, todo.hand_over) == ((0,), (), ())


def test_what_has_changed_hands_on_the_record_is_lost_and_taken_anew():
    """Somebody had it meanwhile and gave it back, so its lease is here and its epoch is not."""
    todo = plan("a", OwnerTable(frozenset("a"), {0: "a"}), rows(NOBODY), holding(0, epoch=0))
    assert (todo.lost, taken(todo)) == ((0,), [0])
    todo = plan("a", None, rows("b"), holding(0, epoch=0))
    assert (todo.lost, taken(todo)) == ((0,), [])


def test_after_a_flush_nothing_is_taken_that_somebody_may_still_hold():
    new = OwnerTable(frozenset("a"), settled=False)
    assert taken(plan("a", new, rows("a", "b", NOBODY), {})) == [0, 2]
    assert taken(plan("a", OwnerTable(frozenset("a")), rows("a", "b", NOBODY), {})) == [0, 1, 2]


def test_without_a_table_only_what_nobody_else_holds_is_taken():
    todo = plan("a", None, rows("a", "b", NOBODY), {})
    assert (taken(todo), todo.hand_over, todo.lost) == ([0, 2], (), ())


def test_leases_beyond_the_share_are_given_back():
    """So it is when a gateway was started again, and another has joined meanwhile."""
    table = OwnerTable(frozenset("ab"), dict.fromkeys(range(4), "a"))
    todo = plan("a", table, rows(*"aaaa"), {})
    assert taken(todo) == [0, 1]
    assert todo.give_back == (2, 3)


def test_who_lost_its_name_to_another_process_serves_nothing():
    assert plan("a", OwnerTable(frozenset("b")), rows("a", "a"), holding(0, 1)).lost == (0, 1)


@given(
    st.frozensets(NAMES, min_size=1),
    st.dictionaries(st.integers(0, 11), NAMES),
    st.lists(NAMES | st.just(NOBODY), min_size=12, max_size=12),
    st.frozensets(st.integers(0, 11)),
    st.booleans(),
)
def test_a_plan_never_takes_from_the_living_and_never_more_than_the_share(
    gateways, owners, recorded, held, settled
):
    me = min(gateways)
    todo = plan(me, OwnerTable(gateways, owners, settled), rows(*recorded), holding(*held))
    living = {shard for shard, owner in owners.items() if owner in gateways - {me}}
    kept = held - set(todo.lost) - set(todo.hand_over)
    assert not living & set(taken(todo))
    assert not living & kept
    assert not held & set(taken(todo))
    share = share_of(me, gateways, 12)
    assert len(kept) + len(todo.take) <= max(share, 0)
    assert not (todo.take and todo.hand_over)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@given(data=st.data())
def test_gateways_that_follow_their_plans_come_to_equal_shares(count, data):
    """From any leases, in any order of turns, with leases that are given to one at a time."""
    gateways = frozenset("abcde"[:count])
    owners = data.draw(st.dictionaries(st.integers(0, 11), NAMES))
    record = rows(*[NOBODY] * 12)
    held = {gateway: set() for gateway in gateways}
    for me in data.draw(st.permutations(sorted(gateways))) + sorted(gateways) * 3:
        todo = plan(me, OwnerTable(gateways, owners), record, holding(*held[me]))
        held[me] -= {*todo.lost, *todo.hand_over}
        for shard in (*todo.hand_over, *todo.give_back):
            if owners.get(shard) == me:
                del owners[shard]
        for shard in taken(todo):
            if owners.get(shard) in (None, me) or owners[shard] not in gateways:
                owners[shard] = me
                held[me].add(shard)
    assert sorted(shard for shards in held.values() for shard in shards) == list(range(12))
    assert {me: len(shards) for me, shards in held.items()} == {
        me: share_of(me, gateways, 12) for me in gateways
    }
