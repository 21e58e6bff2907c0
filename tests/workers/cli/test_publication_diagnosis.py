"""`rotulus doctor` on the published log: its verdict, its tiles, and each witness."""

import shutil

import httpx
import pytest

from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.tiles import TILE_WIDTH
from tests.signed_log import log_key, witness_key
from tests.workers.cli.command import printed, rotulus
from tests.workers.publication.published import WITNESS, WITNESS_URL, LogWorld
from workers.cli.publication_diagnosis import diagnose_folder, witnesses
from workers.environment.checkpoint_key import create_key, hold_key
from workers.environment.known_logs import policy_at
from workers.environment.settings import Settings
from workers.publication.witnesses import WitnessClient

pytestmark = [pytest.mark.anyio, pytest.mark.may_block, pytest.mark.spec("P5")]

AWAY = witness_key(2)
AWAY_URL = "http://127.0.0.1:9"
"""The port of `discard`, at which nobody listens."""


class Watched(LogWorld):
    """A log with two witnesses, of which the second is away; the settings name all of it."""

    def settings(self, quorum="w1"):
        lines = [f"log {vkey}" for vkey in self.vkeys]
        lines += [f"witness w1 {WITNESS.verifier.vkey} {WITNESS_URL}"]
        lines += [f"witness w2 {AWAY.verifier.vkey} {AWAY_URL}", "group both all w1 w2"]
        file = self.folder / f"policy-{quorum}"
        file.write_text("\n".join([*lines, f"quorum {quorum}"]) + "\n")
        return Settings(
            data_dir=self.folder,
            checkpoint_key=self.key,
            checkpoint_folder=self.public,
            witness_policy=file,
        )

    def client(self, settings):
        """What asks the witness that is there, and nobody in the other's place."""
        there = self.witnesses()._transport  # noqa: SLF001

        class One(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request):
                if request.url.host == "witness.test":
                    return await there.handle_async_request(request)
                raise httpx.ConnectError("nobody there")

        return WitnessClient(policy_at(settings.witness_policy), transport=One())


@pytest.fixture
def world(tmp_path, data_folder):
    world = Watched.made(tmp_path / "world")
    world.database = world.folder / data_folder.ledger_path.name
    world.close()
    world.opened(SqliteStore(world.database)).grow(5)
    yield world
    world.close()


def of_folder(settings):
    return [(entry.state, entry.what, entry.todo) for entry in diagnose_folder(settings)]


async def of_witnesses(world, settings):
    return [
        (entry.state, entry.what, entry.todo)
        for entry in await witnesses(settings, world.client(settings))
    ]


async def test_a_log_that_is_published_and_witnessed_is_well(world):
    await world.publisher(world.witnesses()).publish()
    world.grow(2)
    settings = world.settings()
    [verdict, tiles] = of_folder(settings)
    assert verdict == ("ok", "5 of 7 rows are published, witnessed 1 of 2", "")
    assert tiles == ("ok", "the 1 newest tiles there are those of the rows", "")
    away, there, quorum = await of_witnesses(world, settings)
    assert (away[0], "w2 at http://127.0.0.1:9 is unreachable" in away[1]) == ("problem", True)
    assert there[:2] == ("ok", f"w1 at {WITNESS_URL} has cosigned all 5 rows that are published")
    assert quorum[:2] == ("ok", "1 of 2 of the policy answer, which is enough for 'w1'")


async def test_a_quorum_that_cannot_be_had_is_a_problem(world):
    await world.publisher(world.witnesses()).publish()
    settings = world.settings(quorum="both")
    [verdict, _] = of_folder(settings)
    assert verdict[:2] == (
        "problem",
        "5 of 5 rows are published, consistent but unwitnessed (1 of 2)",
    )
    *_, quorum = await of_witnesses(world, settings)
    assert quorum[:2] == ("problem", "1 of 2 of the policy answer, fewer than 'both' needs")
    content = world.settings(quorum="none")
    *_, note = await of_witnesses(world, content)
    assert (note[0], "content without any witness" in note[1]) == ("note", True)


async def test_a_witness_that_is_behind_says_how_far_it_is(world):
    await world.publisher(world.witnesses()).publish()
    world.grow(2)
    await world.publisher().publish()
    seen = await of_witnesses(world, world.settings())
    assert any("w1 at http://witness.test has cosigned 5 of 7 rows" in what for _, what, _ in seen)


