"""A log that is published by itself goes on from what was signed, published and seen, or not."""

import shutil

import pytest

from kernel.proof.tiles import TILE_WIDTH
from tests.workers.publication.published import WITNESS
from workers.environment.checkpoint_folder import nodes_in, read_tile
from workers.environment.checkpoint_key import CheckpointDiverged, hold_key, signed_path
from workers.publication.log_publication import PublicationFolderUnusable
from workers.publication.witnessing import WitnessReply
from workers.views.checkpoints import checkpoint_status

pytestmark = [pytest.mark.anyio, pytest.mark.may_block, pytest.mark.spec("P5")]


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def status(world, publishing):
    return world.ledger.read(
        lambda view: checkpoint_status(
            view,
            publishing.note(),
            publishing.policy(),
            publishes=publishing.publishes,
            problem=publishing.problem,
        )
    )


def verdict(world, publishing):
    checkpoint = status(world, publishing)["checkpoint"]
    return None if checkpoint is None else checkpoint["verdict"]


async def test_a_checkpoint_is_published_with_its_cosignatures(world):
    publishing = world.publishing(world.witnesses())
    assert verdict(world, publishing) is None
    assert await publishing.publish_due()
    checkpoint = status(world, publishing)["checkpoint"]
    assert (checkpoint["verdict"], checkpoint["message"]) == ("witnessed", "witnessed 1 of 1")
    assert checkpoint["tree_head"].startswith("3:")
    assert verdict(world, world.publishing()) == "unwitnessed"
    await publishing.aclose()


async def test_the_log_is_published_by_time_and_by_rows(world, clock):
    publishing = world.publishing(every_s=60, rows=10, clock_s=clock)
    assert await publishing.publish_due()
    assert not await publishing.publish_due()
    world.grow(9)
    assert not await publishing.publish_due()
    world.grow(1)
    assert await publishing.publish_due()
    world.grow(1)
    clock.now_s = 59.0
    assert not await publishing.publish_due()
    clock.now_s = 60.0
    assert await publishing.publish_due()
    assert world.published().stated.size == 14
    clock.now_s = 120.0
    assert not await publishing.publish_due(), "nothing came onto the log"


async def test_a_ledger_that_was_put_back_is_not_signed_and_that_is_said(world, clock):
    publishing = world.publishing(every_s=60, clock_s=clock)
    await publishing.publish_due()
    note = publishing.note()
    world.rewind(2, "other")
    again = world.publishing(every_s=60, clock_s=clock)
    assert not await again.publish_due()
    assert again.problem[0] == "checkpoint_diverged"
    assert verdict(world, again) == "diverged"
    assert again.note() == note, "what was published stays"
    (world.public / "checkpoint").unlink()
    clock.now_s = 60.0
    assert not await again.publish_due(), "what was signed is known without the folder"
    assert again.note() is None


async def test_a_ledger_that_was_put_back_with_its_folder_is_diverged_all_the_same(world, clock):
    publishing = world.publishing(every_s=60, clock_s=clock)
    await publishing.publish_due()
    backup = world.keep("backup", world.public / "checkpoint")
    world.grow(3)
    clock.now_s = 60.0
    await publishing.publish_due()
    world.rewind(3, "other")
    shutil.copy(backup, world.public / "checkpoint")
    again = world.publishing(clock_s=clock)
    assert verdict(world, again) == "unwitnessed"
    assert not await again.publish_due()
    assert verdict(world, again) == "diverged"


async def test_everything_that_was_put_back_is_known_to_the_witness(world):
    """The ledger, the folder and what the key last signed, all of one backup."""
    kept = world.keep("signed", signed_path(world.key))
    publisher = world.publisher(world.witnesses())
    await publisher.publish()
    world.rewind(2, "other")
    shutil.copy(kept, signed_path(world.key))
    shutil.rmtree(world.public)
    restarted = world.publisher(world.witnesses())
    with pytest.raises(CheckpointDiverged, match="has seen another log"):
        await restarted.publish()
    with hold_key(world.key) as held:
        assert held.newest_checkpoint().size == 0, "nothing was signed"
    assert not world.public.exists()


class Answers:
    """Witnesses that answer as they are told."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.asked = []

    async def ask(self, _, prove, prove_handovers):
        self.asked.append("ask")
        assert await prove_handovers() == []
        path = await prove(2)
        assert len(path) == 1
        return [WitnessReply("http://w", self.outcomes.pop(0))]

    async def look(self, _):
        self.asked.append("look")
        return [WitnessReply("http://w", self.outcomes.pop(0))]

    async def aclose(self):
        pass


async def test_a_witness_that_is_away_is_asked_what_it_has_seen_until_it_answers(world):
    witnesses = Answers("unreachable", "refused", "behind", "refused", "refused")
    publisher = world.publisher(witnesses)
    for _ in range(3):
        await publisher.publish()
    assert witnesses.asked == ["look", "ask", "look", "ask", "ask"]


async def test_a_checkpoint_that_a_witness_contradicts_is_not_published(world):
    publisher = world.publisher(Answers("behind", "diverged"))
    with pytest.raises(CheckpointDiverged):
        await publisher.publish()
    assert not (world.public / "checkpoint").exists()


async def test_a_cosignature_stays_while_the_log_does_not_grow(world):
    await world.publisher(world.witnesses()).publish()
    await world.publisher().publish()
    assert world.published().holding([WITNESS.verifier]) == {WITNESS.verifier: 7}


async def test_an_open_tile_goes_when_the_full_one_is_there(world):
    await world.publisher().publish()
    assert (world.public / "tile/0/000.p/3").is_file()
    world.grow(TILE_WIDTH)
    await world.publisher().publish()
    assert not (world.public / "tile/0/000.p").exists()
    first_rows = read_tile(world.public, 0, 0, 3)
    assert len(first_rows) == 3 * 32
    assert nodes_in(world.public, 3)(0, 2) == first_rows[64:]
    assert read_tile(world.public, 0, 1, 4) is None


async def test_a_folder_that_cannot_be_written_is_said(world, clock):
    world.public.write_text("a file is in the way")
    publishing = world.publishing(every_s=60, clock_s=clock)
    assert not await publishing.publish_due()
    assert publishing.problem[0] == PublicationFolderUnusable.code
    world.public.unlink()
    assert not await publishing.publish_due()
    clock.now_s = 60.0
    assert await publishing.publish_due(), "it is tried again, though nothing came onto the log"
    assert publishing.problem is None


async def test_who_comes_second_leaves_it_to_the_first(world):
    publishing = world.publishing()
    with hold_key(world.key):
        assert not await publishing.publish_due()
    assert publishing.problem is None


async def test_without_a_key_nothing_is_published_and_nothing_is_trusted(world):
    await world.publisher().publish()
    world.key.unlink()
    publishing = world.publishing()
    assert not await publishing.publish_due()
    assert publishing.problem[0] == "checkpoint_key_unusable"
    assert verdict(world, publishing) == "invalid"
