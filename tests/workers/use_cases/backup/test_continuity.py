"""A restored ledger is held against what others have seen of it, before anything is signed."""

import shutil

import httpx
import pytest

from tests.workers.publication.published import ORIGIN
from tests.workers.use_cases.backup.backed_up import RecordWorld
from workers.environment.checkpoint_key import create_key, signed_path
from workers.gateway.head_keeper import HeadKeeper
from workers.publication.continuity import judge_continuity
from workers.publication.witnesses import WitnessClient

pytestmark = [pytest.mark.anyio, pytest.mark.may_block, pytest.mark.spec("P5")]


async def verdicts(backed_up, settings, witnesses=None):
    world = backed_up.world
    judged = await judge_continuity(settings, witnesses or world.witnesses())
    return {each.source.split()[0]: each.verdict for each in judged}, judged


async def test_a_ledger_that_has_all_that_was_signed_goes_on(backed_up):
    witnesses = backed_up.world.witnesses()
    await backed_up.world.publisher(witnesses).publish()
    backed_up.backup()
    settings = backed_up.restore()
    signed = signed_path(backed_up.world.key).read_bytes()
    judged, _ = await verdicts(backed_up, settings)
    assert judged == {"published": "continues", "signed": "continues", "seen": "continues"}
    assert signed_path(backed_up.world.key).read_bytes() == signed, "nothing was signed"


async def test_what_was_signed_and_seen_beyond_the_backup_is_lost_and_is_said(backed_up):
    world = backed_up.world
    backed_up.backup()
    world.grow(2, "later")
    await world.publisher(world.witnesses()).publish()
    settings = backed_up.restore()
    judged, listed = await verdicts(backed_up, settings)
    assert judged == {"published": "lost", "signed": "lost", "seen": "lost"}
    assert all("2 are lost" in each.message for each in listed)
    assert all("checkpoint key" in each.to_do for each in listed)


async def test_a_witness_alone_tells_of_what_was_lost(backed_up):
    """The key's memory and the published folder are put back with the ledger."""
    world = backed_up.world
    backed_up.backup()
    kept = signed_path(world.key).read_bytes(), (world.public / "checkpoint").read_bytes()
    world.grow(2, "later")
    await world.publisher(world.witnesses()).publish()
    signed_path(world.key).write_bytes(kept[0])
    (world.public / "checkpoint").write_bytes(kept[1])
    judged, _ = await verdicts(backed_up, backed_up.restore())
    assert judged == {"published": "continues", "signed": "continues", "seen": "lost"}


async def test_another_history_is_told_from_a_shorter_one(backed_up):
    world = backed_up.world
    rows = backed_up.backup().manifest.head.ec_sequence_number
    world.ledger.close()
    world.database.unlink()
    shutil.rmtree(world.public)
    world.key.unlink()
    create_key(world.key, ORIGIN)
    world.opened().grow(rows, "other")
    await world.publisher().publish()
    judged, listed = await verdicts(backed_up, backed_up.restore(), NoWitnesses())
    assert judged == {"published": "diverged", "signed": "diverged"}
    assert all("other ones" in each.message for each in listed)


async def test_what_a_gateway_answered_beyond_the_backup_is_accepted_by_an_operator(backed_up):
    world = backed_up.world
    keeper = HeadKeeper("g1", world.folder, world.key)
    backed_up.backup()
    keeper.settle(world.ledger)
    world.grow(1, "later")
    keeper.keep(world.ledger)
    judged, listed = await verdicts(backed_up, backed_up.restore(), NoWitnesses())
    assert judged == {"published": "continues", "signed": "continues", "answered,": "lost"}
    assert "accept-head" in listed[-1].to_do
    rewound = RecordWorld(backed_up.places / "restored").opened()
    assert HeadKeeper("g1", rewound.folder, world.key).settle(rewound.ledger), "it stands halted"
    rewound.close()


async def test_a_witness_that_does_not_answer_is_unknown(backed_up):
    backed_up.backup()
    silent = WitnessClient(backed_up.world.policy(), transport=httpx.MockTransport(_no_answer))
    judged, _ = await verdicts(backed_up, backed_up.restore(), silent)
    assert judged["seen"] == "unknown"


def _no_answer(request):
    raise httpx.ConnectError("away", request=request)


class NoWitnesses:
    """A policy without witnesses."""

    async def look(self, signed):
        del signed
        return ()
