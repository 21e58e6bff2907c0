"""Redis may lose everything, or its newest part, at any moment: the ledger sends it again."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from queues.embedded.server import EmbeddedRedis, find_server
from tests.system.reference import Reference
from tests.system.tree_run import TreeRun, demo, wait_for

pytestmark = pytest.mark.timeout(120)


def flush(data_dir: Path) -> None:
    """Empty the embedded server."""
    folder = data_dir / "redis"
    port = json.loads((folder / "server.json").read_bytes())["port"]
    with Redis(port=port, password=(folder / "password").read_text()) as client:
        assert client.flushall()


def test_a_redis_that_is_flushed_and_then_loses_half_its_file_changes_nothing_on_the_record(
    reference: Reference, tmp_path: Path, check: Callable[[TreeRun], None]
) -> None:
    with demo(tmp_path / "data", reference.file) as run:
        run.wait_for_rows(int(reference.rows * 0.3))
        flush(run.data_dir)

        run.wait_for_rows(int(reference.rows * 0.6))
        redis = run.pid_of("redis")
        # A root that stands still restarts nothing until the file is cut.
        run.process.send_signal(signal.SIGSTOP)
        os.kill(redis, signal.SIGKILL)
        wait_for("the end of redis", lambda: redis not in run.members(), 10.0)
        [file] = (run.data_dir / "redis" / "appendonlydir").glob("*.incr.aof")
        os.truncate(file, file.stat().st_size // 2)
        run.process.send_signal(signal.SIGCONT)

        check(run)
        assert run.stderr.count('"event":"child_restarted"') == 1


@pytest.mark.parametrize("damaged", ["*.incr.aof", "*.manifest", "*.base.rdb"])
def test_a_redis_whose_files_were_damaged_starts_empty_at_its_address(
    damaged: str, tmp_path: Path
) -> None:
    """A loss of power may leave zeros where data was."""
    server = EmbeddedRedis(tmp_path, find_server())
    server.start()
    try:
        with Redis.from_url(server.url) as client:
            client.set("key", "value" * 100)
        url = server.url
        server.stop()
        [file] = (tmp_path / "redis" / "appendonlydir").glob(damaged)
        file.write_bytes(bytes(file.stat().st_size))

        server.start()

        assert server.url == url
        with Redis.from_url(server.url) as client:
            assert client.dbsize() == 0
        assert (tmp_path / "redis" / "appendonlydir.unreadable").is_dir()
    finally:
        server.stop()