async def test_a_witness_that_does_not_know_the_key_needs_its_operator(world):
    await world.publisher().publish()
    settings, client = world.settings(), world.client
    for origin in ("example.com/log", "example.com/other"):
        world.vkeys = [log_key(origin, seed=b"x").verifier.vkey]
        [_, refused, _] = await witnesses(settings, client(settings))
        assert (refused.state, "is refused" in refused.what) == ("problem", True)
        assert "have its operator name" in refused.todo


async def test_a_witness_that_has_seen_another_log_is_a_problem(world):
    await world.publisher(world.witnesses()).publish()
    world.grow(2)
    older = world.keep("older", world.public / "checkpoint")
    await world.publisher(world.witnesses()).publish()
    shutil.copy(older, world.public / "checkpoint")
    seen = await of_witnesses(world, world.settings())
    [diverged] = [entry for entry in seen if "is diverged" in entry[1]]
    assert (diverged[0], "sign nothing" in diverged[2]) == ("problem", True)


async def test_a_tile_that_is_not_that_of_the_rows_is_a_problem(world):
    world.grow(2 * TILE_WIDTH)
    await world.publisher().publish()
    settings = world.settings(quorum="none")
    assert [state for state, *_ in of_folder(settings)] == ["ok", "ok"]
    tile = world.public / "tile/0/001"
    content = bytearray(tile.read_bytes())
    content[100] ^= 1
    tile.write_bytes(content)
    assert "tile 0/1 in" in of_folder(settings)[1][1]
    tile.unlink()
    assert of_folder(settings)[1][0] == "problem"
    shutil.move(world.public, world.folder / "away")
    await world.publisher().publish()
    assert [state for state, *_ in of_folder(settings)] == ["ok", "ok"]


async def test_a_log_that_was_put_back_is_a_problem(world):
    await world.publisher().publish()
    world.rewind(2, "other")
    [verdict] = of_folder(world.settings())
    assert (verdict[0], "diverged" in verdict[1], verdict[2] != "") == ("problem", True, True)


async def test_what_is_not_published_is_a_note(world):
    assert [state for state, *_ in of_folder(world.settings())] == ["note"]
    seen = await of_witnesses(world, world.settings())
    assert [state for state, *_ in seen] == ["note"]
    assert of_folder(Settings(data_dir=world.folder)) == []
    assert await witnesses(Settings(data_dir=world.folder)) == []
    only_key = Settings(data_dir=world.folder, checkpoint_key=world.key)
    [note] = await witnesses(only_key)
    assert (note.state, note.what) == ("note", "nobody witnesses the log")


def test_the_command_says_it_and_mends_nothing(world, monkeypatch):
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", AWAY_URL)
    monkeypatch.setenv("ROTULUS_DATA_DIR", str(world.folder))
    world.folder.chmod(0o700)
    settings = world.settings()
    for name in ("checkpoint_key", "checkpoint_folder", "witness_policy"):
        monkeypatch.setenv(f"ROTULUS_{name.upper()}", str(getattr(settings, name)))
    shown = rotulus("doctor").stdout
    assert "signs the log as example.com/log (ED25519)" in shown
    assert "nothing is published" in shown
    (world.public).mkdir()
    (world.public / "checkpoint").write_text("nothing")
    diagnoses = printed("doctor", "--json", code=1)["diagnoses"]
    problems = {entry["subject"] for entry in diagnoses if entry["state"] == "problem"}
    assert {"published", "witnesses"} <= problems
    settings.witness_policy.write_text("nonsense")
    diagnoses = printed("doctor", "--json", code=1)["diagnoses"]
    said = [entry for entry in diagnoses if "witness_policy_invalid" in entry["what"]]
    assert all(entry["todo"] for entry in said)
    assert {entry["subject"] for entry in said} == {"published", "witnesses"}


def test_keys_that_have_handed_the_log_over_are_a_problem(world, monkeypatch):
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", AWAY_URL)
    monkeypatch.setenv("ROTULUS_CHECKPOINT_KEY", str(world.key))
    new = world.folder / "new.key"
    create_key(new, "example.com/log")
    with hold_key(world.key) as old, hold_key(new) as successor:
        old.hand_over(successor)
    diagnoses = printed("doctor", "--json", code=1)["diagnoses"]
    [keys] = [entry for entry in diagnoses if entry["subject"] == "log keys"]
    assert (keys["state"], "has handed the log over" in keys["what"]) == ("problem", True)
