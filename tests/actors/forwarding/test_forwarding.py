"""Gateways that share a ledger: who serves what, through which door it comes, and what is lost."""

from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count

import anyio
import anyio.lowlevel
import orjson
import pytest

from actors.commit.group_committer import Committer
from actors.error_codes import ERRORS, is_retryable
from actors.errors import (
    ClocksDiffer,
    CommitFailed,
    MailboxFull,
    ProtocolDiffers,
    ReplyLost,
    RequestTooLarge,
    RuntimeFull,
    ShardUnowned,
    StaleEpoch,
)
from actors.forwarding import message_codec, routed_sessions
from actors.forwarding.message_codec import ForwardedMessage, encode_asking
from actors.messages import (
    PRINCIPAL,
    Audit,
    DeclareConclusion,
    EnterObligation,
    Operate,
    Query,
    Recomputed,
    RequestTermination,
    SubmitEnvelope,
)
from actors.sharding.assignment import NO_SESSION, shard_of
from kernel.belief.errors import BeliefError
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import NOBODY, shards_of, take_shards
from kernel.model.result import SubmissionResult
from kernel.values.errors import LedgerUnavailable
from kernel.values.fleet_protocol import PROTOCOL
from kernel.work.reports import SuccessfulAttempt
from tests.actors.commit.test_fencing import sessions_of
from tests.actors.harness import Gate, declare, log_length, scripted_ledger, settle, strike
from tests.actors.intents import claim, recalculation, source, understanding
from tests.actors.ports import Hub
from tests.actors.shared import SHARDS, TTL_MS, Clock, SharedGateway, owners
from tests.kernel.build import findings

ASKS = count()
pytestmark = pytest.mark.anyio


class SharedGateways:
    """A ledger, a hub, and the gateways on them."""

    def __init__(self, stack):
        self.ledger, self.store = scripted_ledger()
        self.clock = Clock()
        self.hub = Hub(self.clock)
        self._stack = stack

    async def gateway(self, name, ledger=None, **options):
        made = SharedGateway(ledger or self.ledger, self.hub, name, **options)
        await self._stack.enter_async_context(made.running())
        return made

    async def pair(self, **options):
        """Two gateways with half of the shards each."""
        a, b = await self.gateway("a", **options), await self.gateway("b", **options)
        await a.turn()
        await b.turn()
        await a.turn()
        await b.turn()
        await a.keeper.look()
        return a, b

    def sessions(self, gateway):
        """Ids of sessions that a gateway owns, without end."""
        return (sid for shard in gateway.held for sid in sessions_of(shard, 20))

    def verify(self):
        assert findings(self.ledger) == ()


@pytest.fixture
async def world(anyio_backend):
    async with AsyncExitStack() as stack:
        yield SharedGateways(stack)


# --- who owns what --------------------------------------------------------------------------------


async def test_a_gateway_alone_owns_everything_at_its_first_turn(world):
    a = await world.gateway("a")
    assert await a.turn() == list(range(SHARDS))
    assert owners(world.ledger) == ["a"] * SHARDS


async def test_one_that_joins_gets_its_share_by_hand_over(world):
    a, b = await world.gateway("a"), await world.gateway("b")
    await a.turn()
    assert await b.turn() == []
    assert await a.turn() == [0, 1]
    assert await b.turn() == [2, 3]
    assert await a.turn() == [0, 1]
    assert owners(world.ledger) == ["a", "a", "b", "b"]


async def test_what_a_dead_gateway_had_is_taken_when_its_lease_is_over(world):
    a, b = await world.pair()
    a.die()
    assert await b.turn() == [2, 3]
    absent = [b.keeper.absent_owner(shard) for shard in range(SHARDS)]
    assert absent == [None] * SHARDS
    world.clock.now_ms += TTL_MS // 2 + 1
    assert await b.turn() == [2, 3], "it may still live"
    absent = [b.keeper.absent_owner(shard) for shard in range(SHARDS)]
    assert absent == ["a", "a", None, None]
    world.clock.pass_a_lease()
    await b.keeper.look()
    absent = [b.keeper.absent_owner(shard) for shard in range(SHARDS)]
    assert absent == ["a", "a", None, None]
    assert await b.turn() == list(range(SHARDS))
    assert [b.keeper.absent_owner(shard) for shard in range(SHARDS)] == [None] * SHARDS


