"""A process killed between performing and recording: one effect, one outcome."""

import signal
from pathlib import Path

import pytest

from kernel.ledger.sqlite.store import SqliteStore
from tests.forked import forked
from tests.kernel.build import ledger_on, submit
from tests.kernel.reports import artifact, emission, grant
from tests.workers.external_effects.effects_world import EffectsWorld, running_world
from tests.workers.external_effects.performing_process import perform_and_be_killed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILLS = 2
CASES = {
    "artifact": (artifact("art"), 1),
    "materialization": (emission("mat", "case/order.txt"), 2),
    "share link": (grant("link"), 1),
}
"""What is asked for, and how many files it comes to."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each case a ledger whose process was killed, twice, before it recorded the effect."""
    folders = {case: tmp_path_factory.mktemp("killed") for case in CASES}
    for case, folder in folders.items():
        path, data = folder / "ledger.db", folder / "data"
        store = SqliteStore(path)
        submit(ledger_on(store)[0], CASES[case][0])
        store.close()
        data.mkdir(mode=0o700)
        for _ in range(KILLS):
            with forked(perform_and_be_killed, path, data) as (process, _):
                process.join()
                assert process.exitcode == -signal.SIGKILL
    return folders


def contents(world: EffectsWorld) -> dict[str, bytes]:
    return {name: (world.root / name).read_bytes() for name in world.files()}


@pytest.mark.spec("K19", "§2.5", "§4.3.4", "§4.3.9", "§4.3.11")
@pytest.mark.parametrize("case", CASES)
async def test_a_kill_between_performing_and_recording_leaves_one_effect_and_one_outcome(
    killed: dict[str, Path], case: str
):
    store = SqliteStore(killed[case] / "ledger.db")
    async with running_world(killed[case] / "data", store) as world:
        left = contents(world)
        assert (len(left), len(world.open()), world.outcomes()) == (CASES[case][1], 1, [])

        assert await world.effects.perform_due() == 1
        assert await world.effects.perform_due() == 0

        assert contents(world) == left
        assert (len(world.open()), world.outcomes(), len(world.receipts())) == (0, ["completed"], 1)
        world.check()
    store.close()
