"""A loaded fleet goes from the wheels of one release to those of the next, and back.

Nobody stops: the tables are migrated under load, then each process is drained and started as the
other release, as `deploy/upgrade.md` says; its commands are typed here. Everything that was
answered is on the record afterwards.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests import loopback
from tests.chaos.redis_places import redis_place
from tests.chaos.schedule import SINGLE
from tests.installed_plugins import install_programs
from tests.package.installation import ROOT, Installation, install
from tests.ports import free_ports
from tests.system.answered import Answers, Clients
from tests.system.test_ledger_put_back import IMAGE, QUEUE, Load, is_ready, off_loop
from tests.system.tree_run import wait_for
from workers.environment.ledger_access import read_record

pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")

from pydantic import SecretStr

from kernel.ledger.schema import SCHEMA_VERSION
from kernel.values.fleet_protocol import PROTOCOL
from tests.deploy.next_release import LATER, VERSION, write_next_release

pytestmark = [pytest.mark.anyio, pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(900)]
PAGE = ROOT / "deploy" / "upgrade.md"
STAND_S = 120.0
MORE = 4
"""Answers of each kind that producers get at each stage."""

_COMMANDS = re.compile(r"^rotulus .*$", re.MULTILINE)


class Fleet:
    """Two gateways and two workers, each of which runs one release or the other."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._folder, self.settings = folder, settings
        self.urls = dict(
            zip(("g1", "g2"), (f"http://127.0.0.1:{port}" for port in free_ports(2)), strict=True)
        )
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.typed: set[str] = set()

    def start(self, name: str, release: Installation) -> None:
        """Start a process as a release, and wait until a gateway is ready."""
        first, second = self.urls.values()
        if name in self.urls:
            port = self.urls[name].rpartition(":")[2]
            own = {"ROTULUS_PORT": port, "ROTULUS_GATEWAY_ID": name}
        else:
            own = {"ROTULUS_GATEWAY_URL": first, "ROTULUS_OTHER_GATEWAY_URLS": second}
        command = "gateway" if name in self.urls else "worker"
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(release.bin / "rotulus"), command],
                env=release.environment(**self.settings, **own),
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        if name in self.urls:
            wait_for(name, partial(self._stands, name), STAND_S)

    def _stands(self, name: str) -> bool:
        assert self.processes[name].poll() is None, self.log(name).read_text()
        return is_ready(self.urls[name])

    def build_info(self) -> str:
        """Return what the first gateway says of its release."""
        metrics = loopback.get(f"{self.urls['g1']}/metrics", timeout=STAND_S).text
        [line] = [line for line in metrics.splitlines() if line.startswith("rotulus_build_info{")]
        return line

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def roll(self, name: str, release: Installation) -> None:
        """Drain a process and start it as a release."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STAND_S) == 0, self.log(name).read_text()
        self.start(name, release)
        if name in self.urls:
            command = 'rotulus health --ready --gateway "$GATEWAY"'
            self.type(command, release, GATEWAY=self.urls[name])

    def type(self, command: str, release: Installation, **variables: str) -> str:
        """Type a command of the page with the programs of a release; return what it prints."""
        self.typed.add(command)
        path = f"{release.bin}{os.pathsep}{os.environ['PATH']}"
        settings = self.settings | variables | {"PATH": path}
        ended = subprocess.run(
            ["/bin/sh", "-c", command],
            env=release.environment(**settings),
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=STAND_S,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Installation, Installation]:
    """This release and the next one, each in an environment of its own."""
    folder = tmp_path_factory.mktemp("releases")
    for name in ("own", "next", "tree"):
        (folder / name).mkdir()
    next_tree = write_next_release(folder / "tree")
    return install(folder / "own"), install(folder / "next", next_tree)


@pytest.fixture
def fleet(tmp_path: Path, postgres_empty_url: str) -> Iterator[Fleet]:
    with redis_place(SINGLE, tmp_path) as redis:
        fleet = Fleet(tmp_path, _settings(tmp_path, postgres_empty_url, redis.url))
        yield fleet
        fleet.end()


def _settings(tmp_path: Path, database_url: str, redis_url: str) -> dict[str, str]:
    return {
        "ROTULUS_DATABASE_URL": database_url,
        "ROTULUS_REDIS_URL": redis_url,
        "ROTULUS_WORKER_TOKEN": "upgrade-" + "0" * 16,
        "ROTULUS_DATA_DIR": str(tmp_path / "data"),
        "ROTULUS_SHARD_LEASE_S": "3",
        "PYTHONPATH": os.pathsep.join(map(str, install_programs(tmp_path))),
        "PLACE": str(tmp_path / "place"),
    }


def counts(answers: Answers) -> tuple[int, int, int]:
    return len(answers.operations), len(answers.requests), len(answers.outcomes)


async def more_answers(answers: Answers) -> None:
    """Wait until producers had more answers of each kind."""
    wanted = [count + MORE for count in counts(answers)]
    with anyio.fail_after(STAND_S):
        while any(count < least for count, least in zip(counts(answers), wanted, strict=True)):
            await anyio.sleep(0.05)


async def test_a_loaded_fleet_goes_to_the_next_release_and_back_and_loses_nothing(
    fleet: Fleet, releases: tuple[Installation, Installation]
) -> None:
    own, following = releases
    names = ("g1", "g2", "w1", "w2")
    for name in names:
        await off_loop(fleet.start, name, own)
    answers = Answers()
    clients = Clients(answers, *fleet.urls.values())
    await clients.complete(QUEUE, "first", IMAGE)
    session = await clients.declare(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Load(clients, "load", session).run)
        await more_answers(answers)
        plan = await off_loop(fleet.type, "rotulus migrate --plan", following)
        assert f"newest_version: {LATER}" in plan
        assert f"programs_from: {SCHEMA_VERSION}" in plan
        await off_loop(fleet.type, 'rotulus backup --output "$PLACE"', own)
        await off_loop(fleet.type, "rotulus migrate", following)
        await more_answers(answers)
        for release in (following, own):
            for name in ("w1", "g1", "g2", "w2"):
                await off_loop(fleet.roll, name, release)
                await more_answers(answers)
            info = await off_loop(fleet.build_info)
            assert (f'version="{VERSION}"' in info) == (release is following)
            protocol = PROTOCOL + 1 if release is following else PROTOCOL
            assert f'protocol="{protocol}"' in info
        tasks.cancel_scope.cancel()
    await clients.aclose()
    await off_loop(fleet.type, "rotulus verify", following)
    place = SecretStr(fleet.settings["ROTULUS_DATABASE_URL"])
    assert await off_loop(read_record, place, answers.missing) == set()
    assert fleet.typed == {*_COMMANDS.findall(PAGE.read_text())}
    assert "ledger_went_back" not in clients.codes
