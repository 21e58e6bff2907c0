"""Who lost a shard writes nothing for it, answers nothing for it, and serves it no longer."""

import itertools
from dataclasses import replace

import anyio
import pytest

from actors.commit import group_committer
from actors.commit.group_committer import COMPUTED_MAX
from actors.commit.units import ConsumedUnit, IntentUnit
from actors.error_codes import is_retryable
from actors.errors import CommitFailed, ReplyLost, ShardUnowned, StaleEpoch
from actors.messages import Audit, Operate, Query
from actors.sessions.runtime import SessionRuntime
from actors.sharding.assignment import shard_of
from actors.sharding.held_shards import HeldShards
from kernel.ledger.shards import (
    Position,
    consumed_position,
    create_shards,
    record_consumed,
    shards_of,
    take_shards,
)
from kernel.model.result import RejectedResult
from kernel.verify import verify
from tests.actors.harness import (
    Gate,
    declare,
    kind_of_store,
    log_length,
    make_committer,
    running_committer,
    scripted_ledger,
    strike,
)
from tests.actors.intents import put, source

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("each_kind_of_store")]


SHARDS = 4


@pytest.fixture
def made():
    ledger, store = scripted_ledger()
    with ledger.transaction() as transaction:
        create_shards(transaction, SHARDS)
    return ledger, store


def take(ledger, owner, *shards):
    with ledger.transaction() as transaction:
        rows = [shard for shard in shards_of(transaction) if shard.shard in shards]
        return take_shards(transaction, owner, rows)


def create(node_id):
    return IntentUnit(source(node_id), "s-1")


class Serving:
    """A runtime that owns what a test gives it."""

    def __init__(self, ledger, owner):
        self.ledger, self.owner = ledger, owner
        self.held_shards = HeldShards(SHARDS)
        self.committer = make_committer(ledger)
        self.runtime = SessionRuntime(ledger, self.committer, held_shards=self.held_shards)

    def take(self, *shards):
        self.held_shards.add(take(self.ledger, self.owner, *shards))

    async def run(self, tasks):
        ready = anyio.Event()
        tasks.start_soon(self.committer.run)
        tasks.start_soon(self.runtime.run, ready.set)
        await ready.wait()
        return self


# --- the committer --------------------------------------------------------------------------------


@pytest.mark.spec("D6")
async def test_a_stale_epoch_fails_its_units_and_only_those(made):
    ledger, store = made
    [old] = take(ledger, "a", 0)
    [held] = take(ledger, "a", 1)
    take(ledger, "b", 0)
    answers = {}

    async def commit(name, units, fence):
        try:
            answers[name] = await committer.commit(units, fence)
        except StaleEpoch as error:
            answers[name] = error

    async with running_committer(ledger) as committer:
        gate = store.gate = Gate()
        store.transactions = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.commit, [create("first")])
            await gate.reached()
            tasks.start_soon(commit, "stale", [create("x"), create("y")], old)
            tasks.start_soon(commit, "held", [create("a")], held)
            tasks.start_soon(commit, "unfenced", [create("b")], None)
            await anyio.wait_all_tasks_blocked()
            gate.open()
    assert store.transactions == 2
    assert isinstance(answers["stale"], StaleEpoch)
    assert answers["stale"].details == {"shard": 0}
    assert [answers[name][0].ec_sequence_number for name in ("held", "unfenced")] == [2, 3]
    with ledger.view() as view:
        assert view.node("x") is None
        assert verify(view).findings == ()


async def test_a_shard_that_changes_hands_before_the_transaction_is_lost_in_it(made):
    """The epoch that counts is read behind the ledger's lock, not before."""
    ledger, store = made
    [fence] = take(ledger, "a", 0)

    def taken_over():
        store.after_commit = lambda: None
        take(ledger, "b", 0)

    async with running_committer(ledger) as committer:
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.commit, [create("in time")], fence)
            await gate.reached()
            tasks.start_soon(expect_stale, committer, [create("late")], fence)
            await anyio.wait_all_tasks_blocked()
            store.after_commit = taken_over
            gate.open()
    assert log_length(ledger) == 1


async def expect_stale(committer, units, fence):
    with pytest.raises(StaleEpoch):
        await committer.commit(units, fence)


def others_write_before_the_look(ledger, store):
    """Let another process commit between a COMMIT of unknown outcome and the look for it."""
    real = store.view

    def view():
        store.view = real
        put(ledger, source("others"))
        return real()

    store.view = view


async def test_a_commit_of_unknown_outcome_is_found_behind_what_others_wrote_since(made):
    ledger, store = made
    async with running_committer(ledger) as committer:
        store.faults.append("found")
        others_write_before_the_look(ledger, store)
        [result] = await committer.commit([create("mine")])
    assert result.ec_sequence_number == 1
    assert log_length(ledger) == 2


