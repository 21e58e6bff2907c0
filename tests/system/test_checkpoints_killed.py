"""Killed at any step from a row to its witness, a log never signs two checkpoints that disagree.

One process goes from rows over the frontier, the checkpoint and the tiles to the witness and what
is published, and its files are copied at each step; at every eighth a process of its own is killed
(decision tests/0030). What goes on from there adds other rows than those that were on their way,
and publishes them.
"""

import functools
import os
import shutil
import signal
import subprocess
from itertools import count

import anyio
import pytest

from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.tiles import TILE_WIDTH
from tests.system.faulty_store import CountedSteps, FaultyStore
from tests.system.killed_at_steps import how_it_ended, in_a_process
from tests.workers.publication.published import LogWorld
from workers.environment.checkpoint_folder import nodes_in
from workers.environment.checkpoint_key import create_key, hold_key, signed_path
from workers.environment.key_file import CheckpointKeyUnusable

pytestmark = [pytest.mark.spec("P5"), pytest.mark.slow, pytest.mark.timeout(150)]

KILLED_EACH = 8
FILE_CALLS = ("open", "fsync", "rename", "unlink", "mkdir", "rmdir")


class CopiedSteps(CountedSteps):
    """Has everything copied at each step, while the process stands still."""

    def __init__(self, world, copied):
        super().__init__()
        self._world, self._copied = world, copied
        self._is_copying = False

    def step(self):
        if self._is_copying:
            return
        super().step()
        self._is_copying = True
        # By a process of its own: whoever closes a file gives up what SQLite has locked.
        copy = self._copied / str(self.count)
        subprocess.run(["/bin/cp", "-a", str(self._world.folder), str(copy)], check=True)
        self._is_copying = False


def step_in_files(monkeypatch, steps):
    """Make each call that changes a file a step as well."""
    for name in FILE_CALLS:
        call = getattr(os, name)

        @functools.wraps(call)
        def stepped(*arguments, call=call, **options):
            steps.step()
            return call(*arguments, **options)

        monkeypatch.setattr(os, name, stepped)


def work(world, steps=None):
    """Add rows, the last of a tile among them, and publish them with a cosignature."""
    store = SqliteStore(world.database)
    world.opened(store if steps is None else FaultyStore(store, steps))
    world.grow(3)
    publish(world)
    world.close()


def publish(world):
    witnesses = world.witnesses()

    async def publish():
        await world.publisher(witnesses).publish()
        await witnesses.aclose()

    anyio.run(publish)


def copied(world, folder):
    again = LogWorld(folder)
    again.vkeys = world.vkeys
    return again


@pytest.fixture
def begun(tmp_path):
    world = LogWorld.made(tmp_path / "begun")
    world.grow(TILE_WIDTH - 2)
    publish(world)
    world.close()
    return world


def killed_at(begun, folder, step):
    """Leave what a process leaves that is killed at a step."""
    shutil.copytree(begun.folder, folder)

    def run():
        steps = CountedSteps(step)
        step_in_files(pytest.MonkeyPatch(), steps)
        work(copied(begun, folder), steps)

    assert how_it_ended(in_a_process(run)) == -signal.SIGKILL, step


def signed_in(world):
    """What a world's files hold: the checkpoint that was signed, kept by the witness, published."""
    [kept] = world.cosigned.glob("*.checkpoint")
    places = (signed_path(world.key), kept, world.public / "checkpoint")
    return [SignedCheckpoint.of_bytes(path.read_bytes()) for path in places]


def check_goes_on(world):
    """Go on with other rows; return the sizes that were signed, witnessed and published before."""
    before = signed_in(world)
    world.opened().grow(2, "other")
    publish(world)
    after = signed_in(world)
    published = world.published()
    with world.ledger.view() as view:
        tree = view.log_tree()
        assert published.stated.size == tree.size
        for signed in (*before, *after):
            assert tree.root(signed.stated.size) == signed.stated.root
    read = nodes_in(world.public, tree.size)
    assert read(8, 0) == published_root(world, TILE_WIDTH)
    world.close()
    assert not list(world.cosigned.glob("*.evidence.json"))
    assert {signed.stated.size for signed in after} == {published.stated.size}
    assert len(published.note.signatures) == len(world.vkeys) + 1
    return tuple(signed.stated.size for signed in before)


