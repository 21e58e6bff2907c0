"""A tree does all of its work while a stranger writes whatever he likes into its Redis."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests import loopback
from tests.fuzz.redis_values import Hostile, all_hostile, fleet_keys, inject, write
from tests.system.reference import Reference
from tests.system.tree_run import TreeRun, demo, wait_for

pytestmark = pytest.mark.timeout(300)

AT_ONCE = 12
VALUES_MIN = 120
PAGES = ("/v1/queues/authority-recompute/dead-letters", "/dashboard")


def client(data_dir: Path) -> Redis:
    folder = data_dir / "redis"
    port = json.loads((folder / "server.json").read_bytes())["port"]
    return Redis(port=port, password=(folder / "password").read_text())


async def attack(data_dir: Path, seed: int) -> list[Hostile]:
    """Some of what stands there now, and some of the table of keys and malformations."""
    table = all_hostile(fleet_keys())
    async with client(data_dir) as redis:
        written = await inject(redis, seed, AT_ONCE)
        some = table[seed::97][:AT_ONCE]
        for hostile in some:
            await write(redis, hostile)
    return [*written, *some]


@contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def ask(url: str) -> None:
    """What people and machines look at is answered, if only by saying what is away."""
    for path in ("/healthz", "/readyz", "/metrics", *PAGES):
        answer = loopback.get(f"{url}{path}", timeout=20)
        assert answer.status_code < 500 or answer.status_code == 503, (path, answer.text)
        if answer.status_code == 503:
            assert answer.json(), path


# By day `fuzz/test_fuzz.py` writes such values into the Redis of a fleet that works.
@pytest.mark.nightly
def test_a_tree_does_its_work_over_malformed_values_and_none_of_it_ends(
    reference: Reference, tmp_path: Path, check: Callable[[TreeRun], None]
) -> None:
    with demo(tmp_path / "data", reference.file) as run:
        run.wait_for_rows(int(reference.rows * 0.1))
        facts = run.wait_until_up()
        written: list[Hostile] = []
        for turn in range(1, 8):
            run.wait_for_rows(int(reference.rows * 0.1 * turn))
            # The root feeds the tree, and ends it and its Redis once everything is done.
            with paused(run.process.pid):
                written += asyncio.run(attack(run.data_dir, turn))
                ask(facts["gateway_url"])
        assert len({(claim.key, claim.malformation) for claim in written}) >= VALUES_MIN
        check(run)
        # Whoever ends before the whole tree does is started again, and that is said.
        assert "child_restarted" not in run.stderr
        assert "Traceback" not in run.stderr
        wait_for("the counts", lambda: "redis_values_dropped" in run.stderr, 60.0)
