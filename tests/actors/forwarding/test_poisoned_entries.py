"""An entry that ends whoever takes it is set aside; those beside it are not blamed for it."""

from contextlib import AsyncExitStack

import anyio
import pytest

from actors.commit.units import EnvelopeUnit
from actors.error_codes import is_retryable
from actors.errors import RequestSetAside
from actors.forwarding import poisoned_entries
from actors.forwarding.message_codec import ForwardedMessage, encode_asking
from actors.forwarding.poisoned_entries import ENDS_MAX
from actors.messages import Audit, SubmitEnvelope
from kernel.values.errors import LedgerUnavailable
from tests.actors.forwarding.test_forwarding import SharedGateways
from tests.actors.harness import declare, strike
from tests.kernel.build import findings, receipts_of_kind

pytestmark = pytest.mark.anyio

POISON = {"marker": "ends"}
FAIL_S = 20


@pytest.fixture
async def world():
    async with AsyncExitStack() as stack:
        yield SharedGateways(stack)


@pytest.fixture
def dying(monkeypatch):
    """Whoever runs the poison dies at once; returns who is to die, to be set."""
    victims = []
    run = EnvelopeUnit.run

    def run_or_die(unit, context):
        if unit.document.get("marker") == "ends":
            anyio.from_thread.run_sync(victims[-1].die)
            # Nothing is committed by who is dead.
            raise LedgerUnavailable("dead")
        return run(unit, context)

    monkeypatch.setattr(EnvelopeUnit, "run", run_or_die)
    return victims


async def started(world, dying, name="b"):
    """A gateway that owns everything, as it is when it was started again under its name."""
    gateway = await world.gateway(name)
    dying.append(gateway)
    return gateway


def set_aside(ledger):
    assert findings(ledger) == ()
    return receipts_of_kind(ledger, "mailbox_entry_set_aside")


async def post(world, gateway, session, message, ask_id="ask"):
    shard = gateway.held_shards.fence_for(session).shard
    entry = encode_asking(ForwardedMessage(ask_id, "asker", session, message))
    assert await gateway.mail.post(shard, ask_id, entry, gateway.name)
    return shard


async def until(predicate):
    with anyio.fail_after(FAIL_S):
        while not predicate():
            await anyio.sleep(0.005)


async def die_of(world, dying, session, gateway, first):
    """Let gateway after gateway take what waits and die; return the one that lives."""
    for number in range(ENDS_MAX):
        gateway = gateway if number == 0 else await started(world, dying)
        await gateway.turn()
        if number == 0:
            await first(gateway)
        await until(lambda gateway=gateway: gateway.is_dead)
    gateway = await started(world, dying)
    await gateway.turn()
    return gateway


async def test_an_entry_that_ends_its_takers_is_set_aside_and_its_neighbours_are_taken(
    world, dying
):
    gateway = await started(world, dying)
    await gateway.turn()
    poisoned, *sound = [sid for _, sid in zip(range(4), world.sessions(gateway), strict=False)]
    for session in (poisoned, *sound):
        await gateway.sessions.ask(session, declare("h1", "h2", "h3"))

    async def send(gateway):
        # All in one mailbox's order, and in hand together when the first gateway dies.
        for number, session in enumerate(sound):
            await post(world, gateway, session, strike("o-1", "h2"), f"before-{number}")
        await post(world, gateway, poisoned, SubmitEnvelope(POISON), "poison")
        await post(world, gateway, poisoned, strike("o-2", "h3"), "behind")

    alive = await die_of(world, dying, poisoned, gateway, send)
    await until(lambda: set_aside(world.ledger))
    await until(lambda: not any(world.hub.mail.values()))

    [finding] = set_aside(world.ledger)
    assert finding["process_ends"] == str(ENDS_MAX)
    assert finding["session_id"] == poisoned
    assert list(world.hub.aside) == [(int(finding["shard"]), finding["offset"])]
    for session in sound:
        trail = (await alive.sessions.ask(session, Audit()))["events"]
        assert [event["payload"].get("observation_id") for event in trail[1:]] == ["o-1"]
    trail = (await alive.sessions.ask(poisoned, Audit()))["events"]
    assert trail[-1]["payload"]["observation_id"] == "o-2"
    assert not alive.is_dead


async def test_a_graceful_stop_is_no_end(world):
    for _ in range(2 * ENDS_MAX):
        async with AsyncExitStack() as stack:
            passing = SharedGateways(stack)
            passing.ledger, passing.hub = world.ledger, world.hub
            gateway = await passing.gateway("b")
            await gateway.turn()
            session = next(world.sessions(gateway))
            await post(world, gateway, session, Audit(), "ask")
            await gateway.keeper.leave()
            await gateway.mailbox_consumer.empty()
    assert not any(world.hub.taken.values())
    assert set_aside(world.ledger) == []


async def test_the_asker_is_told_that_its_request_was_set_aside(world, dying, monkeypatch):
    monkeypatch.setattr(poisoned_entries, "ENDS_MAX", 0)
    a, b = await world.pair()
    session = next(world.sessions(b))
    shard = b.held_shards.fence_for(session).shard
    take, counted = b.mail.read, []

    async def read(cursors, limit):
        taken = await take(cursors, limit)
        for entries in (taken or {}).values():
            for entry in entries:
                counted.append(entry)
                object.__setattr__(entry, "ends", 1)
        return taken

    monkeypatch.setattr(b.mail, "read", read)
    with pytest.raises(RequestSetAside) as refused:
        await a.sessions.ask(session, Audit())
    assert refused.value.details["shard"] == shard
    assert not is_retryable(refused.value.code)
    assert await b.mail.aside([shard])
