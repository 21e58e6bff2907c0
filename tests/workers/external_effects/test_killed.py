"""A process killed between performing and recording: one effect, one outcome."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernel.ledger.sqlite import SqliteStore
from tests.kernel.build import ledger_on, submit
from tests.kernel.reports import artifact, emission, grant
from tests.workers.external_effects.world import World, running_world

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
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
    places = []
    for case, folder in folders.items():
        store = SqliteStore(folder / "ledger.db")
        submit(ledger_on(store)[0], CASES[case][0])
        store.close()
        (folder / "data").mkdir(mode=0o700)
        places += [str(folder / "ledger.db"), str(folder / "data")]
    command = [sys.executable, "-m", "tests.workers.external_effects.performing_process", *places]
    subprocess.run(command, cwd=ROOT, check=True)
    return folders


def contents(world: World) -> dict[str, bytes]:
    return {name: (world.root / name).read_bytes() for name in world.files()}


@pytest.mark.spec("K19", "§2.5", "§4.3.4", "§4.3.9", "§4.3.11")
@pytest.mark.parametrize("case", CASES)
async def test_a_kill_between_performing_and_recording_leaves_one_effect_and_one_outcome(
    killed: dict[str, Path], case: str
):
    store = SqliteStore(killed[case] / "ledger.db")
    async with running_world(killed[case] / "data", store) as world:
        left = contents(world)
        assert (len(left), world.open(), world.outcomes()) == (CASES[case][1], 1, [])

        assert await world.effects.perform_due() == 1
        assert await world.effects.perform_due() == 0

        assert contents(world) == left
        assert (world.open(), world.outcomes(), len(world.receipts())) == (0, ["completed"], 1)
        world.check()
    store.close()