async def test_a_refusal_of_unknown_outcome_is_found_behind_what_others_wrote_since(made):
    ledger, store = made
    put(ledger, source("twice"))
    async with running_committer(ledger) as committer:
        store.faults.append("found")
        others_write_before_the_look(ledger, store)
        [result] = await committer.commit([IntentUnit(source("twice", intent_key="again"), "s")])
    assert isinstance(result, RejectedResult)
    assert log_length(ledger) == 2


async def test_a_commit_that_was_lost_is_not_taken_for_what_another_wrote_in_its_place(made):
    ledger, store = made
    async with running_committer(ledger) as committer:
        store.faults.append("lost")
        others_write_before_the_look(ledger, store)
        with pytest.raises(CommitFailed):
            await committer.commit([create("mine")])
    with ledger.view() as view:
        assert view.node("mine") is None
        assert view.node("others")


# --- the runtime ----------------------------------------------------------------------------------


def sessions_of(shard, count=2):
    """Ids of sessions that belong to a shard."""
    names = (f"s-{number}" for number in itertools.count())
    return list(itertools.islice((n for n in names if shard_of(n, SHARDS) == shard), count))


async def test_a_session_of_a_shard_that_is_not_held_is_not_served(made):
    ledger, _ = made
    here, elsewhere = sessions_of(0)[0], sessions_of(1)[0]
    async with anyio.create_task_group() as tasks:
        gateway = await Serving(ledger, "a").run(tasks)
        gateway.take(0)
        await gateway.runtime.ask(here, declare("h1", "h2"))
        with pytest.raises(ShardUnowned) as refused:
            await gateway.runtime.ask(elsewhere, declare("h1"))
        assert refused.value.details == {"shard": 1}
        assert is_retryable(refused.value.code)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "message",
    [
        lambda: strike("o-2", "h2"),
        Query,
        Audit,
        # Known already, so it would be answered without a commit.
        lambda: strike("o-1", "h1"),
        lambda: Operate((source("late"),)),
    ],
    ids=["eliminate", "query", "audit", "repeated", "operate"],
)
async def test_an_owner_that_was_replaced_unnoticed_answers_nothing(made, message):
    ledger, _ = made
    [session_id, other] = sessions_of(0)
    async with anyio.create_task_group() as tasks:
        old = await Serving(ledger, "a").run(tasks)
        new = await Serving(ledger, "b").run(tasks)
        old.take(0)
        await old.runtime.ask(session_id, declare("h1", "h2", "h3"))
        await old.runtime.ask(other, declare("h1"))
        await old.runtime.ask(session_id, strike("o-1", "h1"))
        new.take(0)
        length = log_length(ledger)
        with pytest.raises(StaleEpoch):
            await old.runtime.ask(session_id, message())
        assert log_length(ledger) == length
        assert old.held_shards.held == {}
        with pytest.raises(ShardUnowned):
            await old.runtime.ask(other, Query())
        snapshot = await new.runtime.ask(session_id, Query())
        assert snapshot["n_survivors"] == 2
        tasks.cancel_scope.cancel()


async def test_an_owner_that_has_its_shard_again_has_forgotten_what_it_knew(made):
    ledger, _ = made
    [session_id] = sessions_of(0, 1)
    async with anyio.create_task_group() as tasks:
        old = await Serving(ledger, "a").run(tasks)
        new = await Serving(ledger, "b").run(tasks)
        old.take(0)
        await old.runtime.ask(session_id, declare("h1", "h2", "h3"))
        new.take(0)
        await new.runtime.ask(session_id, strike("o-1", "h1"))
        old.take(0)
        answer = await old.runtime.ask(session_id, strike("o-2", "h2"))
        assert answer["snapshot"]["survivors"] == ["h3"]
        with pytest.raises(StaleEpoch):
            await new.runtime.ask(session_id, Query())
        tasks.cancel_scope.cancel()


async def test_finishing_a_shard_answers_what_was_asked_and_ends_its_actors_alone(made):
    ledger, store = made
    [session_id], [other] = sessions_of(0, 1), sessions_of(1, 1)
    answers = []
    async with anyio.create_task_group() as tasks:
        gateway = await Serving(ledger, "a").run(tasks)
        gateway.take(0, 1)
        await gateway.runtime.ask(session_id, declare("h1", "h2"))
        await gateway.runtime.ask(other, declare("h1", "h2"))
        gate = store.gate = Gate()
        async with anyio.create_task_group() as asking:
            for number in (1, 2):

                async def ask(number=number):
                    message = strike(f"o-{number}", f"h{number}")
                    answers.append(await gateway.runtime.ask(session_id, message))

                asking.start_soon(ask)
            await gate.reached()
            gateway.held_shards.drop(0)
            asking.start_soon(gateway.runtime.finish, 0)
            await anyio.wait_all_tasks_blocked()
            gate.open()
        assert len(answers) == 2
        assert gateway.runtime.active_sessions == 1
        tasks.cancel_scope.cancel()


