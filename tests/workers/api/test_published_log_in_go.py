"""Go's golang.org/x/mod reads the published log and the gateway's proofs.

It is somebody else's implementation of tree, tiles and notes. The tests need Debian's packages
golang-go and golang-golang-x-mod-dev, and are skipped where they are not: nothing is fetched.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kernel.proof.tiles import TILE_WIDTH
from tests.workers.api.door import source
from tests.workers.api.test_published_log import published_door

GO = shutil.which("go")
GOPATH = Path("/usr/share/gocode")
PROGRAM = Path(__file__).with_name("published_log.go")
FIRST, LATER = 250, 60
"""Operations before and after the older checkpoint; a full tile and an open one."""

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.spec("P5"),
    pytest.mark.skipif(
        GO is None or not (GOPATH / "src/golang.org/x/mod").is_dir(),
        reason="needs Go with golang.org/x/mod: golang-go, golang-golang-x-mod-dev",
    ),
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Path:
    """The program, built of what the system has."""
    folder = tmp_path_factory.mktemp("go")
    alone = {"GO111MODULE": "off", "GOPATH": str(GOPATH), "GOCACHE": str(folder / "cache")}
    alone |= {"CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local", "HOME": str(folder)}
    command = ["go", "build", "-o", str(folder / "reader"), str(PROGRAM)]
    subprocess.run(command, check=True, env={"PATH": os.environ["PATH"], **alone})
    return folder / "reader"


@dataclass(frozen=True)
class PublishedLog:
    """A folder with the files of a published log, an older checkpoint and the gateway's proofs."""

    folder: Path
    vkey: str
    reader: Path

    def read(self) -> subprocess.CompletedProcess[str]:
        files = [self.folder / "public", self.vkey, self.folder / "proofs", self.folder / "old"]
        command = [self.reader, *files]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    def size_of(self, checkpoint: str) -> int:
        return int((self.folder / checkpoint).read_text().splitlines()[1])


@pytest.fixture
async def log(tmp_path, reader, anyio_backend):
    async with published_door(tmp_path) as (door, verifiers, public):
        log = PublishedLog(tmp_path, verifiers[0].vkey, reader)
        publishing = door.services.publishing
        await door.operate(*(source(f"first-{number}") for number in range(FIRST)))
        assert await publishing.publish_due()
        shutil.copy(public / "checkpoint", tmp_path / "old")
        await door.operate(*(source(f"later-{number}") for number in range(LATER)))
        assert await publishing.publish_due()
        old_size, size = log.size_of("old"), log.size_of("public/checkpoint")
        assert old_size < TILE_WIDTH < size

        async def answer(path):
            return (await door.http.get(f"/v1/tree/{path}?tree_size={size}")).json()

        rows = (1, 2, TILE_WIDTH, TILE_WIDTH + 1, size)
        proofs = {
            "inclusions": [await answer(f"inclusion/{row}") for row in rows],
            "consistency": await answer(f"consistency/{old_size}"),
        }
        (tmp_path / "proofs").write_text(json.dumps(proofs))
        yield log


async def test_it_reads_checkpoint_tiles_inclusion_and_consistency(log: PublishedLog):
    done = log.read()
    assert done.returncode == 0, done.stderr
    size, old_size = log.size_of("public/checkpoint"), log.size_of("old")
    assert done.stdout == f"{size} rows, 5 proved, grown from {old_size}\n"


def turn_a_bit(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def change_a_hash(folder: Path, *place: str | int) -> None:
    proofs = json.loads((folder / "proofs").read_text())
    proof = proofs
    for part in place:
        proof = proof[part]
    proof["path"][0] = "00" * 32
    (folder / "proofs").write_text(json.dumps(proofs))


CHANGES = {
    "the signature": lambda folder: turn_a_bit(folder / "public/checkpoint", 20),
    "the tiles": lambda folder: turn_a_bit(folder / "public/tile/1/000.p/1", 7),
    "inclusion by tiles": lambda folder: turn_a_bit(folder / "public/tile/0/000", 7),
    "inclusion": lambda folder: change_a_hash(folder, "inclusions", 1),
    "consistency": lambda folder: change_a_hash(folder, "consistency"),
}


async def test_it_refuses_what_was_changed_and_says_what(log: PublishedLog, tmp_path_factory):
    for what, change in CHANGES.items():
        copy = tmp_path_factory.mktemp("copy") / "log"
        shutil.copytree(log.folder, copy)
        change(copy)
        done = replace(log, folder=copy).read()
        assert (done.returncode, done.stderr.partition(":")[0]) == (1, what)
