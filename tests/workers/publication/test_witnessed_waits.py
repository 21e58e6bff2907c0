"""Whoever waits for witnesses is answered once the quorum has cosigned, or with the reason."""

from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest

from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.witness_policy import WitnessPolicy
from tests.workers.publication.published import WITNESS
from workers.publication import log_publishing, witnessed_waits
from workers.publication.log_publishing import LogPublishing
from workers.publication.witnessed_waits import Durability, WitnessedWaits
from workers.publication.witnessing import WitnessReply

pytestmark = [pytest.mark.anyio, pytest.mark.may_block, pytest.mark.spec("P5")]


@asynccontextmanager
async def fail_after(seconds):
    with anyio.fail_after(seconds):
        yield


class Away:
    """Witnesses of which one is away until it is back."""

    def __init__(self, witnesses):
        self.witnesses = witnesses
        self.is_away = True
        self.asked = 0

    async def ask(self, *question):
        self.asked += 1
        if self.is_away:
            return [WitnessReply("http://witness.test", "unreachable")]
        return await self.witnesses.ask(*question)

    async def look(self, signed):
        return await (self.ask(signed, None, None) if self.is_away else self.witnesses.look(signed))

    async def aclose(self):
        await self.witnesses.aclose()


class Published:
    """The loop that publishes, with what waits of it."""

    def __init__(self, world, monkeypatch):
        monkeypatch.setattr(log_publishing, "WAITED_FOR_EVERY_S", 0.01)
        self.witnesses = Away(world.witnesses())
        self.publishing = world.publishing(self.witnesses, every_s=3600, clock_s=anyio.current_time)
        self.answers = []

    @asynccontextmanager
    async def running(self):
        """Publish by itself for the time of a block."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.publishing.run)
            yield
            tasks.cancel_scope.cancel()

    async def wait(self, size, within_s):
        self.answers.append(await self.publishing.wait_for_witnesses(size, within_s))


@pytest.fixture
async def published(world, monkeypatch, anyio_backend):
    published = Published(world, monkeypatch)
    yield published
    await published.publishing.aclose()


async def test_a_row_is_waited_for_until_the_quorum_has_cosigned(published, world):
    published.witnesses.is_away = False
    async with published.running(), fail_after(20):
        first = await published.publishing.wait_for_witnesses(3, 20)
        world.grow(2)
        later = await published.publishing.wait_for_witnesses(5, 20)
    assert (first.size, first.reason_code, first.message) == (3, None, "witnessed 1 of 1")
    assert later.size == 5, "long before the log would have been published by time"
    note = SignedCheckpoint.of_bytes(later.note)
    assert note.holding([WITNESS.verifier]) == {WITNESS.verifier: 7}
    assert note.note == world.published().note
    times = published.witnesses.asked
    assert await published.publishing.wait_for_witnesses(4, 20) == later
    assert published.witnesses.asked == times, "what is known is answered without a witness"


async def test_where_no_witness_comes_in_time_the_reason_is_answered(published, world):
    answer = Durability()
    async with published.running(), fail_after(20):
        while "unwitnessed" not in answer.message:
            answer = await published.publishing.wait_for_witnesses(3, 0.05)
    assert (answer.note, answer.size, answer.reason_code) == (None, 0, "witnesses_not_in_time")
    assert answer.message == "the newest checkpoint is consistent but unwitnessed (0 of 1)"
    assert world.published().stated.size == 3, "it is published all the same"


async def test_a_witness_that_comes_back_ends_the_wait(published):
    async with published.running(), anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(published.wait, 3, 30)
        async with fail_after(20):
            while published.witnesses.asked < 3:
                await anyio.sleep(0.005)
        published.witnesses.is_away = False
    assert [answer.size for answer in published.answers] == [3, 3, 3]


async def test_what_is_not_published_is_not_waited_for(published, world):
    world.public.write_text("a file is in the way")
    async with published.running(), fail_after(20):
        for _ in range(2):
            answer = await published.publishing.wait_for_witnesses(3, 20)
            assert (answer.note, answer.reason_code) == (None, "output_unusable")
        assert str(world.public) in answer.message


async def test_without_a_key_or_a_witness_to_be_asked_nothing_is_waited_for(world):
    unasked = WitnessPolicy.of_bytes(f"witness w1 {WITNESS.verifier.vkey}\nquorum w1".encode())
    for publishing in (
        world.publishing(),
        LogPublishing(world.ledger, world.public, policy=world.policy()),
        LogPublishing(world.ledger, world.public, policy=unasked, publisher=world.publisher()),
    ):
        with anyio.fail_after(5):
            answer = await publishing.wait_for_witnesses(3, 20)
        assert (answer.note, answer.reason_code) == (None, "witnesses_not_set")


async def test_a_process_that_ends_ends_every_wait(published):
    async with published.running(), anyio.create_task_group() as tasks:
        tasks.start_soon(published.wait, 3, 30)
        async with fail_after(20):
            while not published.publishing.wanted:
                await anyio.sleep(0.005)
            published.publishing.stop()
    published.answers.append(await published.publishing.wait_for_witnesses(3, 30))
    assert [answer.reason_code for answer in published.answers] == ["gateway_stopping"] * 2


async def test_no_wait_is_longer_than_the_longest(monkeypatch):
    monkeypatch.setattr(witnessed_waits, "WAIT_S_MAX", 0.01)
    with anyio.fail_after(20):
        answer = await WitnessedWaits().wait(1, 1000.0)
    assert answer.reason_code == "witnesses_not_in_time"


async def test_so_many_wait_and_no_more(monkeypatch):
    monkeypatch.setattr(witnessed_waits, "WAITS_MAX", 2)
    waits = WitnessedWaits()
    async with anyio.create_task_group() as tasks:
        for size in (4, 9):
            tasks.start_soon(partial(waits.wait, size, 30))
        await anyio.wait_all_tasks_blocked()
        assert waits.wanted == 9
        answer = await waits.wait(1, 30)
        assert (answer.note, answer.reason_code) == (None, "waits_full")
        waits.fail("signing_key_unavailable", "away")
    assert waits.wanted == 0


async def test_a_checkpoint_without_its_quorum_is_shown_to_the_witnesses_again(world):
    """Also where nothing came onto the log since: else it stayed unwitnessed for ever."""
    now_s = [0.0]
    witnesses = Away(world.witnesses())
    publishing = world.publishing(witnesses, every_s=60, clock_s=lambda: now_s[0])
    assert await publishing.publish_due()
    assert not world.published().holding([WITNESS.verifier])
    witnesses.is_away = False
    assert not await publishing.publish_due()
    now_s[0] = 60.0
    assert await publishing.publish_due()
    assert world.published().holding([WITNESS.verifier])
    now_s[0] = 120.0
    assert not await publishing.publish_due()
    await publishing.aclose()