def contents(folder):
    return frozenset(
        (str(path.relative_to(folder)), path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    )


def published_root(world, size):
    with world.ledger.view() as view:
        return view.log_tree().root(size)


def test_a_log_that_is_killed_signs_no_two_checkpoints_that_disagree(begun, tmp_path, monkeypatch):
    walked = tmp_path / "walked"
    shutil.copytree(begun.folder, walked)
    steps = CopiedSteps(copied(begun, walked), tmp_path / "copied")
    (tmp_path / "copied").mkdir()
    with monkeypatch.context() as patched:
        step_in_files(patched, steps)
        work(copied(begun, walked), steps)
    assert steps.count > 50
    seen, left = [], set()
    for step in range(1, steps.count + 1):
        folder = tmp_path / "copied" / str(step)
        if step % KILLED_EACH == 0:
            shutil.rmtree(folder)
            killed_at(begun, folder, step)
        # Most steps of a transaction change no file.
        if (files := contents(folder)) not in left:
            left.add(files)
            seen.append(check_goes_on(copied(begun, folder)))
        shutil.rmtree(folder)
    assert [*dict.fromkeys(seen)] == [
        (254, 254, 254),
        (257, 254, 254),
        (257, 257, 254),
        (257, 257, 257),
    ], "signed, then kept by the witness, then published, and killed between any two of them"


def rows(view):
    return view.head().ec_sequence_number


def hand_over(folder):
    with hold_key(folder / "log.key") as held, hold_key(folder / "new.key") as successor:
        return held.hand_over(successor)


def killed_while_handing_over(begun, folder, step):
    """Tell whether a process was killed at a step of a hand-over, or had fewer."""
    shutil.copytree(begun, folder)

    def run():
        step_in_files(pytest.MonkeyPatch(), CountedSteps(step))
        hand_over(folder)

    ended = how_it_ended(in_a_process(run))
    assert ended in (0, -signal.SIGKILL), step
    return ended != 0


def signs(path, world):
    """Tell whether the keys of a file would sign the log as it is."""
    with hold_key(path) as held:
        try:
            held.next_of(world.ledger.read(lambda view: view.log_tree()))
        except CheckpointKeyUnusable:
            return False
    return True


def test_a_handover_that_is_killed_goes_on_and_at_no_step_both_keys_sign(begun, tmp_path):
    """New keys that nobody has told of the hand-over are as good as any that were just made."""
    verifiers = create_key(begun.folder / "new.key", begun.published().stated.origin)
    seen, left = [], set()
    for step in count(1):
        folder = tmp_path / f"handing-{step}"
        if not killed_while_handing_over(begun.folder, folder, step):
            break
        files = contents(folder)
        if files in left:
            continue
        left.add(files)
        world = copied(begun, folder).opened()
        was_told = (folder / "new.key.taken-over").exists()
        seen.append((was_told, signs(folder / "log.key", world), signs(folder / "new.key", world)))
        if seen[-1][1]:
            # The old keys may go on for long before somebody hands over again.
            world.grow(1)
            anyio.run(world.publisher().publish)
        handover = hand_over(folder)
        assert (handover.new, handover.last) == (verifiers, world.published().stated)
        assert not signs(folder / "log.key", world)
        world.key = folder / "new.key"
        world.vkeys = [verifier.vkey for verifier in verifiers]
        world.grow(1)
        anyio.run(world.publisher().publish)
        assert world.published().stated.size == world.ledger.read(rows)
        world.close()
    assert [*dict.fromkeys(seen)] == [
        (False, True, True),
        (True, True, False),
        (True, False, False),
        (True, False, True),
    ]