async def test_one_that_was_started_again_under_its_name_has_its_shards_at_once(world):
    old, b = await world.pair()
    new = await world.gateway("a")
    assert await new.turn() == [0, 1]
    # The old one, if it lives after all, finds that it is not itself any more.
    assert await old.turn() == []
    assert (old.held_shards.name_taken, new.held_shards.name_taken) == (True, False)
    assert await b.turn() == [2, 3]


async def test_leaving_hands_over_at_once_what_in_hand_is_finished(world):
    a, b = await world.pair()
    session_id = next(world.sessions(a))
    await a.sessions.ask(session_id, declare("h1", "h2"))
    gate = world.store.gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(a.sessions.ask, session_id, strike("o", "h1"))
        await gate.reached()
        tasks.start_soon(a.keeper.leave)
        while a.held:
            await anyio.lowlevel.checkpoint()
        with pytest.raises(ShardUnowned):
            a.runtime.put(session_id, Query())
        gate.open()
    assert owners(world.ledger) == [NOBODY, NOBODY, "b", "b"]
    assert await b.turn() == list(range(SHARDS))
    assert (await b.sessions.ask(session_id, Query()))["survivors"] == ["h2"]
    assert await a.turn() == []


async def test_a_flush_takes_nobodys_shards_away(world):
    a, b = await world.pair()
    world.clock.pass_a_lease()
    world.hub.flush()
    assert await a.turn() == [0, 1]
    assert await b.turn() == [2, 3]
    world.clock.now_ms += 500
    assert await a.turn() == [0, 1]
    assert await b.turn() == [2, 3]
    assert owners(world.ledger) == ["a", "a", "b", "b"]


async def test_without_leases_a_gateway_keeps_what_it_has_and_takes_only_what_is_free(world):
    world.hub.reachable = False
    a, b = await world.gateway("a"), await world.gateway("b")
    assert await a.turn() == list(range(SHARDS))
    assert await b.turn() == []
    world.hub.reachable = True
    assert await a.turn() == list(range(SHARDS))
    assert await b.turn() == []
    assert await a.turn() == [0, 1]
    assert await b.turn() == [2, 3]


async def test_a_ledger_that_does_not_answer_delays_the_taking(world):
    a = await world.gateway("a")
    await a.keeper.look()
    world.store.faults.append("unavailable")
    with pytest.raises(LedgerUnavailable):
        await a.keeper.turn()
    assert a.held == []
    assert await a.turn() == list(range(SHARDS))