# --- what came through a mailbox ------------------------------------------------------------------


def positioned(message, offset, mailbox_id="m"):
    message.position = Position(mailbox_id, offset)
    return message


async def test_what_was_consumed_is_recorded_with_its_effects_and_not_taken_again(made):
    ledger, _ = made
    [session_id] = sessions_of(0, 1)
    async with anyio.create_task_group() as tasks:
        old = await Serving(ledger, "a").run(tasks)
        new = await Serving(ledger, "b").run(tasks)
        old.take(0)
        await old.runtime.ask(session_id, positioned(declare("h1", "h2", "h3"), "01"))
        await old.runtime.ask(session_id, positioned(Operate((source("n"),)), "02"))
        with ledger.view() as view:
            assert consumed_position(view, session_id) == Position("m", "02")
        length = log_length(ledger)
        for serving in (old, new):
            serving.take(0)
            with pytest.raises(ReplyLost):
                await serving.runtime.ask(session_id, positioned(Operate((source("m"),)), "02"))
            assert log_length(ledger) == length
        # The offsets of a mailbox that replaced a lost one say nothing of the old one's.
        await new.runtime.ask(session_id, positioned(Operate((source("m"),)), "01", "other"))
        assert log_length(ledger) == length + 1
        tasks.cancel_scope.cancel()


async def test_a_stale_owner_consumes_nothing(made):
    ledger, _ = made
    [fence] = take(ledger, "a", 0)
    take(ledger, "b", 0)
    async with running_committer(ledger) as committer:
        with pytest.raises(StaleEpoch):
            await committer.commit([ConsumedUnit("s", Position("m", "01"))], fence)
    with ledger.view() as view:
        assert consumed_position(view, "s") is None


async def test_confirming_tells_a_held_fence_from_a_stale_one(made):
    ledger, _ = made
    [fence] = take(ledger, "a", 0)
    async with running_committer(ledger) as committer:
        await committer.confirm(None)
        await committer.confirm(fence)
        with pytest.raises(StaleEpoch):
            await committer.confirm(replace(fence, epoch=fence.epoch - 1))


# --- a head that is locked late -------------------------------------------------------------------


@pytest.fixture
def late():
    token = kind_of_store.set("late")
    ledger, store = scripted_ledger()
    kind_of_store.reset(token)
    with ledger.transaction() as transaction:
        create_shards(transaction, SHARDS)
    return ledger, store


def writes(ledger):
    """What another process writes: something that no chain tells of."""

    def write():
        with ledger.transaction() as transaction:
            record_consumed(transaction, "s-9", Position("m", "1"))

    return write


@pytest.mark.parametrize("times", [0, 1, 2, 5])
async def test_a_batch_is_computed_again_where_others_wrote_and_at_last_with_the_head_held(
    late, times
):
    ledger, store = late
    store.meanwhile.extend([writes(ledger)] * times)
    async with running_committer(ledger) as committer:
        results = await committer.commit([create("a"), create("b")])
    assert [result.ec_sequence_number for result in results] == [1, 2]
    assert store.turns == min(times + 1, COMPUTED_MAX)
    assert log_length(ledger) == 2
    with ledger.view() as view:
        assert verify(view).findings == ()


async def test_what_would_hold_the_head_for_long_is_written_in_halves(late, monkeypatch):
    monkeypatch.setattr(group_committer, "HELD_S", 0.0)
    ledger, store = late
    moved = 5
    store.meanwhile.extend([writes(ledger)] * moved)
    async with running_committer(ledger) as committer:
        results = await committer.commit([create("a"), create("b")])
    assert [result.ec_sequence_number for result in results] == [1, 2]
    # The whole and the first half find the head moved twice each, the second half once.
    assert store.turns == moved + 1
    with ledger.view() as view:
        assert verify(view).findings == ()


async def test_a_shard_that_is_taken_while_its_batch_is_computed_fails_its_units_alone(late):
    ledger, store = late
    [lost] = take(ledger, "a", 1)
    [kept] = take(ledger, "a", 2)
    store.meanwhile.append(lambda: take(ledger, "b", 1))
    outcomes = {}

    async def commit(name, fence):
        try:
            outcomes[name] = await committer.commit([create(name)], fence)
        except StaleEpoch as error:
            outcomes[name] = error

    async with running_committer(ledger) as committer, anyio.create_task_group() as tasks:
        tasks.start_soon(commit, "lost", lost)
        tasks.start_soon(commit, "kept", kept)
    assert isinstance(outcomes["lost"], StaleEpoch)
    [result] = outcomes["kept"]
    assert result.ec_sequence_number == 1
    assert log_length(ledger) == 1