async def test_who_cannot_commit_leaves_its_shards_to_others_and_comes_back(world, monkeypatch):
    """Redis still answers it; its requests fail until somebody else has its sessions."""
    a, b = await world.pair()
    session_id = next(world.sessions(a))
    await a.sessions.ask(session_id, declare("h1", "h2"))
    for _ in range(2):
        world.clock.now_ms += TTL_MS // 2
        await a.turn()
        await b.turn()
    stalled_s = property(lambda committer: 9.0 if committer is a.committer else 0.0)
    monkeypatch.setattr(Committer, "stalled_s", stalled_s)
    assert await a.turn() == [0, 1]
    assert await b.turn() == list(range(SHARDS))
    assert (await b.sessions.ask(session_id, Query()))["survivors"] == ["h1", "h2"]
    assert await a.turn() == []
    monkeypatch.undo()
    await a.turn()
    await b.turn()
    await a.turn()
    assert (len(a.held), sorted(a.held + b.held)) == (SHARDS // 2, list(range(SHARDS)))
    world.verify()


class CutStore:
    """A store that one gateway may be cut off from."""

    def __init__(self, store):
        self._store = store
        self.is_cut = False

    def __getattr__(self, name):
        if self.is_cut:
            raise LedgerUnavailable("cut off")
        return getattr(self._store, name)


async def test_who_is_cut_off_from_the_ledger_leaves_its_shards_although_nobody_asks_it(world):
    """What it does for the fleet, such as relaying, stands still until somebody else has it."""
    store = CutStore(world.store)
    a = await world.gateway("a", Ledger(store, world.ledger.host))
    b = await world.gateway("b")
    async with anyio.create_task_group() as tasks:
        for gateway in (a, b):
            tasks.start_soon(gateway.keeper.run)
        await settle(lambda: [len(gateway.held) for gateway in (a, b)] == [2, 2])
        for _ in range(2):
            world.clock.now_ms += TTL_MS // 2
            await anyio.sleep(TTL_MS / 2000)
        store.is_cut = True
        with anyio.fail_after(20):
            while owners(world.ledger) != ["b"] * SHARDS:
                await anyio.sleep(0.02)
        store.is_cut = False
        await settle(lambda: sorted(a.held + b.held) == [0, 1, 2, 3] and len(a.held) == 2)
        tasks.cancel_scope.cancel()
    world.verify()


@pytest.mark.parametrize("fault", ["lost", "found"])
async def test_a_taking_of_unknown_outcome_is_done_again(world, fault):
    a = await world.gateway("a")
    await a.keeper.look()
    world.store.faults.append(fault)
    with pytest.raises(Exception, match="COMMIT"):
        await a.keeper.turn()
    assert a.held == []
    assert await a.turn() == list(range(SHARDS))
    session_id = sessions_of(0, 1)[0]
    assert await a.sessions.ask(session_id, declare("h"))


async def test_another_number_of_shards_is_refused(world):
    a = await world.gateway("a")
    a.held_shards.shards = SHARDS + 1
    with pytest.raises(LedgerUnavailable) as refused:
        await a.keeper.initialize_ledger()
    assert refused.value.code == "ledger_shards_differ"


async def test_the_keeper_and_the_mail_run_by_themselves(world):
    a, b = await world.gateway("a"), await world.gateway("b")
    async with anyio.create_task_group() as tasks:
        for gateway in (a, b):
            tasks.start_soon(gateway.keeper.run)
        await settle(lambda: [len(gateway.held) for gateway in (a, b)] == [2, 2])
        session_id = next(world.sessions(b))
        await settle(lambda: a.keeper.expected_owner(shard_of(session_id, SHARDS)) == "b")
        await a.sessions.ask(session_id, declare("h"))
        tasks.cancel_scope.cancel()


# --- requests at the wrong gateway ----------------------------------------------------------------


async def test_every_session_is_served_at_every_gateway(world):
    a, b = await world.pair()
    for owner in (a, b):
        session_id = next(world.sessions(owner))
        for number, door in enumerate((a, b, a, b)):
            await door.sessions.ask(session_id, declare("h0", "h1", "h2", "h3", "h4"))
            answer = await door.sessions.ask(session_id, strike(f"o{number}", f"h{number}"))
            assert answer["applied_eliminated"] == [f"h{number}"]
        trails = [(await door.sessions.ask(session_id, Audit()))["events"] for door in (a, b)]
        assert trails[0] == trails[1]
        assert len(trails[0]) == 5
    assert all(not mail for mail in world.hub.mail.values())
    world.verify()


async def test_operations_and_refusals_come_back_as_they_are(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    await a.sessions.ask(session_id, declare("h"))
    intents = (source("s"), understanding("u", "s"), claim("c", "s", understanding_id="u"))
    token = PRINCIPAL.set("service:shop")
    results = await a.sessions.ask(session_id, Operate(intents))
    assert all(isinstance(result, SubmissionResult) for result in results)
    with world.ledger.view() as view:
        sealed = [view.log_row_of(result.operation_id)["row_bytes"] for result in results]
    assert [orjson.loads(row)["principal"] for row in sealed] == ["service:shop"] * 3
    assert await a.sessions.ask(session_id, Operate(intents)) == results
    PRINCIPAL.reset(token)
    attempt = SuccessfulAttempt(took_ms=7, worker="worker-1")
    work = Recomputed((recalculation(world.ledger, "u"),), attempt)
    [(outcome, _)] = await a.sessions.ask(session_id, work)
    assert outcome == "completed"
    rejected = await a.sessions.ask(session_id, SubmitEnvelope({"no": "envelope"}))
    assert rejected.rejection.check == "V1"
    with pytest.raises(BeliefError) as refused:
        await a.sessions.ask(next(world.sessions(b)), strike("o", "unknown", expected_head="x"))
    assert refused.value.code == "CONFLICT"


async def test_work_without_a_session_has_a_shard_like_any_other(world):
    a, b = await world.pair()
    for door in (a, b):
        assert await door.sessions.ask(NO_SESSION, Recomputed(())) == []


async def test_requests_for_one_session_take_effect_in_the_order_of_their_mailbox(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    await b.sessions.ask(session_id, declare(*"abcdefg"))
    async with anyio.create_task_group() as tasks:
        for name in "abcdef":
            tasks.start_soon(a.sessions.ask, session_id, strike(name, name))
    trail = (await b.sessions.ask(session_id, Audit()))["events"]
    assert [event["payload"]["observation_id"] for event in trail[1:]] == list("abcdef")


async def test_a_session_that_nobody_owns_is_not_available_right_now(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    b.die()
    world.clock.pass_a_lease()
    await a.keeper.look()
    with pytest.raises(ShardUnowned) as refused:
        await a.sessions.ask(session_id, declare("h"))
    assert is_retryable(refused.value.code)
    assert not world.hub.mail[shard_of(session_id, SHARDS)]


async def test_a_lease_that_redis_lost_leaves_its_shard_where_the_record_has_it(world):
    """A part of Redis may be lost; its owner leases the shard again with its next beat."""
    a, b = await world.pair()
    session_id = next(world.sessions(a))
    await a.sessions.ask(session_id, declare("h1", "h2"))
    world.hub.owners.clear()
    await b.turn()
    assert b.held == [2, 3]
    assert (await b.sessions.ask(session_id, Query()))["survivors"] == ["h1", "h2"]


async def test_a_full_mailbox_refuses_and_forgets_nobody(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    shard = shard_of(session_id, SHARDS)
    b.die()
    numbers = []

    async def ask(number):
        with pytest.raises(ReplyLost):
            await a.sessions.ask(session_id, strike(f"o{number}", "h"))
        numbers.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(ask, number)
        await settle(lambda: len(world.hub.mail[shard]) == 8)
        with pytest.raises(MailboxFull):
            await a.sessions.ask(session_id, strike("one more", "h"))
        a.sessions.give_up()
    assert len(numbers) == 8


async def test_a_request_that_is_too_large_is_refused(world, monkeypatch):
    a, b = await world.pair()
    monkeypatch.setattr("actors.forwarding.routed_sessions.ENTRY_BYTES_MAX", 1000)
    with pytest.raises(RequestTooLarge):
        await a.sessions.ask(next(world.sessions(b)), declare("h" * 2000))


async def test_so_many_requests_wait_for_others_and_no_more(world, monkeypatch):
    a, b = await world.pair()
    monkeypatch.setattr("actors.forwarding.routed_sessions.WAITING_MAX", 0)
    with pytest.raises(MailboxFull):
        await a.sessions.ask(next(world.sessions(b)), declare("h"))


async def test_a_lost_redis_loses_what_waits_and_tells_who_waits(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    b.die()
    async with anyio.create_task_group() as tasks:

        async def ask():
            with pytest.raises(ReplyLost) as lost:
                await a.sessions.ask(session_id, declare("h"))
            assert is_retryable(lost.value.code)

        tasks.start_soon(ask)
        await settle(lambda: world.hub.mail[shard_of(session_id, SHARDS)])
        world.hub.flush()
        await a.keeper.look()


async def test_who_waited_when_the_hub_went_away_is_told_soon_after_it_is_back(world, monkeypatch):
    """A server that takes over lacks the newest entries and answers, and nothing says which."""
    monkeypatch.setattr("actors.forwarding.mailbox_consumer.LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("actors.forwarding.mailbox_consumer.ANSWERS_AGAIN_S", 0.1)
    a, b = await world.pair(reply_s=60.0)
    before, since = (session for session, _ in zip(world.sessions(b), range(2), strict=False))
    shard = shard_of(before, SHARDS)
    b.die()
    outcomes = {}
    async with anyio.create_task_group() as tasks:

        async def ask(session_id):
            try:
                outcomes[session_id] = await a.sessions.ask(session_id, declare("h"))
            except ReplyLost as error:
                outcomes[session_id] = error

        tasks.start_soon(ask, before)
        await settle(lambda: world.hub.mail[shard])
        world.hub.reachable = False
        await anyio.sleep(0.05)
        world.hub.mail[shard].clear()
        world.hub.reachable = True
        await settle(lambda: a.mailbox_consumer.is_listening)
        tasks.start_soon(ask, since)
        await settle(lambda: before in outcomes)
        assert since not in outcomes
        world.clock.pass_a_lease()
        assert await a.turn() == list(range(SHARDS))
    assert is_retryable(outcomes[before].code)
    assert outcomes[since]["survivors"] == ["h"]


async def test_an_answer_that_cannot_be_sent_is_sent_when_it_can_be(world, monkeypatch):
    monkeypatch.setattr("actors.forwarding.mailbox_consumer.UNREACHABLE_PAUSE_S", 0.01)
    a, b = await world.pair(reply_s=60.0)
    send, refused = b.mail.reply, count()

    async def reply(replies):
        return await send(replies) if next(refused) > 2 else False

    monkeypatch.setattr(b.mail, "reply", reply)
    with anyio.fail_after(10):
        answer = await a.sessions.ask(next(world.sessions(b)), declare("h"))
    assert answer["survivors"] == ["h"]
    assert next(refused) == 4


async def test_what_is_given_back_while_the_hub_is_away_counts_no_end_of_a_process(
    world, monkeypatch
):
    monkeypatch.setattr("actors.forwarding.mailbox_consumer.SENT_AGAIN_S", 0.3)
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    shard = shard_of(session_id, SHARDS)

    def lose_the_hub():
        world.hub.reachable = False

    refuses(b, ShardUnowned("another one's by now"), meanwhile=lose_the_hub)
    entry = encode_asking(ForwardedMessage("ask-1", "c", session_id, declare("h")))
    await a.mail.post(shard, "ask-1", entry, "b")
    [waiting] = world.hub.mail[shard]
    await settle(lambda: not world.hub.reachable)
    await b.mailbox_consumer.empty()
    assert world.hub.taken[shard, waiting.offset] == 1
    world.hub.reachable = True
    await settle(lambda: world.hub.taken[shard, waiting.offset] == 0)


async def test_an_answer_that_does_not_come_in_time_is_given_up(world, monkeypatch):
    monkeypatch.setattr("actors.forwarding.routed_sessions.WAITING_MAX", 1)
    a, b = await world.pair(reply_s=0.05)
    session_id = next(world.sessions(b))
    b.die()
    for _ in range(2):
        with pytest.raises(ReplyLost):
            await a.sessions.ask(session_id, declare("h"))


# --- entries and owners that change ---------------------------------------------------------------


async def test_what_waits_when_its_owner_dies_is_carried_out_by_the_next(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    b.die()
    answers = []
    async with anyio.create_task_group() as tasks:

        async def ask():
            answers.append(await a.sessions.ask(session_id, declare("h")))

        tasks.start_soon(ask)
        await settle(lambda: world.hub.mail[shard_of(session_id, SHARDS)])
        world.clock.pass_a_lease()
        assert await a.turn() == list(range(SHARDS))
    assert answers[0]["survivors"] == ["h"]


async def test_an_entry_whose_owner_died_before_it_answered_takes_effect_once(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    shard = shard_of(session_id, SHARDS)
    await b.sessions.ask(session_id, declare("h1", "h2", "h3"))
    message = Operate((source("s"),))
    asking = ForwardedMessage("ask-1", "a", session_id, message)
    assert await a.mail.post(shard, f"ask-{next(ASKS)}", encode_asking(asking), "b")
    [entry] = world.hub.mail[shard]
    await settle(lambda: not world.hub.mail[shard])
    length = log_length(world.ledger)
    # As if the owner had died between the commit and the deletion.
    b.die()
    world.hub.mail[shard].append(entry)
    world.clock.pass_a_lease()
    await a.turn()
    await settle(lambda: not world.hub.mail[shard])
    assert log_length(world.ledger) == length
    # Its asker asks again, under the same key, and is told what it came to.
    [again] = await a.sessions.ask(session_id, Operate((source("s"),)))
    assert again.duplicate
    assert log_length(world.ledger) == length


@pytest.mark.parametrize(
    "message",
    [
        strike("o", "h1"),
        EnterObligation("ob", 0),
        DeclareConclusion("c"),
        RequestTermination(),
        Operate((source("s"),)),
    ],
)
async def test_a_copy_of_an_entry_at_another_place_takes_effect_no_second_time(world, message):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    shard = shard_of(session_id, SHARDS)
    await b.sessions.ask(session_id, declare("h1", "h2", "h3"))
    entry = encode_asking(ForwardedMessage("ask-1", "a", session_id, message))
    for owner in (b, a):  # the second one remembers nothing
        await a.mail.post(shard, "ask-1", entry, owner.name)
        await settle(lambda: not world.hub.mail[shard])
        trail = await a.sessions.ask(session_id, Audit())
        length = log_length(world.ledger), len(trail["events"])
        if owner is b:
            before = length
            b.die()
            world.clock.pass_a_lease()
            await a.turn()
    assert length == before


async def test_an_owner_that_was_replaced_leaves_entries_to_the_next(world):
    """A pause past the lease: its commit fails, and the entry is not lost with it."""
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    await b.sessions.ask(session_id, declare("h1", "h2"))
    world.clock.pass_a_lease()
    assert await a.turn() == list(range(SHARDS))
    # The one that was replaced does not know it yet, and is told of the mail first.
    shard, length = shard_of(session_id, SHARDS), log_length(world.ledger)
    entry = encode_asking(ForwardedMessage("ask-1", "c", session_id, strike("o", "h1")))
    a.held_shards.drop(shard)
    await b.mail.post(shard, f"ask-{next(ASKS)}", entry, "b")
    await settle(lambda: shard not in b.held)
    assert log_length(world.ledger) == length
    assert len(world.hub.mail[shard]) == 1
    assert await a.turn() == list(range(SHARDS))
    await settle(lambda: not world.hub.mail[shard])
    assert (await a.sessions.ask(session_id, Query()))["survivors"] == ["h2"]
    assert world.hub.inboxes["c"].replies


def refuses(gateway, error, meanwhile=lambda: None):
    """A runtime that takes nothing of what it is asked, after something has happened."""

    def put(_session_id, message):
        meanwhile()
        message.reply.fail(error)

    gateway.runtime.put = put


@pytest.mark.parametrize(
    "error", [CommitFailed("nothing was committed"), MailboxFull("full"), RuntimeFull("full")]
)
async def test_an_owner_says_that_nothing_was_taken_while_it_is_the_owner(world, error):
    a, b = await world.pair()
    refuses(b, error)
    with pytest.raises(type(error)):
        await a.sessions.ask(next(world.sessions(b)), declare("h"))


@pytest.mark.parametrize(
    "error", [CommitFailed("nothing was committed"), MailboxFull("full"), RuntimeFull("full")]
)
@pytest.mark.parametrize("why", ["replaced", "cut off from the ledger", "cut off from the mailbox"])
async def test_an_owner_that_may_be_none_does_not_say_that_nothing_was_taken(world, error, why):
    """The next owner may have the entry in hand."""
    store = CutStore(world.store)
    a = await world.gateway("a")
    b = await world.gateway("b", Ledger(store, world.ledger.host))
    for gateway in (a, b, a, b):
        await gateway.turn()
    await a.keeper.look()
    session_id = next(world.sessions(b))

    def meanwhile():
        if why == "replaced":
            with world.ledger.transaction() as transaction:
                take_shards(transaction, "c", shards_of(transaction))
        elif why == "cut off from the ledger":
            store.is_cut = True
        else:
            b.mail.delete = undeleted

    async def undeleted(_offsets):
        return False

    refuses(b, error, meanwhile)
    with pytest.raises(ReplyLost) as lost:
        await a.sessions.ask(session_id, declare("h"))
    assert ERRORS[lost.value.code].may_be_taken


async def test_who_asks_a_replaced_owner_directly_may_ask_again(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    await b.sessions.ask(session_id, declare("h1", "h2"))
    world.clock.pass_a_lease()
    await a.turn()
    with pytest.raises(StaleEpoch) as stale:
        await b.sessions.ask(session_id, strike("o", "h1"))
    assert is_retryable(stale.value.code)
    await b.keeper.look()
    answer = await b.sessions.ask(session_id, strike("o", "h1"))
    assert answer["snapshot"]["survivors"] == ["h2"]


async def test_an_entry_that_cannot_be_read_holds_nobody_up(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    shard = shard_of(session_id, SHARDS)
    await a.mail.post(shard, f"ask-{next(ASKS)}", b"no entry", "b")
    await a.sessions.ask(session_id, declare("h"))
    await settle(lambda: not world.hub.mail[shard])


async def test_a_reply_that_cannot_be_read_ends_nothing(world):
    a, b = await world.pair()
    await b.mail.reply({"a": [("n", b"no reply")]})
    assert await a.sessions.ask(next(world.sessions(b)), declare("h"))


async def test_a_hub_that_is_away_for_a_while_costs_time_alone(world):
    a, b = await world.pair()
    session_id = next(world.sessions(b))
    world.hub.reachable = False
    with pytest.raises(ConnectionError):
        await a.sessions.ask(session_id, declare("h"))
    await b.sessions.ask(session_id, declare("h"))
    world.hub.reachable = True
    assert await a.sessions.ask(session_id, Query())


async def test_who_asks_by_a_clock_that_is_minutes_off_is_told_so_and_nothing_is_taken(
    world, monkeypatch
):
    a, b = await world.pair()
    read = b.mail.read

    async def read_by_another_clock(cursors, limit):
        by_shard = await read(cursors, limit)
        return {
            shard: [replace(entry, clocks_differ=True) for entry in entries]
            for shard, entries in (by_shard or {}).items()
        }

    monkeypatch.setattr(b.mail, "read", read_by_another_clock)
    session, before = next(world.sessions(b)), log_length(world.ledger)
    with pytest.raises(ClocksDiffer):
        await a.sessions.ask(session, declare("h1"))
    await settle(lambda: not any(world.hub.mail.values()))
    assert log_length(world.ledger) == before


async def test_what_a_gateway_of_another_version_asks_is_refused_and_nothing_is_taken(
    world, monkeypatch
):
    a, b = await world.pair()
    monkeypatch.setattr(message_codec, "PROTOCOL", PROTOCOL + 1)
    entry = encode_asking(ForwardedMessage("1", "a", "s", declare("h1")))
    monkeypatch.undo()
    monkeypatch.setattr(routed_sessions, "encode_asking", lambda asking: _renamed(entry, asking))
    session, before = next(world.sessions(b)), log_length(world.ledger)
    with pytest.raises(ProtocolDiffers):
        await a.sessions.ask(session, declare("h1"))
    await settle(lambda: not any(world.hub.mail.values()))
    assert log_length(world.ledger) == before
    monkeypatch.undo()
    assert (await a.sessions.ask(session, declare("h1")))["session_id"] == session


def _renamed(entry, asking):
    """The entry of another version, as if it had been written for this asking."""
    return orjson.dumps({**orjson.loads(entry), "ask_id": asking.ask_id})
